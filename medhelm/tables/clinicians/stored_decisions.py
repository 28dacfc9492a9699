"""Judges' decisions on the criteria of stored answers, and the blinded sheet that asks experts the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medhelm.errors import DataError, UsageError
from medhelm.extract import visible_text
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.graders.grader import judgement_key
from medhelm.grading.panels import read_states
from medhelm.grading.rubric.grader import RUBRIC, explained
from medhelm.grading.rubric.grader import Explained as Explained
from medhelm.grading.rubric.verdicts import read_verdicts
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import GraderTerms, RunRecord
from medhelm.store.records import grader_folder, grader_hash, order_key, read_plan
from medhelm.store.runlog import read_keyed
from medhelm.tables.clinicians.decision_files import CaseCriteria
from medhelm.tables.clinicians.decisions import DecisionRow, Grader, Verdict
from medhelm.tables.clinicians.rated_answers import graded_runs as graded_runs
from medhelm.tables.clinicians.ratings import (
    YES_NO,
    Answer,
    Asked,
    Item,
    KeyItem,
    RatedRow,
    Unit,
    known,
    read_ratings,
    to_table,
)
from medhelm.tables.clinicians.sheet import RatingSheet, Sample, check_privacy
from medhelm.tables.instances import main_metric
from medhelm.tables.study.arrow import read_scores as read_scores
from medhelm.tables.study.selection import GradedRun as GradedRun
from medhelm.tables.study.selection import RunChoice as RunChoice
from medhelm.tables.study.selection import of_names as of_names

ANSWERS = 30


@dataclass(frozen=True)
class Stored:
    """The judges of the runs of one benchmark, and the cases that they are of."""

    judges: tuple[Grader, ...]
    cases: Mapping[str, CaseCriteria]
    records: tuple[RunRecord, ...]
    unjudged: int
    """Answers without verdicts of a judge, summed over judges: empty, refused, not yet asked."""

    @property
    def asked(self) -> dict[str, set[str]]:
        """Return the `grader_hash` of all ways in which each judge was asked, by its name."""
        found: dict[str, set[str]] = {}
        for record in self.records:
            if (terms := rubric_terms(record)) is not None:
                for judge in terms.jury.judges:
                    found.setdefault(judge.name, set()).add(grader_hash(judge, terms))
        return found


def read_stored(choice: RunChoice, benchmark: str) -> Stored:
    """Return what judges decided in the runs of a benchmark; raises UsageError where none did."""
    rows: dict[str, list[DecisionRow]] = {}
    cases: dict[str, CaseCriteria] = {}
    records, unjudged = [], 0
    for run in chosen_runs(choice, benchmark):
        folder, terms = run.run_folder, rubric_terms(run.record)
        if terms is None:
            continue
        records.append(run.record)
        episodes = stored_episodes(folder, run.record)
        for episode in episodes:
            case = episode.instance
            texts = {c.name: c.text for c in case.criteria}
            cases[case.id] = CaseCriteria(request_of(case), texts)
        for judge in terms.jury.judges:
            said = read_states(grader_folder(folder, judge, terms))
            for episode in episodes:
                state = said.get(judgement_key(episode))
                if state is None:
                    unjudged += 1
                    continue
                length = len(visible_text(episode.text))
                row = _row(run.model, episode.instance, state, length)
                rows.setdefault(judge.name, []).append(row)
    if not rows:
        raise UsageError(
            f"no run of {benchmark} below {choice.results_dir} has verdicts of a judge on single "
            "criteria; `medhelm run` with jury=NAME asks judges (`medhelm list juries`)"
        )
    judges = tuple(Grader(name, True, tuple(own)) for name, own in rows.items())
    return Stored(judges, cases, tuple(records), unjudged)


def chosen_runs(choice: RunChoice, benchmark: str) -> tuple[GradedRun, ...]:
    """Return the runs of a benchmark, one of each model."""
    runs, _ = graded_runs(choice.results_dir)
    return replace(choice, benchmarks=(benchmark,)).of(choice.ranked(runs) or runs).runs


def rubric_terms(record: RunRecord) -> GraderTerms | None:
    """Return the terms of the grader of binary criteria; None where a run has none."""
    return next((t for t in record.grading.graders if t.grader == RUBRIC.name), None)


def stored_episodes(folder: Path, record: RunRecord) -> list[Episode]:
    """Return the stored episodes with criteria, as judges were given them; the first repeats first."""
    stated = stated_episodes(folder, read_plan(folder), main_metric(record, load_registry))
    found = [e for e in stated if e.instance.criteria]
    return sorted(found, key=lambda episode: episode.repeat)


def explained_answers(
    choice: RunChoice, benchmark: str
) -> Iterator[tuple[GradedRun, Episode, list[list[Explained]]]]:
    """Yield the answers to a benchmark with each judge's decisions on all criteria, as it explains them."""
    for run in chosen_runs(choice, benchmark):
        if (terms := rubric_terms(run.record)) is None:
            continue
        folders = [grader_folder(run.run_folder, judge, terms) for judge in terms.jury.judges]
        said = [{key: explained(own) for key, own in read_keyed(folder)} for folder in folders]
        for episode in stored_episodes(run.run_folder, run.record):
            key = judgement_key(episode)
            if votes := [own[key] for own in said if own.get(key)]:
                yield run, episode, votes


def request_of(instance: Instance) -> str:
    """Return what the user asked: context and question, or the turns of a conversation."""
    parts = [turn.content for turn in instance.turns] or [instance.context, instance.question]
    return "\n\n".join(part for part in parts if part.strip())


def _row(model: str, case: Instance, state: Mapping[str, Any], length: int) -> DecisionRow:
    where = f"{model}, {case.id}"
    words: Mapping[bool | None, Verdict] = {True: "met", False: "unmet", None: "invalid"}
    met = read_verdicts(state, case.criteria, where).met
    decisions = {c.text: words[own] for c, own in zip(case.criteria, met, strict=True)}
    return DecisionRow(where, model, request_of(case), decisions, case.id, length=length)


def read_raters(paths: Sequence[Path], stored: Stored) -> list[Grader]:
    """Return what each rater decided on filled sheets; raises DataError."""
    runs = {r.spec.model.name: r.request_hash for r in stored.records}

    def asked(row: RatedRow) -> Asked[Answer]:
        answer = row.answer
        if row.run and row.run != runs.get(answer.model, row.run):
            raise DataError(
                f"{row.where}: the sheet was written from another run of {answer.model}"
            )
        case = known(stored.cases, answer.instance, f"{row.where}: the runs have no case")
        items = [Item(*pair) for pair in case.criteria.items()]
        return Asked(answer, f"{answer.model}, {answer.instance}", items, YES_NO)

    table = to_table(read_ratings(paths), asked)
    if shared := table.asked.keys() & {judge.name for judge in stored.judges}:
        raise DataError(f"{min(shared)!r} is a rater and a judge; name the rater otherwise")
    words: Mapping[float | None, Verdict] = {None: "none", 0.0: "unmet", 1.0: "met"}
    decided = {(r.rater, r.unit, r.item): r.value for r in table.ratings}
    graders = []
    for rater, places in table.asked.items():
        found: dict[Answer, dict[str, Verdict]] = {}
        for answer, item in places:
            criterion = stored.cases[answer.instance].criteria[item]
            own = words[decided.get((rater, answer, item))]
            found.setdefault(answer, {})[criterion] = own
        rows = (
            DecisionRow(rater, a.model, stored.cases[a.instance].text, said, a.instance, rater)
            for a, said in found.items()
            if {*said.values()} != {"none"}
        )
        graders.append(Grader(rater, False, tuple(rows)))
    return graders


# The sheet --------------------------------------------------------------------------------------


def criteria_sheet(
    choice: RunChoice, benchmark: str, sample: Sample, text_of: Collection[str] = ()
) -> RatingSheet:
    """Return a sheet with the criteria of stored answers.

    As many answers of each model, drawn by the seed; a larger sheet holds the smaller one's.
    """
    most, seed = sample.units or ANSWERS, sample.seed
    by_model: dict[str, list[tuple[RunRecord, Episode]]] = {}
    chosen = [*chosen_runs(choice, benchmark)]
    check_privacy((run.record for run in chosen), text_of)
    for run in chosen:
        first = [
            e for e in stored_episodes(run.run_folder, run.record) if not (e.repeat or e.unread)
        ]
        own = [e for e in first if visible_text(e.text).strip()]
        name = run.model
        own.sort(key=lambda e, name=name: order_key(seed, f"{name}\0{e.instance.id}"))  # type: ignore[misc]
        by_model[name] = [(run.record, episode) for episode in own]
    rounds = [a for n in range(most) for own in by_model.values() for a in own[n : n + 1]]
    drawn = rounds[:most]
    if not drawn:
        raise UsageError(f"no stored answer to {benchmark} has criteria: there is nothing to rate")
    drawn.sort(key=lambda a: order_key(seed + 1, f"{a[0].spec.model.name}\0{a[1].instance.id}"))
    return RatingSheet.blinded([_unit(benchmark, *answer) for answer in drawn], seed)


def _unit(benchmark: str, record: RunRecord, episode: Episode) -> tuple[KeyItem, Unit]:
    item = KeyItem(
        benchmark=benchmark,
        model=record.spec.model.name,
        instance=episode.instance.id,
        repeat=0,
        run=record.request_hash,
    )
    parts = (("Request", request_of(episode.instance)), ("Answer", visible_text(episode.text)))
    criteria = tuple(Item(c.name, c.text) for c in episode.instance.criteria)
    return item, Unit("", criteria, YES_NO, parts)
