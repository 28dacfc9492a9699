"""Judges under stress: whether order turns what they decide, and how their marks go with length.

A judge that decides on several criteria in one call is asked about stored answers once more, with the
criteria in reverse order, by its own grader in a run of its own:

<results>/fidelity/stress/<benchmark>/<hash of the judge>/responses.jsonl    an episode for each answer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from medhelm.errors import UsageError
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.graders.grader import JUDGE, REPAIRS, Shown, judgement_key, shown_of
from medhelm.grading.graders.panel import MISSING, Judging, end_of, has_verdict, read_states
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import judgings
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.registry import Registry
from medhelm.protocols.protocol import FinalAnswer, Forecast, Protocol, Send, Terms
from medhelm.runs.own_runs import Run, own_run, stored_episodes
from medhelm.runs.regrading import stored_run
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Message
from medhelm.schema.model import ModelSpec
from medhelm.stats.intervals import effective_trials, jackknife, wilson
from medhelm.stats.two_class import Bools, partial_spearman
from medhelm.store.records import order_key, read_plan
from medhelm.tables.clinicians.decision_files import read_graders
from medhelm.tables.clinicians.decisions import Grader, align
from medhelm.tables.clinicians.rated_answers import RunChoice, load_rated
from medhelm.tables.clinicians.ratings import read_ratings
from medhelm.tables.clinicians.stored_decisions import case_of, chosen_runs, decided
from medhelm.tables.format.column_kinds import count, measured, text
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table

ANSWERS = 30
"""Answers that each judge is asked about once more, where nobody says how many."""
_NOBODY = "nobody"
_COLUMNS = (
    text("judge", "who decided", "judge"),
    text("order", "whether the order was reversed, or has no meaning", "order"),
    count("asked", "answers that were asked about in reverse order", "asked"),
    count("verdicts", "verdicts on a criterion that could be read in both orders"),
    count("turned", "those that are not the same", "turned", of="verdicts"),
    *measured("turned_share", "turned / verdicts", "share", "share", prefix="turned_share"),
    count("unreadable", "verdicts that could not be read in one of the orders", "unreadable"),
    count("missing", "answers that were not asked about, or whose call failed", "missing"),
    text("beyond", "whose marks of the same answers are held fixed; nobody: the plain correlation"),
    count("answers", "answers with a mark of the judge, and of those that are held fixed", "n"),
    *measured(
        "length", "rank correlation of an answer's mean mark with its characters", "", "length"
    ),
    text("length_method", "how that interval was made, or why there is none"),
)
_NOTES = (
    "Turned: verdicts that are not the same once the criteria are shown in reverse order; a judge at "
    "a temperature above 0 turns some in any order. Not applicable: each criterion is a call of its "
    "own. Intervals: Wilson's, of clustered trials.",
    "Length: Spearman's correlation of a judge's mean mark of an answer with its characters. Beyond "
    "experts it is the partial one, given their marks, whose errors remain in it; beyond nobody the "
    "plain one, in which good answers may be long. Intervals: jackknife over cases.",
)


class _Answer(NamedTuple):
    """A stored answer, and what a judge decided about it."""

    model: str
    shown: Shown
    state: Mapping[str, Any]

    @property
    def case(self) -> str:
        return self.shown.instance.cluster or self.shown.instance.id


class _Mark(NamedTuple):
    """A judge's mean mark of an answer beside that of experts, 0 where there are none."""

    case: str
    length: int
    judge: float
    experts: float = 0.0


@dataclass
class StressedJudge:
    """One judge as it was asked in stored runs, and the answers that it decided on."""

    spec: ModelSpec
    judging: Judging
    benchmark: Benchmark
    folder: Path
    """Of the run that asks it once more; its name is the hash of all that it is asked."""
    seed: int
    most: int
    answers: dict[str, _Answer] = field(default_factory=dict)

    @property
    def _settings(self) -> dict[str, Any]:
        grader, terms = self.judging.grader, self.judging.terms
        return {**grader.settings, **terms.settings, REPAIRS: terms.jury.repairs}

    @cached_property
    def _sample(self) -> dict[str, Shown]:
        """A sample of the answers with the criteria reversed; empty where order has no meaning."""
        names = sorted(self.answers, key=lambda name: order_key(self.seed, name))[: self.most]
        turn, settings = self.judging.grader.in_reverse, self._settings
        found = {name: turn(self.answers[name].shown, settings) for name in names}
        return {name: shown for name, shown in found.items() if shown is not None}

    def run(self, environ: Mapping[str, str] | None) -> Run | None:
        """Return the run that asks the judge; see `own_run`. None where order has no meaning."""
        if not (sample := self._sample):
            return None
        grader, jury = self.judging.grader, self.judging.terms.jury

        async def conduct(_: Benchmark, own: Instance, terms: Terms, send: Send) -> FinalAnswer:
            return await grader.grade(self.benchmark, sample[own.id], terms, send)

        def forecast(_: Benchmark, own: Instance, terms: Terms) -> Iterable[Forecast]:
            shown = sample[own.id]
            answer = estimate_tokens([Message("assistant", shown.text)])
            return grader.forecast(self.benchmark, shown.instance, terms, answer)

        protocol = Protocol(
            name="reversed",
            roles=(JUDGE,),
            conduct=conduct,
            forecast=forecast,
            settings=self._settings,
            sends_schema=True,
        )
        return own_run(
            f"{self.benchmark.name}_reversed",
            [Instance(id=name, question=own.instance.id) for name, own in sample.items()],
            protocol,
            {JUDGE: self.spec},
            self.folder,
            data_class=self.benchmark.data_class,
            environ=environ,
            decides=self.folder.name,
            max_output_tokens=jury.max_output_tokens,
            reasoning_output_tokens=jury.reasoning_output_tokens,
        )

    def _marks(self, state: Mapping[str, Any]) -> list[float]:
        """Return what a state holds of each criterion; NaN where it has no valid verdict."""
        marks = self.judging.grader.marks
        return [np.nan if m is None else float(m) for m in marks(state)] if marks else []

    def order(self, confidence: float) -> Row:
        """Return which verdicts turned, by what the run has asked so far."""
        if not (sample := self._sample):
            return {"order": "not applicable"}
        found = {e.instance_id: e for e in stored_episodes(self.folder)}
        asked = {n: e for n in sample if (e := found.get(n)) and end_of(e) not in _NOT_ASKED}
        cases, pairs = [], []
        for name, episode in asked.items():
            before = self._marks(self.answers[name].state)
            after = self._marks(episode.state)[::-1] if has_verdict(episode) else []
            pairs += zip(before, after or [np.nan] * len(before), strict=True)
            cases += [self.answers[name].case] * len(before)
        marks = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        both = ~np.isnan(marks).any(axis=1)
        turned = (marks[both, 0] != marks[both, 1]).astype(np.float64)
        row: Row = {
            "order": "reversed",
            "asked": len(asked),
            "verdicts": len(turned),
            "turned": int(turned.sum()),
            "unreadable": len(both) - len(turned),
            "missing": len(sample) - len(asked),
        }
        if not len(turned):
            return row
        codes = np.unique(np.array(cases)[both], return_inverse=True)[1].astype(np.int64)
        share, trials = float(turned.mean()), effective_trials(turned, codes, confidence)
        low, high = wilson(share, trials, confidence)
        return row | {"turned_share": share, "turned_share_low": low, "turned_share_high": high}

    def lengths(
        self, choice: RunChoice, experts: Mapping[str, Sequence[Path]], aliases: Mapping[str, str]
    ) -> Iterator[tuple[str, list[_Mark]]]:
        """Yield its marks of all answers, then those of the answers that each group of experts marked."""
        answers = self.answers.values()
        own = [_Mark(a.case, len(a.shown.text), _mean(self._marks(a.state))) for a in answers]
        yield _NOBODY, own
        if self.judging.grader.name == JURY:
            keys = ((a.model, a.shown.instance.id, a.shown.repeat) for a in answers)
            of = dict(zip(keys, own, strict=True))
            for name, paths in experts.items():
                rated = load_rated(read_ratings(paths), choice)
                human = zip(rated.answers, rated.human(), strict=True)
                yield name, [of[a[1:]]._replace(experts=h) for a, h in human if a[1:] in of]
            return
        cases = {a.shown.instance.id: case_of(a.shown.instance) for a in answers}
        rows = [decided(a.model, a.shown.instance, a.state, len(a.shown.text)) for a in answers]
        for name, paths in experts.items():
            for group in read_graders(name, paths, cases, is_judge=False):
                pair = align(group, Grader(self.spec.name, True, tuple(rows)), aliases)
                found = np.where(pair.invalid, np.nan, pair.found)
                yield (
                    group.name,
                    [
                        _Mark(
                            a.case, a.length, _mean(found[a.places]), _mean(pair.expected[a.places])
                        )
                        for a in pair.answers
                    ],
                )


_NOT_ASKED = (*MISSING, "oversize")


def read_judges(
    choice: RunChoice, benchmark: str, registry: Registry, root: Path, most: int, seed: int
) -> list[StressedJudge]:
    """Return the judges of the runs of a benchmark; raises UsageError where no model judged."""
    judges: dict[Path, StressedJudge] = {}
    for path, record in chosen_runs(choice, benchmark):
        plan = read_plan(path)
        run = stored_run(path, plan, registry, choice.scoring, root=root)
        states = {}
        for judging in judgings(path, run.grading, run.metrics):
            for folder, spec in zip(judging.folders, judging.judges, strict=True):
                if judging.grader.marks is not None:
                    own = choice.results_dir / "fidelity" / "stress" / benchmark / folder.name
                    new = StressedJudge(spec, judging, run.benchmark, own, seed, most)
                    states[own] = judges.setdefault(own, new), read_states(folder)
        for episode in stated_episodes(path, plan, run.metrics[0]):
            key, shown = judgement_key(episode), shown_of(run.protocol, episode)
            for judge, said in states.values():
                if shown is not None and key in said:
                    answer = _Answer(record.spec.model.name, shown, said[key])
                    judge.answers[f"{path.name}-{key:016x}"] = answer
    if not judges:
        raise UsageError(
            f"no model judged the answers to {benchmark} below {choice.results_dir}; "
            "`medhelm run` with jury=NAME asks judges (`medhelm list juries`)"
        )
    return [*judges.values()]


def stress_table(
    judges: Sequence[StressedJudge],
    choice: RunChoice,
    experts: Mapping[str, Sequence[Path]],
    aliases: Mapping[str, str],
    settings: Settings,
) -> Table:
    """Return what order and length do to each judge.

    `experts`: files of decisions on criteria, for a jury ratings of answers, by the name of a group.
    """
    first = judges[0]
    choice = replace(choice, benchmarks=(first.benchmark.name,))
    rows = [
        {"judge": judge.spec.name, "beyond": who}
        | judge.order(settings.confidence)
        | _length(marks, settings.confidence)
        for judge in judges
        for who, marks in judge.lengths(choice, experts, aliases)
    ]
    return make_table(
        "stress",
        f"Judges of {first.benchmark.name} under stress",
        _COLUMNS,
        rows,
        _NOTES,
        {"confidence": settings.confidence, "answers": first.most, "sample_seed": first.seed},
        layout=Layout(main=("order", "turned_share", "beyond", "length")),
    )


def _mean(marks: Iterable[float]) -> float:
    """Return the mean of what is known; NaN where nothing is."""
    given = [mark for mark in marks if not np.isnan(mark)]
    return fmean(given) if given else np.nan


def _length(marks: Sequence[_Mark], confidence: float) -> Row:
    """Return the rank correlation of marks with length, given the experts'."""
    known = [mark for mark in marks if not np.isnan(mark.judge + mark.experts)]
    own = np.array([mark[1:] for mark in known], dtype=np.float64).reshape(-1, 3)
    codes = np.unique([mark.case for mark in known], return_inverse=True)[1].astype(np.int64)

    def measure(rows: Bools) -> list[float]:
        return [partial_spearman(*own[rows].T)]

    (ends,) = jackknife(measure, codes, confidence)
    row: Row = {"answers": len(own), "length": measure(np.ones(len(own), dtype=np.bool_))[0]}
    return row | {"low": ends.low, "high": ends.high, "length_method": ends.method}
