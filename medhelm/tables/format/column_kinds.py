"""Columns of each type, as the lists of columns make them."""

from __future__ import annotations

from medhelm.tables.format.table import Column


def text(name: str, description: str, heading: str = "") -> Column:
    """Return a column of words."""
    return Column(name=name, type="string", description=description, heading=heading)


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
    )


def ends(prefix: str, of: str, unit: str) -> tuple[Column, Column]:
    """Return the columns of the two ends of an interval."""
    return (
        number(f"{prefix}_low", f"lower end of the interval of {of}", unit),
        number(f"{prefix}_high", f"upper end of the interval of {of}", unit),
    )


def estimate(
    name: str, description: str, unit: str = "", heading: str = "", digits: int = 2
) -> tuple[Column, Column, Column]:
    """Return the columns of a number with an interval: itself, shown with its ends, and these."""
    interval = f"{name}_low", f"{name}_high"
    return number(name, description, unit, heading, interval, digits), *ends(name, name, unit)


def percent(name: str, description: str, heading: str = "", digits: int = 0) -> Column:
    """Return a column of shares that are shown as percentages."""
    return number(name, description, "share", heading, None, digits, is_percent=True)
