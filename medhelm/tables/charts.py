"""Charts of results as plotly figures, in the colours of the site.

Names come from users: plotly reads some tags in its texts, so they are escaped.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from medhelm.errors import UnknownName, UsageError
from medhelm.stats.intervals import wilson
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.table import Table, Value
from medhelm.tables.overall import overall
from medhelm.tables.study.study import Study
from medhelm.tables.suites import by_suite

if TYPE_CHECKING:
    import plotly.graph_objects as go

Chart = Literal["overall", "benchmarks", "heatmap", "cost", "reliability"]
_COLOURS = ("#0b6570", "#b3580a", "#5b4a9c", "#8c1d18", "#33628d", "#6b7a0f", "#a3437f", "#566169")
_FAINT, _GRID = "#6f7c84", "#e8ecee"
_LINE_PX = 26
_CONFIDENCE, _CORRECT = "confidence", "correct"
"""Names of the sums of a metric that keeps the confidence of its answers (0 to 1) and whether each is right."""

_Row = Mapping[str, Value]
Pairs = Sequence[tuple[float, float]]
"""For each answer its confidence, and 1 where it is correct, else 0."""


def draw(name: str, study: Study) -> go.Figure:
    """Return a chart by its name; raises UnknownName, and UsageError where there is nothing to draw."""
    if name not in CHARTS:
        raise UnknownName("chart", name, CHARTS, f"charts are: {', '.join(CHARTS)}")
    return CHARTS[name](study)


def _overall(study: Study) -> go.Figure:
    table = by_suite(study, overall)
    rows = [row for row in table.rows if row[_worth(table)[0]] is not None]
    value, low, high, title = _worth(table)
    names: Any = [_text(row["model"]) for row in rows]
    if "suite" in table.rows[0]:
        names = [[_text(row["suite"]) for row in rows], names]
    fills = [_COLOURS[0] if row["ranked"] else "white" for row in rows]
    points = _points(rows, [row[value] for row in rows], names, "x", (low, high), fills)
    figure = _figure([points], f"Models by {title}", table, len(rows))
    figure.update_xaxes(title_text=title, range=[-0.02, 1.02])
    return figure.update_yaxes(autorange="reversed")


def _benchmarks(study: Study) -> go.Figure:
    table, names, models, found = _cells(study)
    traces = []
    for n, model in enumerate(models):
        own = [_normalised(row, study) for (_, m), row in found.items() if m == model]
        own = [row for row in own if row["normalised"] is not None]
        apart = (n - (len(models) - 1) / 2) * 0.7 / len(models)
        places = [names.index(str(row["benchmark"])) + apart for row in own]
        values = [row["normalised"] for row in own]
        points = _points(own, values, places, "x", ("low", "high"), _COLOURS[n % len(_COLOURS)])
        traces.append(points.update(name=_text(model)))
    lines = len(names) * (1 + len(models) // 3)
    figure = _figure(traces, "Scores by benchmark", table, lines)
    figure.update_xaxes(title_text="normalised score, 0 worst, 1 best", range=[-0.02, 1.02])
    ends = [len(names) - 0.4, -0.6]
    ticks = [*map(_text, names)]
    return figure.update_yaxes(tickvals=[*range(len(names))], ticktext=ticks, range=ends)


def _heatmap(study: Study) -> go.Figure:
    table, names, models, found = _cells(study)

    def values(of: Callable[[_Row], object]) -> list[list[object]]:
        return [[of(found.get((b, m), {})) for m in models] for b in names]

    trace = {
        "type": "heatmap",
        "x": [*map(_text, models)],
        "y": [*map(_text, names)],
        "z": values(lambda row: row.get("normalised")),
        "text": values(lambda row: _number(row.get("normalised"))),
        "customdata": values(lambda row: _text(row.get("status") or "no run")),
        "texttemplate": "%{text}",
        "hovertemplate": "%{y}<br>%{x}: %{text} (%{customdata})<extra></extra>",
        "hoverongaps": False,
        "colorscale": "Viridis",
        "zmin": 0,
        "zmax": 1,
        "xgap": 2,
        "ygap": 2,
    }
    figure = _figure([trace], "Normalised scores, 0 worst, 1 best", table, len(names))
    return figure.update_yaxes(autorange="reversed")


def _cells(study: Study) -> tuple[Table, list[str], list[str], dict[tuple[str, str], _Row]]:
    """Return the table of benchmarks, its benchmarks and models, and the row of each pair of them."""
    table = by_suite(study, benchmarks)
    found = {(str(r["benchmark"]), str(r["model"])): r for r in table.rows if r["is_main"]}
    return table, *(list(dict.fromkeys(key[n] for key in found)) for n in (0, 1)), found


def _normalised(row: _Row, study: Study) -> _Row:
    """Return a row whose interval goes from 0 (worst) to 1 (best), as its normalised score does."""
    if row["low"] is None or row["high"] is None:
        return row
    ends = np.array([row["low"], row["high"]], dtype=np.float64)
    low, high = sorted(study.panels[str(row["benchmark"])].normalise(ends).tolist())
    return {**row, "low": low, "high": high}


def _cost(study: Study) -> go.Figure:
    table = by_suite(study, overall)
    value, low, high, title = _worth(table)
    placed = [r for r in table.rows if r["ranked"] and r[value] is not None and r["total_cost_usd"]]
    if not placed:
        raise UsageError(
            "no model has a known cost above 0, so there is no chart of it: give models a price "
            "(`model.price`), or see table('cost') for their tokens"
        )
    traces: list[Any] = []
    for n, suite in enumerate(dict.fromkeys(row.get("suite") for row in placed)):
        rows = [row for row in placed if row.get("suite") == suite]
        costs, worths = ([_float(row[name]) for row in rows] for name in ("total_cost_usd", value))
        colour = _COLOURS[n % len(_COLOURS)]
        points = _points(rows, costs, worths, "y", (low, high), colour)
        names = [_text(row["model"]) for row in rows]
        points.update(mode="markers+text", text=names, textposition="top center", cliponaxis=False)
        x, y = zip(*_front(zip(costs, worths, strict=True)), strict=True)
        line = {"shape": "hv", "color": colour, "dash": "dot"}
        front = {"x": x, "y": y, "mode": "lines", "line": line, "hoverinfo": "skip"}
        traces += [points.update(name=_text(suite or "models")), {**front, "name": "Pareto front"}]
    figure = _figure(traces, "What performance costs", table, 14)
    figure.update_xaxes(type="log", title_text="total cost, USD (log axis)")
    return figure.update_yaxes(title_text=title, range=[-0.02, 1.02])


def _front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (cost, worth) that no point of the same or a lower cost matches or beats."""
    found: list[tuple[float, float]] = []
    for cost, worth in sorted(points, key=lambda p: (p[0], -p[1])):
        if not found or worth > found[-1][1]:
            found.append((cost, worth))
    return found


@dataclass(frozen=True)
class Bin:
    """Answers whose confidence lies in one part of 0 to 1."""

    n: int
    confidence: float
    """Their mean confidence."""
    accuracy: float
    """The share of them that is correct."""


def binned(pairs: Pairs, bins: int = 10) -> list[Bin]:
    """Return those of so many bins of equal width that hold an answer, in order; the last holds 1.

    Raises UsageError for a confidence that is not from 0 to 1.
    """
    held: dict[int, list[tuple[float, float]]] = {}
    for confidence, correct in pairs:
        if not 0 <= confidence <= 1:
            raise UsageError(f"a confidence lies between 0 and 1, not {confidence}")
        held.setdefault(min(int(confidence * bins), bins - 1), []).append((confidence, correct))
    means = [(len(own), *np.mean(own, axis=0).tolist()) for _, own in sorted(held.items())]
    return [Bin(*mean) for mean in means]


def reliability(models: Mapping[str, Pairs], study: Study, bins: int = 10) -> go.Figure:
    """Return how often the answers of each model are correct by their confidence, above their number.

    Intervals are Wilson's, for independent answers.
    """
    ideal = {"color": _FAINT, "dash": "dot"}
    traces: list[Any] = [
        {"x": [0, 1], "y": [0, 1], "mode": "lines", "line": ideal, "name": "ideal"}
    ]
    for n, (model, pairs) in enumerate(models.items()):
        found, colour = binned(pairs, bins), _COLOURS[n % len(_COLOURS)]
        rows: list[_Row] = []
        for own in found:
            low, high = wilson(own.accuracy, own.n, study.settings.confidence)
            rows.append({"model": model, "low": low, "high": high, "n": own.n})
        x, y = [own.confidence for own in found], [own.accuracy for own in found]
        points = _points(rows, x, y, "y", ("low", "high"), colour)
        traces.append(points.update(mode="markers+lines", name=_text(model)))
        traces.append(
            {
                "type": "bar",
                "x": x,
                "y": [own.n for own in found],
                "yaxis": "y2",
                "width": 0.8 / bins / len(models),
                "marker": {"color": colour},
                "showlegend": False,
            }
        )
    table = by_suite(study, benchmarks)
    figure = _figure(traces, "How often answers are correct, by their confidence", table, 16)
    figure.update_xaxes(title_text="confidence", range=[-0.02, 1.02], anchor="y2")
    figure.update_yaxes(title_text="share correct", range=[-0.02, 1.02], domain=[0.3, 1])
    below = {"title": {"text": "answers"}, "domain": [0, 0.22], "gridcolor": _GRID}
    return figure.update_layout(yaxis2=below)


def _reliability(study: Study) -> go.Figure:
    found: dict[str, list[tuple[float, float]]] = {}
    for cells in study.cells.values():
        for model, cell in cells.items():
            for scores in cell.scores.values():
                names = scores.pooling.names
                if {_CONFIDENCE, _CORRECT} <= {*names}:
                    own = scores.sums[:, [names.index(_CONFIDENCE), names.index(_CORRECT)]]
                    found.setdefault(model, []).extend(map(tuple, own.tolist()))
                    break  # another metric of these answers has the same
    if not found:
        raise UsageError(
            "no metric of these runs keeps the confidence of answers, so there is no chart of "
            f"reliability: its scores need the sums {_CONFIDENCE!r} and {_CORRECT!r}"
        )
    return reliability(found, study)


def _worth(table: Table) -> tuple[str, str, str, str]:
    """Return the column by which models are shown, its ends and its name; one model has no win rate."""
    if any(row["win_rate"] is not None for row in table.rows):
        return "win_rate", "win_low", "win_high", "win rate (a tie counts half)"
    return "macro_average", "macro_low", "macro_high", "macro-average"


def _points(
    rows: Sequence[_Row], x: Any, y: Any, along: str, ends: tuple[str, str], colour: Any
) -> go.Scatter:
    """Return a point for each row, with its interval along one of the axes."""
    import plotly.graph_objects as go

    values = [_float(value) for value in (x if along == "x" else y)]
    reach: dict[str, Any] = {"symmetric": False, "color": _FAINT, "thickness": 1.2}
    for side, end in zip(("arrayminus", "array"), ends, strict=True):
        known = zip(rows, values, strict=True)
        reach[side] = [abs(_float(v if r[end] is None else r[end]) - v) for r, v in known]
    texts = [
        f"{_text(row['model'])}<br>{_number(value)} [{', '.join(_number(row[e]) for e in ends)}]"
        + (f"<br>n {row['n']:,}" if "n" in row else "")
        for row, value in zip(rows, values, strict=True)
    ]
    marker = {"color": colour, "size": 9, "line": {"color": _COLOURS[0], "width": along == "x"}}
    shown = {"mode": "markers", "hovertext": texts, "hoverinfo": "text", "marker": marker}
    return go.Scatter(x=x, y=y, **shown, **{f"error_{along}": reach})


def _figure(traces: Sequence[Any], title: str, table: Table, lines: int) -> go.Figure:
    """Return a figure as high as its lines need, under a title that says of what its numbers are."""
    import plotly.graph_objects as go

    of = table.settings
    said = f"data={of['data']}, scoring={of['scoring']}, {_float(of['confidence']):.0%} intervals"
    figure = go.Figure(traces)
    figure.update_layout(
        title={"text": title, "subtitle": {"text": said}},
        template="plotly_white",
        height=180 + _LINE_PX * lines,
        showlegend=sum(trace.name is not None for trace in figure.data) > 1,
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#1a2227"},
    )
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_GRID, automargin=True)
    return figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_GRID, automargin=True)


def _float(value: object) -> float:
    return float(str(value))


def _number(value: object) -> str:
    return "–" if value is None else f"{_float(value):.2f}"


def _text(value: object) -> str:
    """Return a name as plotly shows it whatever is in it, on one line."""
    return html.escape(" ".join(str(value).split()), quote=False)


CHARTS: Mapping[str, Callable[[Study], go.Figure]] = {
    "overall": _overall,
    "benchmarks": _benchmarks,
    "heatmap": _heatmap,
    "cost": _cost,
    "reliability": _reliability,
}
