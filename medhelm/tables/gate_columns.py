"""Columns of the gate's table: rows of models, and of each threshold."""

from __future__ import annotations

from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.format.table import Layout

COLUMNS = (
    text("level", "model: over all thresholds; threshold: one of them"),
    text("model", "name of the model", "model"),
    text("verdict", "PASS, FAIL or INCONCLUSIVE, by the decision that was chosen"),
    text("by_interval", "verdict on the whole interval", "interval"),
    text("by_point", "verdict on the score alone", "point"),
    count("passed", "thresholds passed", "passed", of="thresholds"),
    count("failed", "thresholds failed", "failed"),
    count("inconclusive", "thresholds of which nothing can be said", "inconclusive"),
    count("thresholds", "thresholds of the profile"),
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "name of the metric", "metric"),
    text("needed", "what the profile asks for", "needed"),
    text("bound", "minimum (more is better) or maximum (less is better)"),
    number("threshold", "the least, or the most, that passes", "metric"),
    number("score", "score on the model's own instances", "metric", "score", ("low", "high"), 3),
    number("low", "lower end of the interval of score", "metric"),
    number("high", "upper end of the interval of score", "metric"),
    text("interval_method", "how the interval was made, or why there is none"),
    number("bound_low", "low, of a mean with missing rows at their lowest", "metric"),
    number("bound_high", "high, of a mean with missing rows at their highest", "metric"),
    number(
        "margin",
        "distance of the threshold to the nearer of bound_low and bound_high; below 0 where that "
        "end is short of it",
        "metric",
        "margin",
        digits=3,
    ),
    count("n", "instances with a value", "n"),
    count("clusters", "clusters among them; n where independent"),
    count(
        "cases",
        "about how many instances a verdict needs if the score stays where it is; missing where "
        "there is a verdict, or none in sight",
        "needs about",
    ),
    count("planned", "rows of the finished run: instances times repeats"),
    count("counted", "rows with a value: scored, or counted with the metric's floor"),
    number("coverage", "counted / planned", "share"),
    count("made_itself", "instances that the model wrote or rated itself"),
    text("reason", "why the verdict is what it is"),
    text("flags", "what a reader must know of the run (legend in the notes)", "flag"),
    text("run", "folder of the graded run below the results folder"),
)

LAYOUT = Layout(leaving=("cases", "margin", "n"), main=("score",))
