"""The survey of clinicians on the taxonomy: its sheet, and what their answers say.

To which category does a subcategory belong? How much of the routine work do the tasks cover, from 1 (very little)
to 5 (all)? (MedHELM, results 2.1 and methods)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

import numpy as np

from medhelm.plugins.taxonomy import Taxonomy
from medhelm.stats.intervals import share_interval
from medhelm.stats.student_t import t_quantile
from medhelm.tables.clinicians.ratings import Item, Rating, RatingTable, Scale, Unit
from medhelm.tables.clinicians.sheet import RatingSheet, Sample
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table

COVERAGE = "comprehensiveness"
_CATEGORY = "category"
_COVERED = Scale(
    1,
    5,
    points=(
        ("1", "the tasks cover very little of routine medical work"),
        ("5", f"all of it (of {COVERAGE})"),
    ),
)

SURVEY = form(__file__, "taxonomy")


def survey_units(taxonomy: Taxonomy) -> tuple[Unit, ...]:
    """Return the subcategories, each with the category as its item, and the comprehensiveness."""
    lettered = list(zip(ascii_uppercase, taxonomy.categories, strict=False))
    words = {
        word.casefold(): n
        for n, (letter, own) in enumerate(lettered)
        for word in (letter, own.id, own.name, f"{letter} {own.name}")
    }
    points = tuple((letter, own.name) for letter, own in lettered)
    scale = Scale(0, len(lettered) - 1, points=points, words=words)
    units = [
        Unit(
            sub.id,
            (Item(_CATEGORY, sub.name),),
            scale,
            ((sub.name, "\n".join(task.name for task in sub.tasks)),),
        )
        for sub in taxonomy.subcategories()
    ]
    return (*units, Unit(COVERAGE, (Item(COVERAGE, "all tasks together"),), _COVERED))


def survey_sheet(taxonomy: Taxonomy, sample: Sample) -> RatingSheet:
    """Return the sheet: subcategories in an order drawn by the seed, the comprehensiveness last."""
    *units, covered = survey_units(taxonomy)
    return RatingSheet(units=(*sample.of(units), covered))


def survey_table(rated: RatingTable[str], taxonomy: Taxonomy, settings: Settings) -> Table:
    """Return agreement with the taxonomy, overall and by subcategory, and the comprehensiveness."""
    rows = _rows(rated, taxonomy, settings.confidence)
    return SURVEY.table(rows, settings={"confidence": settings.confidence})


def _rows(rated: RatingTable[str], taxonomy: Taxonomy, confidence: float) -> Iterator[Row]:
    places = [unit for own in rated.asked.values() for unit, _ in own]
    asked = Counter(places)
    placed = [r for r in rated.ratings if r.unit != COVERAGE]
    whole = {"what": "all subcategories", "asked": len(places) - asked[COVERAGE]}
    yield whole | _agreement(placed, taxonomy, confidence)
    covered = [int(r.value) for r in rated.ratings if r.unit == COVERAGE]
    yield {"what": COVERAGE, "asked": asked[COVERAGE]} | _coverage(covered, confidence)
    for sub in taxonomy.subcategories():
        if asked[sub.id]:
            own = [r for r in placed if r.unit == sub.id]
            row: Row = {"what": sub.name, "asked": asked[sub.id]}
            yield row | _agreement(own, taxonomy, confidence)


def _agreement(given: Sequence[Rating[str]], taxonomy: Taxonomy, confidence: float) -> Row:
    if not given:
        return {"answered": 0, "raters": 0, "method": "none (no answer)"}
    categories = list(taxonomy.categories)
    raters, clusters = np.unique([r.rater for r in given], return_inverse=True)
    named = [categories[int(r.value)] for r in given]
    right = [
        float(own.id == taxonomy.category_of(r.unit).id)
        for own, r in zip(named, given, strict=True)
    ]
    rate = math.fsum(right) / len(right)
    row: Row = {"answered": len(given), "raters": len(raters), "agreement": rate}
    wrong = Counter(c.id for c, is_right in zip(named, right, strict=True) if not is_right)
    if wrong:
        category, times = min(wrong.items(), key=lambda item: (-item[1], item[0]))
        row["taken_for"] = f"{({c.id: c.name for c in categories})[category]} ({times})"
    if len(raters) < 2:
        return row | {"method": "none (one clinician)"}
    ends = share_interval(np.asarray(right), clusters, confidence)
    return row | ends.ends("agreement") | {"method": ends.method}


def _coverage(ratings: Sequence[int], confidence: float) -> Row:
    row: Row = {"answered": len(ratings), "raters": len(ratings)}
    if not ratings:
        return row | {"method": "none (no answer)"}
    mean = math.fsum(ratings) / len(ratings)
    row["mean"] = mean
    if len(set(ratings)) < 2:
        return row | {"method": "none (all the same)" if len(ratings) > 1 else "none (one)"}
    variance = math.fsum((r - mean) ** 2 for r in ratings) / (len(ratings) - 1)
    half = t_quantile(0.5 + confidence / 2, len(ratings) - 1) * math.sqrt(variance / len(ratings))
    low, high = max(1.0, mean - half), min(5.0, mean + half)
    return row | {"mean_low": low, "mean_high": high, "method": "t"}
