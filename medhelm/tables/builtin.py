"""The tables that come with medhelm, in the order in which they are listed; tables.toml has the rest of them."""

from __future__ import annotations

from collections.abc import Callable

from medhelm.plugins.hookspecs import hookimpl
from medhelm.tables import benchmarks, groups, jury, overall, pairs, power, spending
from medhelm.tables import multiple_choice as choices
from medhelm.tables import other_scores as others
from medhelm.tables.format.column_kinds import read_tables
from medhelm.tables.format.table import Form, Table
from medhelm.tables.study.study import Study
from medhelm.tables.table_spec import TableRequest, TableSpec, publish_rows, publish_whole

_PUBLISH = {"whole": publish_whole, "rows": publish_rows, "": None}


def _of(make: Callable[[Study], Table]) -> Callable[[TableRequest], Table]:
    return lambda asked: make(asked.study)


_TABLES: tuple[tuple[Form, Callable[[TableRequest], Table]], ...] = (
    (overall.OVERALL, _of(overall.overall)),
    (benchmarks.BENCHMARKS, lambda asked: benchmarks.benchmarks(asked.study, asked.metrics)),
    (jury.JURY_TABLE, _of(jury.jury)),
    (jury.CONTROLS, _of(jury.controls)),
    (overall.CATEGORIES, _of(overall.categories)),
    (power.MDE, _of(power.mde)),
    (spending.COST, _of(spending.cost)),
    (pairs.PAIRS, _of(pairs.pairs)),
    (pairs.RANKS, _of(pairs.ranks)),
    (groups.GAPS, groups.gaps),
    (benchmarks.EXPOSURE, _of(benchmarks.exposure)),
    (choices.ROBUSTNESS, choices.robustness),
    (choices.POSITIONS, choices.positions),
    (choices.CALIBRATION, _of(choices.calibration)),
    (choices.RELIABILITY, _of(choices.reliability)),
    (others.AS_PUBLISHED, _of(others.as_published)),
    (groups.SLICES, lambda asked: groups.slices(asked.study, asked.by, asked.metadata)),
)


def _spec(form: Form, make: Callable[[TableRequest], Table]) -> TableSpec:
    own = read_tables(__file__)[form.name]
    return TableSpec(
        name=form.name,
        help=form.help,
        columns=form.columns,
        make=make,
        options=tuple(own.get("options", ())),
        publish=_PUBLISH[own.get("publish", "")],
        **{name: own[name] for name in ("is_default", "needs", "is_of_suite") if name in own},
    )


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the tables of any benchmark."""
    return [_spec(*own) for own in _TABLES]
