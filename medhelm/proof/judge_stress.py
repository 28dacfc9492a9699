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

import msgspec
import numpy as np

from medhelm.errors import UsageError
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.graders.grader import JUDGE, Shown, judgement_key, shown_of
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import MISSING, Judging, end_of, has_verdict, judgings, read_states
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.registry import Registry
from medhelm.protocols.protocol import FinalAnswer, Forecast, Protocol, Send, Terms
from medhelm.runs.own_runs import Run, own_run, stored_episodes
from medhelm.runs.regrading import stored_run
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.model import ModelSpec
from medhelm.stats.aggregation import Floats
from medhelm.stats.intervals import jackknife, share_interval
from medhelm.stats.two_class import Bools, partial_spearman
from medhelm.store.records import order_key, read_plan
from medhelm.tables.clinicians.fidelity import Comparison
from medhelm.tables.clinicians.rated_answers import Rated
from medhelm.tables.clinicians.stored_decisions import chosen_runs
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table
from medhelm.tables.study.selection import RunChoice

ANSWERS = 30
"""Answers that each judge is asked about once more, where nobody says how many."""
_NOT_ASKED = (*MISSING, "oversize")
_FORM = form(__file__, "stress")


class _Answer(NamedTuple):
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

    @cached_property
    def _sample(self) -> dict[str, Shown]:
        """A sample of the answers with the criteria reversed; empty where order has no meaning."""
        grader, settings = self.judging.grader, self._terms().settings
        found = {}
        for name in sorted(self.answers, key=lambda n: order_key(self.seed, n))[: self.most]:
            shown = self.answers[name].shown
            if len(listed := grader.listed(shown.instance, settings)) > 1:
                turned = msgspec.structs.replace(shown.instance, criteria=tuple(listed[::-1]))
                found[name] = replace(shown, instance=turned)
        return found

    def _terms(self, repeat: int = 0) -> Terms:
        return self.judging.grader.terms(self.spec, self.judging.terms, repeat)

    def run(self, environ: Mapping[str, str] | None) -> Run | None:
        """Return the run that asks the judge; see `own_run`. None where order has no meaning."""
        if not (sample := self._sample):
            return None
        grader, jury = self.judging.grader, self.judging.terms.jury

        async def conduct(_: Benchmark, own: Instance, __: Terms, send: Send) -> FinalAnswer:
            shown = sample[own.id]
            return await grader.grade(self.benchmark, shown, self._terms(shown.repeat), send)

        def forecast(_: Benchmark, own: Instance, terms: Terms) -> Iterable[Forecast]:
            shown, terms = sample[own.id], self._terms()
            tokens = estimate_tokens(shown.text)
            return grader.forecast(self.benchmark, shown.instance, terms, tokens)

        return own_run(
            f"{self.benchmark.name}_reversed",
            [Instance(id=name, question=own.instance.id) for name, own in sample.items()],
            Protocol(
                name="reversed",
                roles=(JUDGE,),
                conduct=conduct,
                forecast=forecast,
                sends_schema=True,
            ),
            {JUDGE: self.spec},
            self.folder,
            data_class=self.benchmark.data_class,
            environ=environ,
            decides=self.folder.name,
            max_output_tokens=jury.max_output_tokens,
            reasoning_output_tokens=jury.reasoning_output_tokens,
        )

    def _marks(self, state: Mapping[str, Any]) -> Floats:
        """Return what a state holds of each criterion; NaN where it has no valid verdict."""
        assert self.judging.grader.marks is not None  # others are not read
        return np.array(self.judging.grader.marks(state), dtype=np.float64)

    def order(self, confidence: float) -> Row:
        """Return which verdicts turned, by what the run has asked so far."""
        if not (sample := self._sample):
            return {"order": "not applicable"}
        found = {e.instance_id: e for e in stored_episodes(self.folder)}
        asked = {n: e for n in sample if (e := found.get(n)) and end_of(e) not in _NOT_ASKED}
        before = [self._marks(self.answers[name].state) for name in asked]
        after = [
            self._marks(e.state)[::-1] if has_verdict(e) else np.full(len(own), np.nan)
            for e, own in zip(asked.values(), before, strict=True)
        ]
        one, other = np.concatenate([*before, []]), np.concatenate([*after, []])
        both = ~np.isnan(one + other)
        turned = (one != other)[both].astype(np.float64)
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
        cases = np.repeat([self.answers[name].case for name in asked], [len(m) for m in before])
        codes = np.unique(cases[both], return_inverse=True)[1].astype(np.int64)
        ends = share_interval(turned, codes, confidence)
        return row | {"turned_share": turned.mean(), **ends.ends("turned_share")}

    def lengths(
        self, compared: Comparison | None, rated: Mapping[str, Rated]
    ) -> Iterator[tuple[str, list[_Mark]]]:
        """Yield its marks of all answers, then those of the answers that each group of experts marked."""
        answers = self.answers.values()
        own = [_Mark(a.case, len(a.shown.answer), _mean(self._marks(a.state))) for a in answers]
        yield "nobody", own
        keys = [(a.model, a.shown.instance.id, a.shown.repeat) for a in answers]
        of = dict(zip(keys, own, strict=True))
        for name, ratings in rated.items() if self.is_of_jury else ():
            human = zip(ratings.answers, ratings.human(), strict=True)
            yield name, [of[a[1:]]._replace(experts=h) for a, h in human if a[1:] in of]
        for pair in compared.pairs() if compared is not None and not self.is_of_jury else ():
            if pair.grader.is_judge and pair.grader.name == self.spec.name:
                found = np.where(pair.invalid, np.nan, pair.found)
                experts = [pair.expected[a.places].mean() for a in pair.answers]
                own = [_Mark(a.case, a.length, _mean(found[a.places])) for a in pair.answers]
                marks = zip(own, experts, strict=True)
                yield pair.reference.name, [mark._replace(experts=e) for mark, e in marks]

    @property
    def is_of_jury(self) -> bool:
        """Return whether it rates by a rubric, and experts by the same."""
        return self.judging.grader.name == JURY


def read_judges(
    choice: RunChoice, benchmark: str, registry: Registry, root: Path, most: int, seed: int
) -> list[StressedJudge]:
    """Return the judges of the runs of a benchmark; raises UsageError where no model judged."""
    judges: dict[Path, StressedJudge] = {}
    for graded in chosen_runs(choice, benchmark):
        path = graded.run_folder
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
                    answer = _Answer(graded.model, shown, said[key])
                    judge.answers[f"{path.name}-{key:016x}"] = answer
    if not judges:
        raise UsageError(
            f"no judge of a jury or of criteria has rated answers to {benchmark} below {choice.results_dir}; "
            "`medhelm run` with jury=NAME asks judges (`medhelm list juries`)"
        )
    return [*judges.values()]


def stress_table(
    judges: Sequence[StressedJudge],
    settings: Settings,
    compared: Comparison | None = None,
    rated: Mapping[str, Rated] | None = None,
) -> Table:
    """Return what order and length do to each judge, beyond experts: groups that are compared with
    judges of criteria, or whose ratings are beside those of a jury."""
    rows: list[Row] = []
    for judge in judges:
        order = judge.order(settings.confidence)
        for name, marks in judge.lengths(compared, rated or {}):
            row: Row = {"judge": judge.spec.name, "beyond": name}
            rows.append(row | order | _length(marks, settings.confidence))
            order = {}
    first = judges[0]
    title = f"Judges of {first.benchmark.name} under stress"
    more = {"confidence": settings.confidence, "answers": first.most, "sample_seed": first.seed}
    return _FORM.table(rows, settings=more, title=title)


def _mean(marks: Floats) -> float:
    given = marks[~np.isnan(marks)]
    return fmean(given) if len(given) else np.nan


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
