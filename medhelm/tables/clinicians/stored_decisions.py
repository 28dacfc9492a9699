"""Judges' decisions on the criteria of stored answers, and the blinded sheet that asks experts the same."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from medhelm.errors import UsageError
from medhelm.extract import visible_text
from medhelm.grading.graders.grader import judgement_key
from medhelm.grading.graders.panel import read_states
from medhelm.grading.rubric.grader import RUBRIC
from medhelm.grading.rubric.verdicts import Verdicts, read_verdicts
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import GraderTerms, RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.records import grader_folder, grader_hash, order_key, read_plan
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.decision_files import CaseCriteria
from medhelm.tables.clinicians.decisions import Decision, DecisionRow, Grader, Verdict
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.clinicians.ratings import Key, KeyItem, key_path
from medhelm.tables.clinicians.sheet import check_privacy
from medhelm.tables.format.spreadsheet import refuse_present, to_csv, write_whole
from medhelm.tables.study.selection import Data, choose_runs, is_ranked

COLUMNS = ("item", "rater", "request", "answer", "number", "criterion", "met")


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


@dataclass(frozen=True)
class _Answer:
    """One stored answer to rate."""

    record: RunRecord
    episode: Episode


def read_stored(
    results_dir: Path,
    benchmark: str,
    *,
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    models: Sequence[str] = (),
) -> Stored:
    """Return what judges decided in the runs of a benchmark; raises UsageError where none did."""
    rows: dict[str, list[DecisionRow]] = {}
    cases: dict[str, CaseCriteria] = {}
    records, unjudged = [], 0
    for run, record in chosen_runs(results_dir, benchmark, data, scoring, latest, models):
        terms = rubric_terms(record)
        if terms is None:
            continue
        records.append(record)
        episodes = stored_episodes(run)
        for episode in episodes:
            cases[episode.instance.id] = _case(episode.instance)
        for judge in terms.jury.judges:
            said = read_states(grader_folder(run, judge, terms))
            for episode in episodes:
                state = said.get(judgement_key(episode))
                if state is None:
                    unjudged += 1
                    continue
                where = f"{record.spec.model.name}, {episode.instance.id}"
                found = read_verdicts(state, episode.instance.criteria, where)
                row = _row(where, record, episode, found)
                rows.setdefault(judge.name, []).append(row)
    if not rows:
        raise UsageError(
            f"no run of {benchmark} below {results_dir} has verdicts of a judge on single criteria"
        )
    judges = tuple(Grader(name, True, tuple(own)) for name, own in rows.items())
    return Stored(judges, cases, tuple(records), unjudged)


def chosen_runs(
    results_dir: Path,
    benchmark: str,
    data: Data | None,
    scoring: Scoring,
    latest: bool,
    models: Sequence[str],
) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the runs of a benchmark, one of each model, with their folders."""
    runs, _ = graded_runs(results_dir)
    if not models:
        runs = [r for r in runs if is_ranked(r.record.spec.model)] or runs
    chosen = choose_runs(
        runs, data=data, scoring=scoring, latest=latest, benchmarks=[benchmark], models=models
    )
    for run in chosen.runs:
        yield run.path.parents[1], run.record


def rubric_terms(record: RunRecord) -> GraderTerms | None:
    """Return the terms of the grader of binary criteria; None where a run has none."""
    return next((t for t in record.grading.graders if t.grader == RUBRIC.name), None)


def stored_episodes(run: Path) -> list[Episode]:
    """Return the stored episodes with criteria, the first repeat of every instance first."""
    found = [e for e in read_episodes(run, read_plan(run)) if e.instance.criteria]
    return sorted(found, key=lambda episode: episode.repeat)


def _case(instance: Instance) -> CaseCriteria:
    return CaseCriteria(request_of(instance), {c.name: c.text for c in instance.criteria})


def request_of(instance: Instance) -> str:
    """Return what the user asked: context and question, or the turns of a conversation."""
    parts = [turn.content for turn in instance.turns] or [instance.context, instance.question]
    return "\n\n".join(part for part in parts if part.strip())


def _row(where: str, record: RunRecord, episode: Episode, found: Verdicts) -> DecisionRow:
    words: Mapping[bool | None, Verdict] = {True: "met", False: "unmet", None: "invalid"}
    decisions = tuple(
        Decision(criterion.text, words[met])
        for criterion, met in zip(episode.instance.criteria, found.met, strict=True)
    )
    case, model = episode.instance, record.spec.model.name
    return DecisionRow(where, model, request_of(case), decisions, case.id)


# The sheet --------------------------------------------------------------------------------------


def write_criteria_sheet(
    path: Path,
    results_dir: Path,
    benchmark: str,
    *,
    answers: int,
    seed: int = 0,
    text_of: Collection[str] = (),
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    models: Sequence[str] = (),
) -> int:
    """Write a sheet with one criterion a row and its key; return how many answers it has.

    As many answers of each model, drawn by the seed; a larger sheet holds the smaller one's. Raises
    PrivacyRefused, UsageError where there is nothing to rate or a file is in the way.
    """
    key = key_path(path)
    refuse_present(path, key)
    by_model: dict[str, list[_Answer]] = {}
    for run, record in chosen_runs(results_dir, benchmark, data, scoring, latest, models):
        check_privacy(record, text_of)
        own = [e for e in stored_episodes(run) if not e.repeat and visible_text(e.text).strip()]
        name = record.spec.model.name
        own.sort(key=lambda e, name=name: order_key(seed, f"{name}\0{e.instance.id}"))  # type: ignore[misc]
        by_model[name] = [_Answer(record, episode) for episode in own]
    rounds = [a for n in range(answers) for own in by_model.values() for a in own[n : n + 1]]
    drawn = rounds[:answers]
    if not drawn:
        raise UsageError(f"no stored answer to {benchmark} has criteria: there is nothing to rate")
    drawn.sort(
        key=lambda a: order_key(seed + 1, f"{a.record.spec.model.name}\0{a.episode.instance.id}")
    )
    stands_for = [
        KeyItem(
            benchmark=benchmark,
            model=answer.record.spec.model.name,
            instance=answer.episode.instance.id,
            repeat=0,
            run=answer.record.request_hash,
        )
        for answer in drawn
    ]
    mark = hashlib.sha256(msgspec.json.encode([seed, stands_for])).hexdigest()[:6]
    items = {f"{mark}-{n:03d}": item for n, item in enumerate(stands_for, 1)}
    lines = [line for name, a in zip(items, drawn, strict=True) for line in _lines(name, a.episode)]
    write_whole(path, to_csv(COLUMNS, lines))
    content = msgspec.json.encode(Key(seed=seed, items=items))
    write_whole(key, msgspec.json.format(content, indent=1))
    return len(drawn)


def _lines(item: str, episode: Episode) -> Iterator[dict[str, str]]:
    """Yield a row for each criterion; the first one has request and answer."""
    texts = {"request": request_of(episode.instance), "answer": visible_text(episode.text)}
    for number, criterion in enumerate(episode.instance.criteria, 1):
        yield {"item": item, "number": str(number), "criterion": criterion.text, **texts}
        texts = {}
