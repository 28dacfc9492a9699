"""The tables of encounters."""

from medhelm import TableSpec, hookimpl
from medhelm_benchmarks.encounters.tables.cast import CAST_TABLE
from medhelm_benchmarks.encounters.tables.encounters import ENCOUNTERS
from medhelm_benchmarks.encounters.tables.reliability import RELIABILITY


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    return [CAST_TABLE, ENCOUNTERS, RELIABILITY]
