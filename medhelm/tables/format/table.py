"""A table as a value: typed columns with descriptions, rows, notes and the settings behind it.

Its JSON form (`Document`) is published: `json_schema()` describes it, and `SCHEMA` names its
version. What is missing is null there, never NaN and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from medhelm.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

SCHEMA: Literal["medhelm.table/1"] = "medhelm.table/1"

Value = str | int | float | bool | None
Row = dict[str, object]
"""A row while it is made; columns that are left out are missing."""

ColumnType = Literal["string", "integer", "number", "boolean"]
RankBy = Literal["half", "literal", "macro"]
MdeScale = Literal["range", "paper"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that decide the numbers of a table besides the runs; printed with it."""

    draws: int = 1000
    """Draws of the bootstrap."""
    bootstrap_seed: int = 0
    confidence: float = 0.95
    """Of every interval, rank interval and tie group."""
    rank_by: RankBy = "half"
    """Basis of ranks and tie groups: a form of the win rate, or the macro-average."""

    mde: MdeScale = "range"
    """Of the table mde: by each metric's range, or as the paper's authors computed it."""

    pass_mark: float = 0.6
    """The score from which an instance, or a mean, is passed, in tables that say who passes."""

    reduce: str = "mean"
    """The rule for the repeats of an instance: a name of `REDUCTIONS`, like `majority` or `pass@3`."""

    min_group: int = 20
    """Clusters below which a group of instances is named and counted, but has no number of its own."""

    @property
    def of_draws(self) -> dict[str, Value]:
        """Return what decides intervals, as tables print it."""
        return {
            "draws": self.draws,
            "bootstrap_seed": self.bootstrap_seed,
            "confidence": self.confidence,
        }

    def __post_init__(self) -> None:
        for is_right, rule, value in (
            (self.draws >= 1, "draws must be at least 1", self.draws),
            (0 < self.confidence < 1, "confidence must lie between 0 and 1", self.confidence),
            (self.bootstrap_seed >= 0, "bootstrap seed must not be negative", self.bootstrap_seed),
            (self.rank_by in get_args(RankBy), "rank by half, literal or macro", self.rank_by),
            (self.min_group >= 1, "the smallest group must be at least 1", self.min_group),
            (0 <= self.pass_mark <= 1, "the pass mark must lie between 0 and 1", self.pass_mark),
            (self.mde in get_args(MdeScale), "mde must be range or paper", self.mde),
        ):
            if not is_right:
                raise UsageError(f"{rule}, not {value!r}")
        if self.reduce != "mean":
            from medhelm.stats.reductions import read_reduction

            read_reduction(self.reduce)


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column, declared where its values are made: every format, the site and the docs take it from here.

    The second half says how text formats show it. Data formats hold every column.
    """

    name: str
    type: ColumnType
    description: str
    unit: str = ""
    """`share` (0 to 1), `normalised` (0 worst to 1 best), `metric` (the metric's own), `USD`, `tokens`."""
    heading: str = ""
    """Short heading in text formats and on the site; empty: shown on request only, by its name."""
    is_default: bool = True
    """False if text formats show it on request only."""
    digits: int = 2
    is_percent: bool = False
    interval: tuple[str, str] | None = None
    """Names of the columns that hold the ends of its interval, shown behind the value."""
    of: str = ""
    """Name of the column with the whole that this is a part of, shown as `part/whole`."""
    is_main: bool = False
    """True if the table is for it: it is shown without any value too, and no terminal leaves it out."""
    absent: str = "–"
    """The text in place of a missing value."""
    marks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The letters that text formats show in place of its words; empty: words are shown."""


@dataclass(frozen=True)
class Part:
    """Rows of one kind, which text formats show as a grid of their own."""

    level: str
    """Value of the column `level` in its rows."""
    title: str
    group: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Names of its columns, in order; empty: all."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of values under columns, with all that a reader must know beside them."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Value], ...]
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Value] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    """Columns whose equal values belong together. The terminal makes a heading of them."""
    parts: tuple[Part, ...] = ()
    """Grids of text formats, for rows of several kinds; none: one grid."""

    def grids(self) -> list[Table]:
        """Return what text formats show: the table itself, or one table of each part with rows.

        A column whose values are all missing, or no, is left out, unless the table is for it. So is a grid
        that then has no number of those it is for, or only what one above it has of the same rows.
        """
        known = {c.name: c for c in self.columns}
        found, shown = list[Table](), set[tuple[str, str]]()
        for part in self.parts:
            names = (*part.group, *part.columns) if part.columns else known
            all_of = [known[n] for n in names if n in known]
            rows = tuple(r for r in self.rows if r["level"] == part.level)
            own = _with_values(all_of, rows)
            if _has_numbers(all_of) and not _has_numbers(own):
                continue
            grid = replace(
                self, title=part.title, columns=own, rows=rows, group=part.group, parts=()
            )
            of_level = {(part.level, column.name) for column in own}
            found += [grid] * (bool(rows) and not of_level <= shown)
            shown |= of_level
        if found or not self.rows:
            return found or [self]
        mains = tuple(c for c in self.columns if c.is_main)
        kept = {*mains, *_with_values(self.columns, self.rows)}
        return [replace(self, columns=tuple(c for c in self.columns if c in kept))]

    def shown(self) -> list[Column]:
        """Return the columns of a grid that text formats show."""
        return [c for c in self.columns if c.heading and c.is_default]

    def choose(self, names: Sequence[str]) -> Table:
        """Return the table with the columns named, or with `all`, each of which text formats show.

        What names its rows stays, and the ends of intervals are behind their values.
        """
        known = {c.name: c for c in self.columns}
        of_rows = {*self.group, *(name for part in self.parts for name in part.group)}
        of_rows |= {c.name for c in self.shown() if c.type == "string" and not c.marks}
        rest = [name for name in known if name in of_rows and name not in names]
        kept = [*rest, *names] if names != ["all"] else [*known]
        columns = [known[name] for name in kept if name in known]
        behind = {end for c in columns if c.interval for end in c.interval} - {*names}
        return replace(
            self,
            columns=tuple(_requested(c, names) if c.name not in behind else c for c in columns),
            parts=tuple(replace(part, columns=()) for part in self.parts),
        )

    def frame(self) -> pd.DataFrame:
        """Return a DataFrame. Its `attrs` hold title, notes and settings."""
        import pandas as pd

        kinds = {"string": "object", "integer": "Int64", "number": "float64", "boolean": "boolean"}
        frame = pd.DataFrame(
            {
                c.name: pd.Series([row[c.name] for row in self.rows], dtype=kinds[c.type])
                for c in self.columns
            }
        )
        frame.attrs.update(
            table=self.name, title=self.title, notes=list(self.notes), settings=dict(self.settings)
        )
        return frame


class ColumnDocument(msgspec.Struct, frozen=True):
    """A column of the published JSON form."""

    name: str
    type: ColumnType
    description: str
    unit: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The published JSON form of a table."""

    schema: Literal["medhelm.table/1"] = "medhelm.table/1"
    table: str
    title: str
    columns: tuple[ColumnDocument, ...]
    rows: tuple[Mapping[str, Value], ...]
    notes: tuple[str, ...]
    settings: dict[str, Value]


@dataclass(frozen=True, kw_only=True)
class Form:
    """A table without its rows: all that is the same whatever runs it is made of."""

    name: str
    title: str
    columns: tuple[Column, ...]
    help: str = ""
    """One line for `medhelm list tables`."""
    group: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    """Those that it always has, before others."""
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Those that it may have, by name; `say` fills them in."""

    def say(self, **values: object) -> list[str]:
        """Return its notes of these names that have a value, see `filled`."""
        return filled(self.texts, **values)

    def table(
        self,
        rows: Iterable[Mapping[str, object]],
        notes: Iterable[str] = (),
        settings: Mapping[str, Value] | None = None,
        *,
        title: str = "",
        under: tuple[str, ...] = (),
    ) -> Table:
        """Return the table with rows, missing values None, and with what else must be said of them.

        `under`: columns that head each grid before its own, as the benchmark where there are several.
        """
        known = {c.name: c.type for c in self.columns}
        clean = []
        for row in rows:
            if unknown := set(row) - set(known):
                raise KeyError(f"table {self.name} has no column {sorted(unknown)}")
            clean.append({name: _as_column_value(row.get(name), of) for name, of in known.items()})
        return Table(
            name=self.name,
            title=title or self.title,
            columns=self.columns,
            rows=tuple(clean),
            notes=(*self.notes, *notes),
            settings=settings or {},
            group=self.group,
            parts=tuple(replace(part, group=(*under, *part.group)) for part in self.parts),
        )


def make_table(
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, object]],
    notes: Iterable[str],
    settings: Mapping[str, Value],
    group: tuple[str, ...] = (),
    parts: tuple[Part, ...] = (),
) -> Table:
    """Return a table whose rows hold plain values under exactly these columns, missing ones None."""
    own = Form(name=name, title=title, columns=tuple(columns), group=group, parts=parts)
    return own.table(rows, notes, settings)


def _requested(column: Column, names: Sequence[str]) -> Column:
    """Return a column as text formats show one that is asked for: one that is named, without values too."""
    heading = column.heading or column.name.replace("_", " ")
    is_main = column.is_main or column.name in names
    return replace(column, heading=heading, is_default=True, is_main=is_main)


def _has_numbers(columns: Iterable[Column]) -> bool:
    return any(c.type != "string" for c in columns)


def _with_values(
    columns: Sequence[Column], rows: Sequence[Mapping[str, Value]]
) -> tuple[Column, ...]:
    """Return the columns that are not missing, or no, in every row.

    A 0 with an interval is a value, and so is one of what the table is for.
    """
    ends = {c: (c.name, *(c.interval or ())[1:]) for c in columns}
    no = {c: (None, "") if c.is_main else (None, False, "") for c in columns}
    return tuple(c for c in columns if any(row[n] not in no[c] for row in rows for n in ends[c]))


def _as_column_value(value: Any, kind: ColumnType) -> Value:
    """Return a value of numpy or Python as the column's plain type; not a number is missing."""
    if value is None:
        return None
    if kind == "number":
        return float(value) if math.isfinite(value) else None
    if kind == "integer":
        return int(value)
    return bool(value) if kind == "boolean" else str(value)


def filled(texts: Mapping[str, str], /, **values: object) -> list[str]:
    """Return the texts of these names, each filled in with its value; none of an empty value.

    A tuple fills in several places of the text; a list gives one text for each of its values.
    """
    found = []
    for name, own in values.items():
        for value in own if isinstance(own, list) else [own] * bool(own):
            each = value if isinstance(value, tuple) else (value,)
            found.append(texts[name].format(*each))
    return found


def several(names: Sequence[str], most: int = 5, sep: str = ", ") -> str:
    """Return the first of many names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return sep.join(names[:most]) + more


def to_document(table: Table) -> Document:
    """Return the published form of a table."""
    return Document(
        table=table.name,
        title=table.title,
        columns=tuple(ColumnDocument(c.name, c.type, c.description, c.unit) for c in table.columns),
        rows=_of_columns(table),
        notes=table.notes,
        settings=dict(table.settings),
    )


def _of_columns(table: Table) -> tuple[Mapping[str, Value], ...]:
    """Return the rows with the values of the table's columns alone, which may have been chosen."""
    names = [c.name for c in table.columns]
    if not table.rows or len(table.rows[0]) == len(names):
        return table.rows
    return tuple({name: row[name] for name in names} for row in table.rows)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the published form."""
    return msgspec.json.schema(Document)
