"""The tables that come with medhelm, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from medhelm.plugins.hookspecs import hookimpl
from medhelm.tables import (
    benchmarks,
    groups,
    jury,
    multiple_choice,
    other_scores,
    overall,
    pairs,
    power,
    spending,
)
from medhelm.tables.format.table import Form, Table
from medhelm.tables.study.study import Study
from medhelm.tables.table_spec import Option, TableRequest, TableSpec, publish_rows, publish_whole


def _of(make: Callable[[Study], Table]) -> Callable[[TableRequest], Table]:
    return lambda asked: make(asked.study)


def _spec(
    form: Form, make: Callable[[TableRequest], Table], *options: Option, **more: Any
) -> TableSpec:
    return TableSpec(
        name=form.name, help=form.help, columns=form.columns, make=make, options=options, **more
    )


_published = partial(_spec, publish=publish_whole)

_TABLES = (
    _published(overall.OVERALL, _of(overall.overall), "reduce", is_of_suite=True, is_default=True),
    _published(
        benchmarks.BENCHMARKS,
        lambda asked: benchmarks.benchmarks(asked.study, asked.metrics),
        "metrics",
        "reduce",
        is_of_suite=True,
        is_default=True,
    ),
    _published(jury.JURY_TABLE, _of(jury.jury)),
    _published(jury.CONTROLS, _of(jury.controls)),
    _published(overall.CATEGORIES, _of(overall.categories), "reduce", is_of_suite=True),
    _published(power.MDE, _of(power.mde), "mde", "reduce"),
    _published(spending.COST, _of(spending.cost)),
    _published(pairs.PAIRS, _of(pairs.pairs), "reduce", is_of_suite=True),
    _published(pairs.RANKS, _of(pairs.ranks), "reduce", is_of_suite=True),
    _spec(groups.GAPS, groups.gaps, "by", "min_group", "reduce"),
    _spec(benchmarks.EXPOSURE, _of(benchmarks.exposure)),
    _spec(multiple_choice.ROBUSTNESS, multiple_choice.robustness),
    _spec(multiple_choice.POSITIONS, multiple_choice.positions),
    _spec(multiple_choice.CALIBRATION, _of(multiple_choice.calibration), publish=publish_rows),
    _spec(multiple_choice.RELIABILITY, _of(multiple_choice.reliability), publish=publish_rows),
    _spec(other_scores.AS_PUBLISHED, _of(other_scores.as_published)),
    _spec(
        groups.SLICES,
        lambda asked: groups.slices(asked.study, asked.by, asked.metadata),
        "by",
        "min_group",
        "reduce",
        needs="by",
    ),
)


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the tables of any benchmark."""
    return [*_TABLES]
