"""Files of releases: which rows a split has, damaged archives, memory that does not grow with a table."""

import sys
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from medhelm.data.dataset import open_dataset
from medhelm.data.readers import read_texts
from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance, LeftOut, Row
from medhelm_benchmarks import dischargeme, medalign, medhallu, mimic_bhc, mimic_rrs
from medhelm_benchmarks import mimiciv_billing_code as billing

from .conftest import load
from .test_mappings import MAPPINGS
from .written import write


def rows(name: str, paths: Sequence[Path], split: str = "test") -> list[Row]:
    dataset = load(name).dataset
    assert isinstance(dataset, FileDataset) and dataset.read
    return list(dataset.read(paths, split))


def instances(name: str, root: Path, split: str | None = None) -> list[Instance]:
    return list(open_dataset(load(name), "full", split=split, root=root).instances())


def refusal(name: str, root: Path) -> str:
    with pytest.raises(DataError) as caught:
        instances(name, root)
    return str(caught.value)


def base_files(name: str) -> dict[str, Any]:
    return dict(MAPPINGS[name]["files"][0]["files"])


def test_the_name_of_a_file_of_mmlu_clinical_afr_says_subject_and_language(tmp_path: Path) -> None:
    name = "mmlu_clinical_afr"
    for language in ("", "_nso"):
        (tmp_path / f"virology_test{language}.csv").write_text('"Q, with a comma",a,b,c,d,C\n')
        text = 'Other,a,b,c,d,A\n"Q,  with a comma",a,b,c,d,C\n'
        (tmp_path / f"medicine_test{language}.csv").write_text(text)
    found = {
        (row["subject"], row["language"], row["number"]): row
        for row in rows(name, sorted(tmp_path.iterdir(), reverse=True))
    }
    assert found["virology", "nso", 0]["question"] == "Q, with a comma"
    assert found["medicine", "en", 0]["first"] == "medicine/0"
    firsts = {found[key]["first"] for key in (("medicine", "nso", 1), ("medicine", "en", 1))}
    assert firsts == {found["virology", "nso", 0]["first"]}, "a stem is one, whatever its subject"
    (tmp_path / "virology_test.csv").write_text("Q,a,b,c\n")
    with pytest.raises(DataError, match="row 1: 4 cells"):
        rows(name, [tmp_path / "virology_test.csv"])


def test_a_thousand_of_each_part_of_med_dialog_are_drawn_as_published_results_were(
    tmp_path: Path,
) -> None:
    for part, count in (("healthcaremagic", 1500), ("icliniq", 1200)):
        records = [{"src": f"Patient: {part} {n}", "tgt": f"Title {n}"} for n in range(count)]
        write(tmp_path, "med_dialog", {f"{part}/test.json": {"data": records}})
    found = instances("med_dialog", tmp_path)
    assert Counter(i.metadata["part"] for i in found) == {"healthcaremagic": 1000, "icliniq": 1000}
    drawn = [int(i.id.rpartition("-")[2]) for i in found[:1000]]
    np.random.seed(0)
    assert drawn == sorted(np.random.choice(np.arange(1500), 1000, replace=False).tolist())
    assert len(instances("med_dialog", tmp_path, "all")) == 2700


def test_a_folder_of_notes_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    note = MAPPINGS["mtsamples_procedures"]["row"]["text"]
    dataset = load("mtsamples_procedures").dataset
    assert isinstance(dataset, FileDataset) and dataset.files[0].sha256.startswith("34b0f540534b")
    texts = {"A scope": note, "B & C - 1 ": "Done. PLAN: Rest.\n"}
    write(tmp_path, "notes", {f"{name}.txt": text for name, text in texts.items()})
    assert [row for _, row in read_texts(tmp_path / "notes")] == [
        {"name": name, "text": text} for name, text in texts.items()
    ]


Part = tuple[str, str]
"""Text and a mark: r red, o dark orange, b bold, or nothing."""


def read_document(folder: Path, paragraphs: Sequence[Sequence[Part] | str]) -> list[Row]:
    """Return the rows of a document; a text alone is a heading."""
    from docx import Document
    from docx.shared import RGBColor

    colours = {"r": RGBColor(255, 0, 0), "o": RGBColor(0xC4, 0x59, 17)}
    document = Document()
    for parts in paragraphs:
        if isinstance(parts, str):
            document.add_heading(parts, 2)
            continue
        paragraph = document.add_paragraph()
        for text, mark in parts:
            run = paragraph.add_run(text)
            run.bold = True if mark == "b" else None
            if mark in colours:
                run.font.color.rgb = colours[mark]
    document.save(str(folder / "file.docx"))
    return rows("race_bias", [folder / "file.docx"])


def test_without_its_reader_the_document_of_race_bias_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docx", None)  # an import of it fails
    with pytest.raises(DataError, match=r"race_bias: file\.docx .*'\.\[docx\]'"):
        rows("race_bias", [tmp_path / "file.docx"])


def test_the_document_of_race_bias_is_read_by_line_and_colour(tmp_path: Path) -> None:
    found = read_document(
        tmp_path,
        [
            "BARD’s Responses:",
            [("BARD from G, May 15 Version", "")],
            [("Run 1", "b"), (": Why?", "")],
            [("", "")],
            [("Because  of\xa0", ""), ("this.", "r")],
            [("\n\n", ""), ("Run\xa02 :\xa0How?\nLike", ""), (" so.", "o")],
            "Lung Capacity",
            [("GPT 3.5 Responses:\xa0", "b")],
            [("Pain threshold\nRun 1: Why?\nNo idea.", "")],
            [(" ", "r"), ("A heading in the answer", "b")],
            [("More.", "")],
            [("Genetic basis of race:", "")],
            [("August 3 version", "")],
            [("Run 2: Why?", "")],
            [("No idea.", "")],
            [("A heading in the answer", "b")],
            [("More.", "")],
        ],
    )
    columns = ("position", "model", "question", "response", "label")
    expected = (
        ("1", "Bard", "Why?", "Because of this.", "yes"),
        ("2", "Bard", "How?", "Like so.", "no"),
        ("3", "GPT 3.5", "Why?", "No idea.\nA heading in the answer\nMore.", "no"),
    )
    assert found == [
        *(dict(zip(columns, cells, strict=True)) for cells in expected),
        LeftOut("the same question and answer as another run"),
    ]


PASSAGES = MAPPINGS["medhallu"]["row"]["Knowledge"]


@pytest.mark.parametrize(
    ("cell", "passages"),
    [
        (["a  b", "", "c"], ["a b", "c"]),
        ("['a' 'b']", ["a", "b"]),
        ("['a'\n 'b']", ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ('["it\'s"\n \'so "it" is\']', ["it's", 'so "it" is']),
        (r"['it\'s' 'a\nb' '\u03b1 \\ x']", ["it's", "a b", "α \\ x"]),
        ("['one that\nbreaks' 'two']", ["one that breaks", "two"]),
        ("Plain text, with 'quotes' [and more].", ["Plain text, with 'quotes' [and more]."]),
        ("[1] A plain text with a footnote.", ["[1] A plain text with a footnote."]),
        ("", []),
        *(
            (str(np.array(own, dtype=object)), [" ".join(p.split()) for p in own])
            for own in (PASSAGES, ["a" * 300] * 5, ["'", '"', "\\", "\\'", "[']"])
        ),
    ],
)
def test_passages_of_medhallu_are_read_as_numpy_prints_them(
    cell: object, passages: list[str]
) -> None:
    assert medhallu.read_passages(cell) == passages


@pytest.mark.parametrize("cell", ["['a' 'b", "['a' ... 'b']", "['a' b]", "['\\x']", None, [1]])
def test_damaged_passages_of_medhallu(cell: object) -> None:
    with pytest.raises(DataError, match="^Knowledge "):
        medhallu.read_passages(cell)


def test_the_parquet_file_of_medhallu_gives_the_same_as_the_csv_export(tmp_path: Path) -> None:
    row = {k: v for k, v in MAPPINGS["medhallu"]["row"].items() if k not in ("row", "shown")}
    printed = {**row, "Knowledge": str(np.array(PASSAGES, dtype=object))}
    write(tmp_path, "medhallu", {"pqa_labeled.csv": [[*printed], [*printed.values()]]})
    from_csv = instances("medhallu", tmp_path)
    parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "medhallu" / "pqa_labeled.csv")
    assert instances("medhallu", tmp_path) == from_csv


def test_a_long_record_of_medalign_is_shown_from_a_whole_element(tmp_path: Path) -> None:
    event = '<event name="Kreislauf stabil, größer">ü</event>\n'
    files = base_files("medalign")
    files["ehrs/EHR_200.xml"] = "<ehr>\n" + event * 10_000 + "<event>the last</event>\n</ehr>"
    files["medalign_ehr_xml/100.xml"] = exact = "<e>" + "x" * (medalign.LONGEST - 7) + "</e>"
    write(tmp_path, "medalign", files)
    whole, _, cut = instances("medalign", tmp_path)
    assert whole.context == exact
    head, _, rest = cut.context.partition("\n")
    assert head == "[The earlier part of the record is left out.]"
    assert rest.startswith('<event name="Kreislauf')
    assert rest.endswith("<event>the last</event>\n</ehr>")
    size = len(rest.encode())
    assert medalign.LONGEST - len(event.encode()) <= size <= medalign.LONGEST


def test_an_archive_of_n2c2_with_a_wrong_checksum(tmp_path: Path) -> None:
    write(tmp_path, "n2c2_ct", base_files("n2c2_ct"))
    (path,) = (tmp_path / "n2c2_ct").iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"ABDOMINAL")] = ord("X")
    path.write_bytes(data)
    assert zipfile.is_zipfile(path)
    assert "whole zip file" in refusal("n2c2_ct", tmp_path)


def test_a_gzip_file_that_is_damaged_in_its_middle(tmp_path: Path) -> None:
    write(tmp_path, "dischargeme", base_files("dischargeme"))
    (path,) = (tmp_path / "dischargeme").rglob("discharge.csv.gz")
    whole = path.read_bytes()
    path.write_bytes(whole[:30] + b"\xff" * 9 + whole[39:])
    assert "discharge.csv.gz: not a whole" in refusal("dischargeme", tmp_path)


def test_every_form_of_procedure_code_in_force_is_read(tmp_path: Path) -> None:
    """Digits alone and letters alone are codes too (lists of CMS, 2019 and 2024)."""
    codes = [
        "0270346",
        "0210099",
        "GZHZZZZ",
        "DHYBFZZ",
        "02100Z9",
        "XW033E5",
        "3E0G36Z",
        "M1A9XX0",
        "I10",
    ]
    files = base_files("mimiciv_billing_code")
    head = files["hosp/procedures_icd.csv.gz"][0]
    files["hosp/procedures_icd.csv.gz"] = [
        head,
        *(["10", "502", str(n), "2150-01-01", code, "10"] for n, code in enumerate(codes)),
    ]
    write(tmp_path, "mimiciv_billing_code", files)
    found = instances("mimiciv_billing_code", tmp_path)[1].references
    assert list(found)[-len(codes) + 1 :] == codes[:-1], "I10 is there as a diagnosis"


# Memory ------------------------------------------------------------------------------------


def of_dischargeme(root: Path) -> Iterator[Row | LeftOut]:
    text, head = "word " * 3000, ["note_id", "subject_id", "hadm_id", "charttime", "text"]
    columns = ["hadm_id", "discharge_instructions", "brief_hospital_course"]
    files = {
        f"{kind}.csv": [head, *([f"{n}-1", n, n, "2150-01-02", text] for n in range(400))]
        for kind in ("discharge", "radiology")
    }
    write(root, ".", files | {"target.csv": [columns, *([n, text, text] for n in range(400))]})
    paths = [root / f"{name}.csv" for name in ("discharge", "target", "radiology")]
    return dischargeme.read(paths, "test")


def of_mimic_rrs(root: Path) -> Iterator[Row | LeftOut]:
    paths = [root / "findings", root / "impression"]
    for path, line in zip(paths, ("word " * 200, "short ."), strict=True):
        path.write_text(f"{line}\n" * 5_000)
    return mimic_rrs.read(paths, "test")


def of_mimic_bhc(root: Path) -> Iterator[Row | LeftOut]:
    text = "word " * 3000
    head = ["note_id", "input", "target", "input_tokens", "target_tokens"]
    lines = ([f"{n}-DS-1", text, text, "1", "1"] for n in range(300))
    write(root, ".", {"mimic-iv-bhc.csv": [head, *lines]})
    return mimic_bhc.read([root / "mimic-iv-bhc.csv"], "test")


def of_mimic_bhc_lines(root: Path) -> Iterator[Row | LeftOut]:
    line = {"input": "word " * 3000, "target": "word " * 3000}
    write(root, ".", {"mimic_iv_bhc.jsonl": [line] * 300})
    return mimic_bhc.read([root / "mimic_iv_bhc.jsonl"], "release_1_0")


def of_medalign(root: Path) -> Iterator[Row | LeftOut]:
    write(root, "medalign", base_files("medalign"))
    folder = root / "medalign"
    with (folder / "medalign_ehr_xml" / "100.xml").open("w") as file:
        for _ in range(10):
            file.write("<event>nothing new</event>\n" * 40_000)  # 11 MB in all
    names = ("clinician-reviewed-model-responses.tsv", "clinician-instruction-responses.tsv")
    return medalign.read([folder / name for name in names], "test")


def of_billing(root: Path) -> Iterator[Row | LeftOut]:
    """1,000 notes of 10 kB and 30,000 codes, in an order that no merge could use."""
    stays, text = 1_000, "Word of a note. " * 640
    order = [(n * 1_237) % stays for n in range(stays)]
    head = ["subject_id", "hadm_id", "seq_num", "icd_code", "icd_version"]
    notes = ([f"1-DS-{n}", 1, n, f"{n} {text}"] for n in range(stays))
    codes = ([1, stay, k, f"E{k:02}{stay % 10}", 10] for k in range(30) for stay in order)
    files = {
        "discharge.csv.gz": [["note_id", "subject_id", "hadm_id", "text"], *notes],
        "diagnoses_icd.csv.gz": [head, *codes],
        "procedures_icd.csv.gz": [head],
    }
    write(root, ".", files)
    return billing.read([root / name for name in files], "test")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "count", "mib"),
    [
        (of_dischargeme, 800, 3),
        (of_mimic_rrs, 5_000, 1),
        (of_mimic_bhc, 300, 2),
        (of_mimic_bhc_lines, 300, 2),
        (of_medalign, 4, 3),
        (of_billing, 1000, 2),
    ],
)
def test_memory_does_not_grow_with_the_file(
    read: Any, count: int, mib: float, tmp_path: Path
) -> None:
    found = read(tmp_path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in found) == count
        assert tracemalloc.get_traced_memory()[1] < mib * 2**20
    finally:
        tracemalloc.stop()
