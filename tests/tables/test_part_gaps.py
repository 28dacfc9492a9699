"""Gaps between the parts of a benchmark, paired by cluster: worked by hand."""

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.stats import beta

from medhelm import load_results
from medhelm.errors import UnknownName
from medhelm.stats.intervals import difference, wilson
from medhelm.tables.format.table import Settings
from tests.build_runs import EXACT, Item, write_run

OF_PARTS = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
ENGLISH, OTHER, THIRD = 0, 1, 2


def item(question: int, part: int, value: float) -> Item:
    """Return an answer to a question in one of three languages."""
    stats = [0.0] * 6
    stats[2 * part : 2 * part + 2] = [value, 1.0]
    return Item(id=f"{part}/{question}", value=value, cluster=f"q{question}", stats=stats)


def build(folder: Path, rows: list[Item], reference: str = "1") -> None:
    write_run(folder, "x", "m", rows, metrics=[OF_PARTS], card={"reference_part": reference})


def test_the_gaps_and_their_mean(tmp_path: Path) -> None:
    english, other, third = (1, 1, 1, 0), (1, 0, 0, 0), (1, 1, 0, 1)
    rows = [
        item(q, part, float(v))
        for part, values in ((ENGLISH, english), (OTHER, other), (THIRD, third))
        for q, v in enumerate(values)
    ]
    build(tmp_path, rows)
    found = load_results(tmp_path).typed("gaps", Settings(min_group=1)).rows
    assert [(r["part"], r["score"], r["gap"]) for r in found] == [
        ("2", 0.25, -0.5),
        ("3", 0.75, 0.0),
        (None, 0.5, -0.25),
    ]
    assert {(r["reference"], r["reference_score"], r["clusters"]) for r in found} == {
        ("1", 0.75, 4)
    }
    assert [r["n"] for r in found] == [4, 4, 8]


def test_the_interval_is_of_pairs(tmp_path: Path) -> None:
    """Both languages fail on the same questions: the gap is far more certain than two scores."""
    rng = random.Random(1)
    english = [float(rng.random() < 0.6) for _ in range(400)]
    other = [0.0 if rng.random() < 0.1 else v for v in english]
    rows = [item(q, ENGLISH, v) for q, v in enumerate(english)]
    rows += [item(q, OTHER, v) for q, v in enumerate(other)]
    build(tmp_path, rows)
    first = load_results(tmp_path).typed("gaps", Settings(draws=2000)).rows[0]
    difference = np.array(other) - np.array(english)
    error = difference.std(ddof=1) / 20
    assert first["gap"] == pytest.approx(difference.mean())
    half = (float(str(first["high"])) - float(str(first["low"]))) / 2
    assert half == pytest.approx(1.96 * error, rel=0.12)
    unpaired = np.sqrt((np.var(english, ddof=1) + np.var(other, ddof=1)) / 400)
    assert half < 0.6 * 1.96 * unpaired


def test_without_a_reference_there_is_a_note(tmp_path: Path) -> None:
    build(tmp_path, [item(0, ENGLISH, 1.0), item(1, OTHER, 0.0)], reference="")
    table = load_results(tmp_path).typed("gaps")
    assert not table.rows
    assert "--by KEY" in " ".join(table.notes)


def test_groups_by_a_key_against_all_others(tmp_path: Path) -> None:
    """Two groups that hold at once are each at 97.5 %, with limits that scipy's beta distribution gives.

    The small group is in no number.
    """
    rows = []
    for sex, right, n in (("female", 56, 70), ("male", 48, 80), ("not told", 5, 5)):
        for i in range(n):
            row = Item(id=f"{sex}/{i}", value=float(i < right), metadata={"sex": sex})
            rows.append(row)
    rows.append(Item(id="x", value=1.0))
    write_run(tmp_path, "x", "m", rows)
    table = load_results(tmp_path).typed("gaps", by="sex")
    female, male, unknown = table.rows
    assert (female["score"], male["score"]) == (0.8, 0.6)
    assert female["mean"] == pytest.approx(104 / 150)
    assert (female["gap"], male["gap"]) == (pytest.approx(0.2), pytest.approx(-0.2))
    assert (female["worst"], male["worst"]) == (False, True)
    assert (female["low"], female["high"]) == (-male["high"], -male["low"])  # type: ignore[operator]
    first, second = (
        beta(r + 0.5, n - r + 0.5).ppf([0.0125, 0.9875]) for r, n in ((56, 70), (48, 80))
    )
    assert female["low"] == pytest.approx(0.2 - np.hypot(0.8 - first[0], second[1] - 0.6))
    assert female["high"] == pytest.approx(0.2 + np.hypot(first[1] - 0.8, 0.6 - second[0]))
    assert (unknown["part"], unknown["n"], unknown["gap"]) == ("not told", 5, None)
    said = " ".join(table.notes)
    assert "Fewer than 20" in said and "x not told (n" in said
    assert "1 instances" in said and "no sex" in said
    with pytest.raises(UnknownName, match="did you mean 'sex'"):
        load_results(tmp_path).typed("gaps", by="sax")


def test_the_difference_of_two_published_rates() -> None:
    """Newcombe 1998, table II: 56 of 70 and 48 of 80 with Wilson's limits differ by 0.0524 to 0.3339."""
    sides = [(rate, *wilson(rate, n, 0.95)) for rate, n in ((0.8, 70), (0.6, 80))]
    found = difference(sides[0], sides[1], 0.0)
    assert (found.low, found.high) == (
        pytest.approx(0.0524, abs=5e-5),
        pytest.approx(0.3339, abs=5e-5),
    )


def test_small_slices_have_no_score(tmp_path: Path) -> None:
    rows = [Item(id=f"{i}", value=1.0, metadata={"sex": "ab"[i > 19]}) for i in range(39)]
    write_run(tmp_path, "x", "m", rows)
    found = load_results(tmp_path).typed("slices", by="sex").rows
    assert [(r["value"], r["score"], r["n"]) for r in found] == [("a", 1.0, 20), ("b", None, 19)]
    assert found[1]["low"] is found[1]["normalised"] is None
