"""Ratings of cases and encounters: how high they are, and how far raters agree, aspect by aspect."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from medhelm import Floats, Table, make_table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import measured, ratings
from medhelm_benchmarks.encounters.experts.units import RatedFolder

ALL = "all"
_TITLES = {"construction": "Ratings of constructed cases", "runtime": "Ratings of encounters"}
_COLUMNS = (
    kinds.text("aspect", "the aspect that is rated", "aspect"),
    kinds.count(
        "units", "units with a rating; in the row of all aspects each aspect of a unit", "rated"
    ),
    kinds.count("pairs", "pairs of ratings of one unit by two raters", "pairs"),
    kinds.number("mean", "mean of all ratings, 1 to 5", "", "mean"),
    kinds.share("high", "ratings of 4 or 5", "4 or 5", digits=0),
    kinds.share("exact", "pairs that are equal", "exact", digits=0),
    kinds.share("within_one", "pairs at most one point apart", "within 1", digits=0),
    kinds.number("difference", "mean absolute difference of a pair", "", "diff."),
    kinds.number("alpha", "Krippendorff's alpha for ordinal ratings", "", "alpha"),
)


def units_table(rated: ratings.RatingTable[str], folder: RatedFolder) -> Table:
    """Return mean, exact and within-one agreement and mean difference of each aspect and of all."""
    own = {
        aspect: rated.matrix([(unit.name, aspect) for unit in folder.units])
        for aspect in folder.aspects
    }
    rows = [_row(aspect, ratings) for aspect, ratings in own.items()]
    rows.append(_row(ALL, np.concatenate([*own.values()])))
    notes = [f"{aspect}: {question}" for aspect, question in folder.aspects.items()]
    notes.append(
        f"Raters: {', '.join(rated.raters)}. Agreement near the top of a scale is high by chance; "
        "alpha takes chance out, and has no value where all ratings are equal."
    )
    if not rows[-1]["pairs"]:
        notes.append("No unit is rated by two raters: agreement needs the files of both.")
    return make_table("units", _TITLES[folder.kind], _COLUMNS, rows, notes, {})


def _row(aspect: str, ratings: Floats) -> dict[str, object]:
    """Return the measures of an aspect; `ratings` is (units, raters)."""
    given = ratings[~np.isnan(ratings)]
    pairs = combinations(ratings.T, 2)
    gaps = np.concatenate([np.abs(a - b) for a, b in pairs] or [np.empty(0)])
    gaps = gaps[~np.isnan(gaps)]
    row: dict[str, object] = {
        "aspect": aspect,
        "units": int((~np.isnan(ratings)).any(axis=1).sum()),
        "pairs": len(gaps),
    }
    if len(given):
        row |= {"mean": given.mean(), "high": (given >= 4).mean()}
    if len(gaps):
        row |= {
            "exact": (gaps == 0).mean(),
            "within_one": (gaps <= 1).mean(),
            "difference": gaps.mean(),
            "alpha": measured.krippendorff_alpha(ratings, "ordinal"),
        }
    return row
