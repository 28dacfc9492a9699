"""Charts hold the numbers of the tables, names as they are, and say why there is nothing to draw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from medhelm.errors import UnknownName, UsageError
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import UsageTotals
from medhelm.tables.charts import CHARTS, Chart
from medhelm.tables.loading import load_results
from medhelm.tables.results import Results
from tests.build_runs import items, write_run
from tests.tables.shown import rate, write

NAMES = ("org/a", "<b>b</b>&<a href='x'>", "c")


@pytest.fixture
def results(tmp_path: Path) -> Results:
    a, b, c = NAMES
    ward = {a: rate(9, 10), b: rate(5, 10), c: rate(1, 10)}
    write(tmp_path, {"x": ward, "y": {a: rate(5, 10), b: rate(4, 10), c: rate(3, 10)}})
    return load_results(tmp_path)


def points(figure: Any) -> list[Any]:
    return [t for t in figure.data if t.type == "scatter" and "markers" in t.mode]


def test_every_chart_has_a_name_that_a_type_checker_knows() -> None:
    assert set(CHARTS) == set(get_args(Chart))


def test_the_ranking_has_the_win_rates_and_their_intervals(results: Results) -> None:
    table = results.table("overall").query("ranked")
    figure = results.plot()
    (ranked,) = [trace for trace in points(figure) if trace.name == "ranked"]
    assert list(ranked.x) == pytest.approx(table["win_rate"].tolist())
    assert list(ranked.error_x.array) == pytest.approx((table["win_high"] - ranked.x).tolist())
    assert list(ranked.error_x.arrayminus) == pytest.approx((ranked.x - table["win_low"]).tolist())
    subtitle = figure.layout.title.subtitle.text
    assert "data=full" in subtitle and "scoring=fixed" in subtitle and "95%" in subtitle


@pytest.mark.slow
def test_names_are_shown_as_they_are(results: Results) -> None:
    for chart in ("overall", "benchmarks", "heatmap"):
        drawn = json.loads(results.plot(chart).to_json())["data"]
        text = json.dumps(drawn)
        assert "&lt;b&gt;b&lt;/b&gt;&amp;&lt;a href" in text, chart
        assert "<b>b" not in text and "<a href" not in text


def test_scores_are_normalised_with_their_intervals(results: Results) -> None:
    table = results.table("benchmarks").query("model == 'org/a'")
    (own,) = [trace for trace in points(results.plot("benchmarks")) if trace.name == "org/a"]
    assert list(own.y) == table["benchmark"].tolist()
    assert list(own.x) == pytest.approx(table["normalised"].tolist())
    assert list(own.error_x.array) == pytest.approx((table["high"] - table["score"]).tolist())


def test_the_heatmap_leaves_a_cell_without_a_run_empty(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"org/a": rate(9, 10), "c": rate(1, 10)}, "y": {"org/a": rate(5, 10)}})
    (heat,) = load_results(tmp_path).plot("heatmap").data
    cells = {
        (y, x): z
        for y, row in zip(heat.y, heat.z, strict=True)
        for x, z in zip(heat.x, row, strict=True)
    }
    assert cells["x", "org/a"] == pytest.approx(0.9)
    assert cells["y", "c"] != cells["y", "c"], "not a number, never 0"


def test_one_model_is_drawn_by_its_mean(tmp_path: Path) -> None:
    write(tmp_path, {"x": {"a": rate(9, 10)}})
    figure = load_results(tmp_path).plot()
    assert "macro-average" in figure.layout.title.text and list(points(figure)[0].x) == [0.9]


def test_costs_that_nobody_knows_are_no_chart(results: Results) -> None:
    with pytest.raises(UsageError, match="known cost.*price"):
        results.plot("cost")
    with pytest.raises(UnknownName, match="did you mean 'heatmap'"):
        results.plot("heatmp")  # type: ignore[arg-type]


def test_cost_has_the_front_of_what_no_cheaper_model_beats(tmp_path: Path) -> None:
    for n, (name, right) in enumerate((("cheap", 5), ("worse", 3), ("best", 9))):
        price = Price(input=n + 1.0, output=1.0, date="2026-01-01")
        model = ModelSpec(name=name, provider="openai", price=price)
        usage = UsageTotals(requests=10, input_tokens=1000, output_tokens=10)
        write_run(tmp_path, "x", model, items(rate(right, 10)), usage=usage)
    results = load_results(tmp_path)
    figure = results.plot("cost")
    table = results.table("overall").set_index("model")
    (front,) = [trace for trace in figure.data if "Pareto" in trace.name]
    assert list(front.x) == pytest.approx(table.loc[["cheap", "best"], "total_cost_usd"].tolist())


# Reliability


def test_reliability_without_a_confidence_is_one_line(results: Results) -> None:
    with pytest.raises(UsageError, match="log-probabilities") as refused:
        results.plot("reliability")
    assert "\n" not in str(refused.value)
