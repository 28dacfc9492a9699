"""The columns of a table that text formats show, and the order in which narrow ones go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medhelm.tables.format.table import Column, Table, Value

MOST_ROWS = 1000
"""Rows of a grid that a terminal shows. The tables of pairs and ranks have some half a million
and a million of a thousand models."""


def cut(table: Table, most: int | None) -> tuple[Table, list[str]]:
    """Return the first rows of a grid, and the note on those that are not printed."""
    if most is None or len(table.rows) <= most:
        return table, []
    note = (
        f"Printed are the first {most:,} of the {len(table.rows):,} rows of {table.title!r}: "
        "--out FILE writes all of them."
    )
    return replace(table, rows=table.rows[:most]), [note]


def leaving(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return which of the columns a narrow terminal leaves out, in this order.

    First those that the table's layout names, then numbers from the right. Names, the first number
    and what the table is for stay.
    """
    layout = table.layout
    kept = {c.name for c in columns if c.type == "string"} | {*layout.main}
    kept |= {c.name for c in [c for c in columns if c.type != "string"][:1]}
    own = [*layout.leaving]
    own += [c.name for c in reversed(columns) if c.name not in {*own, *kept}]
    there = {c.name for c in columns}
    return [name for name in own if name in there]


def shown(table: Table) -> list[Column]:
    """Return the columns of text formats; one that is missing, or no, in every row is left out."""
    full = {c.name for c in table.columns if any(_says(r[c.name]) for r in table.rows)}
    full = (full | {*table.layout.always}) - {*table.layout.hidden}
    columns = [table.layout.shown_as.get(c.name, c) for c in table.columns]
    return [c for c in columns if c.heading and (c.name in full or not table.rows)]


def _says(value: Value) -> bool:
    return value is not None and value is not False and value != ""
