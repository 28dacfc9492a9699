"""The tables that come with medhelm, in the order in which they are listed."""

from __future__ import annotations

from medhelm.plugins.hookspecs import hookimpl
from medhelm.tables import (
    exposure,
    jury,
    pairs,
    part_gaps,
    power,
    slices,
    spending,
    tabulate,
)
from medhelm.tables.columns import (
    BENCHMARKS,
    CATEGORIES,
    COST,
    MDE,
    OVERALL,
    PAIRS,
    RANKS,
    SLICES,
)
from medhelm.tables.jury_columns import JURY
from medhelm.tables.multiple_choice import positions, robustness
from medhelm.tables.table_spec import TableSpec, publish_whole

_TABLES = (
    TableSpec(
        name="overall",
        help="a row a model: rank, win rates, macro-average, coverage, cost",
        columns=OVERALL,
        is_of_suite=True,
        make=lambda asked: tabulate.overall(asked.study),
        is_default=True,
        publish=publish_whole,
    ),
    TableSpec(
        name="benchmarks",
        help="a row a benchmark and model: score, interval, coverage, outcomes",
        columns=BENCHMARKS,
        is_of_suite=True,
        make=lambda asked: tabulate.benchmarks(asked.study, asked.metrics),
        is_default=True,
        options=("metrics",),
        publish=publish_whole,
    ),
    TableSpec(
        name="jury",
        help="agreement of the judges, and scores without each of them",
        columns=JURY,
        make=lambda asked: jury.jury(asked.study),
        publish=publish_whole,
    ),
    TableSpec(
        name="categories",
        help="mean scores by category and subcategory of the taxonomy",
        columns=CATEGORIES,
        is_of_suite=True,
        make=lambda asked: tabulate.categories(asked.study),
        publish=publish_whole,
    ),
    TableSpec(
        name="mde",
        help="the smallest difference of two models that each benchmark can show",
        columns=MDE,
        make=lambda asked: power.mde(asked.study),
        options=("mde",),
        publish=publish_whole,
    ),
    TableSpec(
        name="cost",
        help="tokens and USD of each model and of its judges",
        columns=COST,
        make=lambda asked: spending.cost(asked.study),
        publish=publish_whole,
    ),
    TableSpec(
        name="pairs",
        help="differences of macro-averages of every two models, with their tests",
        columns=PAIRS,
        is_of_suite=True,
        make=lambda asked: pairs.pairs(asked.study),
        publish=publish_whole,
    ),
    TableSpec(
        name="ranks",
        help="the share of the bootstrap draws in which a model has each rank",
        columns=RANKS,
        is_of_suite=True,
        make=lambda asked: pairs.ranks(asked.study),
        publish=publish_whole,
    ),
    TableSpec(
        name="gaps",
        help="each part of a benchmark against the one that it is compared with (languages)",
        columns=part_gaps.GAPS,
        make=lambda asked: part_gaps.gaps(asked.study),
    ),
    TableSpec(
        name="exposure",
        help="whether a benchmark was public before the training data of a model end",
        columns=exposure.EXPOSURE,
        make=lambda asked: exposure.exposure(asked.study),
    ),
    TableSpec(
        name="robustness",
        help="answers to multiple choice in other forms (`medhelm run variants=all`) against the original ones",
        columns=robustness.ROBUSTNESS,
        make=robustness.robustness,
    ),
    TableSpec(
        name="positions",
        help="scores and choices by the place of the option, of runs with variants",
        columns=positions.POSITIONS,
        make=positions.positions,
    ),
    TableSpec(
        name="slices",
        help="scores by the values of one metadata key (--by KEY)",
        columns=SLICES,
        make=lambda asked: slices.slices(asked.study, asked.by, asked.metadata),
        options=("by",),
        needs="by",
    ),
)


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the tables of any benchmark."""
    return [*_TABLES]
