"""Gradings that medhelm 0.1.0 wrote, with sums by position, give the tables that it made of them.

`tests/stored_sums` holds gradings of the samples of three benchmarks, whose metrics are NOHARM's,
pooled counts of codes, and a mean over parts; `tables.json` holds what that version printed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medhelm.errors import UsageError
from medhelm.store.records import find_gradings, read_record, write_struct
from medhelm.tables.results import Results, load_results
from tests.build_runs import EXACT, Item, write_run
from tests.poolings import aggregation

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[1] / "stored_sums"


@pytest.fixture(scope="module")
def results() -> Results:
    return load_results(STORED)


def test_the_stored_gradings_hold_sums_by_position() -> None:
    columns = [pq.read_schema(g / "scores.parquet").names for g in find_gradings(STORED)]
    assert len(columns) == 6
    assert all("stats" in names and "sums" not in names for names in columns)


@pytest.mark.parametrize("name", ["benchmarks", "harm", "overall"])
def test_every_cell_is_the_same(
    results: Results, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # that version took one mean over noharm and the paper's benchmarks: suites were not yet apart
    monkeypatch.setattr("medhelm.tables.suites.averaged_apart", dict)
    wanted = json.loads((STORED / "tables.json").read_bytes())[name]
    table = results.typed(name, metrics="all" if name == "benchmarks" else "main")
    rows = [r for r in table.rows if name != "harm" or r["level"] in ("model", "all models")]
    assert len(rows) == len(wanted["rows"]) > 0
    for row, cells in zip(rows, wanted["rows"], strict=True):
        for column, cell in zip(wanted["columns"], cells, strict=True):
            assert plain(row.get(column)) == cell, (column, row["model"])


def plain(value: Any) -> Any:
    """Return a cell as JSON holds it."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


@pytest.mark.parametrize("cut", [5, 60])
def test_too_few_sums_by_position_are_named_with_the_command(tmp_path: Path, cut: int) -> None:
    shutil.copytree(STORED / "runs" / "noharm", tmp_path / "runs" / "noharm")
    for grading in find_gradings(tmp_path):
        path = grading / "scores.parquet"
        table = pq.read_table(path)
        place = table.schema.get_field_index("stats")
        lists = [s[:-cut] if len(s) > 60 else s for s in table["stats"].to_pylist()]
        pq.write_table(table.set_column(place, "stats", pa.array(lists)), path)
        record = read_record(grading)
        write_struct(grading / "summary.json", msgspec.structs.replace(record, provenance={}))
    told = f"{72 - cut} statistics, which 'noharm_harm' cannot take; `medhelm score` grades"
    with pytest.raises(UsageError, match=told) as caught:
        load_results(tmp_path)
    assert "\n" not in str(caught.value)


def test_rows_with_other_names_are_damage(tmp_path: Path) -> None:
    metric = msgspec.structs.replace(EXACT, name="micro_f1", aggregation="micro_f1")
    good = [Item(id=f"i{i}", value=0.5, stats=(1, 1, 1)) for i in range(4)]
    for model in "ab":
        folder = write_run(tmp_path, "x", model, good, metrics=[metric])
    path = folder / "scores.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("sums")
    for rows, told in (
        (
            [[("tp", 1.0), ("fp", 1.0), ("fn", 1.0)]] * 3
            + [[("tp", 1.0), ("fn", 1.0), ("fp", 1.0)]],
            "names",
        ),
        ([[("tp", 1.0), ("fp", 1.0), ("xx", 1.0)]] * 4, "cannot take"),
        ([[("tp", 1.0), ("fp", 1.0), ("fn", float("nan"))]] * 4, "not finite"),
        ([[]] * 4, "no statistics"),
    ):
        column = pa.array(rows, table.schema.field(place).type)
        pq.write_table(table.set_column(place, table.schema.field(place), column), path)
        (note,) = load_results(tmp_path).notes
        assert note.startswith("Left out, damaged") and told in note


def test_a_sum_of_each_label_is_found_by_its_name() -> None:
    macro = aggregation("macro_f1")
    assert macro.is_full(("tp/a", "fp/a", "fn/a"))
    assert not macro.is_full(("tp/a", "fp/a", "fn/b"))
    assert not macro.is_full(("tp/a", "fp/a")) and not macro.is_full(())
