"""Every table of a results folder as CSV files, and their comparison cell by cell."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from medhelm import load_results

_NAMES = ("overall", "benchmarks", "jury", "cost", "pairs")
_DRAWS = 200


def write_tables(results: Path, into: Path) -> None:
    """Write each table that the runs give as NAME.csv."""
    found = load_results(results)
    into.mkdir(parents=True)
    frames = {name: found.table(name, draws=_DRAWS) for name in _NAMES}
    frames["benchmarks-all"] = found.table("benchmarks", metrics="all", draws=_DRAWS)
    for name, frame in frames.items():
        if len(frame):  # not every table is of every kind of run
            frame.to_csv(into / f"{name}.csv", index=False)


def differing(before: Path, after: Path) -> list[str]:
    """Return one line for each cell, row or table of two folders of tables that differs.

    Later tables may have further columns.
    Numbers may differ in the last of their digits, by which machines differ.
    """
    found = []
    for name in sorted({p.name for folder in (before, after) for p in folder.glob("*.csv")}):
        if not (before / name).is_file() or not (after / name).is_file():
            found.append(f"{name}: in one of the folders only")
            continue
        old, new = (
            list(csv.reader((folder / name).read_text().splitlines())) for folder in (before, after)
        )
        if len(old) != len(new) or not {*old[0]} <= {*new[0]}:
            found.append(f"{name}: other rows or columns")
            continue
        new = [[row[new[0].index(column)] for column in old[0]] for row in new]
        for number, (left, right) in enumerate(zip(old, new, strict=True)):
            for column, one, two in zip(old[0], left, right, strict=True):
                if not _is_equal(one, two):
                    found.append(f"{name} row {number} {column}: {one} and {two}")
    return found


def _is_equal(one: str, two: str) -> bool:
    if one == two:
        return True
    try:
        return math.isclose(float(one), float(two), rel_tol=1e-9, abs_tol=1e-12)
    except ValueError:
        return False
