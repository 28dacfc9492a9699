"""Macro-averages and win rates of one suite never hold a benchmark of another."""

from pathlib import Path

import pytest

from medhelm import load_results
from medhelm.config import averaged_apart, packaged_suites
from tests.build_runs import items, write_run

SCORES = {
    "headqa": {"a": [1, 1, 1, 0], "b": [1, 0, 0, 0]},
    "pubmed_qa": {"a": [1, 1, 0, 0], "b": [1, 1, 0, 0]},
    "med_qa": {"a": [0, 0, 0, 0], "b": [1, 1, 1, 1]},
    "own_notes": {"a": [1, 1, 1, 1], "b": [0, 0, 0, 0]},
}


def build(folder: Path, *names: str) -> None:
    for name in names:
        for model, values in SCORES[name].items():
            write_run(folder, name, model, items([float(v) for v in values]))


def test_each_suite_is_ranked_for_itself(tmp_path: Path) -> None:
    build(tmp_path, *SCORES)
    results = load_results(tmp_path)
    rows = results.typed("overall").rows
    found = {
        (r["suite"], r["model"]): (r["macro_average"], r["win_rate"], r["benchmarks"]) for r in rows
    }
    assert found == {
        ("medhelm", "a"): (0.625, 0.75, 2),
        ("medhelm", "b"): (0.375, 0.25, 2),
        ("today", "a"): (0.0, 0.0, 1),
        ("today", "b"): (1.0, 1.0, 1),
        ("others", "a"): (1.0, 1.0, 1),
        ("others", "b"): (0.0, 0.0, 1),
    }
    pairs = {r["suite"]: r["difference"] for r in results.typed("pairs").rows}
    assert pairs == {"medhelm": 0.25, "today": -1.0, "others": 1.0}
    means = {(r["suite"], r["benchmarks"]) for r in results.typed("categories").rows}
    assert means == {("medhelm", 2), ("today", 1), ("others", 1)}
    table = results.typed("overall")
    assert "reported separately" in " ".join(table.notes)


def test_a_comparison_has_an_overall_row_of_each_suite(tmp_path: Path) -> None:
    build(tmp_path, "headqa", "pubmed_qa", "med_qa")
    rows = load_results(tmp_path).comparison("a", "b").rows
    whole = {r["benchmark"]: r["difference"] for r in rows if r["level"] == "overall"}
    assert whole == {"all of medhelm": 0.25, "all of today": -1.0}


@pytest.mark.parametrize("names", [("headqa", "pubmed_qa"), ("med_qa",), ("own_notes",)])
def test_runs_of_one_suite_have_no_column_of_it(tmp_path: Path, names: tuple[str, ...]) -> None:
    build(tmp_path, *names)
    results = load_results(tmp_path)
    for name in ("overall", "benchmarks", "pairs"):
        assert "suite" not in {c.name for c in results.typed(name).columns}
    (whole,) = [r for r in results.comparison("a", "b").rows if r["level"] == "overall"]
    assert whole["benchmark"] is None


def test_the_suites_apart_share_no_benchmark() -> None:
    suites = packaged_suites()
    home = averaged_apart()
    assert len(home) == len(suites["medhelm"]) + len(suites["today"])
    assert set(home.values()) == {"medhelm", "today"}
