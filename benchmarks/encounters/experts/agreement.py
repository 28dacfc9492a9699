"""Ratings of cases and encounters: how high they are, and how far two raters agree, aspect by aspect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from medhelm import Table, make_table
from medhelm.errors import DataError, closest
from medhelm.stats.aggregation import Floats
from medhelm.stats.agreement import krippendorff_alpha
from medhelm.tables.clinicians.ratings import check_columns, whole_number
from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.format.spreadsheet import read_filled
from medhelm_benchmarks.encounters.experts.units import Units

_NEEDED = ("unit", "aspect", "rating")
_SCALE = range(1, 6)
ALL = "all"


@dataclass(frozen=True)
class RatedUnits:
    """Ratings by unit, aspect and rater; NaN where there is none."""

    aspects: tuple[str, ...]
    raters: tuple[str, ...]
    ratings: Floats
    """(units, aspects, raters)."""


def read_unit_ratings(paths: Sequence[Path], units: Units) -> RatedUnits:
    """Return the ratings of files, one for each rater; raises DataError with file and row."""
    names = {unit.name: n for n, unit in enumerate(units.units)}
    aspects = {aspect: n for n, aspect in enumerate(units.aspects)}
    found: dict[tuple[int, int, str], float] = {}
    raters: dict[str, None] = {}
    for path in paths:
        for row, cells in read_filled(path):
            where = f"{path.name}, row {row}"
            check_columns(path.name, cells, _NEEDED)
            rater = cells.get("rater") or path.stem
            raters.setdefault(rater)
            unit = _known("unit", cells["unit"], names, where)
            aspect = _known("aspect", cells["aspect"], aspects, where)
            if not cells["rating"]:
                continue
            value = whole_number(cells["rating"])
            if value is None or value not in _SCALE:
                raise DataError(f"{where}: the rating is not a whole number from 1 to 5")
            key = (unit, aspect, rater)
            if key in found:
                raise DataError(
                    f"{where}: {rater} rates this aspect of this unit twice; give each file once, named as "
                    "its rater"
                )
            found[key] = float(value)
    order = {rater: n for n, rater in enumerate(raters)}
    ratings = np.full((len(names), len(aspects), len(order)), np.nan)
    for (unit, aspect, rater), rating in found.items():
        ratings[unit, aspect, order[rater]] = rating
    return RatedUnits(tuple(units.aspects), tuple(raters), ratings)


def _known(what: str, name: str, known: dict[str, int], where: str) -> int:
    if name in known:
        return known[name]
    near = closest(name, list(known))
    hint = f"; did you mean {near[0]}?" if near else ""
    raise DataError(f"{where}: there is no {what} {name!r}{hint}")


def units_table(rated: RatedUnits, units: Units) -> Table:
    """Return mean, exact and within-one agreement and mean difference of each aspect and of all."""
    rows = [_row(aspect, rated.ratings[:, n, :]) for n, aspect in enumerate(rated.aspects)]
    flat = rated.ratings.reshape(-1, len(rated.raters))
    columns = [
        text("aspect", "the aspect that is rated", "aspect"),
        count(
            "units", "units with a rating; in the row of all aspects each aspect of a unit", "rated"
        ),
        count("pairs", "pairs of ratings of one unit by two raters", "pairs"),
        number("mean", "mean of all ratings, 1 to 5", "", "mean"),
        number("high", "ratings of 4 or 5", "share", "4 or 5", is_percent=True),
        number("exact", "pairs that are equal", "share", "exact", is_percent=True),
        number("within_one", "pairs at most one point apart", "share", "within 1", is_percent=True),
        number("difference", "mean absolute difference of a pair", "", "diff."),
        number("alpha", "Krippendorff's alpha for ordinal ratings", "", "alpha"),
    ]
    notes = [f"{aspect}: {question}" for aspect, question in units.aspects.items()]
    notes.append(
        f"Raters: {', '.join(rated.raters)}. Agreement near the top of a scale is high by chance; alpha "
        "takes chance out, and has no value where all ratings are equal."
    )
    if not any(row["pairs"] for row in rows):
        notes.append("No unit is rated by two raters: agreement needs the files of both.")
    title = (
        "Ratings of constructed cases" if units.kind == "construction" else "Ratings of encounters"
    )
    return make_table("units", title, columns, [*rows, _row(ALL, flat)], notes, {})


def _row(aspect: str, ratings: Floats) -> dict[str, object]:
    """Return the measures of an aspect; `ratings` is (units, raters)."""
    given = ratings[~np.isnan(ratings)]
    pairs = [
        abs(row[a] - row[b])
        for row in ratings
        for a, b in combinations(range(ratings.shape[1]), 2)
        if not (math.isnan(row[a]) or math.isnan(row[b]))
    ]
    row: dict[str, object] = {
        "aspect": aspect,
        "units": int((~np.isnan(ratings)).any(axis=1).sum()),
        "pairs": len(pairs),
    }
    if len(given):
        row |= {"mean": float(given.mean()), "high": float((given >= 4).mean())}
    if pairs:
        alpha = krippendorff_alpha(ratings, "ordinal")
        row |= {
            "exact": sum(d == 0 for d in pairs) / len(pairs),
            "within_one": sum(d <= 1 for d in pairs) / len(pairs),
            "difference": sum(pairs) / len(pairs),
            "alpha": None if math.isnan(alpha) else alpha,
        }
    return row
