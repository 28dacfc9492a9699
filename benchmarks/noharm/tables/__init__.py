"""The table of NOHARM: harm of labelled actions."""

from medhelm import TableSpec, hookimpl
from medhelm_benchmarks.noharm.tables.harm import HARM


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    return [HARM]
