"""Runs as a page of the site may read them, and what it returns of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import Agreement

if TYPE_CHECKING:  # every command loads the plugins that return these; few make a table
    from medhelm.tables.format.table import Table
    from medhelm.tables.study.cells import Metadata
    from medhelm.tables.study.study import Study


@dataclass(frozen=True, kw_only=True)
class PublishedRuns:
    """The runs under one scoring, without what may not be published of them.

    A run names no folder and no endpoint. Of data that are closed there is no text: instances are
    numbers, and of their metadata is left that experts validated them, which models made them, and of
    public data a specialty that at least five have.
    """

    scoring: Scoring
    study: Study
    """The numbers that tables are made of."""
    metadata: Metadata
    """Reads the metadata of a cell's instances; raises RecordError where they are damaged."""
    closed: frozenset[str]
    """Benchmarks whose text is not published."""
    fidelity: Mapping[str, tuple[Agreement, ...]] = field(default_factory=dict)
    """By benchmark how the judges behind its scores agree with experts; none where nobody measured it."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A line above the scores of a benchmark, on each page that shows them."""

    benchmark: str
    text: str
    kind: Literal["warn", "plain"] = "plain"


@dataclass(frozen=True, kw_only=True)
class PageData:
    """The data that a page returns of the runs under one scoring."""

    benchmarks: Collection[str]
    """Those that the page is about."""
    tables: Collection[Table] = ()
    """Written as data of the page and as files to download, under names that no other table has."""
    marks: Collection[Mark] = ()
    values: object = None
    """Anything else that the script of the page reads, as values that can be JSON."""
    left_out: str = ""
    """The reason for a page without its numbers, listed among what was left out."""
