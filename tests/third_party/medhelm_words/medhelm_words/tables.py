"""The table of how many runs each model has."""

from medhelm import Column, Table, TableRequest, TableSpec, hookimpl, make_table

COLUMNS = (
    Column(name="model", type="string", description="name of the model", heading="model"),
    Column(name="runs", type="integer", description="benchmarks with a run", heading="runs"),
)


def tally(asked: TableRequest) -> Table:
    """Return one row a model."""
    cells = asked.study.cells.values()
    models = sorted({model for own in cells for model in own})
    rows = [{"model": m, "runs": sum(m in own for own in cells)} for m in models]
    return make_table("tally", "Runs of each model", COLUMNS, rows, [], {})


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the table."""
    return [TableSpec(name="tally", help="runs of each model", columns=COLUMNS, make=tally)]
