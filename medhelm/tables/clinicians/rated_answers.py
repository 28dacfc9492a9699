"""Ratings and run folders -> arrays: each rated answer with what clinicians and metrics gave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import DataError, RecordError, UnknownName, UsageError, below
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.schema.data import Rubric
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.schema.score import Scoring
from medhelm.similarity.bertscore import is_bertscore
from medhelm.stats.aggregation import Floats, Ints
from medhelm.store.records import find_gradings, find_unreadable, instance_key, read_record
from medhelm.tables.clinicians.ratings import (
    Answer,
    Asked,
    Item,
    RatedRow,
    Rating,
    RatingTable,
    Scale,
    known,
    to_table,
)
from medhelm.tables.study.arrow import codes, numbers, read_scores
from medhelm.tables.study.selection import ChosenRuns, Data, GradedRun, choose_runs, is_named

OVERLAP = "rouge_l"
"""The metric that, with any BERTScore, is shown beside the jury where a run has it."""

_COLUMNS = ("instance_key", "repeat", "cluster_key", "metric", "value", "outcome")


@dataclass(frozen=True)
class RunScores:
    """The metrics of one run's answers, with NaN where an answer was not scored."""

    run: GradedRun
    places: Mapping[tuple[int, int], int]
    """Instance key and repeat of each answer -> its place in the arrays."""
    clusters: NDArray[np.uint64]
    values: Mapping[str, Floats]

    @property
    def terms(self) -> JuryTerms:
        """By whom and by which rubric the jury's scores were given."""
        terms = self.run.record.grading.jury
        assert terms is not None
        return terms

    def place(self, answer: Answer) -> int:
        """Return the place of an answer in the arrays; KeyError for one that is not there."""
        return self.places[instance_key(answer.instance), answer.repeat]


@dataclass(frozen=True)
class Rated:
    """Rated answers i = 1..n, their ratings by k clinicians, and the scores of metrics."""

    answers: tuple[Answer, ...]
    clusters: Ints
    """Codes of patient, note or dialogue; answers to one instance share it."""
    ratings: Floats
    """(n, k): each rater's mean over the criteria; NaN where a rater did not rate."""
    measures: Mapping[str, Floats]
    """Values (n,) by metric, higher is better; NaN where there is none."""
    scales: Mapping[str, tuple[int, int]]
    """Ends of the rubric's scale, by benchmark."""
    runs: tuple[RunScores, ...]
    data: Data
    scoring: Scoring
    notes: tuple[str, ...]

    @cached_property
    def benchmarks(self) -> NDArray[np.str_]:
        """The benchmark of each answer."""
        return np.asarray([a.benchmark for a in self.answers])

    @property
    def jury(self) -> JurySpec:
        """Names those who gave the jury's scores: one jury for all runs."""
        return self.runs[0].terms.jury

    @property
    def judges(self) -> tuple[str, ...]:
        """Names of the measures of single judges."""
        return tuple(m for m in self.measures if m.startswith(f"{JURY}["))

    def human(self) -> Floats:
        """Return the mean over raters (n,) on the rubric's scale."""
        return np.asarray(np.nanmean(self.ratings, axis=1), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """The choice of stored runs in a results folder."""

    results_dir: Path = Path(DEFAULT_RESULTS)
    benchmarks: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    data: Data | None = None
    scoring: Scoring = "fixed"
    latest: bool = False

    def of(self, runs: Iterable[GradedRun]) -> ChosenRuns:
        """Return one run of each model on each benchmark; raises UsageError."""
        return choose_runs(
            [*runs],
            data=self.data,
            scoring=self.scoring,
            latest=self.latest,
            benchmarks=self.benchmarks,
            models=self.models,
        )


def load_rated(
    ratings: Sequence[RatedRow], choice: RunChoice, *, metrics: Collection[str] = ()
) -> Rated:
    """Return the ratings beside the scores of the runs that they are of.

    The benchmarks and models of a choice leave the ratings of others out. Raises DataError for a
    rating that fits no run or is not on the scale, UsageError where nothing can be compared.
    """
    kept = [
        r
        for r in ratings
        if is_named(r.answer.benchmark, choice.benchmarks or [r.answer.benchmark])
        and is_named(r.answer.model, choice.models or [r.answer.model])
    ]
    if not kept:
        raise UsageError("no rating is of the benchmarks and models that the options name")
    runs, damaged = graded_runs(choice.results_dir)
    chosen = _choose(kept, runs, choice)
    scores = {(r.benchmark, r.model): read_run(r, metrics) for r in chosen.runs}
    check_one_jury(scores.values())
    _check_metrics(metrics, scores.values())
    table = _to_table(kept, scores)
    composites = _composites(table, scores)
    answers, measures, matrix, clusters = _arrays(composites, scores)
    unscored = int(np.isnan(measures[JURY]).sum())
    if unscored == len(answers):
        raise UsageError("no rated answer has a score of the jury: there is nothing to compare")
    notes = [*chosen.notes, *([f"Left out, damaged: {'; '.join(damaged[:3])}."] * bool(damaged))]
    if table.blank:
        notes.append(f"Rows without a rating: {table.blank} of {len(kept)}.")
    if unscored:
        notes.append(f"Without a score of the jury: {unscored} of {len(answers)} rated answers.")
    return Rated(
        answers=answers,
        clusters=clusters,
        ratings=matrix,
        measures=measures,
        scales={
            s.run.benchmark: (s.terms.rubric.minimum, s.terms.rubric.maximum)
            for s in scores.values()
        },
        runs=tuple(scores.values()),
        data=chosen.data,
        scoring=choice.scoring,
        notes=tuple(notes),
    )


def graded_runs(results_dir: Path) -> tuple[list[GradedRun], list[str]]:
    """Return the graded runs below a results folder, and what is damaged.

    Raises UsageError where there is no run, RecordError where all are damaged.
    """
    runs, damaged = [], []
    for path in find_gradings(results_dir):
        try:
            runs.append(GradedRun(path, str(path.relative_to(results_dir)), read_record(path)))
        except RecordError as e:
            damaged.append(str(e))
    damaged += [f"{path}: {why}" for path, why in find_unreadable(results_dir)]
    if damaged and not runs:
        raise RecordError(damaged[0])
    if not runs:
        raise UsageError(
            f"no graded run {below(results_dir)}; --results-dir DIR names another folder, "
            "`medhelm score` grades stored responses"
        )
    return runs, damaged


def _choose(
    ratings: Sequence[RatedRow], runs: Sequence[GradedRun], choice: RunChoice
) -> ChosenRuns:
    """Return the runs that are rated; raises DataError for a rating without a run."""
    there = {(r.benchmark, r.model) for r in runs}
    folder = f"below {choice.results_dir}"
    for rating in ratings:
        benchmark, model, *_ = rating.answer
        if (benchmark, model) not in there:
            what = f"{rating.where}: no graded run {folder} of "
            known(dict.fromkeys(b for b, _ in there), benchmark, f"{what}benchmark")
            models = dict.fromkeys(m for b, m in there if b == benchmark)
            known(models, model, f"{what}{benchmark} with the model")
    pairs = {(r.answer.benchmark, r.answer.model) for r in ratings}
    whole = replace(choice, benchmarks=(), models=())  # they chose among the ratings
    chosen = whole.of(r for r in runs if (r.benchmark, r.model) in pairs)
    left = {(r.benchmark, r.model) for r in chosen.runs}
    for rating in ratings:
        if rating.answer[:2] not in left:
            raise DataError(
                f"{rating.where}: {rating.answer.model} has no run on {rating.answer.benchmark} "
                f"with data={chosen.data} and scoring={choice.scoring}; --data, --scoring, "
                "--benchmark and --model choose others"
            )
    return chosen


def read_run(run: GradedRun, metrics: Collection[str] = ()) -> RunScores:
    """Return the scores of the jury, its judges, ROUGE-L, BERTScore and the metrics that are named.

    Raises UsageError where the run has no jury.
    """
    refs = {m.name: m for m in run.record.grading.metrics}
    if run.record.grading.jury is None or JURY not in refs:
        raise UsageError(
            f"{run.benchmark} x {run.model} has no jury scores: agreement is of open-ended "
            "benchmarks, whose main metric is the jury"
        )
    wanted = [
        m
        for m in refs
        if m in {JURY, OVERLAP, *metrics} or m.startswith(f"{JURY}[") or is_bertscore(m)
    ]
    keys: dict[str, list[tuple[int, int]]] = {m: [] for m in wanted}
    given: dict[str, list[float]] = {m: [] for m in wanted}
    clusters: list[int] = []
    for batch in read_scores(run, _COLUMNS):
        place, names = codes(batch.column("metric"))
        outcome, outcomes = codes(batch.column("outcome"))
        is_scored = np.asarray([name == "scored" for name in [*outcomes, ""]])[outcome]
        value = np.where(is_scored, numbers(batch.column("value")), np.nan)
        key, repeat, cluster = (numbers(batch.column(c)) for c in _COLUMNS[:3])
        for metric in set(wanted) & set(names):
            own = place == names.index(metric)
            keys[metric] += zip(key[own].tolist(), repeat[own].tolist(), strict=True)
            given[metric] += value[own].tolist()
            if metric == JURY:
                clusters += cluster[own].tolist()
    places = {pair: i for i, pair in enumerate(keys[JURY])}
    values = {}
    for metric in wanted:
        found = np.full(len(places), np.nan)
        for pair, x in zip(keys[metric], given[metric], strict=True):
            if pair in places:
                found[places[pair]] = x
        values[metric] = found if refs[metric].higher_is_better else -found
    return RunScores(run, places, np.asarray(clusters, dtype=np.uint64), values)


def _check_metrics(metrics: Iterable[str], scores: Iterable[RunScores]) -> None:
    """Raise UnknownName for a metric that no run has."""
    refs = (own.run.record.grading.metrics for own in scores)
    known = list(dict.fromkeys(m.name for own in refs for m in own))
    for name in metrics:
        if name not in known:
            raise UnknownName("metric", name, known, f"metrics of these runs: {', '.join(known)}")


def check_one_jury(scores: Iterable[RunScores]) -> None:
    """Raise UsageError where runs were rated by different juries."""
    seen: dict[tuple[str, ...], RunScores] = {}
    for own in scores:
        judges = tuple(j.name for j in own.terms.jury.judges)
        seen.setdefault((own.terms.version, str(own.terms.jury.quorum), *judges), own)
    if len(seen) > 1:
        one, two = (f"{s.run.folder} (jury {s.terms.jury.name})" for s in [*seen.values()][:2])
        raise UsageError(
            f"{one} and {two} were rated by different juries; choose runs of one with --benchmark "
            "or --model, or have all rated by the same"
        )


def rubric_items(rubric: Rubric) -> tuple[Item, ...]:
    """Return what a rubric asks of an answer."""
    return tuple(Item(c.name, c.text) for c in rubric.criteria)


def rubric_scale(rubric: Rubric) -> Scale:
    """Return the values that each criterion of a rubric may have."""
    return Scale(rubric.minimum, rubric.maximum)


def _to_table(
    ratings: Sequence[RatedRow], scores: Mapping[tuple[str, str], RunScores]
) -> RatingTable[Answer]:
    """Return what each rater gave each answer by criterion; raises DataError."""

    def asked(row: RatedRow) -> Asked[Answer]:
        answer, own = row.answer, scores[row.answer[:2]]
        if row.cells["value"]:
            _check_place(row, own)
        rubric = own.terms.rubric
        name = f"{answer.benchmark} x {answer.model}, {answer.instance}"
        return Asked(answer, name, rubric_items(rubric), rubric_scale(rubric))

    return to_table(ratings, asked)


def _composites(
    table: RatingTable[Answer], scores: Mapping[tuple[str, str], RunScores]
) -> dict[Answer, dict[str, float]]:
    """Return each rater's mean over the criteria of an answer; raises DataError for a gap."""
    given: dict[tuple[Answer, str], dict[str, Rating[Answer]]] = {}
    for rating in table.ratings:
        given.setdefault((rating.unit, rating.rater), {})[rating.item] = rating
    found: dict[Answer, dict[str, float]] = {}
    for (answer, rater), own in given.items():
        names = [c.name for c in scores[answer[:2]].terms.rubric.criteria]
        for name in names:
            if name not in own:
                where = next(iter(own.values())).where
                raise DataError(
                    f"{where}: of this answer {name} is not rated; rate all of {', '.join(names)}"
                )
        found.setdefault(answer, {})[rater] = fmean(own[name].value for name in names)
    return found


def _check_place(rating: RatedRow, own: RunScores) -> None:
    """Raise DataError where a rating is of an answer that the run does not hold."""
    answer, record, where = rating.answer, own.run.record, rating.where
    repeats = record.spec.repeats
    if rating.run and rating.run != record.request_hash:
        raise DataError(
            f"{where}: the sheet was written from another run of {answer.model} on "
            f"{answer.benchmark}; name its folder with --results-dir"
        )
    if repeats > 1 and not rating.has_repeat:
        raise DataError(
            f"{where}: the run of {answer.model} on {answer.benchmark} has {repeats} answers "
            f"to each instance; say which in a column repeat (0 to {repeats - 1})"
        )
    if (instance_key(answer.instance), answer.repeat) not in own.places:
        times = f" (repeat {answer.repeat})" if answer.repeat else ""
        raise DataError(
            f"{where}: {answer.model} has no answer to instance {answer.instance!r}{times} "
            f"of {answer.benchmark}"
        )


def _arrays(
    composites: Mapping[Answer, Mapping[str, float]],
    scores: Mapping[tuple[str, str], RunScores],
) -> tuple[tuple[Answer, ...], dict[str, Floats], Floats, Ints]:
    answers = tuple(sorted(composites))
    raters = sorted({rater for own in composites.values() for rater in own})
    matrix = np.asarray([[composites[a].get(r, np.nan) for r in raters] for a in answers])
    clusters, found = [], []
    for answer in answers:
        own = scores[answer.benchmark, answer.model]
        place = own.place(answer)
        clusters.append(f"{answer.benchmark}\0{own.clusters[place]}")
        found.append({name: float(values[place]) for name, values in own.values.items()})
    names = dict.fromkeys(name for own in scores.values() for name in own.values)
    ordered = sorted(names, key=lambda n: (n != JURY, not n.startswith(f"{JURY}[")))
    measures = {n: np.asarray([row.get(n, np.nan) for row in found]) for n in ordered}
    codes_ = np.unique(np.asarray(clusters), return_inverse=True)[1]
    return answers, measures, matrix, codes_.astype(np.int64)
