"""Every gated and private benchmark on a file in the layout that the published code reads.

Columns, labels and file names are those of the scenarios of stanford-crfm/helm at 63754d05 and,
for EHRSHOT, of upstream's converter to MEDS (in test_ehrshot.py).
"""

import csv
import gzip
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from openpyxl import Workbook

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance

from .conftest import NAMES, load, prompt

ELSEWHERE = {"ehrshot", "mimiciv_billing_code"}
"""Tested in the layout of upstream in their own files."""
YES_NO = {"A": "yes", "B": "no"}
QUESTION_FILES: dict[str, tuple[str, dict[str, str]]] = {
    "adhd_behavior": ("prompt", YES_NO),
    "adhd_medeffects": ("prompt", YES_NO),
    "bmt_status": ("prompt", YES_NO),
    "cdi_qa": ("prompt", YES_NO),
    "clinic_referral": ("question", YES_NO),
    "ent_referral": ("prompt", YES_NO | {"C": "no mention"}),
    "hospice_referral": ("prompt", YES_NO),
    "medconfinfo": ("prompt", YES_NO),
    "privacy_detection": ("prompt", YES_NO),
    "proxy_sender": ("prompt", {"A": "proxy", "B": "patient"}),
}
"""The column of the question, and what each label means."""


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read(root: Path, name: str, split: str | None = None) -> list[Instance]:
    return list(open_dataset(load(name), "full", split=split, root=root).instances())


@pytest.mark.parametrize("name", QUESTION_FILES)
def test_a_question_and_a_letter_in_each_row(name: str, tmp_path: Path) -> None:
    """Without a key, with columns that nobody reads; equal rows stay two instances."""
    column, labels = QUESTION_FILES[name]
    rows = [
        {"": n, column: f"Is it so, {label}?", "context": "A note.", "label": label}
        for n, label in enumerate(labels)
    ]
    write_csv(tmp_path / name / f"{name}.csv", [*rows, rows[0]])
    found = read(tmp_path, name)
    assert [i.choices["ABC".index(i.references[0])] for i in found[:-1]] == [*labels.values()]
    assert [i.question for i in found[:-1]] == [row[column] for row in rows]
    assert {i.context for i in found} == {"A note."}
    assert len({i.id for i in found}) == len(rows) + 1 and all(i.id for i in found)
    benchmark = load(name)
    shown = prompt(benchmark, found[0])
    assert shown.count("Is it so, A?") == 1 and "A note." in shown
    assert benchmark.instruction.count("?") == 0, "the row asks, not the instruction"
    told = " ".join(benchmark.how_to_get)
    assert all(word in told for word in (column, "context", "label", "published file"))


def test_a_letter_that_is_no_label(tmp_path: Path) -> None:
    row = {"prompt": "?", "context": "A note.", "label": "D"}
    write_csv(tmp_path / "cdi_qa" / "cdi_qa.csv", [row])
    with pytest.raises(DataError, match=r"row 1: column 'label' must hold one of: yes, no, A, B"):
        read(tmp_path, "cdi_qa")


def test_letters_are_no_labels_of_ones_own_file(tmp_path: Path) -> None:
    row = {"id": "1", "question": "?", "text": "A note.", "label": "A"}
    write_csv(tmp_path / "cdi_qa" / "cdi_qa.csv", [row])
    with pytest.raises(DataError, match=r"row 1: column 'label' must hold one of: yes, no$"):
        read(tmp_path, "cdi_qa")


def test_a_key_of_the_patient_is_not_lost(tmp_path: Path) -> None:
    row = {"prompt": "?", "context": "A note.", "label": "A"}
    path = tmp_path / "cdi_qa" / "cdi_qa.csv"
    write_csv(path, [row | {"patient": "p1"}])
    assert read(tmp_path, "cdi_qa")[0].cluster == "p1"
    write_csv(path, [row | {"patient_id": "p1"}])
    with pytest.raises(DataError, match="unknown column 'patient_id'; name it 'patient'"):
        read(tmp_path, "cdi_qa")


def test_rows_of_ent_referral_without_a_label_are_left_out(tmp_path: Path) -> None:
    row = {"prompt": "?", "context": "A note.", "label": "C"}
    write_csv(tmp_path / "ent_referral" / "ent_referral.csv", [row | {"label": ""}, row])
    (instance,) = read(tmp_path, "ent_referral")
    assert instance.references == ("C",)


def test_the_13_sheets_of_clear(tmp_path: Path) -> None:
    """Whole numbers, as a spreadsheet holds them, or numbers with a point behind an empty cell."""
    benchmark = load("clear")
    for condition in benchmark.parts:
        book = Workbook()
        sheet = book.active
        assert sheet is not None
        rows = [("A note.", 1), ("B note.", 0.0), ("C note.", 2), (None, 1), ("D note.", None)]
        for cells in [("row", "text", "result_human"), *((n, *row) for n, row in enumerate(rows))]:
            sheet.append(cells)
        path = tmp_path / "clear" / f"{condition}.xlsx"
        path.parent.mkdir(exist_ok=True)
        book.save(path)
    found = read(tmp_path, "clear", "sheets")
    assert len(found) == 13 * 3
    assert [i.metadata["part"] for i in found[::3]] == list(benchmark.parts)
    assert [i.references[0] for i in found[:3]] == ["A", "B", "C"]
    assert [i.choices["ABC".index(i.references[0])] for i in found[:3]] == [
        "yes",
        "no",
        "uncertain",
    ]
    assert found[0].question == "Does the patient have a history of alcohol dependence?"


def test_note_extract(tmp_path: Path) -> None:
    rows = [{"Visit": "3", "MO Note": "Cough since Monday."}, {"Visit": "4", "MO Note": ""}]
    write_csv(tmp_path / "note_extract" / "note_extract.csv", rows)
    (instance,) = read(tmp_path, "note_extract")
    assert instance.context == "Cough since Monday." and instance.id


def test_patient_instruct(tmp_path: Path) -> None:
    row = {
        "Age": "40",
        "Diagnosis": "Gallstones",
        "ActualProcedure": "Cholecystectomy",
        "HistoryPhysicalNoteText": "Pain after meals.",
        "OperativeNoteText": "Four ports.",
        "DischargeInstructionNoteText": "Shower tomorrow.",
        "QC": "TRUE",
    }
    dropped = [row | {"QC": qc} for qc in ("FALSE", "")] + [row | {"Diagnosis": " "}]
    write_csv(tmp_path / "patient_instruct" / "patient_instruct.csv", [*dropped, row])
    (instance,) = read(tmp_path, "patient_instruct")
    assert instance.references == ("Shower tomorrow.",)
    assert "Diagnosis:\nGallstones" in instance.context and "Four ports." in instance.context


def test_mental_health(tmp_path: Path) -> None:
    """The file names no dialogue; turns of one topic and type are taken together."""
    row = {
        "topic": "Anxiety",
        "dialogue_type": "1",
        "context": "client: I can't sleep.",
        "gold_counselor_response": "That sounds exhausting.",
    }
    rows = [row, row | {"context": ""}, row | {"dialogue_type": "2"}]
    write_csv(tmp_path / "mental_health" / "mental_health.csv", rows)
    found = read(tmp_path, "mental_health")
    assert [i.cluster for i in found] == ["Anxiety/1", "Anxiety/1", "Anxiety/2"]
    assert found[0].references == ("That sounds exhausting.",)
    assert len({i.id for i in found}) == 3


def test_dischargeme(tmp_path: Path) -> None:
    keys = {"note_id": "10-DS-1", "subject_id": "10", "hadm_id": "501"}
    when = {"charttime": "2150-01-02 00:00:00", "storetime": "2150-01-02 00:00:00"}
    course, told = "Came, was treated, went.", "Rest at home."
    note = f"Name: ___\nBrief Hospital Course:\n{course}\nDischarge Instructions:\n{told}\n"
    tables: dict[str, dict[str, str]] = {
        "discharge": keys | {"note_type": "DS", "note_seq": "1"} | when | {"text": note},
        "radiology": keys | {"note_id": "10-RR-1", "note_type": "RR"} | when | {"text": "Clear."},
        "discharge_target": {
            **keys,
            "discharge_instructions": told,
            "brief_hospital_course": course,
            "discharge_instructions_word_count": "3",
            "brief_hospital_course_word_count": "4",
        },
    }
    del tables["discharge_target"]["subject_id"]
    folder = tmp_path / "dischargeme" / "test_phase_1"
    for name, row in tables.items():
        write_csv(folder / f"{name}.csv.gz", [row])
    found = read(tmp_path, "dischargeme")
    assert [i.references for i in found] == [(course,), (told,)]
    assert course not in found[0].context and told in found[0].context
    assert "Clear." in found[0].context


def test_medalign(tmp_path: Path) -> None:
    folder = tmp_path / "medalign"
    (folder / "medalign_ehr_xml").mkdir(parents=True)
    (folder / "medalign_ehr_xml" / "126035422.xml").write_text("<record><e>Seen.</e></record>")
    instructions = (
        "instruction_id\tquestion\tperson_id\tis_selected_ehr\tmodel_name\n"
        "7\tWhat happened?\t126035422\tyes\tmodel a\n"
        "7\tWhat happened?\t126035422\tyes\tmodel b\n"
    )
    (folder / "clinician-reviewed-model-responses.tsv").write_text(instructions)
    answers = (
        "instruction_id\tannotator_num\tclinician_response\n"
        "7\tAnnotator_2\tOther.\n7\tAnnotator_1\tA visit.\n"
    )
    (folder / "clinician-instruction-responses.tsv").write_text(answers)
    (instance,) = read(tmp_path, "medalign")
    assert (instance.question, instance.references) == ("What happened?", ("A visit.",))
    assert "Seen." in instance.context


def test_mimic_bhc(tmp_path: Path) -> None:
    (tmp_path / "mimic_bhc").mkdir()
    rows = [{"input": "<SEX> F ...", "target": "Came and went."}, {"input": "x", "target": ""}]
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "mimic_bhc" / "mimic_iv_bhc.json").write_text(text)
    (instance,) = read(tmp_path, "mimic_bhc", "release_1_0")
    assert (instance.context, instance.references) == ("<SEX> F ...", ("Came and went.",))


def test_mimic_rrs(tmp_path: Path) -> None:
    (tmp_path / "mimic_rrs").mkdir()
    (tmp_path / "mimic_rrs" / "test.findings.tok").write_text("lungs are clear .\n\nok .\n")
    (tmp_path / "mimic_rrs" / "test.impression.tok").write_text("normal .\nx .\nfine .\n")
    assert [i.references for i in read(tmp_path, "mimic_rrs")] == [("normal .",), ("fine .",)]


def test_n2c2_ct(tmp_path: Path) -> None:
    """The files of the folder test, packed as the steps say."""
    tags = "".join(
        f'<{name} met="{met}" />'
        for name, met in (("ABDOMINAL", "met"), ("ADVANCED-CAD", "not met"), ("CREATININE", "met"))
    )
    border = "*" * 100
    text = f"\n\nRecord date: 2106-02-12\n\nSeen.\n\n\n{border}\n\nRecord date: 2106-05-01\n\nWell."
    xml = f'<?xml version="1.0" encoding="UTF-8" ?>\n<PatientMatching>\n<TEXT><![CDATA[{text}]]>'
    xml += f"</TEXT>\n<TAGS>{tags}</TAGS>\n</PatientMatching>"
    path = tmp_path / "n2c2_ct" / "n2c2-t1_gold_standard_test_data.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("test/", "")
        archive.writestr("test/100.xml", xml)
    found = read(tmp_path, "n2c2_ct")
    assert [i.references[0] for i in found] == ["A", "B", "A"]
    assert all("Today is 2106-05-01" in i.question for i in found)


def test_no_gated_or_private_benchmark_is_missing() -> None:
    """Each has a test above, or in its own file."""
    closed = {name for name in NAMES if load(name).data_class != "public"}
    own: list[Callable[..., None]] = [
        test_dischargeme,
        test_medalign,
        test_mental_health,
        test_mimic_bhc,
        test_mimic_rrs,
        test_n2c2_ct,
        test_note_extract,
        test_patient_instruct,
    ]
    tested = {test.__name__.removeprefix("test_") for test in own}
    assert closed == tested | set(QUESTION_FILES) | {"clear"} | ELSEWHERE
    assert len(closed) == 21
