"""The survey of clinicians on the taxonomy: its sheet, and what their answers say.

Part one: to which category does a subcategory belong? Part two: how much of the routine work do
the tasks cover, from 1 (very little) to 5 (all)? The paper found 96.7 % of the subcategories in
their category and a mean of 4.21 with 29 clinicians (MedHELM, results 2.1 and methods).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase

import numpy as np

from medhelm.errors import DataError, closest
from medhelm.plugins.taxonomy import Taxonomy
from medhelm.stats.intervals import effective_trials, wilson
from medhelm.stats.student_t import t_quantile
from medhelm.tables.clinicians.ratings import check_columns, whole_number
from medhelm.tables.format.column_kinds import count, ends, number, text
from medhelm.tables.format.spreadsheet import (
    guard,
    read_filled,
    refuse_present,
    to_csv,
    write_whole,
)
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table

COVERAGE = "comprehensiveness"
_SHEET = ("item", "rater", "subcategory", "tasks", "choices", "answer")
_SCALE = range(1, 6)

COLUMNS = (
    text("what", "the subcategory, all of them, or the comprehensiveness of the tasks", "what"),
    count("raters", "clinicians who answered", "clinicians"),
    count("answered", "answers", "answers", of="asked"),
    count("asked", "rows of the sheets, answered or not"),
    number(
        "agreement",
        "share of the answers that name the taxonomy's category",
        "share",
        "agree",
        ("agreement_low", "agreement_high"),
    ),
    *ends("agreement", "agreement", "share"),
    number(
        "mean",
        "mean rating from 1 to 5, of comprehensiveness",
        "points",
        "mean",
        ("mean_low", "mean_high"),
    ),
    *ends("mean", "mean", "points"),
    text("method", "how the interval was made, or why there is none"),
    text("taken_for", "the other category that is named most often, and how often", "taken for"),
)
_LAYOUT = Layout(leaving=("taken_for", "raters", "answered"), main=("what", "agreement", "mean"))


@dataclass(frozen=True)
class Answer:
    """Holds one clinician's answers to one row of the sheet."""

    rater: str
    item: str
    answer: str
    """A category's id, a rating in digits, or nothing."""


def write_survey(path: Path, taxonomy: Taxonomy, seed: int) -> int:
    """Write the sheet, readable by its owner alone, and return how many rows it has.

    Subcategories are in an order that depends on the seed. Raises UsageError where the file is
    there, RecordError where it cannot be written.
    """
    refuse_present(path)
    lettered = zip(ascii_uppercase, taxonomy.categories, strict=False)
    choices = "; ".join(f"{letter} {category.name}" for letter, category in lettered)
    subcategories = list(taxonomy.subcategories())
    random.Random(seed).shuffle(subcategories)
    lines = [
        {
            "item": sub.id,
            "subcategory": sub.name,
            "tasks": "; ".join(task.name for task in sub.tasks),
            "choices": choices,
        }
        for sub in subcategories
    ]
    scale = "1 (the tasks cover very little of routine medical work) to 5 (all of it)"
    lines.append({"item": COVERAGE, "subcategory": "all together", "choices": scale})
    write_whole(path, to_csv(_SHEET, lines))
    return len(lines)


def read_survey(paths: Sequence[Path], taxonomy: Taxonomy) -> list[Answer]:
    """Return the answers of all files. The file's name is the rater's where no column names one.

    Raises DataError for a row that is not of the sheet, an answer that is neither a category (its
    letter, name or id) nor a rating, and a clinician who answers a row twice.
    """
    found: dict[tuple[str, str], Answer] = {}
    for path in paths:
        lines = read_filled(path)
        if not lines:
            raise DataError(f"{path.name}: no row below names of columns")
        check_columns(path.name, lines[0][1], ("item", "answer"))
        for line, cells in lines:
            where = f"{path.name}, row {line}"
            rater = guard(cells.get("rater") or path.stem)
            answer = Answer(rater, cells["item"], _read(cells, taxonomy, where))
            if (rater, answer.item) in found:
                raise DataError(f"{where}: {rater} answers {answer.item} a second time; keep one")
            found[rater, answer.item] = answer
    if not any(answer.answer for answer in found.values()):
        raise DataError("no row is answered; fill in the column answer")
    return list(found.values())


def survey_table(answers: Sequence[Answer], taxonomy: Taxonomy, settings: Settings) -> Table:
    """Return agreement with the taxonomy, overall and by subcategory, and the comprehensiveness."""
    return make_table(
        "taxonomy",
        "Clinicians on the taxonomy",
        COLUMNS,
        _rows(answers, taxonomy, settings.confidence),
        (
            "Agreement: answers that name the taxonomy's category; the answers of one clinician are "
            "one cluster. The paper: 96.7 % of the subcategories, 4.21 of 5, 29 clinicians.",
        ),
        {"confidence": settings.confidence},
        layout=_LAYOUT,
    )


def _rows(answers: Sequence[Answer], taxonomy: Taxonomy, confidence: float) -> Iterator[Row]:
    placed = [a for a in answers if a.item != COVERAGE]
    yield _agreement("all subcategories", placed, taxonomy, confidence)
    rated = [a for a in answers if a.item == COVERAGE]
    yield _coverage(rated, confidence)
    for sub in taxonomy.subcategories():
        own = [a for a in placed if a.item == sub.id]
        if own:
            yield _agreement(sub.name, own, taxonomy, confidence)


def _agreement(what: str, answers: Sequence[Answer], taxonomy: Taxonomy, confidence: float) -> Row:
    given = [a for a in answers if a.answer]
    row: Row = {"what": what, "asked": len(answers), "answered": len(given)}
    if not given:
        return row | {"raters": 0, "method": "none (no answer)"}
    raters, clusters = np.unique([a.rater for a in given], return_inverse=True)
    right = [float(a.answer == taxonomy.category_of(a.item).id) for a in given]
    row |= {"raters": len(raters), "agreement": math.fsum(right) / len(right)}
    wrong = Counter(a.answer for a, is_right in zip(given, right, strict=True) if not is_right)
    if wrong:
        names = {c.id: c.name for c in taxonomy.categories}
        category, times = min(wrong.items(), key=lambda item: (-item[1], item[0]))
        row["taken_for"] = f"{names[category]} ({times})"
    if len(raters) < 2:
        return row | {"method": "none (one clinician)"}
    trials = float(len(given))
    if len(raters) < len(given):
        trials = effective_trials(np.asarray(right), clusters.astype(np.int64), confidence)
    low, high = wilson(math.fsum(right) / len(right), trials, confidence)
    method = "wilson, clustered" if len(raters) < len(given) else "wilson"
    return row | {"agreement_low": low, "agreement_high": high, "method": method}


def _coverage(answers: Sequence[Answer], confidence: float) -> Row:
    ratings = [int(a.answer) for a in answers if a.answer]
    row: Row = {"what": COVERAGE, "asked": len(answers), "answered": len(ratings)}
    row["raters"] = len(ratings)
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


def _read(cells: Mapping[str, str], taxonomy: Taxonomy, where: str) -> str:
    """Return a category's id, the digits of a rating, or nothing; raises DataError."""
    item, answer = cells["item"], cells["answer"]
    if item == COVERAGE:
        rating = whole_number(answer.replace(",", "."))
        if answer and rating not in _SCALE:
            raise DataError(f"{where}: {COVERAGE} is a whole number from 1 to 5, or empty")
        return str(rating) if answer else ""
    known = [sub.id for sub in taxonomy.subcategories()]
    if item not in known:
        near = "".join(f"; did you mean {name}?" for name in closest(item, known, n=1))
        raise DataError(f"{where}: no subcategory {item[:40]!r}{near}")
    if not answer:
        return ""
    wanted = answer.casefold()
    for letter, category in zip(ascii_uppercase, taxonomy.categories, strict=False):
        if wanted in (letter.casefold(), category.id, category.name.casefold()):
            return category.id
        if wanted == f"{letter} {category.name}".casefold():
            return category.id
    letters = ascii_uppercase[: len(taxonomy.categories)]
    raise DataError(
        f"{where}: {item} has no category {answer[:40]!r}; {letters[0]} to {letters[-1]}"
    )
