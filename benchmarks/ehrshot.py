"""EHRSHOT: what will happen to a patient whose record so far is a list of codes?

Wornow et al., 2023, arXiv 2307.02028. Three of its yes/no tasks, each a part of the score.
"""

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, hookimpl

HYPERTENSION = (
    "ICD10CM/I10, ICD9CM/401, ICD9CM/401.0, ICD9CM/401.1, ICD9CM/401.9, SNOMED/1201005, "
    "SNOMED/1218009, SNOMED/155296003, SNOMED/18416000, SNOMED/194758001, SNOMED/194760004, "
    "SNOMED/19769006, SNOMED/23717007, SNOMED/266228004, SNOMED/35303009, SNOMED/371125006, "
    "SNOMED/40511000119107, SNOMED/429457004, SNOMED/46481004, SNOMED/59621000, "
    "SNOMED/63287004, SNOMED/71874008, SNOMED/72022006, SNOMED/78808002, SNOMED/78975002, "
    "SNOMED/9901000"
)
"""The codes by which the release labels hypertension, as the published prompt lists them."""
QUESTIONS: Mapping[str, str] = {
    "guo_readmission": (
        "The patient leaves hospital today. Will the patient be admitted to hospital again within "
        "30 days?"
    ),
    "new_hypertension": (
        "Hypertension is lasting high blood pressure. A record shows it by any of these codes: "
        f"{HYPERTENSION}. Will the patient be given this diagnosis for the first time "
        "within the next year?"
    ),
    "lab_anemia": (
        "The patient's haemoglobin is measured now. Will the result show anaemia, that is, lie "
        "below 120 g/L?"
    ),
}
LAB_LABELS = 10_000
"""Labels of a laboratory task that are kept, by a hash of patient and time. There are many more."""
LONGEST = 200_000
"""Characters of a list of codes, about 100,000 tokens; longer ones are left out."""

_ROWS = 8_192
"""Rows of a file that are read at a time."""
_BUFFER = 1 << 20
"""Bytes of a column that are read at a time. Without it a whole row group is."""
_Key = tuple[int, int]
"""Patient, and time in microseconds since 1970."""
_EPOCH = datetime(1970, 1, 1)
_EVENTS = {"subject_id": "integer", "time": "timestamp", "code": "text"}
_LABELS = {"subject_id": "integer", "prediction_time": "timestamp"}
_VALUES = {"boolean_value": "boolean", "integer_value": "integer"}
"""Name the columns of a label. Upstream's converter fills the second for laboratory tasks alone."""
_GRADES = (0, 1, 2, 3)
"""Normal, and what deviates mildly, moderately and severely (for haemoglobin from below 120 g/L)."""


def read(paths: Sequence[Path], split: str) -> Iterator[Row | LeftOut]:
    """Yield the labels with the codes up to their time, by patient, time and task.

    Labels are in memory and so are the events of one patient at a time, never those of all.
    """
    events, *labels = paths
    wanted: dict[int, list[tuple[int, str, bool]]] = defaultdict(list)
    for task, path in zip(QUESTIONS, labels, strict=True):
        for (subject, time), value in read_labels(path, task).items():
            if value is None:
                yield LeftOut("labels of one moment that contradict each other")
            else:
                wanted[subject].append((time, task, value))
    for subject, times, codes in _timelines(events, wanted):
        for time, task, value in sorted(wanted.pop(subject)):
            yield {
                "task": task,
                "subject_id": subject,
                "prediction_time": (_EPOCH + timedelta(microseconds=time)).isoformat(),
                "boolean_value": value,
                "codes": codes[: bisect_right(times, time)],
            }
    if wanted:
        raise DataError(
            f"{_shown(events)} holds no event of {len(wanted)} patients that the labels name; "
            "take data and labels from one release"
        )


def read_labels(path: Path, task: str) -> dict[_Key, bool | None]:
    """Return the labels of a task by patient and time.

    A label that occurs twice counts once. Where the two contradict each other it is None.
    """
    found: dict[_Key, bool | None] = {}
    is_lab = task.startswith("lab_")
    for batch in _batches(path, _LABELS, _VALUES):
        if any(batch.column(name).null_count for name in _LABELS):
            raise DataError(f"{_shown(path)}: {', '.join(_LABELS)} must be filled in every row")
        times = _microseconds(batch.column("prediction_time"))
        subjects = batch.column("subject_id").to_pylist()
        values = [_label(path, row, is_lab) for row in batch.select(_held(batch)).to_pylist()]
        for subject, time, value in zip(subjects, times, values, strict=True):
            key = (subject, time)
            found[key] = value if found.get(key, value) == value else None
        if is_lab and len(found) > LAB_LABELS:
            kept = sorted(found, key=lambda key: _hash(task, key))[:LAB_LABELS]
            found = {key: found[key] for key in kept}
    return found


def _held(batch: Any) -> list[str]:
    return [name for name in _VALUES if name in batch.schema.names]


def _label(path: Path, row: Mapping[str, Any], is_lab: bool) -> bool:
    """Return what a row's values say; raises DataError where they are none, or two."""
    number = row.get("integer_value")
    if number is not None and number not in (_GRADES if is_lab else _GRADES[:2]):
        raise DataError(f"{_shown(path)}: integer_value is not one of the grades of the task")
    found = {value for value in (row.get("boolean_value"), number) if value is not None}
    said = {bool(value) for value in found}
    if len(said) != 1:
        raise DataError(
            f"{_shown(path)}: every row must hold boolean_value (true or false) or integer_value "
            "(0, or a grade above it), and not two that contradict each other"
        )
    return said.pop()


def _hash(task: str, key: _Key) -> bytes:
    return hashlib.blake2b(f"{task} {key[0]} {key[1]}".encode(), digest_size=8).digest()


def _timelines(
    path: Path, wanted: Container[int]
) -> Iterator[tuple[int, Sequence[int], list[str]]]:
    """Yield the wanted patients with their times and codes, in the order of time."""
    current, events, done = -1, list[tuple[int, str]](), set[int]()
    for subject, times, codes in _stretches(path):
        if subject != current:
            if events:
                yield current, *_in_order(events)
            if subject in done:
                raise DataError(
                    f"{_shown(path)}: the events of a patient stand in several places; "
                    "sort the file by subject_id and time"
                )
            done.add(subject)
            current, events = subject, []
        if subject in wanted:
            events += zip(times, codes, strict=True)
    if events:
        yield current, *_in_order(events)


def _in_order(events: list[tuple[int, str]]) -> tuple[list[int], list[str]]:
    """Return times and codes apart; events of the same time keep the order of the file."""
    events.sort(key=itemgetter(0))
    return [time for time, _ in events], [code for _, code in events]


def _stretches(path: Path) -> Iterator[tuple[int, list[int], list[str]]]:
    """Yield (patient, times, codes) of neighbouring rows of one patient within a batch."""
    import numpy as np

    for batch in _batches(path, _EVENTS):
        subjects, times, codes = (batch.column(name) for name in _EVENTS)
        if subjects.null_count or codes.null_count:
            raise DataError(f"{_shown(path)}: subject_id or code is empty in a row")
        keys = subjects.to_numpy()
        borders = (np.flatnonzero(np.diff(keys)) + 1).tolist()
        for start, end in pairwise([0, *borders, len(keys)]):
            part = slice(start, end)
            yield int(keys[start]), _microseconds(times[part]), codes[part].to_pylist()


def _batches(
    path: Path, columns: Mapping[str, str], either: Mapping[str, str] = {}
) -> Iterator[Any]:
    """Yield columns of a Parquet file, and those of `either` it has; raises DataError."""
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            schema = file.schema_arrow
            extra = {name: kind for name, kind in either.items() if name in schema.names}
            if either and not extra:
                raise DataError(f"{_shown(path)}: there is no column {' or '.join(either)}")
            read = {**columns, **extra}
            for name, kind in read.items():
                if name not in schema.names:
                    raise DataError(f"{_shown(path)}: there is no column {name}")
                if not _is_kind(schema.field(name).type, kind):
                    raise DataError(f"{_shown(path)}: the column {name} holds no {kind} values")
            for group in range(file.num_row_groups):  # over all at once, buffers pile up
                for batch in file.iter_batches(_ROWS, row_groups=[group], columns=list(read)):
                    if batch.num_rows:
                        yield batch
    except (pyarrow.ArrowException, OSError) as e:
        raise DataError(f"{_shown(path)}: not readable as Parquet ({type(e).__name__})") from None


def _is_kind(kind: Any, name: str) -> bool:
    """Return whether an Arrow type is of that kind."""
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_null(kind):  # nothing but empty cells
        return True
    if name == "text":
        return bool(types.is_string(kind) or types.is_large_string(kind))
    return bool(getattr(types, f"is_{name}")(kind))


def _microseconds(times: Any) -> list[int]:
    """Return times since 1970. An event without one (a birth place, a sex) comes first."""
    import pyarrow

    numbers = times.cast(pyarrow.timestamp("us"), safe=False).cast(pyarrow.int64())
    found: list[int] = numbers.fill_null(-(2**63)).to_pylist()
    return found


def _shown(path: Path) -> str:
    """Return the end of a path: all label files have the same name."""
    return "/".join(path.parts[-2:])


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a label with the codes up to its time, where there are some and not too many."""
    task = row["task"]
    if task not in QUESTIONS:
        raise DataError(f"task is none of {', '.join(QUESTIONS)}")
    if not isinstance(row["boolean_value"], bool):
        raise DataError("boolean_value is neither true nor false")
    context = "\n".join(row["codes"])
    if not context or len(context) > LONGEST:
        return LeftOut(f"more than {LONGEST:,} characters of codes" if context else "without codes")
    return Instance(
        id=f"{task}-{row['subject_id']}-{row['prediction_time']}",
        context=context,
        question=QUESTIONS[task],
        choices=("yes", "no"),
        references=("A" if row["boolean_value"] else "B",),
        cluster=str(row["subject_id"]),
        metadata={"part": task},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="ehrshot",
            version="2",
            title="EHRSHOT",
            description=(
                "Yes/no forecasts from the codes of a patient's record up to a moment: "
                "readmission within 30 days, hypertension within a year, an anaemic result next."
            ),
            subcategory="predicting_patient_risks_and_outcomes",
            tasks=(
                "predict_deterioration",
                "predict_readmission",
                "predict_disease_progression",
                "predict_outcomes",
                "predict_adverse_events",
            ),
            dataset=FileDataset.brought(
                "data/data.parquet",
                *(f"labels/{task}/labels.parquet" for task in QUESTIONS),
                read=read,
                source="EHRSHOT in MEDS layout (EHRSHOT_MEDS), Stanford Shah Lab on Redivis",
            ),
            to_instance=to_instance,
            instruction=(
                "Below is one patient's health record up to now: the codes of its diagnoses, "
                "procedures, measurements and drugs, one a line, oldest first, without dates and "
                "values. Judge from them what will happen."
            ),
            metrics=["exact_match"],
            parts=tuple(QUESTIONS),
            how_to_get=(
                "Open the EHRSHOT dataset of the Stanford Shah Lab on redivis.com with an account "
                "and sign its data use agreement.",
                "Download EHRSHOT_MEDS.zip and unpack it.",
                "Put its folders data and labels into <data dir>/ehrshot, so that there are "
                "ehrshot/data/data.parquet and ehrshot/labels/<task>/labels.parquet for "
                f"{', '.join(QUESTIONS)}.",
            ),
            max_output_tokens=64,
            data_class="gated",
            licence="EHRSHOT data use agreement",
            citation="Wornow et al. EHRSHOT. NeurIPS 2023. arXiv 2307.02028",
            cluster="patient",
        )
    ]
