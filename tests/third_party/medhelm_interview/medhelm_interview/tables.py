"""The table of interviews: how each model's ended, and in how many turns."""

from collections import Counter

from medhelm import Column, Table, TableRequest, TableSpec, hookimpl, make_table

COLUMNS = (
    Column(
        name="benchmark", type="string", description="name of the benchmark", heading="benchmark"
    ),
    Column(name="model", type="string", description="the answerer", heading="model"),
    Column(name="interviews", type="integer", description="interviews", heading="interviews"),
    Column(name="named", type="number", description="mean share of named facts", heading="named"),
)


def interviews(asked: TableRequest) -> Table:
    """Return one row a model of each benchmark of interviews."""
    rows = []
    for benchmark, own in asked.study.cells.items():
        for model, cell in own.items():
            if cell.record.spec.protocol != "interview":
                continue
            scores = cell.scores["facts_named"]
            ended = Counter(scores.outcomes)["scored"]
            rows.append(
                {
                    "benchmark": benchmark,
                    "model": model,
                    "interviews": ended,
                    "named": float(scores.values.mean()) if ended else None,
                }
            )
    return make_table("interviews", "Interviews", COLUMNS, rows, [], {})


@hookimpl
def medhelm_tables() -> list[TableSpec]:
    """Return the table."""
    return [
        TableSpec(
            name="interviews", help="interviews of each model", columns=COLUMNS, make=interviews
        )
    ]
