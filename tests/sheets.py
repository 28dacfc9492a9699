"""Sheets that raters fill in, as rows by column."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

Row = dict[str, str]


def read_sheet(path: str | Path) -> list[Row]:
    """Return the rows of a sheet as it went out."""
    with Path(path).open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write_sheet(path: str | Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Write a sheet whose columns are those of the first row."""
    first, *others = rows
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*first])
        writer.writeheader()
        writer.writerows((first, *others))
