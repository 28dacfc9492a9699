"""The columns of every table: name, type, what it means, and how text formats show it."""

from __future__ import annotations

from typing import get_args

from medhelm.schema import Outcome
from medhelm.tables.table import Column

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def _text(name: str, description: str, heading: str = "") -> Column:
    return Column(name=name, type="string", description=description, heading=heading)


def _count(name: str, description: str, heading: str = "", unit: str = "", of: str = "") -> Column:
    return Column(
        name=name, type="integer", description=description, heading=heading, unit=unit, of=of
    )


def _yes(name: str, description: str) -> Column:
    return Column(name=name, type="boolean", description=description)


def _number(
    name: str,
    description: str,
    unit: str = "",
    heading: str = "",
    interval: tuple[str, str] | None = None,
    digits: int = 2,
    is_percent: bool = False,
) -> Column:
    return Column(
        name=name,
        type="number",
        description=description,
        unit=unit,
        heading=heading,
        interval=interval,
        digits=digits,
        is_percent=is_percent,
    )


def _ends(prefix: str, of: str, unit: str) -> tuple[Column, Column]:
    return (
        _number(f"{prefix}_low", f"lower end of the interval of {of}", unit),
        _number(f"{prefix}_high", f"upper end of the interval of {of}", unit),
    )


_MODEL = _text("model", "name of the model", "model")
_FLAGS = _text("flags", "what a reader must know of the runs (legend in the notes)", "flag")
_USD = _number(
    "cost_usd",
    "actual cost: tokens as counted, cached input at its own price; missing where price or usage "
    "is unknown",
    "USD",
    "USD",
)
_UPPER = _number(
    "cost_upper_usd",
    "upper bound of the paper: input as counted, each answer at its output limit",
    "USD",
    "USD at most",
)
_TOKENS = (
    _count("requests", "answered requests"),
    _count("input_tokens", "input tokens, cached ones included", "input", "tokens"),
    _count("cached_tokens", "input tokens served from a cache", "cached", "tokens"),
    _count("output_tokens", "output tokens, reasoning included", "output", "tokens"),
    _count("reasoning_tokens", "output tokens of hidden reasoning", "reasoning", "tokens"),
    _count("output_limit_tokens", "output tokens if each answer used its budget", "", "tokens"),
    _count(
        "usage_unknown", "answered requests whose usage is unknown; not in the cost", "no usage"
    ),
    _count("requests_lost", "requests sent whose answer was lost; they may be billed"),
)

OVERALL = (
    Column(
        name="rank",
        type="integer",
        description="1 + the number of models ranked strictly better; missing: not ranked",
        heading="rank",
        interval=("rank_low", "rank_high"),
    ),
    _count("rank_low", "best rank of the interval over paired resampling of instances"),
    _count("rank_high", "worst rank of that interval"),
    _count("tie_group", "models of one number cannot be told from the first of their group", "tie"),
    _MODEL,
    _yes("ranked", "whether the model is ranked"),
    _number(
        "win_rate",
        "share of rivals and common benchmarks where the score is at least the rival's (paper)",
        "share",
        "win",
        ("win_low", "win_high"),
    ),
    *_ends("win", "win_rate, instances resampled within each benchmark", "share"),
    _number("win_sd", "SD of win_rate over rivals, ddof 0", "share", "SD"),
    *_ends("win_suite", "win_rate, benchmarks resampled", "share"),
    _number("win_rate_half", "win rate in which a tie counts one half", "share", "half"),
    *_ends("win_half", "win_rate_half, instances resampled within each benchmark", "share"),
    _number("win_half_sd", "SD of win_rate_half over rivals, ddof 0", "share"),
    _number(
        "macro_average",
        "unweighted mean of the normalised scores over the common benchmarks",
        "normalised",
        "macro",
        ("macro_low", "macro_high"),
    ),
    *_ends("macro", "macro_average, instances resampled within each benchmark", "normalised"),
    _number("macro_sd", "SD of the normalised scores over benchmarks, ddof 1", "normalised", "SD"),
    _number(
        "coverage", "rows with a value of all planned", "share", "cov", digits=1, is_percent=True
    ),
    _count("benchmarks", "benchmarks in the rank, the win rate and the macro-average", "n"),
    _count("benchmarks_run", "benchmarks with a run"),
    _text("benchmarks_missing", "benchmarks of this table without a run of the model"),
    _text("benchmarks_flagged", "benchmarks on which the model is not ranked for its coverage"),
    _USD,
    _UPPER,
    _FLAGS,
)

BENCHMARKS = (
    _text("benchmark", "name of the benchmark", "benchmark"),
    _text("category", "category of the taxonomy"),
    _text("subcategory", "subcategory of the taxonomy"),
    _text("metric", "name of the metric", "metric"),
    _yes("is_main", "whether this is the benchmark's main metric"),
    _MODEL,
    _text(
        "status",
        "ranked; left out (a ranked model, but not on this benchmark); not ranked; not graded: a "
        "stored run without a grading; missing: no run",
    ),
    _yes("is_common", "whether the benchmark is in rank, win rate and macro-average"),
    _number("score", "score on the compared instances", "metric", "score", ("low", "high"), 3),
    _number("low", "lower end of the interval of score", "metric"),
    _number("high", "upper end of the interval of score", "metric"),
    _text("interval_method", "how the interval was made, or why there is none", "interval"),
    _number(
        "standard_error", "standard error of score, clustered where there are clusters", "metric"
    ),
    _number("design_effect", "(clustered error / plain error) squared; missing without clusters"),
    _number("normalised", "score from 0 (worst) to 1 (best)", "normalised", "norm", digits=3),
    _count("n", "compared instances that the model has a value for", "n"),
    _count("clusters", "clusters (patients, notes) among them; n where independent"),
    _number("score_all", "score on all instances of the run that have a value", "metric"),
    _number(
        "worst_case",
        "score_all if every missing instance had the worst value; means only",
        "metric",
        "at worst",
        digits=3,
    ),
    _count("planned", "rows of the finished run: instances times repeats"),
    _count("counted", "rows with a value: scored, or counted with the metric's floor"),
    _count("scored", "rows whose answer was read and scored", "scored", of="planned"),
    _number("coverage", "counted / planned", "share", "cov", digits=1, is_percent=True),
    *(
        _number(f"share_{o}", f"share of the planned rows with the outcome {o}", "share")
        for o in OUTCOMES
    ),
    _number("share_not_run", "share of the planned rows that a stopped run has not asked", "share"),
    _text("not_scored", "rows of each other outcome", "not scored"),
    _count("repeats", "times each instance was asked"),
    _number(
        "worst_of_repeats", "mean over instances of the worst repeat; for repeats > 1", "metric"
    ),
    _number("repeat_sd", "mean over instances of the SD over repeats; for repeats > 1", "metric"),
    *(c for c in _TOKENS if not c.heading),
    *(
        Column(name=c.name, type=c.type, description=c.description, unit=c.unit)
        for c in (*(t for t in _TOKENS if t.heading), _USD, _UPPER)
    ),
    _FLAGS,
    _text("request_hash", "hash of all that decides the requests"),
    _text("grading_hash", "hash of metrics and scoring"),
    _text("run", "folder of the graded run below the results folder"),
)

CATEGORIES = (
    _text("level", "category or subcategory"),
    _text("category", "category of the taxonomy", "category"),
    _text(
        "subcategory", "subcategory of the taxonomy; missing for a whole category", "subcategory"
    ),
    _MODEL,
    _yes("ranked", "whether the model is ranked"),
    _number(
        "mean",
        "unweighted mean of the normalised scores over the common benchmarks of the category",
        "normalised",
        "mean",
        ("low", "high"),
        3,
    ),
    _number(
        "low",
        "lower end of the interval, instances resampled within each benchmark; that of the "
        "benchmark itself where there is one",
    ),
    _number("high", "upper end of that interval"),
    _number("sd", "SD over benchmarks, ddof 1", "normalised", "SD"),
    _count("benchmarks", "benchmarks in the mean", "n"),
)

MDE = (
    _text("benchmark", "name of the benchmark", "benchmark"),
    _text("metric", "name of the main metric", "metric"),
    _count("n", "compared instances", "n"),
    _count("clusters", "clusters among them; n where independent"),
    _count("pairs", "pairs of ranked models", "pairs"),
    _number(
        "mde",
        "mean over pairs of (z[1-alpha/2] + z[1-beta]) * error of the paired difference",
        "normalised",
        "MDE",
        digits=3,
    ),
    _number("mde_sd", "SD over pairs, ddof 1", "normalised", "SD", digits=3),
    _number("mde_median", "median over pairs", "normalised", "median", digits=3),
    _number(
        "mde_clustered",
        "mean over pairs with the clustered error; missing where instances are independent",
        "normalised",
        "clustered",
        digits=3,
    ),
    _text("method", "paired sd, or bootstrap for metrics that are not a mean", "method"),
)

COST = (
    _MODEL,
    _text("weights", "open, closed, or none for a baseline"),
    _count("context_window", "tokens of context that the settings state", unit="tokens"),
    _count("runs", "runs summed", "runs"),
    *_TOKENS,
    _UPPER,
    _USD,
    _number("price_input", "USD per million input tokens", "USD"),
    _number("price_cached", "USD per million cached input tokens", "USD"),
    _number("price_output", "USD per million output tokens", "USD"),
    _text("price_date", "date of the price"),
)

SLICES = (
    _text("benchmark", "name of the benchmark", "benchmark"),
    _text("metric", "name of the main metric"),
    _text("key", "metadata key"),
    _text("value", "its value; missing: instances without the key", "slice"),
    _MODEL,
    _yes("ranked", "whether the model is ranked"),
    _number("score", "score on the slice", "metric", "score", ("low", "high"), 3),
    _number("low", "lower end of the interval of score", "metric"),
    _number("high", "upper end of the interval of score", "metric"),
    _text("interval_method", "how the interval was made, or why there is none"),
    _number("normalised", "score from 0 (worst) to 1 (best)", "normalised", "norm", digits=3),
    _count("n", "compared instances of the slice that the model has a value for", "n"),
    _number("share", "slice / compared instances", "share", "share", digits=1, is_percent=True),
)

COMPARE = (
    _text("benchmark", "name of the benchmark; missing in the row over all", "benchmark"),
    _text("level", "benchmark, or overall: the unweighted mean over benchmarks in it"),
    _text("metric", "name of the main metric"),
    _count("n", "instances that both models have a value for", "n"),
    _count("clusters", "clusters among them; n where independent"),
    _number("score_a", "score of the first model on them", "metric", "A", digits=3),
    _number("score_b", "score of the second model on them", "metric", "B", digits=3),
    _number(
        "difference",
        "normalised score of the first less that of the second; above 0 the first is better",
        "normalised",
        "A - B",
        ("low", "high"),
        3,
    ),
    _number("low", "lower end of its interval, paired bootstrap", "normalised"),
    _number("high", "upper end of its interval", "normalised"),
    _text("interval_method", "how the interval was made, or why there is none"),
    _number("standard_error", "error of the paired difference, clustered where there are clusters"),
    _number("correlation", "correlation of the two models' values over instances", "", "r"),
    _number("p", "two-sided p of no difference", "", "p", digits=4),
    _number("p_holm", "p adjusted by Holm over the benchmarks compared", "", "p Holm", digits=4),
    _text("test", "McNemar exact, permutation, or why there is none", "test"),
    _yes("is_compared", "whether the benchmark is in the Holm family and in the overall row"),
    _number("coverage_a", "coverage of the first model's run", "share"),
    _number("coverage_b", "coverage of the second model's run", "share"),
    _FLAGS,
    _text("run_a", "folder of the first model's graded run"),
    _text("run_b", "folder of the second model's graded run"),
)
