"""Columns of each kind, in one line each."""

from __future__ import annotations

from dataclasses import replace

from medhelm.tables.format.table import Column


def text(name: str, description: str, heading: str = "", absent: str = "–") -> Column:
    """Return a column of words."""
    return Column(name=name, type="string", description=description, heading=heading, absent=absent)


def count(name: str, description: str, heading: str = "", unit: str = "", of: str = "") -> Column:
    """Return a column of whole numbers."""
    return Column(
        name=name, type="integer", description=description, heading=heading, unit=unit, of=of
    )


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
    is_main: bool = False,
) -> Column:
    """Return a column of numbers."""
    return Column(
        name=name,
        type="number",
        description=description,
        unit=unit,
        heading=heading,
        interval=interval,
        digits=digits,
        is_percent=is_percent,
        is_main=is_main,
    )


def share(name: str, description: str, heading: str = "", digits: int = 1) -> Column:
    """Return a column of shares, which text formats show in percent."""
    return number(name, description, "share", heading, digits=digits, is_percent=True)


def money(name: str, description: str, heading: str = "", is_main: bool = False) -> Column:
    """Return a column of costs."""
    return number(name, description, "USD", heading, is_main=is_main)


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
    is_main: bool = False,
) -> tuple[Column, ...]:
    """Return a column of numbers and those of the ends of its interval, `PREFIX_low`, `PREFIX_high`.

    `how` says how the interval is made; without a prefix the ends are `low` and `high`.
    """
    found = ends(prefix or name, f"{name}{how and ', '}{how}", unit)
    if not prefix:
        found = replace(found[0], name="low"), replace(found[1], name="high")
    interval = found[0].name, found[1].name
    return number(name, description, unit, heading, interval, digits, is_main=is_main), *found


def on_request(column: Column) -> Column:
    """Return a column that text formats show only where it is asked for."""
    return replace(column, is_default=False)
