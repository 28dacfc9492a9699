"""The table of coverage, for all benchmarks with binary criteria and a threshold."""

from medhelm import TableSpec, hookimpl
from medhelm_benchmarks.clinconsensus.tables.coverage import COVERAGE


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    return [COVERAGE]
