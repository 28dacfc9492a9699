"""Tables and their columns, as a file `tables.toml` beside a module declares them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm.tables.format.table import Column
from medhelm.tables.format.table import Form as Form

_MEASURED = "measured"
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "yes": {"type": "boolean"},
    "number": {"type": "number"},
    "share": {"type": "number", "unit": "share", "digits": 1, "is_percent": True},
    "money": {"type": "number", "unit": "USD"},
    _MEASURED: {"type": "number"},
}
"""Fields of a column by its kind. A measured one has an interval, and its ends as columns behind it."""


def declared(module: str, table: str, **given: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a table as `tables.toml` beside a module's file declares them.

    A line is a column: first its kind with the description, then other fields of `Column`, `on_request`, and
    of a measured one `prefix` and `how`. A line without any is the place of what is `given` by its name.
    """
    found: list[Column] = []
    for name, line in read_tables(module)[table]["columns"].items():
        found += _columns(name, **line) if line else given[name]
    return tuple(found)


def _columns(
    name: str, /, on_request: bool = False, prefix: str = "", how: str = "", **line: Any
) -> Iterator[Column]:
    """Yield the column of a line, and those of the ends of its interval, `low`, `high` or `PREFIX_low`, `PREFIX_high`.

    `on_request`: text formats show it only where it is asked for. `how` says how the interval is made.
    """
    (kind, description), *more = line.items()
    shown = {key: tuple(own) if isinstance(own, list) else own for key, own in more}
    own = {**_KINDS[kind], **shown, "is_default": not on_request}
    column = Column(name=name, description=description, **own)
    if kind != _MEASURED:
        yield column
        return
    low, high = (f"{prefix}_{end}".strip("_") for end in ("low", "high"))
    yield replace(column, interval=(low, high))
    for end, side in ((low, "lower"), (high, "upper")):
        what = f"{side} end of the interval of {name}{how and ', '}{how}"
        yield Column(
            name=end,
            type="number",
            description=what,
            unit=column.unit,
            is_default=column.is_default,
        )


def form(module: str, table: str, **given: Sequence[Column]) -> Form:
    """Return a table as `tables.toml` beside a module's file declares it, with its `declared` columns."""
    own = {**read_tables(module)[table], "name": table, "columns": ()}
    return replace(msgspec.convert(own, Form), columns=declared(module, table, **given))


def read_tables(module: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what `tables.toml` beside a module's file holds."""
    return _read(Path(module).with_name("tables.toml"))


@cache  # one file is read for all modules of a folder
def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(path.read_text("utf-8"))
