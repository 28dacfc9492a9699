"""The columns of every table: name, type, what it means, and how text formats show it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

from medhelm.schema.score import Outcome
from medhelm.tables.format.column_kinds import count, ends, number, text, yes
from medhelm.tables.format.table import Column

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


_MODEL = text("model", "name of the model", "model")
_FLAGS = text("flags", "what a reader must know of the runs (legend in the notes)", "flag")
_USD = number(
    "cost_usd",
    "actual cost of the model's answers: tokens as counted, cached input at its own price; missing "
    "where price or usage is unknown",
    "USD",
    "USD",
)
_UPPER = number(
    "cost_upper_usd",
    "upper bound of the paper: input as counted, each answer at its output limit",
    "USD",
    "USD at most",
)
_JURY_USD = number(
    "jury_cost_usd",
    "actual cost of the judges; missing where no judge is a model, or price or usage is unknown",
    "USD",
    "jury USD",
)
_JURY_UPPER = number(
    "jury_cost_upper_usd",
    "upper bound for the judges: input as counted, each reply at its output limit",
    "USD",
    "jury at most",
)
_TOTAL_USD = number(
    "total_cost_usd",
    "cost_usd and jury_cost_usd together; missing where one of them is unknown",
    "USD",
    "total USD",
)
_TOTAL_UPPER = number(
    "total_cost_upper_usd",
    "cost_upper_usd and jury_cost_upper_usd together; missing where one of them is unknown",
    "USD",
    "total at most",
)
_TOKENS = (
    count("requests", "answered requests"),
    count("input_tokens", "input tokens, cached ones included", "input", "tokens"),
    count("cached_tokens", "input tokens served from a cache", "cached", "tokens"),
    count("output_tokens", "output tokens, reasoning included", "output", "tokens"),
    count("reasoning_tokens", "output tokens of hidden reasoning", "reasoning", "tokens"),
    count("output_limit_tokens", "output tokens if each answer used its budget", "", "tokens"),
    count("usage_unknown", "answered requests whose usage is unknown; not in the cost", "no usage"),
    count("requests_lost", "requests sent whose answer was lost; they may be billed"),
)
_JURY_TOKENS = tuple(
    Column(
        name=f"jury_{c.name}",
        type=c.type,
        description=f"of the judges, repairs included: {c.description}",
        unit=c.unit,
        heading={"input_tokens": "jury in", "output_tokens": "jury out"}.get(c.name, ""),
    )
    for c in _TOKENS
)


def _quiet(columns: Iterable[Column], **headings: str) -> tuple[Column, ...]:
    """Return columns that text formats leave out, but those that are given a heading."""
    return tuple(replace(c, heading=headings.get(c.name, "")) for c in columns)


_COSTS = (_USD, _UPPER, _JURY_USD, _JURY_UPPER, _TOTAL_USD, _TOTAL_UPPER)

OVERALL = (
    Column(
        name="rank",
        type="integer",
        description="1 + the number of models with a higher win rate (or macro-average, where "
        "ranked by it); missing: not ranked",
        heading="rank",
        interval=("rank_low", "rank_high"),
    ),
    count(
        "rank_low",
        "1 + the number of models clearly better, over all pairs at once: paired differences of "
        "win rate and macro-average",
    ),
    count("rank_high", "number of ranked models less those clearly worse"),
    count("tie_group", "the first of a group is not clearly better than the others of it", "tie"),
    _MODEL,
    yes("ranked", "whether the model is ranked"),
    number(
        "win_rate",
        "share of rivals and common benchmarks where the score is above the rival's, a tie "
        "counting one half",
        "share",
        "win",
        ("win_low", "win_high"),
    ),
    *ends("win", "win_rate, instances resampled within each benchmark", "share"),
    number("win_sd", "SD of win_rate over rivals, ddof 0", "share", "SD"),
    *ends("win_suite", "win_rate, benchmarks resampled", "share"),
    number(
        "win_rate_literal",
        "win rate in which a tie wins for both, as in the paper's text",
        "share",
        "literal",
    ),
    *ends("win_literal", "win_rate_literal, instances resampled within each benchmark", "share"),
    number("win_literal_sd", "SD of win_rate_literal over rivals, ddof 0", "share"),
    number(
        "macro_average",
        "unweighted mean of the normalised scores over the common benchmarks",
        "normalised",
        "macro",
        ("macro_low", "macro_high"),
    ),
    *ends("macro", "macro_average, instances resampled within each benchmark", "normalised"),
    number("macro_sd", "SD of the normalised scores over benchmarks, ddof 1", "normalised", "SD"),
    number(
        "coverage", "rows with a value of all planned", "share", "cov", digits=1, is_percent=True
    ),
    number(
        "cut_share",
        "share of the answers planned that the output budget ended; missing where a run was graded "
        "before those scored were counted",
        "share",
        "cut",
        digits=1,
        is_percent=True,
    ),
    count("benchmarks", "benchmarks in the rank, the win rate and the macro-average", "n"),
    count("benchmarks_run", "benchmarks with a run"),
    text("benchmarks_missing", "benchmarks of this table without a run of the model"),
    text(
        "benchmarks_flagged",
        "benchmarks on which the model is not ranked for its coverage, or the share read",
    ),
    *_quiet(_COSTS, total_cost_usd="USD", total_cost_upper_usd="USD at most"),
    _FLAGS,
)

BENCHMARKS = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("category", "category of the taxonomy"),
    text("subcategory", "subcategory of the taxonomy"),
    text("metric", "name of the metric", "metric"),
    yes("is_main", "whether this is the benchmark's main metric"),
    _MODEL,
    text(
        "status",
        "ranked; left out (a ranked model, but not on this benchmark); not ranked; not graded: a "
        "stored run without a grading; missing: no run",
    ),
    yes("is_common", "whether the benchmark is in rank, win rate and macro-average"),
    number("score", "score on the compared instances", "metric", "score", ("low", "high"), 3),
    number("low", "lower end of the interval of score", "metric"),
    number("high", "upper end of the interval of score", "metric"),
    text("interval_method", "how the interval was made, or why there is none", "interval"),
    number(
        "standard_error", "standard error of score, clustered where there are clusters", "metric"
    ),
    number("design_effect", "(clustered error / plain error) squared; missing without clusters"),
    number("normalised", "score from 0 (worst) to 1 (best)", "normalised", "norm", digits=3),
    count("n", "compared instances that the model has a value for", "n"),
    text(
        "mean_of",
        "parts (subjects, languages) of whose means score is the mean, so that it is not a share of n",
        "mean of",
    ),
    count("clusters", "clusters (patients, notes) among them; n where independent"),
    number("score_all", "score on all instances of the run that have a value", "metric"),
    number(
        "worst_case",
        "score_all if every missing instance had the worst value; means only",
        "metric",
        "at worst",
        digits=3,
    ),
    count("planned", "rows of the finished run: instances times repeats"),
    count(
        "counted", "rows with a value: scored, or counted with the metric's floor where it has one"
    ),
    count("scored", "rows whose answer was read and scored", "scored", of="planned"),
    number("coverage", "counted / planned", "share", "cov", digits=1, is_percent=True),
    *(
        number(f"share_{o}", f"share of the planned rows with the outcome {o}", "share")
        for o in OUTCOMES
    ),
    count(
        "cut",
        "scored answers that the output budget ended; missing where they were not counted yet",
    ),
    count(
        "ended_at_budget", "answers that the output budget ended: cut, and the outcome truncated"
    ),
    number("cut_share", "ended_at_budget / planned", "share", "cut", digits=1, is_percent=True),
    number("share_not_run", "share of the planned rows that a stopped run has not asked", "share"),
    count(
        "refused_in_words",
        "unparsed replies that look like refusals, which endpoints do not mark as such",
    ),
    text("not_scored", "rows of each other outcome", "not scored"),
    count("asked_again", "answers in place of earlier ones, which the user wanted asked again"),
    count("verdicts_asked_again", "verdicts of judges in place of earlier ones, by the same wish"),
    count("repeats", "times each instance was asked"),
    number(
        "worst_of_repeats", "mean over instances of the worst repeat; for repeats > 1", "metric"
    ),
    number("repeat_sd", "mean over instances of the SD over repeats; for repeats > 1", "metric"),
    *_quiet((*_TOKENS, *_JURY_TOKENS, *_COSTS)),
    text("jury", "name of the jury behind the score; missing where no jury gave it"),
    _FLAGS,
    text("request_hash", "hash of all that decides the requests"),
    text("grading_hash", "hash of metrics and scoring"),
    text("run", "folder of the graded run below the results folder"),
)

CATEGORIES = (
    text("level", "category or subcategory"),
    text("category", "category of the taxonomy", "category"),
    text("subcategory", "subcategory of the taxonomy; missing for a whole category", "subcategory"),
    _MODEL,
    yes("ranked", "whether the model is ranked"),
    number(
        "mean",
        "unweighted mean of the normalised scores over the common benchmarks of the category",
        "normalised",
        "mean",
        ("low", "high"),
        3,
    ),
    number(
        "low",
        "lower end of the interval, instances resampled within each benchmark; that of the "
        "benchmark itself where there is one",
    ),
    number("high", "upper end of that interval"),
    number("sd", "SD over benchmarks, ddof 1", "normalised", "SD"),
    count("benchmarks", "benchmarks in the mean", "n"),
)

MDE = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "name of the main metric", "metric"),
    count("n", "compared instances", "n"),
    count("clusters", "clusters among them; n where independent"),
    count("pairs", "pairs of ranked models", "pairs"),
    number(
        "mde",
        "mean over pairs of (z[1-alpha/2] + z[1-beta]) * error of the paired difference",
        "normalised",
        "MDE",
        digits=3,
    ),
    number("mde_sd", "SD over pairs, ddof 1; 0 on the paper's scale", "normalised", "SD", digits=3),
    number("mde_median", "median over pairs", "normalised", "median", digits=3),
    number(
        "mde_clustered",
        "mean over pairs with the clustered error; missing where instances are independent",
        "normalised",
        "clustered",
        digits=3,
    ),
    number(
        "observed_median",
        "median over pairs of the observed difference of normalised scores",
        "normalised",
        "observed",
        digits=3,
    ),
    number("observed_largest", "largest observed difference", "normalised", "largest", digits=3),
    yes(
        "is_beyond_range",
        "whether an MDE is larger than any difference can be: it is missing then",
    ),
    count("pairs_above", "pairs whose observed difference is at least the MDE", "above"),
    text("method", "paired sd, or bootstrap for metrics that are not a mean", "method"),
)

COST = (
    text("level", "model, or all: the row of the sums"),
    text("model", "name of the model; missing in the row over all", "model"),
    text("weights", "open, closed, or none for a baseline"),
    count("context_window", "tokens of context that the settings state", unit="tokens"),
    count("runs", "runs summed", "runs"),
    *_TOKENS,
    *_JURY_TOKENS,
    _UPPER,
    _JURY_UPPER,
    _TOTAL_UPPER,
    _USD,
    _JURY_USD,
    _TOTAL_USD,
    number("price_input", "USD per million input tokens", "USD"),
    number("price_cached", "USD per million cached input tokens", "USD"),
    number("price_output", "USD per million output tokens", "USD"),
    text("price_date", "date of the price"),
)

SLICES = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "name of the main metric"),
    text("key", "metadata key"),
    text("value", "its value; missing: instances without the key", "slice"),
    _MODEL,
    yes("ranked", "whether the model is ranked"),
    number("score", "score on the slice", "metric", "score", ("low", "high"), 3),
    number("low", "lower end of the interval of score", "metric"),
    number("high", "upper end of the interval of score", "metric"),
    text("interval_method", "how the interval was made, or why there is none"),
    number("normalised", "score from 0 (worst) to 1 (best)", "normalised", "norm", digits=3),
    count("n", "compared instances of the slice that the model has a value for", "n"),
    number("share", "slice / compared instances", "share", "share", digits=1, is_percent=True),
)

COMPARE = (
    text("benchmark", "name of the benchmark; missing in the row over all", "benchmark"),
    text("level", "benchmark, or overall: the unweighted mean over benchmarks in it"),
    text("metric", "name of the main metric"),
    count("n", "instances that both models have a value for", "n"),
    count("clusters", "clusters among them; n where independent"),
    number("score_a", "score of the first model on them", "metric", "A", digits=3),
    number("score_b", "score of the second model on them", "metric", "B", digits=3),
    number(
        "difference",
        "normalised score of the first less that of the second; above 0 the first is better",
        "normalised",
        "A - B",
        ("low", "high"),
        3,
    ),
    number("low", "lower end of its interval, paired bootstrap", "normalised"),
    number("high", "upper end of its interval", "normalised"),
    text("interval_method", "how the interval was made, or why there is none"),
    number("standard_error", "error of the paired difference, clustered where there are clusters"),
    number("correlation", "correlation of the two models' values over instances", "", "r"),
    number("p", "two-sided p of no difference", "", "p", digits=4),
    number("p_holm", "p adjusted by Holm over the benchmarks compared", "", "p Holm", digits=4),
    text("test", "McNemar exact, permutation, or why there is none", "test"),
    yes("is_compared", "whether the benchmark is in the Holm family and in the overall row"),
    number("coverage_a", "coverage of the first model's run", "share"),
    number("coverage_b", "coverage of the second model's run", "share"),
    _FLAGS,
    text("run_a", "folder of the first model's graded run"),
    text("run_b", "folder of the second model's graded run"),
)

PAIRS = (
    text("model_a", "name of the first model, A", "A"),
    text("model_b", "name of the second model, B", "B"),
    count("n_benchmarks", "common benchmarks", "benchmarks"),
    number(
        "difference",
        "macro-average of A less that of B on the compared instances; above 0 A is better",
        "normalised",
        "A - B",
        ("low", "high"),
        3,
    ),
    number("low", "lower end of its interval, paired bootstrap", "normalised"),
    number("high", "upper end of its interval", "normalised"),
    number("p", "two-sided permutation p of no difference", "", "p", digits=4),
    number("p_holm", "p adjusted by Holm over the pairs", "", "p Holm", digits=4),
)

RANKS = (
    _MODEL,
    count("rank", "rank, 1 the best", "rank"),
    number(
        "share", "share of the draws with this rank", "share", "share", digits=1, is_percent=True
    ),
)
