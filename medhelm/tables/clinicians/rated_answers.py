"""Rated answers: the sheet that asks for ratings, and what clinicians and metrics gave each answer.

The sheet holds a seeded sample, stratified by the jury's scores: per benchmark as many answers of
each third of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medhelm.errors import DataError, RecordError, UnknownName, UsageError, below
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Rubric
from medhelm.schema.episode import Episode
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.schema.score import Scoring
from medhelm.similarity.bertscore import is_bertscore
from medhelm.stats.aggregation import Floats, Ints
from medhelm.store.records import find_gradings, find_unreadable, instance_key, order_key, read_plan
from medhelm.tables.clinicians.ratings import (
    Answer,
    Asked,
    Item,
    KeyItem,
    RatedRow,
    RatingTable,
    Scale,
    Unit,
    known,
    to_table,
)
from medhelm.tables.clinicians.sheet import RatingSheet, Sample, check_privacy
from medhelm.tables.format.column_kinds import read_tables
from medhelm.tables.format.table import filled
from medhelm.tables.instances import main_metric
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.selection import (
    ChosenRuns,
    Data,
    GradedRun,
    RunChoice,
    is_named,
    read_graded,
)

OVERLAP = "rouge_l"
"""The metric that, with any BERTScore, is shown beside the jury where a run has it."""

_COLUMNS = ["instance_key", "repeat", "cluster_key", "metric", "value", "outcome"]


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


def load_rated(
    ratings: Sequence[RatedRow], choice: RunChoice, *, metrics: Collection[str] = ()
) -> Rated:
    """Return the ratings, of the benchmarks and models of a choice, beside the scores of their runs."""
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
    answers, matrix, gaps = _composites(table, scores)
    measures, clusters = _measures(answers, scores)
    unscored = int(np.isnan(measures[JURY]).sum())
    if unscored == len(answers):
        raise UsageError("no rated answer has a score of the jury: there is nothing to compare")
    notes = filled(
        read_tables(__file__)["agreement"]["texts"],
        damaged="; ".join(damaged[:3]),
        blank=(table.blank, len(kept)) if table.blank else None,
        gaps=gaps,
        unscored=(unscored, len(answers)) if unscored else None,
    )
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
        notes=(*chosen.notes, *notes),
    )


def graded_runs(results_dir: Path) -> tuple[list[GradedRun], list[str]]:
    """Return the graded runs below a results folder, and what is damaged."""
    damaged: list[str] = []
    runs = [*read_graded(find_gradings(results_dir), damaged)]
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
    """Return the scores of the jury, its judges, ROUGE-L, BERTScore and the metrics that are named."""
    import pandas as pd

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
    batches = [batch.to_pandas() for batch in read_scores(run, _COLUMNS)]
    rows = pd.concat(batches) if batches else pd.DataFrame(columns=_COLUMNS)
    rows["value"] = rows["value"].where(rows["outcome"] == "scored")
    own = {m: rows[rows["metric"] == m].set_index(_COLUMNS[:2]) for m in wanted}
    answers, values = own[JURY].index, {}
    for metric in wanted:
        found = own[metric]["value"].reindex(answers).to_numpy(np.float64)
        values[metric] = found if refs[metric].higher_is_better else -found
    clusters = own[JURY]["cluster_key"].to_numpy(np.uint64)
    return RunScores(run, {place: i for i, place in enumerate(answers)}, clusters, values)


def _check_metrics(metrics: Iterable[str], scores: Iterable[RunScores]) -> None:
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


def _asked_by(rubric: Rubric) -> tuple[tuple[Item, ...], Scale]:
    """Return what a rubric asks of an answer, and the values that each criterion may have."""
    items = tuple(Item(c.name, c.text) for c in rubric.criteria)
    return items, Scale(rubric.minimum, rubric.maximum)


def _to_table(
    ratings: Sequence[RatedRow], scores: Mapping[tuple[str, str], RunScores]
) -> RatingTable[Answer]:
    """Return what each rater gave each answer by criterion; raises DataError."""

    def asked(row: RatedRow) -> Asked[Answer]:
        answer, own = row.answer, scores[row.answer[:2]]
        if row.cells["value"]:
            _check_place(row, own)
        name = f"{answer.benchmark} x {answer.model}, {answer.instance}"
        return Asked(answer, name, *_asked_by(own.terms.rubric))

    return to_table(ratings, asked)


def _composites(
    table: RatingTable[Answer], scores: Mapping[tuple[str, str], RunScores]
) -> tuple[tuple[Answer, ...], Floats, int]:
    """Return the answers, each rater's mean over the criteria of each, and how many ratings have gaps.

    A rating with a gap is in no mean. Raises DataError where none is left.
    """
    answers = sorted({rating.unit for rating in table.ratings})
    criteria = [scores[answer[:2]].terms.rubric.criteria for answer in answers]
    places = [(a, c.name) for a, own in zip(answers, criteria, strict=True) for c in own]
    starts = np.cumsum([0, *map(len, criteria)])[:-1]
    given = table.matrix(places)
    means = np.add.reduceat(given, starts) / [[len(own)] for own in criteria]
    is_whole = ~np.isnan(means)
    gaps = int((np.logical_or.reduceat(~np.isnan(given), starts) & ~is_whole).sum())
    kept = np.flatnonzero(is_whole.any(axis=1))
    if not len(kept):
        raise DataError("no rater has rated an answer on all criteria of its rubric")
    return tuple(answers[n] for n in kept), means[kept][:, is_whole.any(axis=0)], gaps


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


def _measures(
    answers: Sequence[Answer], scores: Mapping[tuple[str, str], RunScores]
) -> tuple[dict[str, Floats], Ints]:
    """Return the values of the metrics of answers, the jury's first, and the codes of their clusters."""
    places = [(scores[answer[:2]], scores[answer[:2]].place(answer)) for answer in answers]
    names = dict.fromkeys(name for own in scores.values() for name in own.values)
    measures = {
        name: np.asarray(
            [own.values[name][at] if name in own.values else np.nan for own, at in places]
        )
        for name in sorted(names, key=lambda n: (n != JURY, not n.startswith(f"{JURY}[")))
    }
    clusters = [f"{own.run.benchmark}\0{own.clusters[at]}" for own, at in places]
    return measures, np.unique(clusters, return_inverse=True)[1].astype(np.int64)


# The sheet ----------------------------------------------------------------------------------------

PER_BENCHMARK = 30
_THIRDS = 3


@dataclass(frozen=True)
class _Candidate:
    own: RunScores
    key: int
    repeat: int
    score: float


def answer_sheet(choice: RunChoice, sample: Sample, text_of: Collection[str] = ()) -> RatingSheet:
    """Return a sheet of stored answers; `sample.units` counts those of each benchmark.

    Models that read the gold are left out unless named, and so are benchmarks whose instances have criteria
    of their own. `text_of`: data classes besides public whose text may be written.
    """
    found, damaged = graded_runs(choice.results_dir)
    if not choice.benchmarks:
        found = [r for r in found if r.record.grading.jury is not None]
    runs = choice.ranked(found)
    if not runs:
        raise UsageError(
            f"no run below {choice.results_dir} has jury scores: ratings are of open-ended benchmarks"
        )
    chosen = choice.of(runs)
    scores = [read_run(run) for run in chosen.runs]
    check_one_jury(scores)
    drawn = _draw(scores, sample.units or PER_BENCHMARK, sample.seed)
    if not drawn:
        raise UsageError("no answer has a score of the jury: there is nothing to rate")
    answers = [(c.own, episode) for c, episode in zip(drawn, _episodes(drawn), strict=True)]
    elsewhere = {own.run.benchmark for own, episode in answers if episode.instance.criteria}
    apart = [
        f"{name}: its instances are rated by criteria of their own: `medhelm agreement criteria {name}`"
        for name in sorted(elsewhere)
    ]
    answers = [answer for answer in answers if answer[0].run.benchmark not in elsewhere]
    if apart and (choice.benchmarks or not answers):
        raise UsageError(f"{apart[0]}; --benchmark chooses others")
    check_privacy((own.run.record for own, _ in answers), text_of)
    units = [_unit(*answer) for answer in answers]
    counts = Counter(own.run.benchmark for own, _ in answers)
    shown = ", ".join(f"{name} {n}" for name, n in counts.items())
    left_out = [*apart, *(f"damaged: {d}" for d in damaged[:3])]
    notes = [f"answers by benchmark: {shown}", *(f"left out, {why}" for why in left_out)]
    return RatingSheet.blinded(units, sample.seed, notes)


def _draw(scores: Iterable[RunScores], per_benchmark: int, seed: int) -> list[_Candidate]:
    """Return the drawn answers, benchmark by benchmark, each in an order that depends on the seed."""
    by_benchmark: dict[str, list[_Candidate]] = defaultdict(list)
    for own in scores:
        for (key, repeat), place in own.places.items():
            score = float(own.values[JURY][place])
            if not np.isnan(score):
                by_benchmark[own.run.benchmark].append(_Candidate(own, key, repeat, score))

    def chance(candidate: _Candidate) -> int:
        model = candidate.own.run.model
        return order_key(seed, f"{model}\0{candidate.key}\0{candidate.repeat}")

    found = []
    for _, candidates in sorted(by_benchmark.items()):
        candidates.sort(key=lambda c: (c.score, chance(c)))
        ends = [len(candidates) * i // _THIRDS for i in range(_THIRDS + 1)]
        thirds = [sorted(candidates[a:b], key=chance) for a, b in zip(ends, ends[1:], strict=False)]
        rounds = [c for i in range(per_benchmark) for third in thirds for c in third[i : i + 1]]
        found += sorted(rounds[:per_benchmark], key=chance)
    return found


def _unit(own: RunScores, episode: Episode) -> tuple[KeyItem, Unit]:
    run, instance, card = own.run, episode.instance, own.run.record.card
    parts = (
        ("Benchmark", card.title or run.benchmark),
        ("Task", card.instruction),
        ("Context", instance.context),
        ("Question", instance.question),
        ("Answer", episode.response.text),
    )
    item = KeyItem(
        benchmark=run.benchmark,
        model=run.model,
        instance=instance.id,
        repeat=episode.repeat,
        run=run.record.request_hash,
    )
    shown = tuple((heading, text) for heading, text in parts if text.strip())
    return item, Unit("", *_asked_by(own.terms.rubric), shown)


def _episodes(drawn: Sequence[_Candidate]) -> list[Episode]:
    """Return the stored episodes of the drawn answers; raises RecordError where one is gone."""
    wanted: dict[str, dict[tuple[int, int], _Candidate]] = defaultdict(dict)
    for candidate in drawn:
        wanted[candidate.own.run.folder][candidate.key, candidate.repeat] = candidate
    found: dict[tuple[str, int, int], Episode] = {}
    for folder, own in wanted.items():
        run = next(iter(own.values())).own.run
        path, metric = run.run_folder, main_metric(run.record, load_registry)
        for episode in stated_episodes(path, read_plan(path), metric):
            place = (instance_key(episode.instance.id), episode.response.repeat)
            if place in own:
                found[folder, *place] = episode
        if any((folder, *place) not in found for place in own):
            raise RecordError(
                f"{path} does not hold every answer that it has scores of; grade it again with "
                "`medhelm score`"
            )
    return [found[c.own.run.folder, c.key, c.repeat] for c in drawn]
