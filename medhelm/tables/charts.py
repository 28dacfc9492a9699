"""Charts of results as plotly figures, in the colours of the site.

Names come from users: plotly reads some tags in its texts, so they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from medhelm.errors import UnknownName, UsageError
from medhelm.stats.intervals import wilson
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.table import Table
from medhelm.tables.overall import overall
from medhelm.tables.study.study import Study
from medhelm.tables.suites import by_suite

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Chart = Literal["overall", "benchmarks", "heatmap", "cost", "reliability"]
_COLOURS = ["#0b6570", "#b3580a", "#5b4a9c", "#8c1d18", "#33628d", "#6b7a0f", "#a3437f", "#566169"]
_CONFIDENCE, _CORRECT = "confidence", "correct"
"""Names of the sums of a metric that keeps the confidence of its answers (0 to 1) and whether each is right."""
_NORMALISED = "normalised score, 0 worst, 1 best"
_FROM_0_TO_1 = [-0.02, 1.02]
_LINE_PX = 26

Pairs = Sequence[tuple[float, float]]
"""For each answer its confidence, and 1 where it is correct, else 0."""


def draw(name: str, study: Study) -> go.Figure:
    """Return a chart by its name; raises UnknownName, and UsageError where there is nothing to draw."""
    if name not in CHARTS:
        raise UnknownName("chart", name, CHARTS, f"charts are: {', '.join(CHARTS)}")
    return CHARTS[name](study)


def _overall(study: Study) -> go.Figure:
    table = by_suite(study, overall)
    frame, value, title = _models(table)
    facet = "suite" if "suite" in frame else None
    colours = {"ranked": _COLOURS[0], "not ranked": _COLOURS[7]}
    frame["ranked"] = frame["ranked"].map({True: "ranked", False: "not ranked"})
    look = {"color": "ranked", "color_discrete_map": colours, "facet_row": facet}
    figure = _scatter(_with_reach(frame, value), x=value, y="model", along="x", **look)
    figure.update_xaxes(range=_FROM_0_TO_1).update_yaxes(matches=None, autorange="reversed")
    return _titled(figure, f"Models by {title}", table, len(frame), x=title, y="")


def _benchmarks(study: Study) -> go.Figure:
    table, frame = _cells(study)
    for end in ("low", "high"):
        known = zip(frame["benchmark"], frame[end].to_numpy(), strict=True)
        frame[end] = [float(study.panels[name].normalise(value)) for name, value in known]
    shown = _with_reach(_escaped(frame), "normalised")
    figure = _scatter(shown, x="normalised", y="benchmark", along="x", color="model")
    figure.update_traces(orientation="h").update_layout(scattermode="group", scattergap=0.3)
    figure.update_xaxes(range=_FROM_0_TO_1).update_yaxes(autorange="reversed")
    lines = frame["benchmark"].nunique() * (1 + frame["model"].nunique() // 3)
    return _titled(figure, "Scores by benchmark", table, lines, x=_NORMALISED, y="")


def _heatmap(study: Study) -> go.Figure:
    import plotly.express as px

    table, frame = _cells(study)
    shown = _escaped(frame)
    wide = shown.pivot(index="benchmark", columns="model", values="normalised")
    wide = wide.reindex(index=shown["benchmark"].unique(), columns=shown["model"].unique())
    figure = px.imshow(
        wide, text_auto=".3f", zmin=0, zmax=1, color_continuous_scale="Viridis", aspect="auto"
    )
    figure.update_traces(xgap=2, ygap=2, hoverongaps=False)
    return _titled(figure, f"Scores: {_NORMALISED}", table, len(wide), x="", y="")


def _cost(study: Study) -> go.Figure:
    table = by_suite(study, overall)
    frame, value, title = _models(table)
    frame = frame[frame["ranked"] & (frame["total_cost_usd"] > 0)]
    if frame.empty:
        raise UsageError(
            "no model has a known cost above 0, so there is no chart of it: give models a price "
            "(`model.price`), or see table('cost') for their tokens"
        )
    suites = frame.get("suite", frame["model"].map(lambda _: "models"))
    shown = _with_reach(frame.assign(suite=suites), value)
    look = {"color": "suite", "text": "model", "log_x": True}
    figure = _scatter(shown, x="total_cost_usd", y=value, along="y", **look)
    figure.update_traces(textposition="top center", cliponaxis=False)
    for n, (suite, own) in enumerate(frame.groupby(suites, sort=False)):
        x, y = zip(*_front(zip(own["total_cost_usd"], own[value], strict=True)), strict=True)
        line = {"shape": "hv", "color": _COLOURS[n % len(_COLOURS)], "dash": "dot"}
        figure.add_scatter(x=x, y=y, mode="lines", line=line, name=f"Pareto front of {suite}")
    figure.update_yaxes(range=_FROM_0_TO_1)
    cost = "total cost, USD (log axis)"
    return _titled(figure, "What performance costs", table, 14, x=cost, y=title)


def _front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (cost, worth) that no point of the same or a lower cost matches or beats."""
    found: list[tuple[float, float]] = []
    for cost, worth in sorted(points, key=lambda p: (p[0], -p[1])):
        if not found or worth > found[-1][1]:
            found.append((cost, worth))
    return found


def binned(pairs: Pairs, bins: int = 10) -> pd.DataFrame:
    """Return a row for each of so many bins of equal width that holds an answer; the last holds 1.

    Columns: `n`, and the means `confidence` and `correct`. Raises UsageError for a confidence that is
    not from 0 to 1.
    """
    import pandas as pd

    frame = pd.DataFrame(pairs, columns=[_CONFIDENCE, _CORRECT], dtype="float64")
    outside = frame[_CONFIDENCE][~frame[_CONFIDENCE].between(0, 1)]
    if len(outside):
        raise UsageError(f"a confidence lies between 0 and 1, not {outside.iloc[0]}")
    places = (frame[_CONFIDENCE] * bins).astype("int64").clip(upper=bins - 1)
    grouped = frame.groupby(places.to_numpy())
    return grouped.mean().assign(n=grouped.size()).reset_index(drop=True)


def reliability(models: Mapping[str, Pairs], study: Study, bins: int = 10) -> go.Figure:
    """Return how often the answers of each model are correct by their confidence, above their number.

    Intervals are Wilson's, for independent answers.
    """
    import pandas as pd

    level = study.settings.confidence
    frame = pd.concat([binned(pairs, bins).assign(model=m) for m, pairs in models.items()])
    rates = zip(frame[_CORRECT], frame["n"], strict=True)
    frame[["low", "high"]] = [wilson(rate, n, level) for rate, n in rates]
    shown = _with_reach(_escaped(frame), _CORRECT)
    figure = _scatter(shown, x=_CONFIDENCE, y=_CORRECT, along="y", color="model")
    figure.update_traces(mode="markers+lines")
    ideal = {"dash": "dot", "color": _COLOURS[7]}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=ideal, name="calibrated")
    for n, (_, own) in enumerate(frame.groupby("model", sort=False)):
        look = {"marker_color": _COLOURS[n % len(_COLOURS)], "opacity": 0.6, "showlegend": False}
        figure.add_bar(x=own[_CONFIDENCE], y=own["n"], width=0.8 / bins, yaxis="y2", **look)
    title = "How often answers are correct, by their confidence"
    _titled(figure, title, by_suite(study, benchmarks), 16, x=_CONFIDENCE, y="share correct")
    figure.update_xaxes(range=_FROM_0_TO_1, anchor="y2")
    figure.update_yaxes(range=_FROM_0_TO_1, domain=[0.3, 1])
    below = {"title": {"text": "answers"}, "domain": [0, 0.22]}
    return figure.update_layout(yaxis2=below, barmode="overlay")


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


def _models(table: Table) -> tuple[pd.DataFrame, str, str]:
    """Return the models with a value, and its column and name: of one model there is no win rate."""
    frame = _escaped(table.frame())
    value, title, start = "win_rate", "win rate (a tie counts half)", "win"
    if frame[value].isna().all():
        value, title, start = "macro_average", "macro-average", "macro"
    named = frame.rename(columns={f"{start}_{end}": end for end in ("low", "high")})
    return named[named[value].notna()], value, title


def _cells(study: Study) -> tuple[Table, pd.DataFrame]:
    """Return the table of benchmarks, and its rows of main metrics that have a score."""
    table = by_suite(study, benchmarks)
    frame = table.frame()
    return table, frame[frame["is_main"] & frame["normalised"].notna()].copy()


def _with_reach(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the frame with the lengths of the intervals on both sides; 0 where there is none."""
    ends = frame[["low", "high"]]
    below, above = frame[value] - ends.min(axis=1), ends.max(axis=1) - frame[value]
    return frame.assign(below=below.clip(lower=0).fillna(0), above=above.clip(lower=0).fillna(0))


def _escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with names that plotly shows as they are, whatever is in them."""
    names = [name for name in ("model", "benchmark", "suite") if name in frame]
    return frame.assign(**{name: frame[name].map(escape) for name in names})


def _scatter(frame: pd.DataFrame, *, along: str, **options: Any) -> go.Figure:
    """Return points with intervals along an axis."""
    import plotly.express as px

    ends = {f"error_{along}": "above", f"error_{along}_minus": "below"}
    hover = [name for name in ("model", "low", "high", "n") if name in frame]
    options.setdefault("color_discrete_sequence", _COLOURS)
    figure = px.scatter(frame, **options, **ends, hover_data=hover)
    return figure.update_traces(marker_size=9, **{f"error_{along}_thickness": 1.2})


def _titled(
    figure: go.Figure, title: str, table: Table, lines: int, *, x: str, y: str
) -> go.Figure:
    """Return a figure as high as its lines need, under a title that says of what its numbers are."""
    of = table.settings
    said = (
        f"data={of['data']}, scoring={of['scoring']}, {float(str(of['confidence'])):.0%} intervals"
    )
    figure.update_layout(
        title={"text": title, "subtitle": {"text": said}},
        template="plotly_white",
        height=180 + _LINE_PX * lines,
        legend_title="",
    )
    figure.update_xaxes(automargin=True).update_yaxes(automargin=True, title_text=y)
    return figure.update_layout(xaxis_title_text=x)


CHARTS: Mapping[str, Callable[[Study], go.Figure]] = {
    "overall": _overall,
    "benchmarks": _benchmarks,
    "heatmap": _heatmap,
    "cost": _cost,
    "reliability": _reliability,
}
