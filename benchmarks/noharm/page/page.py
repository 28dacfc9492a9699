"""The page Harm: its data, of the runs that label actions, and the note above their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from medhelm import Episode, Instance, Mark, Page, PageData, PublishedRuns
from medhelm.plugin import RecordError
from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.menu import Labelled, label_case, stored_case
from medhelm_benchmarks.noharm.rules.score import class_of, consensus

if TYPE_CHECKING:
    from medhelm import Table


Scores = Mapping[str, float | None]


def action_lines(instance: Instance) -> list[dict[str, Any]] | None:
    """Return the actions of a case with their rubric; None where it is not a case.

    Of each its `id`, `text`, `category`, `ratings` and `references`, their median as `rating`, its class
    as `kind`, the other actions of its group as `alternatives`, and as `broad` those that hold it.
    """
    case = _case_of(instance)
    if case is None:
        return None
    return [
        {
            "id": action.id,
            "text": action.text,
            "category": action.category,
            "ratings": action.ratings,
            "rating": consensus(action),
            "kind": class_of(action),
            "alternatives": _others(case, action.id),
            "broad": _holding(case, action.id),
            "references": action.references,
        }
        for action in case.actions
    ]


def _case_of(instance: Instance) -> Case | None:
    """Return the case behind an instance; None where there is none, as in most benchmarks."""
    if not instance.payload:
        return None
    try:
        case = stored_case(instance)
    except (KeyError, msgspec.DecodeError):  # a menu of another kind
        return None
    return case if [a.id for a in case.actions] == list(instance.payload) else None


def _others(case: Case, action: str) -> list[str]:
    return [i for group in case.alternatives if action in group for i in group if i != action]


def _holding(case: Case, action: str) -> list[str]:
    return [link.broad for link in case.broad if action in link.specific]


def label_lines(episode: Episode, scores: Scores) -> list[dict[str, str]] | None:
    """Return what a reply says of each action, in the order of the menu; None where it says nothing.

    Of each action its `id`, the `label` (appropriate, inappropriate, missing or invalid), the `error`
    (omission, commission or empty) with its `severity`, and as `why` the reason why one that was left
    out is no omission. The reply is read again: where the harm is then not the stored one, the run was
    graded by other rules, and nothing is returned.
    """
    case = _case_of(episode.instance)
    found = label_case(episode.instance, episode.response) if case is not None else None
    if case is None or found is None or not _is_as_stored(found, scores):
        return None
    errors = {e.action: e for e in found.score.errors}
    said = dict.fromkeys(found.labels.endorsed, "appropriate")
    said |= dict.fromkeys(found.labels.rejected, "inappropriate")
    said |= dict.fromkeys(found.labels.invalid, "invalid")
    right = {a.id for a in case.actions if class_of(a) == "appropriate"}
    return [
        {
            "id": i,
            "label": said.get(i, "missing"),
            "error": errors[i].kind if i in errors else "",
            "severity": errors[i].severity if i in errors else "",
            "why": _why(case, i, right, found) if i in right - set(errors) else "",
        }
        for i in (action.id for action in case.actions)
    ]


def _is_as_stored(found: Labelled, scores: Scores) -> bool:
    own = {"noharm_harm": float(found.score.harm), "noharm_safety": found.score.safety}
    known = [(scores[metric], value) for metric, value in own.items() if metric in scores]
    return bool(known) and all(stored == now for stored, now in known)


def _why(case: Case, action: str, right: set[str], found: Labelled) -> str:
    """Return why an appropriate action left out is not an omission; else empty."""
    endorsed = right & set(found.labels.endorsed)
    if action in endorsed:
        return ""
    group = _others(case, action)
    counted = [e.action for e in found.score.errors if e.action in group]
    for how, by in (
        ("replaced by", [i for i in group if i in endorsed]),
        ("covered by", [i for i in _holding(case, action) if i in endorsed]),
        ("counted once, at", counted),
    ):
        if by:
            return f"{how} {by[0]}"
    return ""


_HERE = Path(__file__).parent


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the table of harm and whose the ratings are; None where no action is labelled."""
    from medhelm_benchmarks.noharm.tables.harm import harm, has_labels, validity
    from medhelm_benchmarks.noharm.tables.harm_notes import UNVALIDATED

    labelled = [b for b in runs.study.cells if has_labels(runs.study, b)]
    if not labelled:
        return None
    try:
        table = harm(runs.study, runs.metadata)
        found = validity(runs.study, runs.metadata)
    except RecordError as e:  # the only numbers here that need the metadata of instances
        marks = [Mark(benchmark=b, text=UNVALIDATED, kind="warn") for b in labelled]
        return PageData(benchmarks=labelled, marks=marks, left_out=str(e))
    return PageData(
        benchmarks=labelled,
        tables=[_with_note(table, sorted(runs.closed.intersection(labelled)))],
        marks=[mark for b, own in found.items() for mark in _marks(b, *own)],
    )


def _marks(benchmark: str, notes: list[str], warning: str) -> Iterator[Mark]:
    if warning:
        yield Mark(benchmark=benchmark, text=warning, kind="warn")
    for line in notes:
        yield Mark(benchmark=benchmark, text=line)


def _with_note(table: Table, closed: list[str]) -> Table:
    """Return the table with a note on the benchmarks of which nobody may know errors by specialty."""
    if not closed:
        return table
    rows = [r for r in table.rows if r["level"] != "specialty" or r["benchmark"] not in closed]
    names = ", ".join(closed)
    note = f"Errors by specialty are not published of {names}: they tell of the cases."
    return replace(table, rows=tuple(rows), notes=(*table.notes, note))


HARM = Page(
    name="harm",
    title="Harm",
    script=_HERE / "harm.js",
    style=_HERE / "harm.css",
    data=page_data,
    instance=action_lines,
    answer=label_lines,
    shows_gold=True,
)
