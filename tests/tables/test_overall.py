"""Tables over folders written by `build_runs`: who is compared with whom, on what, and what is said."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from medhelm.errors import UnknownName, UsageError
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import MetricRef, UsageTotals
from medhelm.stats.intervals import wilson
from medhelm.tables import overall
from medhelm.tables.format.formats import to_json
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from medhelm.tables.results import Results
from medhelm.tables.spending import spend
from tests.build_runs import EXACT, Item, items, write_run
from tests.tables.shown import FEW, cell, notes, rate, shown, write


def metric(**changes: Any) -> MetricRef:
    return msgspec.structs.replace(EXACT, **changes)


# Win rates, macro-average and ranks


def test_overall_by_hand(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "x": {"a": rate(9, 10), "b": rate(5, 10), "c": rate(1, 10)},
            "y": {"a": rate(5, 10), "b": rate(5, 10), "c": rate(6, 10)},
        },
    )
    table = shown(tmp_path, "overall")
    a, b, c = (cell(table, model=m) for m in "abc")
    assert [r["win_rate"] for r in (a, b, c)] == [0.625, 0.375, 0.5]
    assert [r["win_rate_literal"] for r in (a, b, c)] == [0.75, 0.5, 0.5]
    assert a["win_sd"] == 0.125  # shares 3/4 and 1/2 against two rivals, ddof 0
    assert a["win_literal_sd"] == 0.25  # shares 1 and 1/2
    assert a["macro_average"] == pytest.approx(0.7)
    assert a["macro_sd"] == pytest.approx(np.std([0.9, 0.5], ddof=1))
    assert [r["rank"] for r in (a, b, c)] == [1, 3, 2]
    assert [r["model"] for r in table.rows] == ["a", "c", "b"]
    assert "a tie counts half" in table.title and "counts one half" in notes(table)
    assert a["benchmarks"] == 2 and a["coverage"] == 1


@pytest.mark.parametrize(("by", "first"), [("literal", "a"), ("half", "a"), ("macro", "b")])
def test_ranks_follow_what_is_asked(tmp_path: Path, by: Any, first: str) -> None:
    write(
        tmp_path,
        {
            "x": {"a": rate(6, 10), "b": rate(5, 10)},
            "y": {"a": rate(6, 10), "b": rate(5, 10)},
            "z": {"a": rate(0, 10), "b": rate(9, 10)},
        },
    )
    table = load_results(tmp_path).typed("overall", Settings(draws=50, rank_by=by))
    assert table.rows[0]["model"] == first and table.rows[0]["rank"] == 1
    assert table.settings["rank_by"] == by


def test_models_that_answer_alike_share_rank_and_group(tmp_path: Path) -> None:
    same = rate(30, 60)
    write(tmp_path, {"x": {"a": same, "b": same, "c": rate(2, 60)}})
    table = shown(tmp_path, "overall")
    a, b, c = (cell(table, model=m) for m in "abc")
    assert (a["rank"], b["rank"], c["rank"]) == (1, 1, 3)
    assert a["tie_group"] == b["tie_group"] == 1 and c["tie_group"] == 2
    assert (a["rank_low"], a["rank_high"]) == (1, 2) and c["rank_low"] == 3
    assert all(m["rank_low"] <= m["rank"] <= m["rank_high"] for m in (a, b, c))


def test_lower_is_better_decides_wins_and_normalisation(tmp_path: Path) -> None:
    harm = metric(name="harm", minimum=0.0, maximum=25.0, floor=25.0, higher_is_better=False)
    write_run(tmp_path, "x", "a", items([0.0, 5.0]), metrics=[harm])
    write_run(tmp_path, "x", "b", items([20.0, 25.0]), metrics=[harm])
    results = load_results(tmp_path)
    row = cell(results.typed("benchmarks", FEW), model="a")
    assert row["score"] == 2.5 and row["normalised"] == pytest.approx(0.9)
    assert cell(results.typed("overall", FEW), model="a")["win_rate"] == 1


def test_a_difference_in_the_last_bit_is_a_tie(tmp_path: Path) -> None:
    # the same jury values in another order: their float sums differ, their means do not
    values = [1.1, 2.2, 3.3, 4.4, 4.7, 1.9]
    jury = metric(name="jury", minimum=1.0, maximum=5.0, floor=1.0)
    write_run(tmp_path, "x", "a", items(values), metrics=[jury])
    write_run(tmp_path, "x", "b", items(values[::-1]), metrics=[jury])
    table = shown(tmp_path, "overall")
    assert [r["win_rate"] for r in table.rows] == [0.5, 0.5]
    assert [r["win_rate_literal"] for r in table.rows] == [1, 1]


def test_one_model_has_a_macro_average_but_no_rank(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": rate(3, 4)}})
    table = shown(tmp_path, "overall")
    row = table.rows[0]
    assert row["macro_average"] == 0.75 and row["rank"] is None and row["win_rate"] is None
    assert "no rival" in notes(table)


# Who is compared, on which instances


def test_scores_are_taken_on_the_instances_that_all_ranked_runs_share(tmp_path: Path) -> None:
    values = rate(100, 200)
    write_run(tmp_path, "x", "a", items(values))
    write_run(tmp_path, "x", "b", items([None, *values[1:]]))
    results = load_results(tmp_path)
    table = results.typed("benchmarks", FEW)
    a, b = (cell(table, model=m) for m in "ab")
    assert a["n"] == b["n"] == 199
    assert a["score"] == b["score"] == pytest.approx(99 / 199)
    assert a["score_all"] == 0.5 and a["coverage"] == 1
    assert b["coverage"] == 0.995 and b["flags"] == "" and b["status"] == "ranked"
    assert b["worst_case"] == pytest.approx(99 / 200)
    assert "199 of up to" in notes(table)
    assert [r["win_rate"] for r in results.typed("overall", FEW).rows] == [0.5, 0.5]


def test_low_coverage_is_flagged_and_not_ranked_there(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "x": {"a": rate(50, 100), "b": rate(50, 100), "c": [None] * 2 + rate(98, 98)},
            "y": {"a": rate(60, 100), "b": rate(50, 100), "c": rate(40, 100)},
        },
    )
    results = load_results(tmp_path)
    table = results.typed("benchmarks", FEW)
    c = cell(table, benchmark="x", model="c")
    assert c["flags"] == "coverage" and c["status"] == "left out" and not c["is_common"]
    assert c["coverage"] == 0.98 and c["share_error"] == 0.02 and c["n"] == 98
    assert c["worst_case"] == pytest.approx(0.98)
    assert cell(table, benchmark="x", model="a")["n"] == 100  # c's gaps cost the others nothing
    assert "(98.0%, at worst 0.980)" in notes(table)
    overall = results.typed("overall", FEW)
    assert "c: coverage 98.0%" in notes(overall)
    assert "Ranked on 1 of 2" in notes(overall)
    assert [r["model"] for r in overall.rows] == ["a", "b", "c"]  # by y alone
    assert cell(overall, model="c")["benchmarks_flagged"] == "x"


@pytest.mark.parametrize(("missing", "flags"), [(1, ""), (2, "coverage")])
def test_coverage_of_exactly_99_percent_is_enough(tmp_path: Path, missing: int, flags: str) -> None:
    write_run(tmp_path, "x", "a", items([None] * missing + rate(50, 100 - missing)))
    assert shown(tmp_path).rows[0]["flags"] == flags


def test_a_missing_benchmark_is_shown_and_left_out_of_the_ranking(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "easy": {"a": rate(10, 10), "b": rate(9, 10), "c": rate(9, 10)},
            "hard": {"a": rate(2, 10), "b": rate(3, 10)},
        },
    )
    results = load_results(tmp_path)
    row = cell(results.typed("benchmarks", FEW), benchmark="hard", model="c")
    assert row["status"] == "missing" and row["score"] is None and row["run"] is None
    overall = results.typed("overall", FEW)
    assert "hard (c: no run)" in notes(overall)
    assert cell(overall, model="c")["benchmarks_missing"] == "hard"
    # on easy alone, where a wins; with hard in it b would win there
    assert cell(overall, model="a")["win_rate"] == 1
    assert cell(overall, model="c")["macro_average"] == pytest.approx(0.9)


def test_a_newcomer_with_one_benchmark_of_ten_does_not_take_the_others_away(tmp_path: Path) -> None:
    names = [f"b{i}" for i in range(10)]
    write(tmp_path, {b: {"a": rate(9, 10), "b": rate(6, 10), "c": rate(2, 10)} for b in names})
    write_run(tmp_path, "b3", "new", items(rate(6, 6)))
    results = load_results(tmp_path)
    table = results.typed("overall", FEW)
    assert [(r["model"], r["rank"], r["benchmarks"]) for r in table.rows] == [
        ("a", 1, 10),
        ("b", 2, 10),
        ("c", 3, 10),
        ("new", None, None),
    ]
    lacked = ", ".join(b for b in names if b != "b3")
    assert f"most models have ({lacked})" in notes(table)
    row = cell(results.typed("benchmarks", FEW), benchmark="b3", model="a")
    assert row["n"] == 10  # nor does its shorter run take instances
    assert cell(results.typed("benchmarks", FEW), benchmark="b3", model="new")["status"] == (
        "not ranked"
    )
    alone = shown(tmp_path, "overall", benchmarks=["b3"])
    assert cell(alone, model="new")["rank"] == 1  # where it has what most have, it is ranked
    part = overall.overall(results.study(FEW).on(["b3"]))
    assert part.rows == alone.rows and cell(part, model="a")["macro_average"] == 1.0


@pytest.mark.parametrize(("has", "is_ranked"), [(5, True), (4, False)])
def test_a_run_of_few_instances_takes_none_from_the_others(
    tmp_path: Path, has: int, is_ranked: bool
) -> None:
    names = ["b0", "b1"]
    write(tmp_path, {b: {"a": rate(9, 10), "b": rate(6, 10), "c": rate(2, 10)} for b in names})
    for b in names:
        write_run(tmp_path, b, "new", items(rate(has, has)))
    table = shown(tmp_path, "overall")
    found = {r["model"]: r["rank"] for r in table.rows}
    if is_ranked:  # compared on what all have
        assert found == {"a": 1, "b": 1, "new": 1, "c": 4}
        return
    assert found == {"a": 1, "b": 2, "c": 3, "new": None}
    assert cell(table, model="a")["macro_average"] == 0.9
    why = "new is not ranked: it fits no benchmark (4 of the 10 compared instances)."
    assert why in notes(table)
    two = shown(tmp_path, "overall", models=["a", "new"])
    assert {r["model"]: r["rank"] for r in two.rows} == {"a": 1, "new": 1}  # on the four of both


def test_a_short_run_on_one_benchmark_leaves_that_one_out(tmp_path: Path) -> None:
    names = ["b0", "b1", "b2"]
    write(tmp_path, {b: {"a": rate(9, 10), "b": rate(6, 10), "c": rate(2, 10)} for b in names})
    for b, n in zip(names, (10, 10, 3), strict=True):
        write_run(tmp_path, b, "d", items(rate(3 if n == 3 else 7, n)))
    table = shown(tmp_path, "overall")
    assert {r["model"]: r["rank"] for r in table.rows} == {"a": 1, "d": 2, "b": 3, "c": 4}
    assert cell(table, model="a")["benchmarks"] == 2
    assert "(d: 3 of the 10" in notes(table)


@pytest.mark.parametrize(("has", "is_ranked"), [(5, True), (4, False)])
def test_a_model_with_half_of_the_benchmarks_is_ranked_on_those(
    tmp_path: Path, has: int, is_ranked: bool
) -> None:
    names = [f"b{i}" for i in range(10)]
    write(tmp_path, {b: {m: rate(5, 8) for m in "abc"} for b in names})
    write(tmp_path, {b: {"d": rate(6, 8)} for b in names[:has]})
    table = shown(tmp_path, "overall")
    assert cell(table, model="d")["ranked"] == is_ranked
    assert cell(table, model="a")["benchmarks"] == (5 if is_ranked else 10)


def test_without_a_common_benchmark_nothing_is_ranked(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": rate(1, 2)}, "y": {"b": rate(1, 2)}})
    results = load_results(tmp_path)
    overall = results.typed("overall", FEW)
    assert all(r["rank"] is None and r["macro_average"] is None for r in overall.rows)
    assert "No benchmark is common" in notes(overall) and "--model" in notes(overall)
    assert len(results.typed("benchmarks", FEW).rows) == 4
    assert results.typed("categories", FEW).rows == ()


def test_runs_without_a_common_instance_are_not_compared(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", [Item(id=f"a{i}", value=1.0) for i in range(4)])
    write_run(tmp_path, "x", "b", [Item(id=f"b{i}", value=0.0) for i in range(4)])
    results = load_results(tmp_path)
    table = results.typed("benchmarks", FEW)
    assert [r["score"] for r in table.rows] == [1.0, 0.0]
    overall = results.typed("overall", FEW)
    assert all(r["rank"] is None for r in overall.rows)
    assert "no instance in common" in notes(overall)


def test_a_broken_endpoint_does_not_empty_the_tables(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": rate(3, 4), "b": rate(1, 4), "down": [None] * 4}})
    results = load_results(tmp_path)
    overall = results.typed("overall", FEW)
    assert [(r["model"], r["rank"]) for r in overall.rows] == [("a", 1), ("b", 2), ("down", None)]
    assert "down is not ranked" in notes(overall)
    down = cell(results.typed("benchmarks", FEW), model="down")
    assert down["score"] is None and down["worst_case"] == 0 and down["share_error"] == 1


def test_models_that_read_the_gold_are_shown_below_and_count_nowhere(tmp_path: Path) -> None:
    values = {"a": rate(3, 5), "b": rate(2, 5)}
    write(tmp_path / "without", {"x": values})
    gold = {"baseline/oracle": rate(4, 4), "baseline/majority": rate(2, 5)}
    write(tmp_path / "with", {"x": {**values, **gold}})
    plain = shown(tmp_path / "without", "overall")
    table = shown(tmp_path / "with", "overall")
    names = ("rank", "win_rate", "win_rate_literal", "win_sd", "macro_average", "macro_low")
    for model in "ab":
        one, two = cell(plain, model=model), cell(table, model=model)
        assert [one[n] for n in names] == [two[n] for n in names]
    assert [r["model"] for r in table.rows[2:]] == ["baseline/oracle", "baseline/majority"]
    oracle = cell(table, model="baseline/oracle")
    assert oracle["rank"] is None and not oracle["ranked"] and oracle["macro_average"] == 1
    assert "gold: baseline/majority, baseline/oracle" in notes(table)


def test_a_served_model_may_bear_any_name(tmp_path: Path) -> None:
    write_run(tmp_path, "x", ModelSpec(name="baseline/oracle", provider="openai"), items([1.0]))
    assert shown(tmp_path, "overall").rows[0]["ranked"]


def test_outcomes_are_kept_apart_and_add_up(tmp_path: Path) -> None:
    rows = items([1.0, 0.0, 0.0, 0.0, 0.0])
    for row, outcome in zip(rows[1:], ("unparsed", "empty", "refused", "truncated"), strict=True):
        row.outcome = outcome
    for i, outcome in enumerate(("oversize", "error", "unscored")):
        rows.append(Item(id=f"j{i}", value=None, outcome=outcome))
    write_run(tmp_path, "x", "a", rows, planned=10)
    row = shown(tmp_path).rows[0]
    assert (row["planned"], row["counted"], row["scored"]) == (10, 5, 1)
    shares = [v for k, v in row.items() if k.startswith("share_")]
    assert shares == pytest.approx([0.1] * 8 + [0, 0.2]) and sum(shares) == pytest.approx(1)  # type: ignore[arg-type]
    assert row["flags"] == "coverage cut partial" and row["worst_case"] == pytest.approx(0.1)
    assert (row["cut"], row["cut_share"]) == (0, 0.1)
    assert "2 not run" in str(row["not_scored"]) and "1 refused" in str(row["not_scored"])


def test_uninformative_golds_lower_no_coverage_and_hide_no_missing_row(tmp_path: Path) -> None:
    """Ten rows are planned: 3 of 5 golds say nothing, 1 is right, 1 failed, 5 were never asked. So of
    7 that can be scored 1 is: coverage 1/7, 5/7 not run, at worst 1/7."""
    rows = items([1.0, None])
    rows += [Item(id=f"u{i}", value=None, outcome="uninformative") for i in range(3)]
    write_run(tmp_path, "x", "a", rows, planned=10)
    row = shown(tmp_path).rows[0]
    assert (row["planned"], row["counted"], row["coverage"]) == (7, 1, pytest.approx(1 / 7))
    assert row["share_not_run"] == pytest.approx(5 / 7) and row["share_uninformative"] == 0.3
    assert row["worst_case"] == pytest.approx(1 / 7)
    assert "5 not run" in str(row["not_scored"]) and "3 uninformative" in str(row["not_scored"])


def test_worst_case_of_a_lower_is_better_metric_is_its_maximum(tmp_path: Path) -> None:
    harm = metric(minimum=0.0, maximum=25.0, higher_is_better=False)
    write_run(tmp_path, "x", "a", items([5.0, 5.0, 5.0, None]), metrics=[harm])
    assert shown(tmp_path).rows[0]["worst_case"] == 10


# Repeats, clusters, aggregates that are not a mean


def test_repeats_are_averaged_per_instance_first(tmp_path: Path) -> None:
    rows = [
        Item(id=f"i{i}", value=v, repeat=k)
        for i, pair in enumerate([(1, 1), (1, 0), (0, 0), (1, 0)])
        for k, v in enumerate(map(float, pair))
    ]
    write_run(tmp_path, "x", "a", rows, repeats=2, planned=4)
    row = shown(tmp_path).rows[0]
    assert (row["n"], row["planned"], row["coverage"]) == (4, 8, 1)
    assert row["score"] == 0.5
    assert row["standard_error"] == pytest.approx(np.std([1, 0.5, 0, 0.5], ddof=1) / 2)
    assert row["worst_of_repeats"] == 0.25
    assert row["repeat_sd"] == pytest.approx(np.std([1, 0], ddof=1) / 2)


def test_a_lost_repeat_is_missing_but_its_instance_counts(tmp_path: Path) -> None:
    rows = [
        Item(id="i0", value=1.0),
        Item(id="i0", value=None, outcome="error", repeat=1),
        Item(id="i1", value=0.0),
        Item(id="i1", value=0.0, repeat=1),
    ]
    write_run(tmp_path, "x", "a", rows, repeats=2, planned=2)
    row = shown(tmp_path).rows[0]
    assert row["score"] == 0.5 and row["coverage"] == 0.75 and row["worst_case"] == 0.25


def test_clusters_widen_the_interval_and_the_design_effect_says_how_much(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = []
    for c in range(100):
        value = rng.random()
        rows += [Item(id=f"{c}-{i}", value=value, cluster=f"note {c}") for i in range(4)]
    write_run(tmp_path / "clustered", "x", "a", rows)
    for row in rows:
        row.cluster = None
    write_run(tmp_path / "plain", "x", "a", rows)
    wide, narrow = (shown(tmp_path / d).rows[0] for d in ("clustered", "plain"))
    assert wide["score"] == pytest.approx(narrow["score"])
    assert (wide["n"], wide["clusters"], narrow["clusters"]) == (400, 100, 400)
    # four equal values a cluster: the variance is four times as large, but for n - 1 and C - 1
    assert wide["design_effect"] == pytest.approx(4 * 399 / (4 * 99) / 1.0, rel=1e-6)
    assert narrow["design_effect"] is None
    width = wide["high"] - wide["low"], narrow["high"] - narrow["low"]  # type: ignore[operator]
    assert width[0] / width[1] == pytest.approx(2, rel=0.2)


def test_a_cluster_key_never_meets_an_instance_id(tmp_path: Path) -> None:
    rows = [Item(id="n1", value=1.0), Item(id="n2", value=0.5, cluster="n1")]
    write_run(tmp_path, "x", "a", rows)
    assert shown(tmp_path).rows[0]["clusters"] == 2


def test_micro_f1_pools_counts(tmp_path: Path) -> None:
    f1 = metric(name="micro_f1", aggregation="micro_f1")
    counts = [(8, 0, 2), (0, 1, 1), (1, 0, 0)]
    rows = [
        Item(id=f"i{i}", value=2 * tp / (2 * tp + fp + fn), stats=(tp, fp, fn))
        for i, (tp, fp, fn) in enumerate(counts)
    ]
    write_run(tmp_path, "x", "a", rows, metrics=[f1])
    row = shown(tmp_path).rows[0]
    assert row["score"] == pytest.approx(18 / 22)  # the mean of the three F1 would be 0.63
    assert row["worst_case"] is None and row["standard_error"] is not None
    assert row["low"] < row["score"] < row["high"]  # type: ignore[operator]


def test_an_aggregate_of_nothing_is_missing(tmp_path: Path) -> None:
    f1 = metric(name="micro_f1", aggregation="micro_f1")
    for model in "ab":
        rows = [Item(id=f"i{i}", value=0.0, stats=(0, 0, 0)) for i in range(3)]
        write_run(tmp_path, "x", model, rows, metrics=[f1])
    results = load_results(tmp_path)
    assert results.typed("benchmarks", FEW).rows[0]["score"] is None
    overall = results.typed("overall", FEW)
    assert "score undefined" in notes(overall) and overall.rows[0]["rank"] is None


def test_secondary_metrics_are_shown_on_request(tmp_path: Path) -> None:
    second = metric(name="rouge_l")
    rows = items(rate(3, 4)) + items([0.2, 0.4, 0.6, 0.8], metric="rouge_l")
    write_run(tmp_path, "x", "a", rows, metrics=[EXACT, second])
    results = load_results(tmp_path)
    assert len(results.typed("benchmarks", FEW).rows) == 1
    table = results.typed("benchmarks", FEW, metrics="all")
    assert [(r["metric"], r["is_main"]) for r in table.rows] == [
        ("exact_match", True),
        ("rouge_l", False),
    ]
    assert table.rows[1]["score"] == pytest.approx(0.5)
    with pytest.raises(UsageError, match="main or all"):
        results.typed("benchmarks", FEW, metrics="some")  # type: ignore[arg-type]


def test_small_rates_name_wilson(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": rate(8, 8)}})
    table = shown(tmp_path)
    row = table.rows[0]
    assert row["interval_method"] == "wilson" and "wilson" in notes(table)
    assert (row["low"], row["high"]) == pytest.approx(wilson(1.0, 8, 0.95))


# Order and seeds


def test_order_of_rows_and_of_writing_changes_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    cells = {
        (b, m): [
            Item(id=f"i{i}", value=rng.random(), cluster=f"c{i % 7}" if b == "y" else None)
            for i in range(30)
        ]
        for b, m in itertools.product("xy", "abc")
    }
    texts = []
    for turn in range(3):
        names = list(cells)
        random.Random(turn).shuffle(names)
        for name in names:
            random.Random(turn).shuffle(cells[name])
            write_run(tmp_path / str(turn), *name, cells[name])
        results = load_results(tmp_path / str(turn))
        tables = [results.typed(n, FEW) for n in ("overall", "benchmarks", "categories", "mde")]
        texts.append(to_json(*tables, results.comparison("a", "b", FEW)))
    assert texts[0] == texts[1] == texts[2]


def test_the_bootstrap_seed_moves_intervals_only(tmp_path: Path) -> None:
    rng = random.Random(6)
    write(tmp_path, {"x": {m: [rng.random() for _ in range(50)] for m in "ab"}})
    results = load_results(tmp_path)
    one, two = (
        results.typed("benchmarks", Settings(draws=200, bootstrap_seed=s)).rows[0] for s in (1, 2)
    )
    assert one["score"] == two["score"] and one["low"] != two["low"]
    again = load_results(tmp_path).typed("benchmarks", Settings(draws=200, bootstrap_seed=1))
    assert again.rows[0] == one


def test_draws_of_one_benchmark_do_not_depend_on_the_others(tmp_path: Path) -> None:
    rng = random.Random(7)
    values = [rng.random() for _ in range(40)]
    write(tmp_path / "one", {"x": {"a": values}})
    write(tmp_path / "two", {"x": {"a": values}, "w": {"a": values}})
    one, two = (cell(shown(tmp_path / d), benchmark="x") for d in ("one", "two"))
    assert (one["low"], one["high"]) == (two["low"], two["high"])


BAD = ("draws", 0), ("confidence", 1.0), ("bootstrap_seed", -1), ("rank_by", "x"), ("mde", "x")


def test_settings_are_checked() -> None:
    for name, value in BAD:
        with pytest.raises(UsageError):
            Settings(**{name: value})


# Runs that do not fit together


MIXED: dict[str, dict[str, Any]] = {
    "benchmark version: 1 and 2": {"benchmark_version": "2"},
    "split: test and validation": {"split": "validation"},
    "data set": {"dataset_sha256": "f" * 64},
    "prompt: multiple_choice version 1 and": {"prompt_version": "2"},
    "prompt (sha256)": {"prompt_sha256": "q" * 64},
    "main metric: exact_match and medcalc": {"metrics": [metric(name="medcalc")]},
} | {
    f"metric exact_match{' ' * i}": {"metrics": [metric(**change)]}
    for i, change in enumerate(
        ({"version": "2"}, {"floor": 0.2}, {"maximum": 2.0}, {"aggregation": "micro_f1"})
    )
}
"""What two runs differ in, by words of the refusal."""


@pytest.mark.parametrize("says", MIXED)
def test_mixed_runs_are_refused_by_name(tmp_path: Path, says: str) -> None:
    write_run(tmp_path, "x", "a", items([1.0]))
    other = write_run(tmp_path, "x", "b", items([1.0]), **MIXED[says])
    with pytest.raises(UsageError) as e:
        load_results(tmp_path)
    text = str(e.value)
    assert says.strip() in text and "\n" not in text
    assert "medhelm score" in text if says.startswith("metric") else "medhelm " in text
    assert other.relative_to(tmp_path).as_posix() in text and "a (runs/x/a/" in text


def test_other_benchmarks_may_have_other_versions(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items([1.0]))
    write_run(tmp_path, "y", "a", items([1.0]), benchmark_version="7", prompt_version="3")
    assert len(shown(tmp_path, "overall").rows) == 1


def test_baselines_see_no_prompt_and_system_prompts_are_noted(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items([1.0]))
    write_run(tmp_path, "x", "baseline/random", items([1.0]), prompt_sha256="q" * 64)
    own = ModelSpec(name="b", system_prompt="think first")
    write_run(tmp_path, "x", own, items([1.0]), prompt_sha256="r" * 64)
    assert "their own: b" in notes(shown(tmp_path, "overall"))


def test_several_runs_of_a_cell_need_latest(tmp_path: Path) -> None:
    new = {"graded_at": "2026-02-01T00:00:00Z"}
    write_run(tmp_path, "x", "a", items([1.0]), seed=1, provenance=new)
    write_run(
        tmp_path, "x", "a", items([0.0]), seed=2, provenance={"graded_at": "2026-01-01T00:00:00Z"}
    )
    with pytest.raises(UsageError, match="a has 2 .*runs/x/a/.*--latest"):
        load_results(tmp_path)
    table = shown(tmp_path, latest=True)
    assert table.rows[0]["score"] == 1.0
    assert "1 older run" in notes(table)


def test_a_run_that_was_graded_again_under_another_name_is_one_model(tmp_path: Path) -> None:
    """The fault: one run stood in the table twice, as two models with two gradings."""
    first = {"graded_at": "2026-01-01T00:00:00Z"}
    again = {"graded_at": "2026-01-02T00:00:00Z"}
    f1 = metric(name="other")
    new = write_run(tmp_path, "x", "renamed", items([1.0]), provenance=again)
    old = write_run(tmp_path, "x", "a", items([0.0]), metrics=[metric(), f1], provenance=first)
    shutil.move(new, old.parent)
    shutil.rmtree(tmp_path / "runs" / "x" / "renamed")
    (row,) = shown(tmp_path).rows
    assert (row["model"], row["score"]) == ("renamed", 1.0)
    assert [r["model"] for r in shown(tmp_path, "overall").rows] == ["renamed"]


def test_full_runs_push_samples_out_and_say_so(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items(rate(1, 4)))
    write_run(tmp_path, "x", "a", items(rate(2, 2)), data="sample")
    write_run(tmp_path, "y", "a", items(rate(2, 2)), data="sample")
    table = shown(tmp_path)
    assert [r["benchmark"] for r in table.rows] == ["x"] and table.rows[0]["score"] == 0.25
    assert "2 runs on bundled" in notes(table)
    sample = shown(tmp_path, data="sample")
    assert [r["score"] for r in sample.rows] == [1, 1]
    assert "synthetic" in notes(sample) and sample.settings["data"] == "sample"


def test_data_that_is_not_there_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items([1.0]), data="sample")
    assert shown(tmp_path, "overall").settings["data"] == "sample"
    with pytest.raises(UsageError, match="data=full"):
        load_results(tmp_path, data="full")


def test_scoring_chooses_gradings(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items(rate(3, 4)))
    write_run(tmp_path, "x", "a", items(rate(1, 4)), metrics=[metric(scoring="helm")])
    fixed, helm = (shown(tmp_path, scoring=s) for s in ("fixed", "helm"))
    assert fixed.rows[0]["score"] == 0.75 and helm.rows[0]["score"] == 0.25
    assert helm.settings["scoring"] == "helm" and "faults included" in notes(helm)
    write_run(tmp_path / "new", "x", "a", items([1.0]))
    with pytest.raises(UsageError, match=r"scoring=helm \(found: fixed\)"):
        load_results(tmp_path / "new", scoring="helm")


# Flags


def test_conditions_that_differ_are_flagged(tmp_path: Path) -> None:
    own = ModelSpec(name="a", max_output_tokens=64)
    usage = UsageTotals(requests=4, input_tokens=10, unknown=1)
    served = {"m-1": 3, "m-2": 1}
    write_run(tmp_path, "x", own, items(rate(3, 4)), usage=usage, served=served)
    table = shown(tmp_path)
    assert table.rows[0]["flags"] == "budget drift usage"
    for word in ("output budget", "more than one model id", "usage of some requests"):
        assert word in notes(table)


# Categories


def test_category_means_by_hand(tmp_path: Path) -> None:
    jury = metric(name="jury", minimum=1.0, maximum=5.0, floor=1.0)
    for model, likert in (("a", 4.0), ("b", 2.0)):
        write_run(tmp_path, "x", model, items(rate(6, 10)), category="one", subcategory="p")
        home = {"category": "one", "subcategory": "q"}
        write_run(tmp_path, "y", model, items([likert] * 5), metrics=[jury], **home)
        write_run(tmp_path, "z", model, items(rate(1, 10)), category="two", subcategory="r")
    table = shown(tmp_path, "categories")
    one = cell(table, level="category", category="one", model="a")
    assert one["mean"] == pytest.approx((0.6 + 0.75) / 2) and one["benchmarks"] == 2
    assert one["sd"] == pytest.approx(np.std([0.6, 0.75], ddof=1))
    assert cell(table, subcategory="q", model="b")["mean"] == pytest.approx(0.25)
    assert cell(table, level="category", category="two", model="b")["mean"] == pytest.approx(0.1)
    assert len(table.rows) == 2 * (2 + 3)


# MDE


def test_mde_by_hand(tmp_path: Path) -> None:
    values = {"a": [1.0, 0, 1, 0, 1, 1], "b": [1.0, 1, 0, 0, 1, 0], "c": [0.0, 0, 0, 0, 1, 0]}
    write(tmp_path, {"x": values, "y": {"a": [1.0, 0.0]}})
    table = shown(tmp_path, "mde", benchmarks=["x"])
    row = table.rows[0]
    gaps = [np.array(values[p]) - np.array(values[q]) for p, q in ("ab", "ac", "bc")]
    each = [(1.959964 + 0.841621) * g.std(ddof=1) / np.sqrt(6) for g in gaps]
    assert row["mde"] == pytest.approx(np.mean(each), rel=1e-6)
    assert row["mde_sd"] == pytest.approx(np.std(each, ddof=1), rel=1e-6)
    assert row["mde_median"] == pytest.approx(np.median(each), rel=1e-6)
    assert (row["n"], row["pairs"], row["mde_clustered"]) == (6, 3, None)
    # The means are 4/6, 3/6 and 1/6.
    assert row["observed_median"] == pytest.approx(2 / 6)
    assert row["observed_largest"] == pytest.approx(3 / 6)
    assert row["pairs_above"] == sum(d >= np.mean(each) for d in (1 / 6, 3 / 6, 2 / 6))
    # The spread over pairs is the authors', on their scale.
    paper = shown(tmp_path, "mde", Settings(draws=50, mde="paper"), benchmarks=["x"])
    each = [2.80 * g.std() / np.sqrt(6) for g in gaps]
    assert paper.rows[0]["mde_sd"] == pytest.approx(np.std(each, ddof=0))
    assert paper.settings["mde_sd_ddof"] == 0


def test_an_mde_is_never_more_than_a_score_can_differ(tmp_path: Path) -> None:
    # differences 1 and -1: SD sqrt(2), error 1, so that 2.80 would be needed where 1 is the most
    for benchmark, scores in (("x", [1.0, 0.0]), ("y", [1.0, 0.0] * 20)):
        write_run(tmp_path, benchmark, "openai/a", items(scores))
        write_run(tmp_path, benchmark, "openai/b", items([1 - s for s in scores]))
    for scale in ("range", "paper"):
        table = load_results(tmp_path).typed("mde", Settings(draws=50, mde=scale))
        x, y = cell(table, benchmark="x"), cell(table, benchmark="y")
        shown = [x[name] for name in ("mde", "mde_sd", "mde_median")]
        assert shown == [None, None, None] and x["is_beyond_range"] and x["pairs"] == 1
        assert x["pairs_above"] == 0
        assert 0.4 < y["mde"] < 0.5 and not y["is_beyond_range"]
        assert [n for n in table.notes if n.startswith("The MDE is more than the range on x:")]
        assert not any("No MDE" in note for note in table.notes)


def test_the_papers_mde_by_hand(tmp_path: Path) -> None:
    jury = metric(name="jury", minimum=1.0, maximum=5.0, floor=1.0)
    one, two = [5.0, 4.0, 3.0, 5.0], [4.0, 4.0, 1.0, 5.0]
    for benchmark, kind, scale in (("judged", jury, 1.0), ("rate", EXACT, 0.2)):
        for model, values in (("a", one), ("b", two)):
            own = items([scale * v if scale < 1 else v for v in values])
            write_run(tmp_path, benchmark, model, own, metrics=[kind])
    gap = np.array(one) - np.array(two)
    results = load_results(tmp_path)
    paper = results.typed("mde", Settings(draws=50, mde="paper"))
    wanted = 2.80 * (gap / 5).std(ddof=0) / np.sqrt(4)
    for row in paper.rows:
        assert row["mde"] == pytest.approx(wanted) and row["observed_median"] == pytest.approx(0.15)
    assert "score / maximum" in notes(paper) and paper.settings["mde_scale"] == "paper"
    ours = results.typed("mde", FEW)
    factor = 1.959964 + 0.841621
    assert cell(ours, benchmark="judged")["mde"] == pytest.approx(
        factor * (gap / 4).std(ddof=1) / np.sqrt(4), rel=1e-6
    )
    assert "--mde paper (judged)" in notes(ours)


def test_equal_differences_are_no_power(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": [1.0, 1, 1, 1], "b": [0.0, 0, 0, 0], "c": [0.0, 0, 0, 0]}})
    table = shown(tmp_path, "mde")
    (row,) = table.rows
    assert (row["pairs"], row["mde"], row["mde_median"], row["pairs_above"]) == (
        3,
        None,
        None,
        None,
    )
    assert row["observed_largest"] == 1.0
    assert any(note.startswith("No MDE on x: the ranked models differ by") for note in table.notes)


def test_mde_of_clusters_and_of_pooled_metrics(tmp_path: Path) -> None:
    rng = random.Random(9)
    f1 = metric(name="micro_f1", aggregation="micro_f1")
    for model in "ab":
        shared = [rng.random() for _ in range(50)]
        rows = [Item(id=f"i{i}", value=shared[i // 4], cluster=f"c{i // 4}") for i in range(200)]
        write_run(tmp_path, "x", model, rows)
        counts = [(rng.randint(0, 5), rng.randint(0, 3), rng.randint(1, 3)) for _ in range(80)]
        rows = [Item(id=f"i{i}", value=0.5, stats=c) for i, c in enumerate(counts)]
        write_run(tmp_path, "y", model, rows, metrics=[f1])
    table = shown(tmp_path, "mde")
    x, y = table.rows
    assert x["mde_clustered"] == pytest.approx(2 * x["mde"], rel=0.02)  # type: ignore[operator]
    assert y["method"] == "bootstrap" and 0.02 < y["mde"] < 0.3  # type: ignore[operator]


# Cost


def priced(name: str, price: Price | None) -> ModelSpec:
    return ModelSpec(name=name, price=price)


def test_cost_by_hand(tmp_path: Path) -> None:
    usage = UsageTotals(
        requests=10,
        input_tokens=1_000_000,
        cached_tokens=400_000,
        output_tokens=50_000,
        reasoning_tokens=20_000,
        output_limit_tokens=200_000,
    )
    price = Price(input=3.0, output=15.0, cached=0.3, date="2025-05-12")
    for benchmark in "xy":
        write_run(tmp_path, benchmark, priced("a", price), items([1.0]), usage=usage)
        write_run(tmp_path, benchmark, priced("b", None), items([1.0]), usage=usage)
    results = load_results(tmp_path)
    a, b, every = results.typed("cost", FEW).rows
    one = 0.6 * 3 + 0.4 * 0.3 + 0.05 * 15
    assert a["cost_usd"] == pytest.approx(2 * one)
    assert a["cost_upper_usd"] == pytest.approx(2 * (3 + 0.2 * 15))
    assert a["runs"] == 2 and a["reasoning_tokens"] == 40_000 and a["price_date"] == "2025-05-12"
    assert b["cost_usd"] is None and b["cost_upper_usd"] is None and b["input_tokens"] == 2_000_000
    assert (every["level"], every["model"], every["cost_usd"]) == ("all", None, None)
    assert every["input_tokens"] == 4_000_000 and every["runs"] == 4
    overall = results.typed("overall", FEW)
    assert cell(overall, model="a")["cost_usd"] == pytest.approx(2 * one)
    assert cell(overall, model="b")["cost_usd"] is None


def test_unknown_usage_is_counted_and_total_ignorance_is_no_cost(tmp_path: Path) -> None:
    price = Price(input=1.0, output=1.0, date="2025-05-12")
    for name, unknown in (("some", 1), ("all", 4)):
        usage = UsageTotals(requests=4, input_tokens=1_000_000, unknown=unknown)
        write_run(tmp_path, "x", priced(name, price), items([1.0]), usage=usage)
    table = shown(tmp_path, "cost")
    assert cell(table, model="all")["cost_usd"] is None
    assert cell(table, model="some")["cost_usd"] == 1.0
    assert cell(table, model="some")["usage_unknown"] == 1


def test_upper_bound_agrees_with_the_papers_table_3(tmp_path: Path) -> None:
    # GPT-4o and its mini were asked the same 248,731,118 tokens; the paper does not split them
    # into input and output, but the dearer one's cost does: x + y = tokens, 2.5x + 10y = cost.
    # The split must then give the published cost of the mini, to the cent that rounding leaves.
    tokens, cost = 248_731_118, 647.28e6
    output = round((cost - 2.5 * tokens) / 7.5)
    usage = UsageTotals(requests=1, input_tokens=tokens - output, output_limit_tokens=output)
    folder = write_run(
        tmp_path,
        "x",
        priced("mini", Price(input=0.15, output=0.60, date="2025-05-12")),
        items([1.0]),
        usage=usage,
    )
    from medhelm.store.records import read_record

    assert spend(read_record(folder)).upper == pytest.approx(38.83, abs=0.01)


# Slices


def sliced(results: Path) -> Results:
    for model, values in (("a", [1.0, 1.0, 0.0, 0.0]), ("b", [1.0, 0.0, 0.0, 1.0])):
        rows = items(values)
        for row, specialty in zip(rows, ("surgery", "surgery", "nursing", None), strict=True):
            row.metadata = {"specialty": specialty} if specialty else {"year": "2016"}
        write_run(results, "x", model, rows)
    write_run(results, "y", "a", items([1.0]))
    write_run(results, "y", "b", items([1.0]))
    return load_results(results)


def test_slices_by_hand(tmp_path: Path) -> None:
    table = sliced(tmp_path).typed("slices", Settings(min_group=1), by="specialty")
    found = {(r["value"], r["model"]): (r["score"], r["n"]) for r in table.rows}
    assert found == {
        ("surgery", "a"): (1.0, 2),
        ("surgery", "b"): (0.5, 2),
        ("nursing", "a"): (0.0, 1),
        ("nursing", "b"): (0.0, 1),
        (None, "a"): (0.0, 1),
        (None, "b"): (1.0, 1),
    }
    assert cell(table, value="surgery", model="a")["share"] == 0.5
    assert "key specialty: y" in notes(table)


def test_slices_need_a_known_key(tmp_path: Path) -> None:
    results = sliced(tmp_path)
    with pytest.raises(UsageError, match="--by KEY; .*specialty, year"):
        results.typed("slices", FEW)
    with pytest.raises(UnknownName, match="did you mean 'specialty'"):
        results.typed("slices", FEW, by="speciality")


def test_models_that_are_not_ranked_are_compared_on_their_common_cases(tmp_path: Path) -> None:
    """Both read the gold. One was asked cases 0 to 7, the other 4 to 11."""
    for model, first, values in (
        ("baseline/oracle", 0, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
        ("baseline/majority", 4, [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    ):
        tags = {"specialty": "surgery"}
        rows = [Item(id=f"i{first + i:02d}", value=v, metadata=tags) for i, v in enumerate(values)]
        write_run(tmp_path, "x", model, rows)
    results = load_results(tmp_path)
    for table in (
        results.typed("benchmarks", FEW),
        results.typed("slices", Settings(min_group=1), by="specialty"),
    ):
        found = {r["model"]: (r["score"], r["n"]) for r in table.rows}
        assert found == {"baseline/oracle": (1.0, 4), "baseline/majority": (0.25, 4)}
    said = notes(results.typed("overall", FEW))
    assert "4 of up to" in said and "No model is ranked" in said
    write_run(tmp_path, "y", "baseline/oracle", [Item(id="a", value=1.0)])
    write_run(tmp_path, "y", "baseline/majority", [Item(id="b", value=0.0)])
    assert "y none, each" in notes(shown(tmp_path, "overall"))


# One number, one interval


@pytest.mark.parametrize("is_better", [True, False])
def test_over_one_benchmark_the_interval_is_its_own(tmp_path: Path, is_better: bool) -> None:
    harm = metric(name="harm", higher_is_better=is_better)
    for model, top in (("a", 9), ("b", 4)):
        write_run(tmp_path, "x", model, items([1.0] * top + [0.0] * (12 - top)), metrics=[harm])
    results = load_results(tmp_path)
    own = cell(results.typed("benchmarks", FEW), model="a")
    ends = sorted(v if is_better else 1 - v for v in (own["low"], own["high"]))
    assert own["interval_method"] == "wilson"
    categories = results.typed("categories", FEW)
    for level in ("category", "subcategory"):
        row = cell(categories, model="a", level=level)
        assert [row["low"], row["high"]] == pytest.approx(ends)
    macro = cell(results.typed("overall", FEW), model="a")
    assert [macro["macro_low"], macro["macro_high"]] == pytest.approx(ends)
    assert "benchmark its own" in notes(categories)
    one, over_all = results.comparison("a", "b", FEW).rows
    for name in ("low", "high", "standard_error", "p", "test", "interval_method"):
        assert one[name] == over_all[name]
