import csv
import gzip
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm_benchmarks import mimiciv_billing_code

from .conftest import load, prompt

NAMES = ("note/discharge.csv.gz", "hosp/diagnoses_icd.csv.gz", "hosp/procedures_icd.csv.gz")
HEADS = (
    "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text",
    "subject_id,hadm_id,seq_num,icd_code,icd_version",
    "subject_id,hadm_id,seq_num,chartdate,icd_code,icd_version",
)
Table = Iterable[Sequence[str]]


def note(subject: str, stay: str, text: str) -> list[str]:
    when = "2150-01-02 00:00:00"
    return [f"{subject}-DS-{stay}", subject, stay, "DS", stay, when, when, text]


NOTES = [
    note("10", "501", 'Chest pain.\n"Stable", home.\n'),
    note("10", "502", "Hip fracture."),
    note("11", "503", "Older stay, coded in ICD-9."),
    note("12", "504", "Stay without any code."),
    note("13", "", "Note without a stay."),
]
DIAGNOSES = [
    ["11", "503", "1", "4019", "9"],
    ["10", "502", "2", "I10", "10"],
    ["10", "501", "1", "I2510", "10"],
    ["10", "502", "1", "S72002A", "10"],
    ["10", "501", "10", "E119", "10"],
    ["10", "501", "2", "I10   ", "10"],
    ["10", "502", "3", "I10", "10"],
    ["99", "999", "1", "I10", "10"],
]
PROCEDURES = [
    ["10", "502", "1", "2150-01-01", "0QS736Z", "10"],
    ["11", "503", "1", "2150-01-01", "3893", "9"],
]


def write(
    root: Path,
    notes: Table = NOTES,
    diagnoses: Table = DIAGNOSES,
    procedures: Table = PROCEDURES,
) -> list[Path]:
    """Write the three tables as the releases have them."""
    paths = [root / "mimiciv_billing_code" / name for name in NAMES]
    for path, head, rows in zip(paths, HEADS, (notes, diagnoses, procedures), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", encoding="utf-8", newline="", compresslevel=1) as file:
            file.write(head + "\n")
            csv.writer(file, lineterminator="\n").writerows(rows)
    return paths


def instances(root: Path) -> list[Instance]:
    return list(open_dataset(load("mimiciv_billing_code"), "full", root=root).instances())


def refusal(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        instances(root)
    return str(caught.value)


def test_notes_are_joined_with_the_codes_of_their_stay(tmp_path: Path) -> None:
    """In the order of seq_num, diagnoses first, each code once; ICD-9 stays are left out."""
    write(tmp_path)
    assert instances(tmp_path) == [
        Instance(
            id="10-DS-501",
            context='Chest pain.\n"Stable", home.',
            references=("I2510", "I10", "E119"),
            cluster="10",
        ),
        Instance(
            id="10-DS-502",
            context="Hip fracture.",
            references=("S72002A", "I10", "0QS736Z"),
            cluster="10",
        ),
    ]


def test_the_prompt() -> None:
    benchmark = load("mimiciv_billing_code")
    row = {"note_id": "n", "subject_id": "1", "text": "The note.", "codes": ["I10"]}
    instance = benchmark.to_instance(row)
    assert instance is not None
    shown = prompt(benchmark, instance)
    assert shown.endswith("separated by commas.\n\nThe note.")
    assert "I10" not in shown
    assert benchmark.metrics[:2] == ["micro_f1", "mean_f1"]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_tables(tmp_path: Path) -> None:
    """1,000 notes of 10 kB and 30,000 codes, in an order that no merge could use."""
    stays, text = 1_000, "Word of a note. " * 640
    step = 1_237  # coprime with the number of stays: all of them, scattered
    order = [(n * step) % stays for n in range(stays)]
    paths = write(
        tmp_path,
        (note("1", str(stay), f"{stay} {text}") for stay in range(stays)),
        (["1", str(s), str(k), f"E{k:02}{s % 10}", "10"] for k in range(30) for s in order),
        (),
    )
    size = stays * len(text)
    tracemalloc.start()
    try:
        found = 0
        for row in mimiciv_billing_code.read(paths, "test"):
            assert row["codes"][:2] == [f"E00{found % 10}", f"E01{found % 10}"]
            assert len(row["codes"]) == 30
            found += 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == stays
    assert size > 10_000_000
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("table", "column"),
    [(0, "text"), (0, "hadm_id"), (1, "icd_code"), (1, "icd_version"), (2, "seq_num")],
)
def test_a_missing_column(tmp_path: Path, table: int, column: str) -> None:
    path = write(tmp_path)[table]
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(text.replace(column, "other", 1).encode()))
    assert refusal(tmp_path) == (f"mimiciv_billing_code: {path.name}: there is no column {column}")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["1", "5", "1", "I10", "11"], "row 2: icd_version is none of 9, 10"),
        (["1", "5", "1", "hypertension", "10"], "row 2: icd_code has not the form of an ICD-10"),
        (["1", "5", "1", "", "10"], "row 2: icd_code has not the form of an ICD-10"),
        (["1", "5", "first", "I10", "10"], "row 2: seq_num is not a number"),
        (["1", "5", "1", "I10"], "row 2: 4 cells, the header has 5"),
    ],
)
def test_unknown_codes(tmp_path: Path, row: Sequence[str], message: str) -> None:
    write(tmp_path, diagnoses=[DIAGNOSES[1], row])
    found = refusal(tmp_path)
    assert found.startswith(f"mimiciv_billing_code: diagnoses_icd.csv.gz, {message}")
    assert "hypertension" not in found


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    path = write(tmp_path)[0]
    whole = path.read_bytes()
    for damaged in (whole[:-20], b"note_id,subject_id\n", whole[:30] + b"\xff" * 9 + whole[39:]):
        path.write_bytes(damaged)
        assert "discharge.csv.gz: not a whole gzip file" in refusal(tmp_path)
    path.write_bytes(gzip.compress(b"note_id,subject_id,hadm_id,text\n1,1,501,caf\xe9\n"))
    assert "discharge.csv.gz: not UTF-8" in refusal(tmp_path)
    path.write_bytes(gzip.compress(b'note_id,subject_id,hadm_id,text\n1,1,501,"open'))
    assert "discharge.csv.gz, row 1: not CSV" in refusal(tmp_path)
    path.write_bytes(gzip.compress(b""))
    assert "there is no column note_id, subject_id, hadm_id, text" in refusal(tmp_path)
    path.unlink()
    assert "put discharge.csv.gz into" in refusal(tmp_path)


def test_patients_without_notes_and_notes_without_text(tmp_path: Path) -> None:
    write(tmp_path, notes=NOTES[2:])
    why = "3 row(s) are left out: a stay without ICD-10 codes (3)"
    assert refusal(tmp_path) == f"mimiciv_billing_code: split 'test' has no instance; {why}"
    write(tmp_path, notes=[NOTES[2], NOTES[0], note("10", "502", " ")])
    assert refusal(tmp_path) == "mimiciv_billing_code: discharge.csv.gz, row 3: text is empty"


def test_a_note_longer_than_the_csv_module_allows(tmp_path: Path) -> None:
    write(tmp_path, notes=[note("10", "501", "Word. " * 40_000)])
    (instance,) = instances(tmp_path)
    assert len(instance.context) == 239_999


@pytest.mark.parametrize("codes", [[], ["I10", "hypertension"]])
def test_rows_without_codes(codes: list[str]) -> None:
    row = {"note_id": "n", "subject_id": "1", "text": "The note.", "codes": codes}
    with pytest.raises(DataError, match="codes must be ICD-10 codes, at least one"):
        load("mimiciv_billing_code").to_instance(row)


@pytest.mark.parametrize(
    "code",
    ["0270346", "0210099", "GZHZZZZ", "DHYBFZZ", "02100Z9", "XW033E5", "3E0G36Z", "M1A9XX0", "I10"],
)
def test_every_form_of_code_in_force_is_read(code: str, tmp_path: Path) -> None:
    """Digits alone and letters alone are procedure codes too (lists of CMS, 2019 and 2024)."""
    write(tmp_path, procedures=[["10", "502", "1", "2150-01-01", code, "10"]])
    assert instances(tmp_path)[1].references[-1] == code


@pytest.mark.parametrize("keys", [True, False])
def test_the_file_that_medhelm_was_run_on(keys: bool, tmp_path: Path) -> None:
    """One row a note, codes as a list, diagnoses with points; read by text and target alone."""
    columns = {
        "note_id": ["10-DS-501", "10-DS-502"],
        "subject_id": [10, 10],
        "_id": [501, 502],
        "text": ["Chest pain.", "Hip fracture."],
        "target": [["I25.10", "E11.9", "I10."], ["S72.002A", "0QS736Z", "0270346"]],
        "num_targets": [3, 3],
    }
    if not keys:
        columns = {name: columns[name] for name in ("text", "target")}
    path = tmp_path / "mimiciv_billing_code" / "mimiciv_icd10.feather"
    path.parent.mkdir()
    feather.write_feather(pa.table(columns), str(path))
    benchmark = load("mimiciv_billing_code")
    dataset = open_dataset(benchmark, "full", split="prepared", root=tmp_path)
    found = list(dataset.instances())
    assert [i.references for i in found] == [
        ("I25.10", "E11.9", "I10"),
        ("S72.002A", "0QS736Z", "0270346"),
    ]
    assert [i.context for i in found] == ["Chest pain.", "Hip fracture."]
    assert [i.cluster for i in found] == (["10", "10"] if keys else [None, None])
    assert all(i.id for i in found)

    feather.write_feather(pa.table({"text": ["x"]}), str(path))
    with pytest.raises(DataError, match="mimiciv_icd10.feather: there is no column target"):
        list(open_dataset(benchmark, "full", split="prepared", root=tmp_path).instances())
    path.write_bytes(b"FEA1")
    with pytest.raises(DataError, match="mimiciv_icd10.feather: not readable as Feather"):
        list(open_dataset(benchmark, "full", split="prepared", root=tmp_path).instances())
