"""The tables that come with medhelm, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from medhelm.plugins.hookspecs import hookimpl
from medhelm.tables import (
    benchmarks,
    controls,
    exposure,
    jury,
    overall,
    pairs,
    part_gaps,
    power,
    slices,
    spending,
)
from medhelm.tables.format.table import Table
from medhelm.tables.multiple_choice import calibration, positions, robustness
from medhelm.tables.others import as_published
from medhelm.tables.study.study import Study
from medhelm.tables.table_spec import TableRequest, TableSpec, publish_rows, publish_whole


def _of(make: Callable[[Study], Table]) -> Callable[[TableRequest], Table]:
    return lambda asked: make(asked.study)


_published = partial(TableSpec, publish=publish_whole)

_TABLES = (
    _published(
        name="overall",
        help="a row a model: rank, win rates, macro-average, coverage, cost",
        columns=overall.OVERALL,
        make=_of(overall.overall),
        is_of_suite=True,
        is_default=True,
        options=("reduce",),
    ),
    _published(
        name="benchmarks",
        help="a row a benchmark and model: score, interval, coverage, outcomes",
        columns=benchmarks.BENCHMARKS,
        make=lambda asked: benchmarks.benchmarks(asked.study, asked.metrics),
        is_of_suite=True,
        is_default=True,
        options=("metrics", "reduce"),
    ),
    _published(
        name="jury",
        help="agreement of the judges, and scores without each of them",
        columns=jury.COLUMNS,
        make=_of(jury.jury),
    ),
    _published(
        name="controls",
        help="how far each judge errs on answers whose verdicts are known",
        columns=controls.CONTROLS,
        make=_of(controls.controls),
    ),
    _published(
        name="categories",
        help="mean scores by category and subcategory of the taxonomy",
        columns=overall.CATEGORIES,
        make=_of(overall.categories),
        is_of_suite=True,
        options=("reduce",),
    ),
    _published(
        name="mde",
        help="the smallest difference of two models that each benchmark can show",
        columns=power.MDE,
        make=_of(power.mde),
        options=("mde", "reduce"),
    ),
    _published(
        name="cost",
        help="tokens and USD of each model and of its judges",
        columns=spending.COST,
        make=_of(spending.cost),
    ),
    _published(
        name="pairs",
        help="differences of macro-averages of every two models, with their tests",
        columns=pairs.PAIRS,
        make=_of(pairs.pairs),
        is_of_suite=True,
        options=("reduce",),
    ),
    _published(
        name="ranks",
        help="the share of the bootstrap draws in which a model has each rank",
        columns=pairs.RANKS,
        make=_of(pairs.ranks),
        is_of_suite=True,
        options=("reduce",),
    ),
    TableSpec(
        name="gaps",
        help="groups of instances (--by KEY) against the others, or parts (languages) against one, all at once",
        columns=part_gaps.GAPS,
        make=part_gaps.gaps,
        options=("by", "min_group", "reduce"),
    ),
    TableSpec(
        name="exposure",
        help="whether a benchmark was public before the training data of a model end",
        columns=exposure.EXPOSURE,
        make=_of(exposure.exposure),
    ),
    TableSpec(
        name="robustness",
        help="answers to questions in other forms (`medhelm run variants=all` or `patient`) against the original ones",
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
        name="calibration",
        publish=publish_rows,
        help="how sure models are of their options against how often they are right (form=logprobs)",
        columns=calibration.CALIBRATION,
        make=_of(calibration.calibration),
    ),
    TableSpec(
        name="reliability",
        publish=publish_rows,
        help="confidence and share right by bins, and what is left where less sure answers are withheld",
        columns=calibration.RELIABILITY,
        make=_of(calibration.reliability),
    ),
    TableSpec(
        name="as_published",
        help="scores of runs beside those that others published (`medhelm import medhelm_paper`)",
        columns=as_published.AS_PUBLISHED,
        make=_of(as_published.as_published),
    ),
    TableSpec(
        name="slices",
        help="scores by the values of one metadata key (--by KEY)",
        columns=slices.SLICES,
        make=lambda asked: slices.slices(asked.study, asked.by, asked.metadata),
        options=("by", "min_group", "reduce"),
        needs="by",
    ),
)


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the tables of any benchmark."""
    return [*_TABLES]
