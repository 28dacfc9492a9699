"""Reading results folders, damaged ones included; comparing two models; the two commands."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats

from medhelm.errors import RecordError, UnknownName, UsageError
from medhelm.store.records import Plan, read_record, run_path, write_struct
from medhelm.tables.format.table import Document
from medhelm.tables.known_tables import find_tables
from medhelm.tables.loading import load_gradings, load_results
from medhelm.tables.results import Results
from tests.build_runs import EXACT, Item, items, write_run, write_suite
from tests.shell import Shell
from tests.tables.shown import FEW, cell, notes, put_columns, rate, shown, write

# Reading


@pytest.mark.slow
def test_a_suite_gives_every_table(tmp_path: Path) -> None:
    write_suite(tmp_path, models=3, benchmarks=5, instances=40)
    results = load_results(tmp_path)
    sizes = {name: len(table.rows) for name, table in results.tables.items() if table.rows}
    assert sizes == {
        "overall": 3,
        "benchmarks": 15,
        "categories": 30,
        "mde": 5,
        "cost": 4,
        "pairs": 3,
        "ranks": 9,
        "exposure": 15,
    }
    assert len(results.typed("slices", by="difficulty").rows) == 30
    frame = results.table("overall")
    assert list(frame["model"]) == [r["model"] for r in results.typed("overall").rows]
    assert frame["win_rate"].between(0, 1).all() and frame.attrs["settings"]["draws"] == 1000


def test_an_empty_folder_says_what_to_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match="`medhelm run results_dir="):
            load_results(folder)


def test_unknown_tables_benchmarks_and_models_name_the_nearest(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "openai/gpt-4o", items([1.0]))
    with pytest.raises(UnknownName, match="'overall'.*: overall, benchm"):
        load_results(tmp_path).typed("overal")
    with pytest.raises(UnknownName, match="did you mean 'headqa'"):
        load_results(tmp_path, benchmarks=["head_qa"])
    with pytest.raises(UnknownName, match="did you mean 'openai/gpt-4o'"):
        load_results(tmp_path, models=["openai/gpt4o"])


def test_filters_take_what_is_named(tmp_path: Path) -> None:
    for benchmark in "xy":
        for model in "abc":
            write_run(tmp_path, benchmark, model, items(rate(1, 2)))
    table = shown(tmp_path, benchmarks=["x"], models=["a", "c"])
    assert [(r["benchmark"], r["model"]) for r in table.rows] == [("x", "a"), ("x", "c")]


def test_every_cell_leads_to_its_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "x", "org/a", items([1.0]))
    row = shown(tmp_path).rows[0]
    assert (tmp_path / str(row["run"])).samefile(folder)
    assert str(row["run"]).endswith(f"{row['request_hash']}/gradings/{row['grading_hash']}")


def test_gradings_can_be_named_one_by_one(tmp_path: Path) -> None:
    helm = msgspec.structs.replace(EXACT, scoring="helm")
    one = write_run(tmp_path, "x", "a", items(rate(1, 4)), metrics=[helm])
    write_run(tmp_path, "x", "a", items(rate(2, 4)))
    row = load_gradings([one]).typed("benchmarks", FEW).rows[0]
    assert row["score"] == 0.25 and (tmp_path / str(row["run"])).samefile(one)
    with pytest.raises(UsageError, match="none is named"):
        load_gradings([])


# Damage


SUMS = {"no sums": (), "one sum": (1.0,), "infinite sums": (float("inf"), 1.0, 1.0)}
CONTENT = {
    "torn summary": ("summary.json", b'{"schema": 1, "spec"'),
    "binary summary": ("summary.json", b"\xff\xfe\x00"),
    "torn scores": ("scores.parquet", b"PAR1 and no more"),
    "empty scores": ("scores.parquet", b""),
}
METRICS: dict[str, dict[str, Any]] = {
    "an empty range": {"maximum": 0.0},
    "an unknown aggregation": {"aggregation": "median"},
}
OTHERS = ("another schema", "no metric", "no scores", "without outcome", "without sums", "twice")
DAMAGE = [*SUMS, *CONTENT, *METRICS, *OTHERS, "out of range"]


def damage(folder: Path, how: str) -> None:
    summary, scores = folder / "summary.json", folder / "scores.parquet"
    raw, table = json.loads(summary.read_bytes()), pq.read_table(scores)
    metrics = raw["grading"]["metrics"]
    if how in CONTENT:
        name, content = CONTENT[how]
        (folder / name).write_bytes(content)
    elif how in SUMS:
        own = [*zip(("tp", "fp", "fn"), SUMS[how], strict=False)]
        put_columns(folder, sums=[own] * len(table))
    elif how == "out of range":
        put_columns(folder, value=[7.0] * len(table))
    elif how == "no scores":
        scores.unlink()
    elif how == "twice":
        pq.write_table(pa.concat_tables([table, table]), scores)
    elif how.startswith("without"):
        pq.write_table(table.drop_columns([how.removeprefix("without ")]), scores)
    else:
        if how == "another schema":
            raw["schema"] = 99
        elif how == "no metric":
            metrics.clear()
        else:
            metrics[0] |= METRICS[how]
        summary.write_text(json.dumps(raw))


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_are_shown(tmp_path: Path, how: str) -> None:
    f1 = msgspec.structs.replace(EXACT, name="micro_f1", aggregation="micro_f1")
    stats = (1.0, 0.0, 0.0) if how in SUMS else None
    rows = [replace(item, stats=stats) for item in items(rate(1, 2))]
    metrics = [f1 if how in SUMS else EXACT]  # of a mean no sums are stored
    write_run(tmp_path, "x", "a", rows, metrics=metrics)
    bad = write_run(tmp_path, "x", "b", rows, metrics=metrics)
    damage(bad, how)
    table = shown(tmp_path, "overall")
    assert [r["model"] for r in table.rows] == ["a"]
    said = [n for n in table.notes if n.startswith("Left out, damaged")]
    assert len(said) == 1 and bad.relative_to(tmp_path).as_posix() in said[0]


@pytest.mark.parametrize("how", ["torn summary", "torn scores"])
def test_nothing_but_damage_is_an_error(tmp_path: Path, how: str) -> None:
    damage(write_run(tmp_path, "x", "a", items([1.0])), how)
    with pytest.raises(UsageError, match=r"runs/x/a/"):
        load_results(tmp_path)


def test_many_damaged_runs_are_counted(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items([1.0]))
    for i in range(9):
        damage(write_run(tmp_path, f"b{i}", "a", items([1.0])), "torn scores")
    assert "and 4 more" in notes(shown(tmp_path, "overall"))


def test_damaged_metadata_is_an_error_of_slices_only(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "x", "a", items(rate(1, 2)))
    put_columns(folder, metadata=["[1]"] * 2)
    results = load_results(tmp_path)
    assert results.typed("overall", FEW).rows
    with pytest.raises(RecordError, match="metadata"):
        results.typed("slices", by="specialty")


# Stored, but not graded


def store(
    results: Path, benchmark: str, model: str, data: Literal["full", "sample"] = "full"
) -> None:
    """Write a run that was asked and never graded."""
    grading = write_run(results / "graded", benchmark, model, items([1.0]), data=data)
    graded = read_record(grading).spec
    asked = msgspec.structs.replace(graded.model, model=model)  # else it is one run of two names
    spec = msgspec.structs.replace(graded, seed=7, model=asked)
    write_struct(
        run_path(results, spec) / "spec.json", Plan(spec=spec, request_hash="h", instances=1)
    )


def test_runs_that_are_not_graded_are_named(tmp_path: Path) -> None:
    for benchmark in ("headqa", "medec"):
        write_run(tmp_path, benchmark, "openai/a", items([1.0, 0.0]))
    write_run(tmp_path, "headqa", "openai/e", items([1.0, 0.0]))
    store(tmp_path, "medec", "openai/e")
    store(tmp_path, "race_bias", "openai/e", data="sample")  # not of these tables
    results = load_results(tmp_path)
    overall = results.typed("overall", FEW)
    assert "medec x openai/e; `medhelm score`" in notes(overall)
    assert "openai/e: not graded" in notes(overall)
    row = cell(results.typed("benchmarks", FEW), benchmark="medec", model="openai/e")
    assert row["status"] == "not graded"
    compared = cell(results.comparison("openai/a", "openai/e", FEW), benchmark="medec")
    assert compared["test"] == "openai/e is not graded"
    for name in ("b", "c", "d", "f", "g", "h"):
        store(tmp_path, "medec", f"openai/{name}")
    said = notes(shown(tmp_path, "overall"))
    assert "openai/f and 2 more" in said
    for chosen in ({"benchmarks": ["headqa"]}, {"models": ["openai/a"]}):
        assert "Not graded" not in notes(shown(tmp_path, "overall", **chosen))


def test_a_grading_of_the_other_scoring_is_none(tmp_path: Path) -> None:
    helm = msgspec.structs.replace(EXACT, scoring="helm")
    write_run(tmp_path, "x", "a", items([1.0, 0.0]), metrics=[helm])
    fixed = write_run(tmp_path, "x", "b", items([1.0, 0.0]))
    spec = read_record(fixed).spec
    write_struct(fixed.parents[1] / "spec.json", Plan(spec=spec, request_hash="h", instances=2))
    said = notes(shown(tmp_path, "overall", scoring="helm"))
    assert "x x b; `medhelm score --scoring" in said


def test_nothing_graded_names_the_command_that_grades(tmp_path: Path) -> None:
    store(tmp_path, "medec", "openai/e")
    with pytest.raises(UsageError, match="medec x openai/e; .*medhelm score"):
        load_results(tmp_path)
    write_run(tmp_path, "x", "a", items([1.0]))
    for named in ({"models": ["openai/e"]}, {"benchmarks": ["medec"]}):
        with pytest.raises(UsageError, match="is graded; .*medhelm score"):
            load_results(tmp_path, **named)  # type: ignore[arg-type]


def test_a_torn_plan_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", items([1.0]))
    store(tmp_path, "medec", "openai/e")
    (torn,) = tmp_path.glob("runs/medec/*/*/spec.json")
    torn.write_text("{")
    assert "runs/medec" in notes(shown(tmp_path, "overall"))


# Comparing two models


A = [1.0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1]
B = [1.0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1]


def test_compare_by_hand(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": A, "b": B}})
    table = load_results(tmp_path).comparison("a", "b")
    row = cell(table, benchmark="x")
    gap = np.array(A) - np.array(B)  # six times only a, once only b
    assert row["difference"] == pytest.approx(5 / 12)
    assert row["p"] == pytest.approx(scipy.stats.binomtest(1, 7, 0.5).pvalue)
    assert row["standard_error"] == pytest.approx(scipy.stats.sem(gap))
    assert row["correlation"] == pytest.approx(np.corrcoef(A, B)[0, 1])
    assert row["low"] < 5 / 12 < row["high"] and row["test"] == "McNemar exact"
    assert (row["score_a"], row["score_b"], row["n"]) == (9 / 12, 4 / 12, 12)


def test_compare_is_antisymmetric(tmp_path: Path) -> None:
    write_suite(tmp_path, models=2, benchmarks=4, instances=30)
    a, b = "provider/model-0", "provider/model-1"
    results = load_results(tmp_path)
    forth, back = results.comparison(a, b, FEW), results.comparison(b, a, FEW)
    for one, two in zip(forth.rows, back.rows, strict=True):
        assert one["difference"] == pytest.approx(-two["difference"])  # type: ignore[operator]
        assert one["score_a"] == two["score_b"] and one["n"] == two["n"]
        for name in ("p", "p_holm", "standard_error", "correlation"):
            assert one[name] == (None if two[name] is None else pytest.approx(two[name]))
        if one["low"] is not None:
            assert one["low"] == pytest.approx(-two["high"])  # type: ignore[operator]


@pytest.mark.slow
def test_permutation_p_agrees_with_scipy(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(14), rng.random(14) * 0.7
    write(tmp_path, {"x": {"a": a.tolist(), "b": b.tolist()}})
    row = cell(load_results(tmp_path).comparison("a", "b", FEW), benchmark="x")
    exact = scipy.stats.permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert row["test"] == "permutation" and row["p"] == pytest.approx(exact.pvalue, abs=0.015)


def test_clustered_rates_are_permuted_by_cluster(tmp_path: Path) -> None:
    # one note decides: 10 instances of one cluster differ; McNemar would call that p = 0.002
    for model, value in (("a", 1.0), ("b", 0.0)):
        rows = [Item(id=f"i{i}", value=value, cluster="n0") for i in range(10)]
        rows += [Item(id=f"j{i}", value=1.0, cluster=f"n{i + 1}") for i in range(10)]
        write_run(tmp_path, "x", model, rows)
    row = cell(load_results(tmp_path).comparison("a", "b", FEW), benchmark="x")
    assert row["test"] == "permutation" and row["p"] == 1.0


def test_holm_is_over_the_compared_benchmarks(tmp_path: Path) -> None:
    for benchmark, wins in (("x", 12), ("y", 9), ("z", 7)):
        write_run(tmp_path, benchmark, "a", items(rate(wins, 12)))
        write_run(tmp_path, benchmark, "b", items(rate(3, 12)))
    table = load_results(tmp_path).comparison("a", "b", FEW)
    # 9, 6 and 4 discordant, all for a: p = 2 / 2^d
    expected = [3 * 2 / 2**9, 2 * 2 / 2**6, 1 * 2 / 2**4]
    assert [r["p_holm"] for r in table.rows[:3]] == pytest.approx(expected)
    overall = cell(table, level="overall")
    assert overall["difference"] == pytest.approx((9 + 6 + 4) / 36)
    assert overall["p"] == pytest.approx(1 / 10_000, abs=2e-4) and overall["p_holm"] is None
    assert "after Holm at 0.05" in notes(table)


def test_only_common_instances_count(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": [None, *rate(100, 199)], "b": [*rate(100, 199), None]}})
    row = cell(load_results(tmp_path).comparison("a", "b", FEW), benchmark="x")
    assert row["n"] == 198 and row["is_compared"]


def test_low_coverage_is_shown_but_not_compared(tmp_path: Path) -> None:
    for benchmark in "xy":
        write_run(tmp_path, benchmark, "a", items(rate(8, 10)))
    write_run(tmp_path, "x", "b", items(rate(2, 10)))
    write_run(tmp_path, "y", "b", items([None, *rate(2, 9)]))
    table = load_results(tmp_path).comparison("a", "b", FEW)
    y = cell(table, benchmark="y")
    assert not y["is_compared"] and y["p"] is not None and y["p_holm"] is None
    assert y["flags"] == "coverage" and (y["coverage_a"], y["coverage_b"]) == (1, 0.9)
    assert cell(table, level="overall")["difference"] == pytest.approx(0.6)
    assert "Not compared: y (coverage)." in table.notes


def test_a_benchmark_of_one_model_is_shown(tmp_path: Path) -> None:
    for benchmark, models in (("x", "ab"), ("y", "a"), ("z", "c")):
        for model in models:
            write_run(tmp_path, benchmark, model, items(rate(1, 2)))
    table = load_results(tmp_path).comparison("a", "b", FEW)
    assert [r["benchmark"] for r in table.rows] == ["x", "y", None]
    y = cell(table, benchmark="y")
    assert y["test"] == "no run of b" and y["difference"] is None and y["run_a"] and not y["run_b"]
    nothing = load_results(tmp_path).comparison("a", "c", FEW)
    assert "on no benchmark" in notes(nothing)


def test_runs_without_a_common_instance_have_no_difference(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "a", [Item(id="one", value=1.0)])
    write_run(tmp_path, "x", "b", [Item(id="two", value=1.0)])
    assert (
        load_results(tmp_path).comparison("a", "b", FEW).rows[0]["test"] == "no instance in common"
    )


def test_equal_answers_have_p_1_and_no_interval(tmp_path: Path) -> None:
    for model in "ab":
        write_run(tmp_path, "x", model, items(rate(3, 9)))
    row = load_results(tmp_path).comparison("a", "b", FEW).rows[0]
    assert row["difference"] == 0 and row["p"] == 1 and row["low"] is None
    assert row["interval_method"] == "none (all draws equal)"


def test_lower_is_better_turns_the_difference(tmp_path: Path) -> None:
    rng = random.Random(0)
    harm = msgspec.structs.replace(EXACT, name="harm", maximum=25.0, higher_is_better=False)
    low, high = [rng.uniform(0, 5) for _ in range(30)], [rng.uniform(10, 25) for _ in range(30)]
    write_run(tmp_path, "x", "a", items(low), metrics=[harm])
    write_run(tmp_path, "x", "b", items(high), metrics=[harm])
    row = load_results(tmp_path).comparison("a", "b", FEW).rows[0]
    assert row["difference"] == pytest.approx((np.mean(high) - np.mean(low)) / 25)
    assert row["low"] > 0 and row["p"] < 0.01  # type: ignore[operator]


def test_a_model_is_not_compared_with_itself_or_a_stranger(tmp_path: Path) -> None:
    write_run(tmp_path, "x", "org/a", items([1.0]))
    results = load_results(tmp_path)
    with pytest.raises(UsageError, match="two different models"):
        results.comparison("org/a", "org/a")
    with pytest.raises(UnknownName, match="did you mean 'org/a'"):
        results.comparison("org/a", "org/aa")


# Commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two models on two benchmarks, which no test changes."""
    results = tmp_path_factory.mktemp("folder") / "results"
    for benchmark in ("x", "y"):
        for model, passed in (("a", 9), ("b", 4)):
            rows = items(rate(passed, 12))
            for row in rows:
                row.metadata = {"specialty": "surgery"}
            write_run(results, benchmark, model, rows)
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", find_tables().specs)
def test_tables_as_json(folder: Path, name: str, shell: Shell) -> None:
    more = ("--by", "specialty") if name == "slices" else ()
    shown = shell.json("tables", "--results-dir", folder, "--table", name, "--draws", 50, *more)
    document = msgspec.convert(shown, Document)
    draws = 10_000 if name == "encounters" else 50  # that table has draws of its own
    assert document.table == name and document.settings["draws"] == draws
    absent = {  # the runs hold none of what these show
        "as_published", "calibration", "controls", "coverage", "encounter_cast",
        "encounter_reliability", "encounters", "gaps", "harm", "jury", "positions",
        "reliability", "robustness",
    }  # fmt: skip
    assert bool(document.rows) == (name not in absent)


def test_options_reach_the_tables(folder: Path, shell: Shell) -> None:
    argv = "--bootstrap-seed 5 --confidence 0.9 --rank-by macro --metrics all"
    own = ("tables", "--results-dir", folder, "--benchmark", "x", "--model", "a")
    overall, benchmarks = shell.json(*own, *argv.split())
    settings = overall["settings"]
    assert (settings["bootstrap_seed"], settings["confidence"]) == (5, 0.9)
    assert settings["rank_by"] == "macro"
    assert [(r["benchmark"], r["model"]) for r in benchmarks["rows"]] == [("x", "a")]


def test_csv_keeps_its_notes_apart(folder: Path, tmp_path: Path, shell: Shell) -> None:
    own = shutil.copytree(folder, tmp_path / "results")
    write_run(own, "z", "a", items([1.0]))
    out = shell("tables", "--results-dir", own, "--table", "benchmarks", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6 and rows[0]["benchmark"] == "x"
    assert "z (b: no run)" in shell.err


SUFFIXES = {
    "x.csv": b"benchmark,",
    "x.json": b"{",
    "x.md": b"### ",
    "x.tex": b"\\begin{table}",
    "X.PARQUET": b"PAR1",
    "x.txt": b"Minimum",
    "x.xlsx": b"PK",
}


@pytest.mark.slow
def test_the_suffix_of_the_file_tells_the_format(
    folder: Path, tmp_path: Path, shell: Shell
) -> None:
    for name, start in SUFFIXES.items():
        out = tmp_path / name
        argv = ("tables", "--results-dir", folder, "--table", "mde", "--out", out)
        shell(*argv)
        assert out.read_bytes().strip().startswith(start)
        shell(*argv, "--format", "json")
        assert out.read_bytes().startswith(b"{")
    shell("compare", "a", "b", "--results-dir", folder, "--out", tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text().startswith("benchmark,")


WRONG = {
    "--out x.ods": "--format with one of terminal, csv",
    "--out tables": "end it in .txt, .csv",
    "--format parquet --table mde": "--out FILE",
    "--format csv": "--table",
    "--columns n,modl": "'modl'; did you mean 'model'",
    "--by specialty": "--table gaps or slices",
    "--metrics all --table mde": "--table benchmarks",
    "--mde paper": "--table mde",
    "--table slices": "--by KEY",
    "--draws 0": "draws",
    "--model c": "unknown model 'c'",
    "--scoring helm": "medhelm score",
}


def test_wrong_options_are_one_line(folder: Path, shell: Shell) -> None:
    for options, says in WRONG.items():
        assert says in shell.error("tables", "--results-dir", folder, *options.split())


def test_a_file_that_cannot_be_written_is_named(folder: Path, tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "file" / "x.txt"
    path.parent.write_text("")
    said = shell.error("tables", "--results-dir", folder, "--out", path, code=4)
    assert "cannot write " in said and "file/x.txt" in said


def test_an_interval_of_a_win_rate_holds_the_rate(tmp_path: Path) -> None:
    # Two equal models: each wins the tie, and in most draws one of them loses it.
    write(tmp_path, {"x": {"a": [1.0, 0.0] * 20, "b": [0.0, 1.0] * 20}})
    for row in load_results(tmp_path).typed("overall").rows:
        assert row["win_rate_literal"] == row["win_literal_high"] == 1.0
        assert row["win_literal_low"] == 0.0
        assert row["win_low"] <= row["win_rate"] == 0.5 <= row["win_high"]  # type: ignore[operator]


def test_a_mean_over_parts_without_one_of_them_is_flagged(tmp_path: Path) -> None:
    of_parts = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
    both = [
        Item(id="a", value=1.0, stats=(1, 1, 0, 0)),
        Item(id="b", value=0.0, stats=(0, 0, 0, 1)),
    ]
    write_run(tmp_path, "x", "whole", both, metrics=[of_parts])
    write_run(tmp_path, "x", "half", both[:1], metrics=[of_parts])
    rows = {r["model"]: r for r in load_results(tmp_path).typed("benchmarks").rows}
    assert "parts" not in str(rows["whole"]["flags"]).split()
    assert "parts" in str(rows["half"]["flags"]).split() and rows["half"]["score_all"] == 1.0


def test_a_model_that_fits_no_benchmark_narrows_no_metric(tmp_path: Path) -> None:
    second = msgspec.structs.replace(EXACT, name="second")
    for model, values in (("a", [1.0, 0.0, 1.0]), ("b", [0.0, 1.0, 1.0]), ("c", [1.0, None, 1.0])):
        both = [*items(values), *items(values, metric="second")]
        write_run(tmp_path, "x", model, both, metrics=[EXACT, second])
    rows = load_results(tmp_path).typed("benchmarks", metrics="all").rows
    assert {(r["metric"], r["n"]) for r in rows if r["model"] != "c"} == {
        ("exact_match", 3),
        ("second", 3),
    }


def test_rows_are_cut_for_a_screen_and_notes_never(tmp_path: Path) -> None:
    for n in range(60):
        write_run(tmp_path, "triage", f"m/{n:02d}", items([1.0, 0.0]))
    results = load_results(tmp_path)
    said = repr(results)
    assert len(said.splitlines()) <= 40
    words = " ".join(said.split())
    assert "of 60 rows" in words and "m/00" in said
    for note in results.table("benchmarks").attrs["notes"]:
        assert " ".join(note.split()) in words


def test_no_results_show_themselves_too() -> None:
    empty = Results([], notes=["old/run: its scores are <damaged>"])
    assert "no graded run" in repr(empty) and "<damaged>" in repr(empty)
    assert "&lt;damaged&gt;" in empty._repr_html_()
