"""Tables of repeats that are reduced otherwise than to their mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.errors import UsageError
from medhelm.tables.format.table import Settings, Table
from medhelm.tables.loading import load_results
from tests.build_runs import EXACT, Item, write_run
from tests.tables.shown import notes

REPEATS = [
    # answers of four repeats; the first letter is right
    ("i0", "AABB"),
    ("i1", "ABBB"),
    ("i2", "AAA?"),
    ("i3", "????"),
]


def rows(
    answers: list[tuple[str, str]] = REPEATS, metric: str = "", floor: float | None = 0.0
) -> Any:
    """Return a row of each repeat: `?` could not be read, `!` is an error of the infrastructure."""
    return [
        Item(
            id=name,
            repeat=repeat,
            value={"?": floor, "!": None}.get(said, float(said == "A")),
            outcome={"?": "unparsed", "!": "error"}.get(said, "scored"),
            extracted="" if said in "?!" else said,
            metric=metric,
        )
        for name, letters in answers
        for repeat, said in enumerate(letters)
    ]


def table(results: Path, reduce: str, name: str = "benchmarks") -> Table:
    return load_results(results).typed(name, Settings(reduce=reduce))


@pytest.mark.parametrize(
    ("reduce", "score"),
    [
        ("mean", (2 + 1 + 3 + 0) / 16),
        ("majority", (0.5 + 0 + 1 + 0) / 4),
        ("worst", 0.0),
        ("any", 3 / 4),
        ("pass@1", 6 / 16),
        ("pass@2", ((1 - 1 / 6) + (1 - 3 / 6) + 1 + 0) / 4),
    ],
)
def test_scores_by_hand(tmp_path: Path, reduce: str, score: float) -> None:
    write_run(tmp_path, "x", "a", rows(), repeats=4)
    found = table(tmp_path, reduce)
    (row,) = found.rows
    assert row["score"] == pytest.approx(score) and row["score_all"] == pytest.approx(score)
    assert (row["n"], row["planned"], row["coverage"], row["repeats"]) == (4, 16, 1, 4)
    assert row["low"] <= row["score"] <= row["high"]
    assert found.settings["reduce"] == reduce
    assert "4 times each: x" in notes(found)
    assert (reduce in found.title) == (reduce != "mean")
    frame = load_results(tmp_path).table("benchmarks", reduce=reduce)
    assert frame["score"][0] == pytest.approx(score)


def test_an_instance_without_one_of_its_repeats_is_missing_and_no_score(tmp_path: Path) -> None:
    lost = [("i0", "AAAA"), ("i1", "AAA!"), ("i2", "BBB")]  # of the last one a repeat is not asked
    write_run(tmp_path, "x", "a", rows(lost), repeats=4)
    for reduce in ("majority", "worst", "any", "pass@2"):
        found = table(tmp_path, reduce)
        (row,) = found.rows
        assert (row["score"], row["n"]) == (1.0, 1)
        assert row["coverage"] == pytest.approx(4 / 12)
        assert row["worst_case"] == pytest.approx(4 / 12)
        assert "coverage" in str(row["flags"]) and "each of its repeats" in notes(found)
    assert table(tmp_path, "mean").rows[0]["n"] == 3


def test_without_a_floor_a_repeat_that_could_not_be_read_has_no_value(tmp_path: Path) -> None:
    bare = msgspec.structs.replace(EXACT, floor=None)
    said = [("i0", "AAB"), ("i1", "B??"), ("i2", "???")]
    write_run(tmp_path, "x", "a", rows(said, floor=None), metrics=[bare], repeats=3)
    for reduce, score in (("majority", 1.0), ("worst", 0.0)):
        (row,) = table(tmp_path, reduce).rows
        assert (row["score"], row["n"], row["coverage"]) == (score, 1, pytest.approx(3 / 9))


def test_a_mean_of_parts_stays_one(tmp_path: Path) -> None:
    parts = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
    own = rows([("i0", "AB"), ("i1", "AA"), ("i2", "BB")])
    for item in own:
        part, other = [item.value, 1.0], [0.0, 0.0]
        item.stats = other + part if item.id == "i2" else part + other
    write_run(tmp_path, "x", "a", own, metrics=[parts], repeats=2)
    assert table(tmp_path, "any").rows[0]["score"] == pytest.approx((1 + 0) / 2)
    assert table(tmp_path, "worst").rows[0]["score"] == pytest.approx((0.5 + 0) / 2)


def test_what_is_no_mean_over_instances_has_no_value_and_a_note(tmp_path: Path) -> None:
    f1 = msgspec.structs.replace(EXACT, name="micro_f1", aggregation="micro_f1")
    own = rows(metric="exact_match")
    for item in rows():
        own.append(
            Item(id=item.id, repeat=item.repeat, value=0.5, metric="micro_f1", stats=(1, 1, 1))
        )
    write_run(tmp_path, "x", "a", own, metrics=[f1, EXACT], repeats=4)
    found = load_results(tmp_path).typed("benchmarks", Settings(reduce="worst"), metrics="all")
    main, other = found.rows
    assert main["metric"] == "micro_f1" and main.get("score") is None
    assert other["metric"] == "exact_match" and other["score"] == 0.0
    assert "x micro_f1 (it is" in notes(found)
    assert table(tmp_path, "mean").rows[0]["score"] == 0.5


def test_pass_at_k_is_for_right_and_wrong_alone_for_all_models_of_a_benchmark(
    tmp_path: Path,
) -> None:
    write_run(tmp_path, "x", "a", rows(), repeats=4)
    graded = rows()
    graded[0].value = 0.25
    write_run(tmp_path, "x", "b", graded, repeats=4)
    found = table(tmp_path, "pass@2")
    assert [row.get("score") for row in found.rows] == [None, None]
    assert "0 and 1 only" in notes(found)
    assert load_results(tmp_path, models=["a"]).typed("benchmarks", Settings(reduce="pass@2"))


def test_a_vote_needs_answers(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", [Item(id="i0", value=0.5, repeat=k) for k in range(2)], repeats=2)
    found = table(tmp_path, "majority")
    assert found.rows[0].get("score") is None and "no answer is read" in notes(found)


def test_what_cannot_be_reduced_or_compared_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "one", "x", "a", rows([("i0", "A")]))
    with pytest.raises(UsageError, match="asked once"):
        table(tmp_path / "one", "majority")
    write_run(tmp_path, "x", "a", rows(), repeats=4)
    with pytest.raises(UsageError, match="pass@5 .*x x a.* 4"):
        table(tmp_path, "pass@5")
    write_run(tmp_path, "x", "b", rows([(n, s[:2]) for n, s in REPEATS]), repeats=2)
    with pytest.raises(UsageError, match="repeats: 4 and 2"):
        table(tmp_path, "worst")
    assert len(table(tmp_path, "pass@2").rows) == 2
    with pytest.raises(UsageError, match="table jury"):
        table(tmp_path, "worst", "jury")


def test_two_models_are_compared_on_reduced_repeats(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", rows(), repeats=4)
    write_run(tmp_path, "x", "b", rows([(n, "BBBB") for n, _ in REPEATS]), repeats=4)
    found = load_results(tmp_path).comparison("a", "b", Settings(reduce="any"))
    assert found.rows[0]["score_a"] == 0.75 and found.rows[0]["score_b"] == 0.0
    assert "any" in found.title and found.settings["reduce"] == "any"
