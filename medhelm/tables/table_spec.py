"""A table as a value: its name, what it is of, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from medhelm.tables.format.table import Column, Table
from medhelm.tables.study.cells import Cell, Metadata
from medhelm.tables.study.study import Study

Option = Literal["by", "metrics", "mde", "min_group", "pass_mark", "reduce"]


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """The arguments that the function of a table is given."""

    study: Study
    """The graded runs, what of them is compared, and the settings (draws, confidence, ranking)."""
    metadata: Metadata
    """Reads the metadata of the instances of one run."""
    variants: Callable[[], Sequence[Cell]] = tuple
    """Reads the runs that asked the questions of the study's runs in other forms."""
    by: str | None = None
    metrics: Literal["main", "all"] = "main"


Publish = Callable[[Table, TableRequest, frozenset[str]], Table | None]
"""From a table, and the benchmarks whose text is not published, to what the site may show of it."""


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """One table of graded runs, found by the hook `medhelm_tables`."""

    name: str
    help: str
    """One line for `medhelm list tables`."""
    columns: tuple[Column, ...]
    make: Callable[[TableRequest], Table]
    is_default: bool = False
    """True if `medhelm tables` prints it where no table is named."""
    options: tuple[Option, ...] = ()
    """Options that change it, besides those of every table."""
    needs: Option | None = None
    """The one of them without which it cannot be made."""
    is_of_suite: bool = False
    """True if it takes means or ranks over benchmarks: it is made of each suite apart."""
    publish: Publish | None = None
    """Returns what the site shows of it, None where it has nothing to show; None: not on the site."""
    origin: str = ""
    """File that defines it; filled in where it is found."""
    owner: str = ""
    """The plugin that brings it; empty for those of medhelm. Filled in, too."""


def publish_whole(table: Table, request: TableRequest, closed: frozenset[str]) -> Table:
    """Return the table as it is: it holds names, scores and counts only."""
    return table


def publish_rows(table: Table, request: TableRequest, closed: frozenset[str]) -> Table | None:
    """Return the table as it is, where it has any row."""
    return table if table.rows else None
