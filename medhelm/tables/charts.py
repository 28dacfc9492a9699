"""Charts of results as plotly figures, in the colours of the site.

Each is drawn of a frame with the columns `value`, `low` and `high`. Names come from users: plotly
reads some tags in its texts, so they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from medhelm.errors import UnknownName, UsageError
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.table import Table
from medhelm.tables.multiple_choice import reliability
from medhelm.tables.overall import overall
from medhelm.tables.study.study import Study
from medhelm.tables.suites import by_suite

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

Chart = Literal["overall", "benchmarks", "heatmap", "cost", "reliability"]
_COLOURS = ["#0b6570", "#b3580a", "#5b4a9c", "#8c1d18", "#33628d", "#6b7a0f", "#a3437f", "#566169"]
_GREY = _COLOURS[-1]
_NORMALISED = "normalised score, 0 worst, 1 best"
_LINE_PX = 26


def draw(name: str, study: Study) -> go.Figure:
    """Return a chart by its name; raises UnknownName, and UsageError where there is nothing to draw."""
    if name not in CHARTS:
        raise UnknownName("chart", name, CHARTS, f"charts are: {', '.join(CHARTS)}")
    return CHARTS[name](study)


def _overall(study: Study) -> go.Figure:
    table, frame, title = _models(study)
    frame["ranked"] = frame["ranked"].map({True: "ranked", False: "not ranked"})
    colours = {"ranked": _COLOURS[0], "not ranked": _GREY}
    look = {"color": "ranked", "color_discrete_map": colours}
    facet = "suite" if "suite" in frame else None
    figure = _scatter(frame, x="value", y="model", facet_row=facet, **look)
    figure.update_yaxes(matches=None, autorange="reversed")
    return _titled(figure, f"Models by {title}", table, len(frame), x=title)


def _benchmarks(study: Study) -> go.Figure:
    table, frame = _cells(study)
    for end in ("low", "high"):
        ends = zip(frame["panel"], frame[end].to_numpy(), strict=True)
        frame[end] = [float(study.panels[name].normalise(value)) for name, value in ends]
    figure = _scatter(frame, x="value", y="benchmark", color="model")
    figure.update_traces(orientation="h").update_layout(scattermode="group", scattergap=0.3)
    figure.update_yaxes(autorange="reversed")
    lines = frame["benchmark"].nunique() * (1 + frame["model"].nunique() // 3)
    return _titled(figure, "Scores by benchmark", table, lines, x=_NORMALISED)


def _heatmap(study: Study) -> go.Figure:
    import plotly.express as px

    table, frame = _cells(study)
    wide = frame.pivot(index="benchmark", columns="model", values="value")
    wide = wide.reindex(index=frame["benchmark"].unique(), columns=frame["model"].unique())
    look = {"color_continuous_scale": "Viridis", "zmin": 0, "zmax": 1, "aspect": "auto"}
    figure = px.imshow(wide, text_auto=".3f", **look)
    figure.update_traces(xgap=2, ygap=2, hoverongaps=False)
    return _titled(figure, f"Scores: {_NORMALISED}", table, len(wide))


def _cost(study: Study) -> go.Figure:
    table, frame, title = _models(study)
    frame = frame[frame["ranked"] & (frame["total_cost_usd"] > 0)]
    if frame.empty:
        raise UsageError(
            "no model has a known cost above 0, so there is no chart of it: give models a price "
            "(`model.price`), or see table('cost') for their tokens"
        )
    suites = frame["suite"] if "suite" in frame else frame["model"].map(lambda _: "models")
    frame = frame.assign(suite=suites)
    look = {"color": "suite", "text": "model", "log_x": True}
    figure = _scatter(frame, x="total_cost_usd", y="value", **look)
    figure.update_traces(textposition="top center", cliponaxis=False)
    ordered = frame.sort_values(["total_cost_usd", "value"], ascending=[True, False])
    for suite, own in ordered.groupby("suite", sort=False):
        front = own[own["value"] > own["value"].cummax().shift(fill_value=-1.0)]
        line = {"shape": "hv", "color": _GREY, "dash": "dot"}
        x, y = front["total_cost_usd"], front["value"]
        figure.add_scatter(x=x, y=y, mode="lines", line=line, name=f"Pareto front of {suite}")
    cost = "total cost, USD (log axis)"
    return _titled(figure, "What performance costs", table, 14, x=cost, y=title)


def _reliability(study: Study) -> go.Figure:
    table = by_suite(study, reliability)
    if not table.rows:
        raise UsageError(
            "no run asked for log-probabilities, which a chart of reliability is drawn of; "
            "`medhelm run ... form=logprobs` does"
        )
    frame = _escaped(table).rename(columns={"right": "value"})
    several = frame["benchmark"].nunique() > 1
    frame["who"] = frame["model"] + (", " + frame["benchmark"] if several else "")
    figure = _scatter(frame, x="confidence", y="value", color="who", hover_data=["n"])
    figure.update_traces(mode="markers+lines")
    ideal = {"dash": "dot", "color": _GREY}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=ideal, name="calibrated")
    for n, (_, own) in enumerate(frame.groupby("who", sort=False)):
        look = {"marker_color": _COLOURS[n % len(_COLOURS)], "opacity": 0.6, "showlegend": False}
        figure.add_bar(x=own["confidence"], y=own["n"], width=0.03, yaxis="y2", **look)
    title = "How often answers are right, by how sure the model is"
    _titled(figure, title, table, 16, x="confidence", y="share right")
    figure.update_xaxes(anchor="y2", range=[-0.02, 1.02]).update_yaxes(domain=[0.3, 1])
    below = {"title": {"text": "answers"}, "domain": [0, 0.22]}
    return figure.update_layout(yaxis2=below, barmode="overlay")


def _models(study: Study) -> tuple[Table, pd.DataFrame, str]:
    """Return the ranking, its models that have a value, and its name: one model has no win rate."""
    table = by_suite(study, overall)
    frame = _escaped(table)
    value, start, title = "win_rate", "win", "win rate (a tie counts half)"
    if frame[value].isna().all():
        value, start, title = "macro_average", "macro", "macro-average"
    named = {value: "value", f"{start}_low": "low", f"{start}_high": "high"}
    return table, frame[frame[value].notna()].rename(columns=named), title


def _cells(study: Study) -> tuple[Table, pd.DataFrame]:
    """Return the table of benchmarks, and its rows of main metrics that have a score."""
    table = by_suite(study, benchmarks)
    frame = _escaped(table).rename(columns={"normalised": "value"})
    frame["panel"] = table.frame()["benchmark"]
    return table, frame[frame["is_main"] & frame["value"].notna()].copy()


def _escaped(table: Table) -> pd.DataFrame:
    frame = table.frame()
    names = [name for name in ("model", "benchmark", "suite") if name in frame]
    return frame.assign(**{name: frame[name].map(escape) for name in names})


def _scatter(frame: pd.DataFrame, *, x: str, y: str, **options: Any) -> go.Figure:
    """Return points with intervals along the axis of `value`, which goes from 0 to 1."""
    import plotly.express as px

    along, ends = "x" if x == "value" else "y", frame[["low", "high"]]
    reach = {"below": frame["value"] - ends.min(axis=1), "above": ends.max(axis=1) - frame["value"]}
    shown = frame.assign(**{side: part.clip(lower=0).fillna(0) for side, part in reach.items()})
    errors = {f"error_{along}": "above", f"error_{along}_minus": "below"}
    options = {"color_discrete_sequence": _COLOURS, "hover_data": ["low", "high"], **options}
    figure = px.scatter(shown, x=x, y=y, **errors, **options)
    figure.update_traces(marker_size=9, **{f"error_{along}_thickness": 1.2})
    return figure.update_layout(**{f"{along}axis_range": [-0.02, 1.02]})


def _titled(
    figure: go.Figure, title: str, table: Table, lines: int, *, x: str = "", y: str = ""
) -> go.Figure:
    """Return a figure as high as its lines need, under a title that says of what its numbers are."""
    of = table.settings
    level = f"{float(str(of['confidence'])):.0%} intervals"
    said = {"text": f"data={of['data']}, scoring={of['scoring']}, {level}"}
    height = 180 + _LINE_PX * lines
    figure.update_layout(title={"text": title, "subtitle": said}, height=height, legend_title="")
    figure.update_yaxes(automargin=True, title_text=y)
    return figure.update_layout(template="plotly_white", xaxis_title_text=x)


CHARTS: Mapping[str, Callable[[Study], go.Figure]] = {
    "overall": _overall,
    "benchmarks": _benchmarks,
    "heatmap": _heatmap,
    "cost": _cost,
    "reliability": _reliability,
}
