import random
import tracemalloc
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm_benchmarks import ehrshot
from tests.cases import cases

from .conftest import load

TASKS = ("guo_readmission", "new_hypertension", "lab_anemia")
Event = tuple[int, datetime | None, str]
Label = tuple[int, datetime, bool | None]


def day(number: int) -> datetime:
    return datetime(2020, 1, 1) + timedelta(days=number)


EVENTS: list[Event] = [
    (1, None, "GENDER/F"),
    (1, day(1), "ICD10CM/I10"),
    (1, day(2), "LOINC/718-7"),
    (1, day(2), "RxNorm/435"),
    (1, day(9), "ICD10CM/D64.9"),
    (2, day(3), "ICD10CM/J45.909"),
    (3, day(1), "nobody asks about this patient"),
]


def write(
    root: Path,
    events: Sequence[Event] = EVENTS,
    labels: dict[str, Sequence[Label]] | None = None,
    **parquet_options: Any,
) -> list[Path]:
    """Write the files of the release, as its MEDS schema has them."""
    folder = root / "ehrshot"
    paths = [folder / "data/data.parquet"]
    paths += [folder / f"labels/{task}/labels.parquet" for task in TASKS]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    subjects, times, codes = zip(*events, strict=True)
    data = {
        "subject_id": pa.array(subjects, pa.int64()),
        "time": pa.array(times, pa.timestamp("us")),
        "code": pa.array(codes, pa.string()),
        "numeric_value": pa.nulls(len(codes), pa.float32()),
    }
    parquet.write_table(pa.table(data), paths[0], **parquet_options)
    for task, path in zip(TASKS, paths[1:], strict=True):
        rows = (labels or {}).get(task, [])
        columns = {
            "subject_id": pa.array([r[0] for r in rows], pa.int64()),
            "prediction_time": pa.array([r[1] for r in rows], pa.timestamp("us")),
            "boolean_value": pa.array([r[2] for r in rows], pa.bool_()),
        }
        parquet.write_table(pa.table(columns), path)
    return paths


def instances(root: Path) -> list[Instance]:
    return list(open_dataset(load("ehrshot"), "full", root=root).instances())


def test_events_up_to_the_time_of_the_label(tmp_path: Path) -> None:
    write(
        tmp_path,
        labels={
            "guo_readmission": [(1, day(2), True), (2, day(3), False)],
            "new_hypertension": [(1, day(1), False)],
            "lab_anemia": [(1, day(1) + timedelta(hours=8, microseconds=5), True)],
        },
    )
    found = {i.id: (i.context.split("\n"), i.references[0]) for i in instances(tmp_path)}
    assert found == {
        "new_hypertension-1-2020-01-02T00:00:00": (["GENDER/F", "ICD10CM/I10"], "B"),
        "lab_anemia-1-2020-01-02T08:00:00.000005": (["GENDER/F", "ICD10CM/I10"], "A"),
        "guo_readmission-1-2020-01-03T00:00:00": (
            ["GENDER/F", "ICD10CM/I10", "LOINC/718-7", "RxNorm/435"],
            "A",
        ),
        "guo_readmission-2-2020-01-04T00:00:00": (["ICD10CM/J45.909"], "B"),
    }


def test_labels_in_any_order_keep_their_own_record(tmp_path: Path) -> None:
    """The published loader sorted the labels for the records, but not for the golds."""
    events: list[Event] = [
        (subject, day(d), f"P{subject}D{d}") for subject in range(20) for d in range(5)
    ]
    labels: list[Label] = [
        (subject, day(d), (subject + d) % 3 == 0) for subject in range(20) for d in range(5)
    ]
    random.Random(4).shuffle(labels)
    write(tmp_path, events, {"guo_readmission": labels})
    found = instances(tmp_path)
    assert len(found) == 100
    for instance in found:
        last = instance.context.split("\n")[-1]
        subject, d = map(int, last[1:].split("D"))
        assert instance.cluster == str(subject)
        assert instance.id.endswith(day(d).isoformat())
        assert instance.references == ("A" if (subject + d) % 3 == 0 else "B",)


def test_events_of_a_patient_are_put_in_order_across_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ehrshot, "_ROWS", 3)
    events: list[Event] = [(5, day(d), f"D{d}") for d in (4, 1, 3, 0, 2, 6, 5)]
    write(tmp_path, [*events, (6, day(0), "X")], {"lab_anemia": [(5, day(5), True)]})
    (instance,) = instances(tmp_path)
    assert instance.context == "D0\nD1\nD2\nD3\nD4\nD5"


def test_labels_that_stand_twice(tmp_path: Path) -> None:
    """Once if they agree; a label that is contradicted has no gold and is left out."""
    rows: list[Label] = [(1, day(2), True), (2, day(3), True), (1, day(2), True)]
    rows += [(2, day(3), False), (2, day(3), True), (1, day(9), False)]
    write(tmp_path, labels={"guo_readmission": rows})
    assert [i.id[-21:] for i in instances(tmp_path)] == [
        "1-2020-01-03T00:00:00",
        "1-2020-01-10T00:00:00",
    ]


def test_laboratory_labels_are_thinned_in_the_same_way_whatever_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ehrshot, "LAB_LABELS", 10)
    monkeypatch.setattr(ehrshot, "_ROWS", 7)
    events: list[Event] = [(s, day(0), "X") for s in range(60)]
    labels: list[Label] = [(s, day(1), s % 2 == 0) for s in range(60)]
    kept = []
    for seed in (1, 2):
        random.Random(seed).shuffle(labels)
        write(tmp_path, events, {"lab_anemia": labels, "guo_readmission": labels})
        found = instances(tmp_path)
        kept.append({i.id for i in found if i.metadata["part"] == "lab_anemia"})
        assert sum(i.metadata["part"] == "guo_readmission" for i in found) == 60
    assert len(kept[0]) == 10
    assert kept[0] == kept[1]


def test_records_without_events_or_too_long_are_left_out(tmp_path: Path) -> None:
    long = [(2, day(3), "LOINC/718-7" * 10)] * (ehrshot.LONGEST // 110)
    labels: list[Label] = [(1, day(0), True), (2, day(2), True), (2, day(3), True)]
    write(tmp_path, [*EVENTS[1:5], *long], {"guo_readmission": [*labels, (1, day(1), True)]})
    assert [i.id for i in instances(tmp_path)] == ["guo_readmission-1-2020-01-02T00:00:00"]


@pytest.mark.slow
@pytest.mark.parametrize("group", [2_000, 10**9])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, group: int) -> None:
    """160 patients of 2,000 events, of which one patient's may be held; many row groups, or one."""
    rows, patients = 2_000, 160
    codes = pa.array([f"LOINC/{n}-{n % 10}" for n in range(rows)])
    times = pa.array([day(n) for n in range(rows)], pa.timestamp("us"))
    labels: list[Label] = [(s, day(1_000), s % 2 == 0) for s in range(patients)]
    paths = write(tmp_path, labels={"guo_readmission": labels})
    tables = [
        pa.table({"subject_id": [subject] * rows, "time": times, "code": codes})
        for subject in range(patients)
    ]
    table = pa.concat_tables(tables).combine_chunks()
    size = table.nbytes
    assert size > 9_000_000
    parquet.write_table(table, paths[0], row_group_size=group)
    del table, tables
    before, arrow, found = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    try:
        for row in ehrshot.read(paths, "test"):
            assert len(row["codes"]) == 1_001
            found += 1
            arrow = max(arrow, pa.total_allocated_bytes() - before)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == patients
    assert peak < size / 4
    assert arrow < size / 4


def refusal(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        instances(root)
    return str(caught.value)


def test_damaged_files(tmp_path: Path) -> None:
    labels: dict[str, Sequence[Label]] = {"lab_anemia": [(1, day(2), True)]}
    paths = write(tmp_path, labels=labels)
    for path, columns in (
        (paths[0], ("subject_id", "time", "code")),
        (paths[3], ("subject_id", "prediction_time")),
    ):
        whole = parquet.read_table(path)
        for column in columns:
            parquet.write_table(whole.drop_columns([column]), path)
            place = "/".join(path.parts[-2:])
            assert refusal(tmp_path) == f"ehrshot: {place}: there is no column {column}"
            place_of = whole.schema.get_field_index(column)
            wrong = whole.set_column(place_of, column, pa.array([0.5] * len(whole)))
            parquet.write_table(wrong, path)
            assert f"{place}: the column {column} holds no " in refusal(tmp_path)
        path.write_bytes(b"PAR1 cut off")
        assert f"{place}: not readable as Parquet" in refusal(tmp_path)
        parquet.write_table(whole, path)
    assert len(instances(tmp_path)) == 1


LABEL_SCHEMA = pa.schema(
    [
        ("subject_id", pa.int64()),
        ("prediction_time", pa.timestamp("us")),
        ("boolean_value", pa.bool_()),
        ("integer_value", pa.int64()),
        ("float_value", pa.float64()),
        ("categorical_value", pa.string()),
    ]
)
"""The labels of MEDS 0.3.3, to which upstream's converter writes."""


def write_labels(path: Path, **values: Sequence[object]) -> None:
    """Write labels of patient 1 on the days 0, 1, ... in the converter's layout."""
    (number,) = {len(cells) for cells in values.values()}
    columns = {name: [None] * number for name in LABEL_SCHEMA.names} | values
    columns |= {"subject_id": [1] * number, "prediction_time": [day(n + 1) for n in range(number)]}
    parquet.write_table(pa.table(columns, schema=LABEL_SCHEMA), path)


def test_the_layout_of_the_published_converter(tmp_path: Path) -> None:
    """Boolean tasks fill boolean_value; laboratory tasks fill integer_value with grades 0 to 3."""
    paths = write(tmp_path)
    write_labels(paths[1], boolean_value=[True, False])
    write_labels(paths[2], boolean_value=[False, True])
    write_labels(paths[3], integer_value=[0, 1, 2, 3])
    golds = dict.fromkeys(TASKS, "")
    for instance in instances(tmp_path):
        golds[instance.metadata["part"]] += instance.references[0]
    assert golds == dict(zip(TASKS, ("AB", "BA", "BAAA"), strict=True))


def test_a_laboratory_task_in_either_form_or_in_both(tmp_path: Path) -> None:
    path = write(tmp_path)[3]
    for values in (
        {"boolean_value": [True, False]},
        {"boolean_value": [True, False], "integer_value": [1, 0]},
        {"boolean_value": [True, None], "integer_value": [None, 0]},
    ):
        write_labels(path, **values)
        assert [i.references for i in instances(tmp_path)] == [("A",), ("B",)], values
    parquet.write_table(
        parquet.read_table(path).drop_columns(["boolean_value", "integer_value"]), path
    )
    told = "there is no column boolean_value or integer_value"
    assert refusal(tmp_path) == f"ehrshot: lab_anemia/labels.parquet: {told}"


@pytest.mark.parametrize(("task", "values", "message"), cases(__file__, "unknown_labels"))
def test_unknown_labels(
    task: int, values: dict[str, Sequence[object]], message: str, tmp_path: Path
) -> None:
    write_labels(write(tmp_path)[task], **values)
    told = refusal(tmp_path)
    assert f"{TASKS[task - 1]}/labels.parquet: " in told and message in told


def test_the_question_names_every_code_of_hypertension() -> None:
    """The 26 codes of the published definition, not a selection."""
    codes = ehrshot.HYPERTENSION.split(", ")
    assert len(set(codes)) == 26
    assert {"ICD10CM/I10", "ICD9CM/401.1", "SNOMED/59621000", "SNOMED/429457004"} < set(codes)
    assert ehrshot.HYPERTENSION in ehrshot.QUESTIONS["new_hypertension"]


def test_a_patient_without_events(tmp_path: Path) -> None:
    labels: dict[str, Sequence[Label]] = {
        "guo_readmission": [(1, day(2), True), (88, day(2), True), (99, day(2), True)]
    }
    write(tmp_path, labels=labels)
    assert refusal(tmp_path) == (
        "ehrshot: data/data.parquet holds no event of 2 patients that the labels name; take data "
        "and labels from one release"
    )


def test_a_file_that_is_not_grouped_by_patient(tmp_path: Path) -> None:
    write(tmp_path, [*EVENTS, (1, day(9), "X")], {"guo_readmission": [(1, day(2), True)]})
    assert "in several places" in refusal(tmp_path)
