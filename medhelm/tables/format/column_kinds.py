"""Columns of each kind, in one line each, in Python or in a file `tables.toml` beside a module."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm.tables.format.table import Column, Part
from medhelm.tables.format.table import Form as Form


def text(name: str, description: str, heading: str = "", absent: str = "–") -> Column:
    """Return a column of words."""
    return Column(name=name, type="string", description=description, heading=heading, absent=absent)


def count(name: str, description: str, heading: str = "", unit: str = "", **more: Any) -> Column:
    """Return a column of whole numbers."""
    own = {"description": description, "heading": heading, "unit": unit, **more}
    return Column(name=name, type="integer", **own)


def yes(name: str, description: str, heading: str = "") -> Column:
    """Return a column of yes or no."""
    return Column(name=name, type="boolean", description=description, heading=heading)


def number(
    name: str,
    description: str,
    unit: str = "",
    heading: str = "",
    interval: tuple[str, str] | None = None,
    digits: int = 2,
    is_percent: bool = False,
    **more: Any,
) -> Column:
    """Return a column of numbers."""
    more |= {"interval": interval, "digits": digits, "is_percent": is_percent}
    more |= {"description": description, "unit": unit, "heading": heading}
    return Column(name=name, type="number", **more)


def share(name: str, description: str, heading: str = "", digits: int = 1) -> Column:
    """Return a column of shares, which text formats show in percent."""
    return number(name, description, "share", heading, digits=digits, is_percent=True)


def money(name: str, description: str, heading: str = "") -> Column:
    """Return a column of costs."""
    return number(name, description, "USD", heading)


def ends(prefix: str, of: str, unit: str) -> tuple[Column, Column]:
    """Return the columns of the two ends of an interval."""
    return (
        number(f"{prefix}_low", f"lower end of the interval of {of}", unit),
        number(f"{prefix}_high", f"upper end of the interval of {of}", unit),
    )


def measured(
    name: str,
    description: str,
    unit: str = "",
    heading: str = "",
    digits: int = 2,
    prefix: str = "",
    how: str = "",
) -> tuple[Column, ...]:
    """Return a column of numbers and those of the ends of its interval, `PREFIX_low`, `PREFIX_high`.

    `how` says how the interval is made; without a prefix the ends are `low` and `high`.
    """
    found = ends(prefix or name, f"{name}{how and ', '}{how}", unit)
    if not prefix:
        found = replace(found[0], name="low"), replace(found[1], name="high")
    interval = found[0].name, found[1].name
    return number(name, description, unit, heading, interval, digits), *found


def on_request(column: Column) -> Column:
    """Return a column that text formats show only where it is asked for."""
    return replace(column, is_default=False)


_OF_ANY = ("absent", "is_main", "is_percent")
"""Arguments that a line may have whatever its kind."""

_KINDS: Mapping[str, Callable[..., Column | tuple[Column, ...]]] = {
    own.__name__: own for own in (text, count, yes, number, share, money, ends, measured)
}


def declared(module: str, table: str, **given: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of a table as `tables.toml` beside a module's file declares them.

    A line is a column: first its kind, which is a function of this module, with the description, then other
    arguments of that function, `on_request`, and what `_OF_ANY` names. A line without any is the place of
    what is `given` by its name.
    """
    found: list[Column] = []
    for name, line in read_tables(module)[table]["columns"].items():
        if not line:
            found += given[name]
            continue
        (kind, description), *more = line.items()
        options = {key: tuple(own) if isinstance(own, list) else own for key, own in more}
        is_default = not options.pop("on_request", False)
        shown: dict[str, Any] = {key: options.pop(key) for key in _OF_ANY if key in options}
        made = _KINDS[kind](name, description, **options)
        first, *ends_of_it = made if isinstance(made, tuple) else (made,)
        each = [replace(first, **shown), *ends_of_it]
        found += each if is_default else map(on_request, each)
    return tuple(found)


def form(module: str, table: str, **given: Sequence[Column]) -> Form:
    """Return a table as `tables.toml` beside a module's file declares it, with its `declared` columns."""
    own = read_tables(module)[table]
    return Form(
        name=table,
        title=own["title"],
        columns=declared(module, table, **given),
        help=own.get("help", ""),
        group=tuple(own.get("group", ())),
        parts=msgspec.convert(own.get("parts", ()), tuple[Part, ...]),
        notes=tuple(own.get("notes", ())),
        texts=own.get("texts", {}),
    )


def read_tables(module: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what `tables.toml` beside a module's file holds."""
    return _read(Path(module).with_name("tables.toml"))


@cache  # one file is read for all modules of a folder
def _read(path: Path) -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(path.read_text("utf-8"))
