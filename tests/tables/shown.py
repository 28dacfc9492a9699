"""What tests of tables share: runs by benchmark and model, tables of them, rows by their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from medhelm.tables.format.table import Settings, Table
from medhelm.tables.loading import load_results
from tests.build_runs import items, write_run

FEW = Settings(draws=200)


def rate(passed: int, n: int, missing: int = 0) -> list[float | None]:
    return [1.0] * passed + [0.0] * (n - passed) + [None] * missing


def write(results: Path, scores: Mapping[str, Mapping[str, Sequence[float | None]]]) -> None:
    """Write runs given as benchmark -> model -> values."""
    for benchmark, models in scores.items():
        for model, values in models.items():
            write_run(results, benchmark, model, items(values))


def shown(
    results: Path, name: str = "benchmarks", settings: Settings = FEW, **chosen: Any
) -> Table:
    """Return one table of a results folder, of the runs that are chosen."""
    return load_results(results, **chosen).typed(name, settings)


def cell(table: Table, **wanted: Any) -> Mapping[str, Any]:
    """Return the one row of a table with these values."""
    found = [r for r in table.rows if all(r[k] == v for k, v in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def notes(table: Table) -> str:
    return "\n".join(table.notes)


def put_columns(grading: Path, **columns: list[Any]) -> None:
    """Write other values in columns of the stored scores."""
    table = pq.read_table(grading / "scores.parquet")
    for name, values in columns.items():
        field = table.schema.field(name)
        place = table.column_names.index(name)
        table = table.set_column(place, field, pa.array(values, type=field.type))
    pq.write_table(table, grading / "scores.parquet")
