"""Gaps between the parts of a benchmark, paired by cluster: worked by hand."""

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from medhelm import load_results
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
    assert (
        "No benchmark of these runs has a part to compare others with; see --by KEY." in table.notes
    )
