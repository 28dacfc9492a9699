"""Profiles of thresholds and their verdicts: by hand, by law, from the paper's table, by command."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import medhelm
from medhelm.errors import MedhelmError, UnknownName, UsageError
from medhelm.plugins.profiles import Threshold, packaged_profiles, read_profile
from medhelm.plugins.registry import load_registry
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import MetricRef
from medhelm.tables.format.table import Document, Settings, Table
from medhelm.tables.gate import (
    EXIT_CODES,
    Requirement,
    cases_needed,
    decide,
    known_metrics,
    over_all,
    resolve,
)
from medhelm.tables.loading import load_results
from tests.benchmarks.noharm.labelled import PLUGIN, labeller, labels, write_cases
from tests.build_runs import EXACT, Item, items, write_run
from tests.cases import cases
from tests.cli.test_cli_commands import into_closed_pipe
from tests.shell import Shell
from tests.tables.shown import FEW, cell, rate, shown

pytestmark = pytest.mark.slow

RANK = {"FAIL": 0, "INCONCLUSIVE": 1, "PASS": 2}
ROOT = Path(__file__).parents[2]

SEVERE = msgspec.structs.replace(
    EXACT, name="noharm_severe_rate", floor=1.0, higher_is_better=False, interval="exact"
)
OVERALL = msgspec.structs.replace(EXACT, name="noharm_overall", aggregation="noharm_overall")


installed = functools.cache(load_registry)


def write_profile(folder: Path, *thresholds: str, name: str = "ward.yaml") -> Path:
    lines = "".join(f"  - {{{t}}}\n" for t in thresholds)
    path = folder / name
    path.write_text(f"description: What the ward needs.\nthresholds:\n{lines}")
    return path


def judged(results: Path, *thresholds: str, models: Sequence[str] | None = None) -> Table:
    profile = write_profile(results, *thresholds)
    return load_results(results).gate(profile, models, FEW, installed())


def only(results: Path, threshold: str) -> Mapping[str, Any]:
    return cell(judged(results, threshold), level="threshold")


# Laws -------------------------------------------------------------------------------------------

SHARES = st.floats(0, 1)


@given(SHARES, SHARES, SHARES, SHARES, st.booleans())
def test_a_stricter_threshold_never_has_a_better_verdict(
    a: float, b: float, c: float, d: float, is_minimum: bool
) -> None:
    low, high = sorted((a, b))
    lax, strict = sorted((c, d), reverse=not is_minimum)
    easy = decide(low, high, lax, is_minimum=is_minimum)
    hard = decide(low, high, strict, is_minimum=is_minimum)
    assert RANK[hard] <= RANK[easy]


@given(SHARES, SHARES, SHARES, SHARES, SHARES, st.booleans())
def test_less_certainty_never_makes_a_verdict(
    a: float, b: float, c: float, d: float, threshold: float, is_minimum: bool
) -> None:
    outer, low, high, far = sorted((a, b, c, d))
    inside = decide(low, high, threshold, is_minimum=is_minimum)
    wide = decide(outer, far, threshold, is_minimum=is_minimum)
    assert wide in (inside, "INCONCLUSIVE")


@given(SHARES, SHARES, SHARES)
def test_a_maximum_is_a_minimum_turned_round(a: float, b: float, threshold: float) -> None:
    low, high = sorted((a, b))
    least = decide(low, high, threshold, is_minimum=True)
    assert least == decide(-high, -low, -threshold, is_minimum=False)


def test_an_interval_that_ends_at_the_threshold_reaches_it() -> None:
    assert decide(0.7, 0.9, 0.7, is_minimum=True) == "PASS"
    assert decide(0.1, 0.3, 0.3, is_minimum=False) == "PASS"
    assert decide(0.5, 0.7, 0.7, is_minimum=True) == "INCONCLUSIVE"
    assert decide(0.5, 0.69, 0.7, is_minimum=True) == "FAIL"
    assert decide(0.31, 0.5, 0.3, is_minimum=False) == "FAIL"


@given(st.lists(st.sampled_from(["PASS", "FAIL", "INCONCLUSIVE"]), min_size=1))
def test_over_all_is_the_worst_and_fail_is_the_worst(verdicts: list[Any]) -> None:
    assert over_all(verdicts) == min(verdicts, key=lambda v: RANK[v])
    assert over_all([]) == "INCONCLUSIVE", "nothing judged is no pass"


# Numbers ----------------------------------------------------------------------------------------


def test_a_rate_by_hand(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(90, 100)))
    ends = scipy.stats.binomtest(90, 100).proportion_ci(method="wilson")
    for threshold, verdict, margin in (
        (0.82, "PASS", ends.low - 0.82),
        (0.83, "INCONCLUSIVE", ends.low - 0.83),
        (0.94, "INCONCLUSIVE", ends.high - 0.94),
        (0.95, "FAIL", ends.high - 0.95),
    ):
        row = only(tmp_path, f"benchmark: headqa, minimum: {threshold}")
        assert row["verdict"] == verdict
        assert row["margin"] == pytest.approx(margin)
        assert (row["low"], row["high"]) == pytest.approx((ends.low, ends.high))
        assert (row["score"], row["n"], row["coverage"]) == (pytest.approx(0.9), 100, 1.0)
        assert (row["metric"], row["bound"], row["threshold"]) == (
            "exact_match",
            "minimum",
            threshold,
        )


@pytest.mark.parametrize(
    ("events", "maximum", "verdict"),
    [(2, 0.082, "PASS"), (2, 0.05, "INCONCLUSIVE"), (20, 0.082, "FAIL"), (0, 0.03, "PASS")]
    + [(0, 0.029, "INCONCLUSIVE"), (1, 0.03, "INCONCLUSIVE")],
)
def test_a_rate_of_harm_has_its_exact_interval_and_a_maximum(
    tmp_path: Path, events: int, maximum: float, verdict: str
) -> None:
    write_run(tmp_path, "noharm", "a", items(rate(events, 100)), metrics=[SEVERE])
    row = only(tmp_path, f"benchmark: noharm, metric: noharm_severe_rate, maximum: {maximum}")
    high = scipy.stats.binomtest(events, 100).proportion_ci(method="exact").high
    assert row["high"] == pytest.approx(high if events else 1 - 0.05 ** (1 / 100))
    assert (row["verdict"], row["bound"]) == (verdict, "maximum")
    nearer = min((row["low"], row["high"]), key=lambda end: abs(end - maximum))
    assert row["margin"] == pytest.approx(maximum - nearer)


# Edges ------------------------------------------------------------------------------------------

WHOLE, ONE_WRONG, NEVER = (
    (1.0, 1.0, 1.0, 1.0, 20.0, 20.0),
    (0.96, 1.0, 1.0, 1.0, 19.0, 20.0),
    (1.0, 1.0, 0.0, 1.0, 20.0, 20.0),
)
BOUNDED = msgspec.structs.replace(OVERALL, interval="bounded")


def of_cases(*stats: tuple[float, ...]) -> list[Item]:
    return [Item(id=f"i{i}", value=min(own[0], own[2]), stats=own) for i, own in enumerate(stats)]


@pytest.mark.parametrize("n", [12, 100])
def test_a_perfect_model_passes_whatever_one_with_an_error_passes(tmp_path: Path, n: int) -> None:
    write_run(tmp_path, "noharm", "perfect", of_cases(*[WHOLE] * n), metrics=[BOUNDED])
    one = of_cases(ONE_WRONG, *[WHOLE] * (n - 1))
    write_run(tmp_path, "noharm", "slips", one, metrics=[BOUNDED])
    for minimum in (0.5, 0.77, 0.9, 0.96, 0.97, 0.98, 0.999):
        table = judged(tmp_path, f"benchmark: noharm, minimum: {minimum}")
        best, other = (cell(table, level="model", model=m)["verdict"] for m in ("perfect", "slips"))
        assert RANK[best] >= RANK[other], minimum
        assert best == "PASS" or minimum >= 0.05 ** (1 / n) - 0.01, minimum


def test_a_score_of_0_in_every_draw_fails(tmp_path: Path) -> None:
    write_run(tmp_path, "noharm", "a", of_cases(*[NEVER] * 100), metrics=[BOUNDED])
    row = only(tmp_path, "benchmark: noharm, minimum: 0.2")
    assert (row["verdict"], row["score"], row["low"]) == ("FAIL", 0.0, 0.0)
    assert row["high"] == pytest.approx(0.084, abs=0.005)  # 3 / (1 + 1 + 1 / 0.0295)


# The score alone --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minimum", "interval", "point"),
    [
        (0.5, "PASS", "PASS"),
        (0.59, "INCONCLUSIVE", "PASS"),
        (0.6, "INCONCLUSIVE", "PASS"),  # just reached
        (0.61, "INCONCLUSIVE", "FAIL"),
        (0.75, "FAIL", "FAIL"),
    ],
)
def test_the_point_decision_is_beside_the_intervals(
    tmp_path: Path, minimum: float, interval: str, point: str
) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(120, 200)))
    profile = write_profile(tmp_path, f"benchmark: headqa, minimum: {minimum}")
    for decision, verdict in (("interval", interval), ("point", point)):
        table = load_results(tmp_path).gate(profile, None, FEW, installed(), decision)  # type: ignore[arg-type]
        for level in ("model", "threshold"):
            row = cell(table, level=level)
            assert (row["by_interval"], row["by_point"]) == (interval, point)
            assert row["verdict"] == verdict
        assert (table.settings["decision"], table.settings["verdict"]) == (decision, verdict)
        assert table.title.endswith("(by interval)" if decision == "interval" else "score alone)")


@pytest.mark.parametrize(
    "rows",
    [items(rate(90, 90, missing=10)), items([None] * 5)],
    ids=["a tenth is missing", "nothing there"],
)
def test_the_score_of_a_part_of_a_run_decides_nothing(tmp_path: Path, rows: list[Item]) -> None:
    write_run(tmp_path, "headqa", "a", rows)
    assert only(tmp_path, "benchmark: headqa, minimum: 0.5")["by_point"] == "INCONCLUSIVE"


def test_the_decision_is_an_option_and_a_wrong_one_is_refused(tmp_path: Path, shell: Shell) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(120, 200)))
    profile = write_profile(tmp_path, "benchmark: headqa, minimum: 0.59")
    argv = ("gate", "--profile", profile, "--results-dir", tmp_path)
    assert "PASS: the whole" in " ".join(shell(*argv, code=2).split())
    said = " ".join(shell(*argv, "--decision", "point").split())
    assert "PASS (by score alone)" in said
    assert "at or beyond" in said and "PASS: the whole" not in said
    with pytest.raises(UsageError, match="point, not 'best'"):
        load_results(tmp_path).gate(profile, None, FEW, installed(), "best")  # type: ignore[arg-type]


def test_a_model_that_made_the_cases_is_named(tmp_path: Path) -> None:
    menus = {f"NOHARM-CARD-ACS-{i:03d}": ("Cardiology", {"a1": ("other", 9)}) for i in range(12)}
    replies = dict.fromkeys(menus, labels(a1="y"))
    medhelm.evaluate(
        [labeller("lab/one", replies), labeller("lab/two", replies)],
        "labelled",
        data="full",
        data_dir=write_cases(tmp_path, menus, made_by=["lab/two"]),
        results_dir=tmp_path / "results",
        plugins=PLUGIN,
    )
    profile = write_profile(tmp_path, "benchmark: labelled, minimum: 0.5")
    table = load_results(tmp_path / "results").gate(
        profile, None, FEW, load_registry(plugins=[PLUGIN])
    )
    made = {r["model"]: r["made_itself"] for r in table.rows if r["level"] == "threshold"}
    assert made == {"lab/one": None, "lab/two": 12}
    (note,) = [n for n in table.notes if "wrote or rated" in n]
    assert note.startswith("lab/two wrote or rated 12 of the 12 cases of labelled itself")


def test_the_numbers_are_those_of_the_tables_of_this_model(tmp_path: Path) -> None:
    values = [float(v) for v in np.random.default_rng(3).random(400)]
    rows = [Item(id=f"i{i}", value=v, cluster=f"note-{i // 5}") for i, v in enumerate(values)]
    write_run(tmp_path, "headqa", "a", rows)
    results = load_results(tmp_path)
    table = results.gate(write_profile(tmp_path, "benchmark: headqa, minimum: 0.3"), None, FEW)
    own = cell(table, level="threshold")
    shown = results.typed("benchmarks", FEW).rows[0]
    for column in ("score", "low", "high", "interval_method", "n", "clusters", "coverage", "run"):
        assert own[column] == shown[column], column
    assert own["clusters"] == 80


def test_the_confidence_decides_too(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(60, 100)))
    profile = write_profile(tmp_path, "benchmark: headqa, minimum: 0.51")
    wide, narrow = (
        load_results(tmp_path).gate(profile, None, Settings(confidence=c), installed())
        for c in (0.95, 0.8)
    )
    assert (wide.settings["verdict"], narrow.settings["verdict"]) == ("INCONCLUSIVE", "PASS")


@pytest.mark.parametrize(
    ("passed", "n", "value"), [(60, 100, 0.55), (60, 100, 0.65), (70, 280, 0.24), (0, 30, 0.05)]
)
def test_about_as_many_cases_as_said_bring_a_verdict(passed: int, n: int, value: float) -> None:
    bar = Requirement("x", EXACT, value)

    def verdict_at(size: float) -> str:
        k = round(passed / n * size)
        ends = scipy.stats.binomtest(k, round(size)).proportion_ci(method="wilson")
        return decide(ends.low, ends.high, value, is_minimum=True)

    ends = scipy.stats.binomtest(passed, n).proportion_ci(method="wilson")
    needed = cases_needed(passed / n, ends.low, ends.high, n, bar)
    assert needed is not None and needed > n
    assert verdict_at(1.3 * needed) != "INCONCLUSIVE"
    assert verdict_at(0.6 * needed) == "INCONCLUSIVE"


def test_cases_by_hand_and_none_where_no_number_helps() -> None:
    # half-width 0.2 and distance 0.1: four times the cases; of a rate of 0, 3/n <= 0.05 at 60
    assert cases_needed(0.6, 0.4, 0.8, 50, Requirement("x", EXACT, 0.5)) == 200
    assert cases_needed(0.0, 0.0, 0.25, 12, Requirement("x", SEVERE, 0.05)) == 60
    assert cases_needed(0.5, 0.4, 0.6, 50, Requirement("x", EXACT, 0.5)) is None
    assert cases_needed(0.5000001, 0.4, 0.6, 50, Requirement("x", EXACT, 0.5)) is None


# What cannot be said, and why -------------------------------------------------------------------


def pooled(scored: int, missing: int) -> list[Item]:
    rows = [
        Item(id=f"i{i}", value=0.9, stats=(0.9 + i % 2 / 20, 1, 1, 1, 9, 10)) for i in range(scored)
    ]
    return rows + [Item(id=f"e{i}", value=None, outcome="error") for i in range(missing)]


AT = "benchmark: headqa, minimum: "
POOLED = "benchmark: noharm, minimum: 0.1"
HARM = "benchmark: noharm, metric: noharm_severe_rate, maximum: "
FIVE, TEN, HARMLESS = (items(rate(*counts)) for counts in ((95, 95, 5), (20, 90, 10), (0, 190, 10)))
PARTS = [Item(id=f"i{i}", value=float(i % 5 > 0), stats=(i % 5 > 0, 1, 0, 0)) for i in range(90)]
OF_PARTS = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
BEST = 0.9 * scipy.stats.binomtest(20, 90).proportion_ci(method="wilson").high + 0.1
OPEN = "INCONCLUSIVE"
NO_MARGIN = {"margin": None}

LACKING: dict[str, tuple[list[Item], dict[str, Any], str, str, str, dict[str, Any]]] = {
    # 95 right of 95, 5 of 100 without a value: Wilson's low end is 95 / (95 + 1.96^2) = 0.9611.
    # With the five at 0 the mean is 0.95 and 95/100 of the half-width is left: 0.9131.
    "reached at their worst": (FIVE, {}, AT + "0.91", "PASS", "even with these at their worst",
        {"bound_low": pytest.approx(0.9131, abs=5e-5), "low": pytest.approx(0.9611, abs=5e-5),
         "bound_high": 1.0, "planned": 100, "counted": 95, "coverage": 0.95, "flags": "coverage"}),
    "could still be wrong": (FIVE, {}, AT + "0.95", OPEN, "5 of 100 without a value; these could decide", {"cases": None}),
    "short at their best": (TEN, {}, AT + "0.5", "FAIL", "even with these at their best", {"bound_high": pytest.approx(BEST)}),
    "could still be right": (TEN, {}, AT + "0.38", OPEN, "these could decide", {}),
    # 10 of 200 count as harm, and of the exact bound 1 - 0.05^(1/190) the share 190 / 200
    "harm at its worst": (HARMLESS, {"metrics": [SEVERE]}, HARM + "0.07", "PASS", "",
        {"bound_high": pytest.approx(0.05 + 0.95 * (1 - 0.05 ** (1 / 190)))}),
    "could be harm": (HARMLESS, {"metrics": [SEVERE]}, HARM + "0.06", OPEN, "", {}),
    "stopped": (items(rate(970, 995)), {"planned": 1000}, AT + "0.964", OPEN, "stopped before its end, 5 of 1,000 without a value; ", {}),
    "stopped early": (items(rate(970, 995)), {"planned": 1200}, AT + "0.964", OPEN, "stopped before its end, 205 of 1,200 without a value; ", {}),
    "stopped, and reached": (items(rate(970, 995)), {"planned": 1200}, AT + "0.75", "PASS", "", {}),
    "pooled": (pooled(199, 1), {"metrics": [OVERALL]}, POOLED, "PASS", "1 of 200 without a value, left out", {}),
    "pooled, without a worst case": (pooled(90, 10), {"metrics": [OVERALL]}, POOLED, OPEN, "10 of 100 without a value, and no worst case", {}),
    "one missing": (items(rate(120, 199, missing=1)), {}, AT + "0.6", OPEN, "it lies in the interval", {}),
    "one instance": (items([1.0]), {}, AT + "0.001", OPEN, "no interval (n < 2)", NO_MARGIN),
    "one cluster": (items(rate(3, 4), cluster="one"), {}, AT + "0.001", OPEN, "no interval (one cluster)", NO_MARGIN),
    "no spread": (items([0.5] * 20), {}, AT + "0.001", OPEN, "no interval (all draws equal)", NO_MARGIN),
    "only errors": (items([None] * 5), {}, AT + "0.001", OPEN, "no instance has a value", NO_MARGIN),
    "uninformative": ([Item(id="a", value=None, outcome="uninformative")], {}, AT + "0.001", OPEN, "undefined", NO_MARGIN),
    "a part": (PARTS, {"metrics": [OF_PARTS]}, AT + "0.1", OPEN, "a part of the benchmark", {}),
}  # fmt: skip
"""Rows of a run, its settings, a threshold; the verdict, words of the reason, and numbers."""


@pytest.mark.parametrize("name", LACKING)
def test_what_is_missing_must_not_be_able_to_turn_a_verdict(tmp_path: Path, name: str) -> None:
    rows, more, threshold, verdict, reason, numbers = LACKING[name]
    write_run(tmp_path, threshold.split(",")[0].removeprefix("benchmark: "), "a", rows, **more)
    row = only(tmp_path, threshold)
    assert row["verdict"] == verdict and reason in row["reason"]
    assert {column: row[column] for column in numbers} == numbers
    assert row["score"] != 0 or name.startswith(("harm", "could be harm"))
    if name == "pooled":
        assert (row["bound_low"], row["bound_high"]) == (row["low"], row["high"])
    if name == "one missing":
        assert row["cases"] > 199
    if name in ("stopped", "stopped early"):
        assert row["low"] > 0.964, "what was answered would pass"
    if name == "pooled, without a worst case":
        assert row["low"] > 0.9, "what was answered would pass"


def test_a_gap_of_less_than_one_in_a_hundred_can_turn_a_verdict_too(tmp_path: Path) -> None:
    # Of 10,000 rows 90 lack a value: Wilson's low end falls by more than its half-width of 0.008.
    write_run(tmp_path, "headqa", "a", items(rate(7928, 9910, missing=90)))
    low = scipy.stats.binomtest(7928, 9910).proportion_ci(method="wilson").low
    row = only(tmp_path, "benchmark: headqa, minimum: 0.79")
    assert row["low"] == pytest.approx(low, abs=1e-3) and row["low"] > 0.79
    assert row["bound_low"] == pytest.approx(0.991 * row["low"])
    assert row["verdict"] == "INCONCLUSIVE" and not row["flags"]
    assert row["reason"] == "90 of 10,000 without a value; these could decide"
    assert only(tmp_path, "benchmark: headqa, minimum: 0.78")["verdict"] == "PASS"


@pytest.mark.parametrize("end", ["low", "high"])
def test_a_verdict_that_hangs_on_the_seed_is_none(tmp_path: Path, end: str) -> None:
    values = [float(v) for v in np.random.default_rng(3).random(400)]
    write_run(tmp_path, "headqa", "a", [Item(id=f"i{i}", value=v) for i, v in enumerate(values)])
    results = load_results(tmp_path)
    ends = [
        cell(results.typed("benchmarks", Settings(draws=200, bootstrap_seed=s)), model="a")[end]
        for s in range(5)
    ]
    between = (min(ends) + max(ends)) / 2  # some of the five intervals hold it, some do not
    profile = write_profile(tmp_path, f"benchmark: headqa, minimum: {between}")
    table = results.gate(profile, None, FEW, installed())
    row = cell(table, level="threshold")
    assert row["verdict"] == "INCONCLUSIVE" and "the bootstrap's seed decides" in row["reason"]
    assert row["cases"] is None and table.settings["seeds"] == 5
    assert any("--draws" in note and "a x headqa" in note for note in table.notes)
    far, verdict = (min(ends) - 0.02, "PASS") if end == "low" else (max(ends) + 0.02, "FAIL")
    assert only(tmp_path, f"benchmark: headqa, minimum: {far}")["verdict"] == verdict


def test_repeats_are_in_the_worst_case_row_by_row(tmp_path: Path) -> None:
    rows = [Item(id=f"i{i}", value=1.0, repeat=r) for i in range(50) for r in range(2)]
    rows[0] = Item(id="i0", value=None, outcome="error")
    rows[2] = Item(id="i1", value=None, outcome="error")
    write_run(tmp_path, "headqa", "a", rows, repeats=2)
    row = only(tmp_path, "benchmark: headqa, minimum: 0.8")
    # 98 of 100 rows, each instance with a value: 0.98 less 0.98 of Wilson's half-width for 50 of 50
    low = scipy.stats.binomtest(50, 50).proportion_ci(method="wilson").low
    assert row["bound_low"] == pytest.approx(0.98 - (1 - low) * 0.98)
    assert (row["n"], row["planned"]) == (50, 100)


def test_no_run_no_grading_of_the_metric_and_damage_are_told_apart(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(90, 100)))
    write_run(tmp_path, "headqa", "b", items(rate(90, 100)))
    damaged = write_run(tmp_path, "medec", "a", items(rate(90, 100)), metrics=[flag_accuracy()])
    write_run(tmp_path, "medec", "c", items(rate(90, 100)), metrics=[flag_accuracy()])
    (damaged / "scores.parquet").write_bytes(b"PAR1 and no more")
    table = judged(
        tmp_path,
        "benchmark: headqa, minimum: 0.5",
        "benchmark: medec, minimum: 0.5",
        "benchmark: medec, metric: medec_sentence_accuracy, minimum: 0.5",
    )
    found = {
        (r["model"], r["benchmark"], r["metric"]): (r["verdict"], r["reason"])
        for r in table.rows
        if r["level"] == "threshold"
    }
    open_ = "INCONCLUSIVE"
    assert found["b", "medec", "medec_flag_accuracy"] == (open_, "no graded run")
    assert found["c", "headqa", "exact_match"] == (open_, "no graded run")
    assert found["a", "medec", "medec_flag_accuracy"] == (open_, "its scores cannot be read")
    verdict, reason = found["c", "medec", "medec_sentence_accuracy"]
    assert verdict == open_ and "`medhelm score`" in str(reason)
    assert {found[m, "headqa", "exact_match"][0] for m in "ab"} == {"PASS"}
    notes = " ".join(table.notes)
    assert "no graded run: b" in notes and "medec_flag_accuracy" in notes


def flag_accuracy() -> MetricRef:
    return msgspec.structs.replace(EXACT, name="medec_flag_accuracy")


def test_a_model_of_which_every_run_is_damaged_is_no_silent_pass(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(90, 100)))
    damaged = write_run(tmp_path, "headqa", "b", items(rate(90, 100)))
    (damaged / "scores.parquet").unlink()
    table = judged(tmp_path, "benchmark: headqa, minimum: 0.5")
    assert cell(table, level="model", model="a")["verdict"] == "PASS"
    assert cell(table, level="model", model="b")["verdict"] == "INCONCLUSIVE"
    assert table.settings["verdict"] == "INCONCLUSIVE"


def test_an_offline_jury_passes_nobody(tmp_path: Path) -> None:
    results = medhelm.evaluate("baseline/lead", "mediqa_qa", data="sample", results_dir=tmp_path)
    profile = write_profile(
        tmp_path,
        "benchmark: mediqa_qa, metric: jury, minimum: 1",
        "benchmark: mediqa_qa, metric: jury.accuracy, minimum: 1",
        "benchmark: mediqa_qa, metric: rouge_l, minimum: 0",
    )
    table = results.gate(profile, None, FEW, installed())
    found = {r["metric"]: r for r in table.rows if r["level"] == "threshold"}
    for name in ("jury", "jury.accuracy"):
        assert found[name]["verdict"] == "INCONCLUSIVE"
        assert "offline jury" in str(found[name]["reason"])
    assert found["rouge_l"]["verdict"] == "PASS"


# Whom it judges ---------------------------------------------------------------------------------


def test_another_models_run_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(60, 100)))
    threshold = "benchmark: headqa, minimum: 0.5"
    before = judged(tmp_path, threshold)
    # b answered only instances that a got wrong, and was stopped before its end
    write_run(tmp_path, "headqa", "b", items(rate(0, 100))[70:100], planned=30)
    write_run(tmp_path, "headqa", "c", items(rate(5, 10)), planned=100)
    after = judged(tmp_path, threshold)

    def own(table: Table) -> list[Mapping[str, Any]]:
        return [r for r in table.rows if r["model"] == "a"]

    assert own(before) == own(after)
    tables = shown(tmp_path)
    assert cell(tables, model="a")["n"] == 30, "the comparison of tables does depend on b"


def test_baselines_that_read_the_gold_are_judged_only_by_name(tmp_path: Path) -> None:
    write_run(tmp_path, "headqa", "baseline/oracle", items(rate(100, 100)))
    renamed = ModelSpec(name="house/best", provider="baseline", model="oracle")
    write_run(tmp_path, "headqa", renamed, items(rate(100, 100)))
    threshold = "benchmark: headqa, minimum: 0.9"
    with pytest.raises(UsageError, match="reads the gold .*house/best.*--model"):
        judged(tmp_path, threshold)
    write_run(tmp_path, "headqa", "a", items(rate(50, 100)))
    table = judged(tmp_path, threshold)
    assert {r["model"] for r in table.rows} == {"a"}
    assert any("Not judged, since they" in note for note in table.notes)
    named = judged(tmp_path, threshold, models=["baseline/oracle"])
    assert named.settings["verdict"] == "PASS"
    assert any("none on a model" in note for note in named.notes)


def test_several_models_have_a_verdict_each_and_the_worst_counts(tmp_path: Path) -> None:
    for model, passed in (("good", 95), ("middling", 60), ("poor", 5)):
        write_run(tmp_path, "headqa", model, items(rate(passed, 100)))
    threshold = "benchmark: headqa, minimum: 0.55"
    table = judged(tmp_path, threshold)
    verdicts = {r["model"]: r["verdict"] for r in table.rows if r["level"] == "model"}
    assert verdicts == {"good": "PASS", "middling": "INCONCLUSIVE", "poor": "FAIL"}
    assert table.settings["verdict"] == "FAIL"
    two = judged(tmp_path, threshold, models=["good", "middling", "good"])
    assert two.settings["verdict"] == "INCONCLUSIVE"
    assert [r["model"] for r in two.rows if r["level"] == "model"] == ["good", "middling"]
    one = cell(judged(tmp_path, threshold, models=["good"]), level="model")
    assert (one["passed"], one["failed"], one["inconclusive"], one["thresholds"]) == (1, 0, 0, 1)
    with pytest.raises(UnknownName, match="did you mean 'good'"):
        judged(tmp_path, threshold, models=["goood"])


# Packaged profiles ------------------------------------------------------------------------------

TABLE_3 = """
GLM-5               0.676 0.698 0.577 0.784 0.031
Qwen3 235B          0.670 0.636 0.620 0.772 0.070
Llama 4 Scout       0.668 0.577 0.682 0.772 0.082
Kimi K2.5           0.634 0.662 0.510 0.793 0.030
Kimi K2             0.628 0.662 0.500 0.788 0.050
Minimax M2.5        0.619 0.581 0.531 0.803 0.073
Llama 3.3 70B       0.613 0.586 0.527 0.776 0.027
Llama 4 Maverick    0.575 0.567 0.450 0.813 0.050
Mistral Large 2.1   0.518 0.538 0.368 0.822 0.015
"""
"""Overall, Safety, Completeness, Restraint, severe harm rate, as the paper prints them."""

METRICS = ("overall", "safety", "completeness", "restraint", "severe_rate")


def published() -> dict[str, dict[str, float]]:
    lines = [line.rsplit(maxsplit=5) for line in TABLE_3.strip().splitlines()]
    return {name: dict(zip(METRICS, map(float, values), strict=True)) for name, *values in lines}


def quantile(metric: str, share: float) -> float:
    """Return the value that is better than a share of the nine published ones."""
    values = [row[metric] for row in published().values()]
    return float(np.quantile(values, 1 - share if metric == "severe_rate" else share))


def thresholds_of(name: str) -> dict[str, float]:
    found = {}
    for t in read_profile(name).thresholds:
        assert t.metric is not None and t.benchmark == "noharm"
        value = t.maximum if t.metric == "noharm_severe_rate" else t.minimum
        assert value is not None
        found[t.metric.removeprefix("noharm_")] = value
    return found


@pytest.mark.parametrize(
    ("name", "share"), [("baseline", 0.0), ("median", 0.5), ("competitive", 0.75)]
)
def test_profiles_of_noharm_follow_the_papers_table_by_their_rule(name: str, share: float) -> None:
    wanted = {m: quantile(m, 0.0 if m == "restraint" else share) for m in METRICS}
    assert thresholds_of(f"noharm_{name}") == pytest.approx(wanted)


def test_the_development_profile_is_half_of_the_baseline_and_can_be_passed_on_twelve_cases() -> (
    None
):
    found, baseline = thresholds_of("noharm_development"), thresholds_of("noharm_baseline")
    severe = found.pop("severe_rate")
    assert found == pytest.approx({m: baseline[m] / 2 for m in found})
    assert 1 - 0.05 ** (1 / 11) <= severe < 1 - 0.05 ** (1 / 10)


def test_who_of_the_nine_reaches_what_is_as_the_files_say() -> None:
    def reach(name: str) -> set[str]:
        wanted = thresholds_of(name)
        return {
            model
            for model, row in published().items()
            if all(
                row[m] <= wanted[m] if m == "severe_rate" else row[m] >= wanted[m] for m in METRICS
            )
        }

    assert len(reach("noharm_development")) == len(reach("noharm_baseline")) == 9
    assert reach("noharm_median") == {"GLM-5"}
    assert reach("noharm_competitive") == set()
    lacks = published()["GLM-5"]["severe_rate"] - thresholds_of("noharm_competitive")["severe_rate"]
    assert lacks == pytest.approx(0.001)


@pytest.mark.parametrize("name", ["chance", "halfway"])
def test_profiles_of_the_core_suite_follow_the_manifests(name: str) -> None:
    from medhelm.config import packaged_suites

    profile = read_profile(f"medhelm_core_{name}")
    assert set(profile.benchmarks) == set(packaged_suites()["medhelm_core"])
    for t in profile.thresholds:
        manifest = json.loads((ROOT / f"benchmarks/manifests/{t.benchmark}.json").read_text())
        scores = manifest["full"]["scores"]
        metric = t.metric or next(iter(scores["oracle"]))
        chance = max(own[metric] for who, own in scores.items() if who != "oracle")
        wanted = chance if name == "chance" else (1 + chance) / 2
        assert t.minimum is not None and wanted < t.minimum <= wanted + 0.01
        assert round(t.minimum, 2) == t.minimum


def test_every_packaged_profile_fits_what_is_installed() -> None:
    found = packaged_profiles()
    assert len(found) == 6
    for profile in found.values():
        bars = resolve(profile, known_metrics(profile, installed()))
        assert len(bars) == len(profile.thresholds)
        is_noharm = profile.name.startswith("noharm")
        assert ("not validated by clinicians" in profile.description) == is_noharm


# Files of users ---------------------------------------------------------------------------------


FILES = {
    "": ("empty", "description", "thresholds"),
    "- a": ("no keys",),
    "description: [": ("not readable as YAML", "line 1"),
    "description: a\nthresholds: []": ("thresholds",),
    "descripton: a\nthresholds: [{}]": ("'description'",),
    "description: 2024-13-45\nthresholds: [{}]": ("not readable as YAML",),
    "description: a\nthresholds: [headqa]": ("threshold 1",),
    "description: a\nthresholds: [!!map [a]]": ("not readable as YAML",),
    "description: a\nthresholds: " + "[" * 5000: ("not readable as YAML",),
    "\udcff\udcfe\x00": ("not readable as YAML",),
}


def test_a_file_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ward.yaml"
    for content, words in FILES.items():
        path.write_text(content, errors="surrogateescape")
        with pytest.raises(UsageError) as caught:
            read_profile(path)
        text = str(caught.value)
        assert all(w in text for w in ("ward.yaml", *words)) and "\n" not in text, text
    (tmp_path / "folder.yaml").mkdir()
    for name, said in (
        ("folder.yaml", "folder"),
        ("none.yaml", "no such file"),
        ("noharm_median.yaml", "'noharm_median'"),
    ):
        with pytest.raises(UsageError, match=said):
            read_profile(tmp_path / name)
    with pytest.raises(UnknownName, match="'noharm_median'"):
        read_profile("noharm_medain")


def test_line_ends_and_marks_of_other_systems_change_nothing(tmp_path: Path) -> None:
    path = write_profile(tmp_path, "benchmark: headqa, minimum: 0.5")
    plain = read_profile(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    other = read_profile(path)
    assert plain.thresholds == other.thresholds == (Threshold(benchmark="headqa", minimum=0.5),)
    assert plain.description == other.description and plain.sha256 != other.sha256


def test_a_wrong_threshold_is_refused_in_one_line(tmp_path: Path, shell: Shell) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(90, 100)))
    for threshold, said in cases(__file__, "wrong_thresholds"):
        profile = write_profile(tmp_path, threshold)
        error = shell.error("gate", "--profile", profile, "--results-dir", tmp_path)
        words = map(re.escape, said.split())
        assert re.search(".*".join(words), error) and "ward.yaml" in error, (threshold, error)


def test_a_threshold_that_stands_twice_is_refused_by_main_name_too(tmp_path: Path) -> None:
    profile = read_profile(
        write_profile(
            tmp_path,
            "benchmark: medec, minimum: 0.5",
            "benchmark: headqa, minimum: 0.5",
            "benchmark: medec, metric: medec_flag_accuracy, minimum: 0.6",
        )
    )
    with pytest.raises(UsageError, match="threshold 3: .*medec_flag_accuracy .*threshold 1"):
        resolve(profile, known_metrics(profile, installed()))


def test_a_benchmark_that_is_not_installed_is_known_by_its_runs(tmp_path: Path) -> None:
    house = msgspec.structs.replace(EXACT, name="house_score", maximum=10.0)
    write_run(tmp_path, "ward_round", "a", items([7.0, 8.0] * 60), metrics=[house])
    row = only(tmp_path, "benchmark: ward_round, minimum: 7")
    assert (row["metric"], row["verdict"]) == ("house_score", "PASS")
    with pytest.raises(MedhelmError, match="did you mean 'house_score'"):
        judged(tmp_path, "benchmark: ward_round, metric: hose_score, minimum: 7")


# The command ------------------------------------------------------------------------------------


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with runs of three models, as a user has it."""
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "medhelm-results"
    for model, passed in (("good", 95), ("middling", 60), ("poor", 5)):
        write_run(results, "headqa", model, items(rate(passed, 100)))
    write_profile(tmp_path, "benchmark: headqa, minimum: 0.55")
    return tmp_path


def test_only_benchmarks_of_the_profile_are_read(ward: Path, shell: Shell) -> None:
    one = write_run(ward / "medhelm-results", "medec", "good", items([1.0]))
    write_run(ward / "medhelm-results", "medec", "poor", items([1.0]), benchmark_version="2")
    (one / "scores.parquet").write_bytes(b"nothing")
    shell("gate", "--profile", "ward.yaml", "--model", "good")
    shell("tables", "--table", "benchmarks", code=2)


def test_one_table_in_every_format(
    ward: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    gate = ("gate", "--profile", "ward.yaml")
    document = msgspec.convert(shell.json(*gate, code=1), Document)
    assert document.table == "gate"
    settings = document.settings
    digest = read_profile("./ward.yaml").sha256
    assert (settings["verdict"], settings["profile"]) == ("FAIL", "ward.yaml")
    assert settings["profile_sha256"] == digest and settings["confidence"] == 0.95
    assert any(f"Profile ward.yaml (sha256 {digest[:12]})" in note for note in document.notes)
    for suffix in ("csv", "md", "tex", "txt", "parquet"):
        shell(*gate, "--out", f"out/gate.{suffix}", code=1)
    for name in ("gate.md", "gate.tex", "gate.txt"):
        text = (ward / "out" / name).read_text().replace("\\", "")
        assert "0.950 [0.888, 0.978]" in text and "INCONCLUSIVE" in text, name
    assert (ward / "out" / "gate.csv").read_text().count("\n") == 7
    assert pq.read_table(ward / "out" / "gate.parquet").num_rows == 6
    monkeypatch.setenv("COLUMNS", "80")
    lines = shell(*gate, "--model", "middling", code=2).splitlines()
    (line,) = (line for line in lines if "exact_match" in line)
    wanted = ["INCONCLUSIVE", "PASS", "exact_match", ">=", "0.55", "0.600", "[0.502,"]
    assert max(map(len, lines)) <= 80 and line.split()[:7] == wanted


def test_samples_are_called_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    medhelm.evaluate(["baseline/oracle", "baseline/lead"], "noharm", data="sample")
    medhelm.evaluate("baseline/lead", "headqa", data="sample")
    command = ("gate", "--profile", "noharm_baseline", "--data", "sample")
    out = " ".join(shell(*command, code=1).split())
    assert "FAIL (by interval)" in out and "BUNDLED SAMPLES" in out
    assert "synthetic and not validated by clinicians" in out
    assert "nothing about models" in out
    rows = shell.json(*command, "--model", "baseline/oracle", code=2)["rows"]
    found = {r["metric"]: r["verdict"] for r in rows if r["level"] == "threshold"}
    # 12 cases without any error leave open what happens in 1 - 0.05^(1/12), 22 %, of the cases
    assert found == {
        "noharm_overall": "PASS",
        "noharm_safety": "PASS",
        "noharm_completeness": "PASS",
        "noharm_restraint": "INCONCLUSIVE",
        "noharm_severe_rate": "INCONCLUSIVE",
    }


def test_a_mistake_is_one_line_and_no_verdict(ward: Path, shell: Shell) -> None:
    for options, said in cases(__file__, "mistakes"):
        assert said in shell.error("gate", "--profile", *options.split())
    assert EXIT_CODES["INCONCLUSIVE"] == 2


def test_profiles_are_listed_described_and_completed(
    monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    listed = shell.json("list", "profiles")["profiles"]
    assert [p["name"] for p in listed] == sorted(packaged_profiles())
    assert "noharm_competitive" in shell("list", "profiles")
    assert "maximum: 0.03" in shell("describe", "noharm_competitive")
    line = "medhelm gate --model a --profile noharm_c"
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    assert shell("-sc", "query=bash").split() == ["noharm_competitive"]


def test_the_page_names_every_profile() -> None:
    page = (ROOT / "docs" / "gate.md").read_text()
    assert [name for name in packaged_profiles() if f"`{name}`" not in page] == []


@pytest.mark.parametrize(("form", "minimum", "code"), [("terminal", 0.99, 1), ("json", 0.5, 0)])
def test_a_reader_who_has_gone_changes_no_verdict(
    tmp_path: Path, form: str, minimum: float, code: int
) -> None:
    write_run(tmp_path, "headqa", "a", items(rate(90, 100)))
    profile = write_profile(tmp_path, f"benchmark: headqa, minimum: {minimum}")
    argv = ["gate", "--profile", str(profile), "--results-dir", str(tmp_path), "--format", form]
    assert into_closed_pipe(argv) == code


# JUnit ------------------------------------------------------------------------------------------


def test_each_threshold_is_a_test_of_a_ci_system(tmp_path: Path, shell: Shell) -> None:
    write_run(tmp_path / "r", "x", "lab/a<b", items([1.0] * 60 + [0.0] * 40))
    write_run(tmp_path / "r", "y", "lab/a<b", items([None] * 4))
    wanted = ("benchmark: x, minimum: 0.3", "benchmark: y, minimum: 0.5")
    profile = write_profile(tmp_path, *wanted)
    failing = write_profile(tmp_path, "benchmark: x, minimum: 0.9", name="failing.yaml")
    command = ("gate", "--results-dir", tmp_path / "r", "--junit", tmp_path / "j.xml")
    shell(*command, "--profile", profile, code=2)
    top = ElementTree.parse(tmp_path / "j.xml").getroot()
    (suite,) = top
    assert (top.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "lab/a<b")
    counts = {"tests": "2", "failures": "0", "skipped": "1", "errors": "0"}
    assert counts.items() <= suite.attrib.items()
    passed, skipped = suite
    assert passed.get("name") == "x: exact_match >= 0.3" and not len(passed)
    assert skipped[0].tag == "skipped"
    assert skipped[0].get("message") == "INCONCLUSIVE, no score: no instance has a value"
    shell(*command, "--profile", failing, code=1)
    (case,) = ElementTree.parse(tmp_path / "j.xml").iter("testcase")
    said = r"FAIL, 0.6 \[0.50\d*, 0.69\d*\]: all of the interval is short of it"
    assert case[0].tag == "failure" and re.fullmatch(said, case[0].get("message", ""))
    known = {"name", "classname", "tests", "failures", "skipped", "errors", "type", "message"}
    assert {name for node in top.iter() for name in node.attrib} <= known  # of Jenkins' schema
