import zipfile
from collections import Counter
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm_benchmarks import n2c2_ct

from .conftest import load, prompt

FILE = "n2c2-t1_gold_standard_test_data.zip"
STARS = "*" * 100
TEXT = f"""

Record date: 2070-03-01

Clinic note.



Aspirin.
{STARS}

Undated note.

{STARS}

Record date: 2069-12-24
Third.
"""


def xml(abdominal: str = "met", cad: str = "not met", text: str = TEXT) -> str:
    """Return a patient's file as the release has it."""
    return f"""<?xml version="1.0" encoding="UTF-8" ?>
<PatientMatching>
<TEXT><![CDATA[{text}]]></TEXT>
<TAGS>
<ABDOMINAL met="{abdominal}" />
<ADVANCED-CAD met="{cad}" />
<ALCOHOL-ABUSE met="not met" />
<CREATININE met="met" />
</TAGS>
</PatientMatching>
"""


def pack(root: Path, members: dict[str, str]) -> Path:
    path = root / "n2c2_ct" / FILE
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def instances(root: Path) -> list[Instance]:
    return list(open_dataset(load("n2c2_ct"), "full", root=root).instances())


def refusal(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        instances(root)
    return str(caught.value)


def test_a_row_and_its_prompt() -> None:
    benchmark = load("n2c2_ct")
    instance = benchmark.to_instance(
        {"patient": "101", "criterion": "CREATININE", "met": "not met", "text": TEXT}
    )
    assert instance == Instance(
        id="101-CREATININE",
        context=(
            "# Note 1 of 3, 2070-03-01\nRecord date: 2070-03-01\n\nClinic note.\n\nAspirin.\n\n"
            "# Note 2 of 3, without a date\nUndated note.\n\n"
            "# Note 3 of 3, 2069-12-24\nRecord date: 2069-12-24\nThird."
        ),
        question=(
            "Criterion: A serum creatinine of the patient lies above the upper limit of normal. "
            "Today is 2070-03-01, the date of the latest note.\nDoes the patient meet it?"
        ),
        choices=("yes", "no"),
        references=("B",),
        cluster="101",
        metadata={"part": "CREATININE"},
    )
    shown = prompt(benchmark, instance)
    assert shown.startswith("Below are the clinical notes of one patient.")
    assert "*****" not in shown
    assert "A. yes\nB. no" in shown


def test_no_date_at_all_is_not_made_up() -> None:
    row = {"patient": "1", "criterion": "ABDOMINAL", "met": "met", "text": "Only note."}
    instance = load("n2c2_ct").to_instance(row)
    assert instance is not None
    assert instance.context == "# Note 1 of 1, without a date\nOnly note."
    assert "oday" not in instance.question
    assert "None" not in instance.question


def test_the_archive_of_the_release(tmp_path: Path) -> None:
    folder = "n2c2-t1_gold_standard_test_data/test"
    pack(
        tmp_path,
        {
            f"{folder}/": "",
            f"{folder}/201.xml": xml(abdominal="not met", cad="met"),
            f"{folder}/101.xml": xml(),
            f"__MACOSX/{folder}/._101.xml": "shadow",
            f"{folder}/.DS_Store": "shadow",
            "README.txt": "read me",
        },
    )
    found = instances(tmp_path)
    assert [(i.id, i.references[0]) for i in found] == [
        ("101-ABDOMINAL", "A"),
        ("101-ADVANCED-CAD", "B"),
        ("101-CREATININE", "A"),
        ("201-ABDOMINAL", "B"),
        ("201-ADVANCED-CAD", "A"),
        ("201-CREATININE", "A"),
    ]
    assert Counter(i.cluster for i in found) == {"101": 3, "201": 3}
    parts = load("n2c2_ct").parts
    assert Counter(i.metadata["part"] for i in found) == dict.fromkeys(parts, 2)


def test_a_folder_packed_by_the_user(tmp_path: Path) -> None:
    pack(tmp_path, {"test/7.xml": xml()})
    assert {i.cluster for i in instances(tmp_path)} == {"7"}


def test_damaged_archives(tmp_path: Path) -> None:
    assert "put n2c2-t1_gold_standard_test_data.zip into" in refusal(tmp_path)
    path = pack(tmp_path, {"train/1.xml": xml()})
    assert f"{FILE} holds no file test/<patient>.xml" in refusal(tmp_path)
    path.write_bytes(b"PK cut off")
    assert f"{FILE}: not a whole zip file" in refusal(tmp_path)
    pack(tmp_path, {"test/1.xml": xml()})
    data = bytearray(path.read_bytes())
    data[data.index(b"ABDOMINAL")] = ord("X")
    path.write_bytes(data)
    assert f"{FILE}: not a whole zip file" in refusal(tmp_path), "a wrong checksum"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<PatientMatching><TEXT>", "1.xml: not XML (ParseError)"),
        (xml().replace("CREATININE", "CREATINE"), "1.xml: TAGS holds no CREATININE"),
        ("<P><TEXT>note</TEXT></P>", "1.xml: TAGS holds no ABDOMINAL"),
        (xml(text=" \n "), "1.xml: there are no notes in TEXT"),
        ("<P><TAGS/></P>", "1.xml: there are no notes in TEXT"),
        (xml(cad="maybe"), "1.xml: met of ADVANCED-CAD is none of 'met', 'not met'"),
        (xml().replace('CREATININE met="met"', "CREATININE"), "1.xml: met of CREATININE is none"),
    ],
)
def test_damaged_patients(tmp_path: Path, text: str, message: str) -> None:
    pack(tmp_path, {"test/1.xml": text})
    found = refusal(tmp_path)
    assert message in found
    assert "Aspirin" not in found


def test_an_unknown_criterion() -> None:
    row = {"patient": "1", "criterion": "ENGLISH", "met": "met", "text": "Note."}
    with pytest.raises(DataError, match="criterion is none of ABDOMINAL, ADVANCED-CAD, CREATININE"):
        load("n2c2_ct").to_instance(row)


def test_every_criterion_says_what_it_means() -> None:
    assert set(n2c2_ct.CRITERIA) == set(load("n2c2_ct").parts)
    assert load("n2c2_ct").expected_instances == {"test": 86 * 3}
