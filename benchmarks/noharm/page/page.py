"""The page Harm: its data, of the runs that label actions, and the note above their scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm import Mark, Page, PageData, PublishedRuns
from medhelm.plugin import RecordError
from medhelm_benchmarks.noharm.page.labels import action_lines, label_lines

if TYPE_CHECKING:
    from medhelm import Table
    from medhelm_benchmarks.noharm.tables.harm import Validity

_HERE = Path(__file__).parent


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the table of harm and whose the ratings are; None where no action is labelled."""
    from medhelm_benchmarks.noharm.tables.harm import UNVALIDATED, harm, has_labels, validity

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
        marks=[mark for own in found.values() for mark in _marks(own)],
    )


def _marks(own: Validity) -> Iterator[Mark]:
    if own.warning:
        yield Mark(benchmark=own.benchmark, text=own.warning, kind="warn")
    for line in own.validated():
        yield Mark(benchmark=own.benchmark, text=line)


def _with_note(table: Table, closed: list[str]) -> Table:
    """Return the table with a note on the benchmarks of which nobody may know a specialty."""
    if not closed:
        return table
    names = ", ".join(closed)
    note = f"Errors by specialty are not published of {names}: they tell of the cases."
    return replace(table, notes=(*table.notes, note))


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
