"""Open-ended benchmarks on gated data: small files in the form of the releases."""

import csv
import gzip
import json
import tracemalloc
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.data.dataset import find_duplicate_ids, open_dataset
from medhelm.errors import DataError
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.schema.data import FileDataset, Instance
from medhelm_benchmarks import dischargeme, mimic_bhc, mimic_rrs

from .conftest import SAMPLES, load, prompt, sample_file

NAMES = ("medalign", "dischargeme", "mimic_rrs", "mimic_bhc")
Table = Iterable[Sequence[str]]


def instances(name: str, root: Path, split: str | None = None) -> list[Instance]:
    return list(open_dataset(load(name), "full", split=split, root=root).instances())


def refusal(name: str, root: Path, split: str | None = None) -> str:
    with pytest.raises(DataError) as caught:
        instances(name, root, split)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "\n" not in message
    return message


def peak_mib(rows: Iterable[object]) -> tuple[int, float]:
    """Return how many rows there are and the memory that reading them takes at most."""
    tracemalloc.start()
    try:
        count = sum(1 for _ in rows)
        return count, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", NAMES)
def test_the_declaration_is_that_of_a_gated_open_ended_benchmark(name: str) -> None:
    benchmark = load(name)
    subcategory = load_taxonomy().subcategory(benchmark.subcategory)
    assert set(benchmark.tasks) <= {task.id for task in subcategory.tasks}
    assert benchmark.data_class == "gated"
    assert not benchmark.redistributable
    assert benchmark.answer == "text"
    assert benchmark.metrics == ["jury", "rouge_l", "rouge_1", "rouge_2"]
    assert benchmark.parts == ()
    steps = " ".join(benchmark.how_to_get)
    assert f"<data dir>/{name}" in steps
    assert isinstance(benchmark.dataset, FileDataset)
    for file in benchmark.dataset.files:
        assert file.name.rpartition("/")[2] in steps
        assert file.url == ""


@pytest.mark.parametrize("name", NAMES)
def test_no_sample_shows_its_gold_and_all_bring_a_question(name: str) -> None:
    benchmark = replace(load(name), samples=sample_file(name))
    dataset = open_dataset(benchmark, "sample", root=SAMPLES)
    found = list(dataset.instances())
    assert 6 <= len(found) <= len(list(dataset.rows())) <= 12
    assert find_duplicate_ids(dataset) == []
    for instance in found:
        (gold,) = instance.references
        assert gold not in prompt(benchmark, instance)
        assert instance.question
        assert (instance.cluster is None) == (name == "mimic_rrs")


# DischargeMe -------------------------------------------------------------------------------

COURSE = "He got antibiotics\nand went home."
LETTER = "You had a chest infection."
NOTE = f"Brief Hospital Course:\n{COURSE}\n \nDischarge Instructions:\n{LETTER}\n"
STAYS = [
    ["1-DS-1", "1", "501", "DS", "1", "2150-01-02", "", NOTE],
    ["1-DS-9", "1", "501", "DS", "9", "2150-01-03", "", "An addendum of the same stay."],
    ["1-DS-2", "1", "502", "DS", "2", "2151-01-02", "", "Course:\nHip  fracture,\nmended.\nEnd"],
    ["2-DS-1", "2", "503", "DS", "1", "2150-01-02", "", "No target is there."],
    ["3-DS-1", "3", "504", "DS", "1", "2150-01-02", "", "No report is there."],
]
TARGETS = [
    ["3-DS-1", "504", "To the patient.", "For the doctor.", "3", "3"],
    ["1-DS-2", "502", "", "Hip fracture, mended.", "0", "3"],
    ["1-DS-1", "501", LETTER, COURSE, "5", "7"],
]
REPORTS = [
    ["1-RR-7", "1", "501.0", "RR", "7", "2150-01-02 09:00:00", "", "Second film."],
    ["1-RR-5", "1", "501.0", "RR", "5", "2150-01-01 23:00:00", "", "First film.\n"],
    ["1-RR-6", "1", "501.0", "RR", "6", "2150-01-01 20:00:00", "", " "],
    ["1-RR-9", "1", "502.0", "RR", "9", "2151-01-01 08:00:00", "", "Hip film."],
    ["2-RR-9", "2", "503.0", "RR", "9", "2151-01-01 08:00:00", "", "Other film."],
    ["9-RR-1", "9", "", "RR", "1", "2151-01-01 08:00:00", "", "Of no stay."],
]
NOTE_HEAD = "note_id,subject_id,hadm_id,note_type,note_seq,charttime,storetime,text"
TARGET_HEAD = (
    "note_id,hadm_id,discharge_instructions,brief_hospital_course,"
    "discharge_instructions_word_count,brief_hospital_course_word_count"
)


def write_dischargeme(
    root: Path, notes: Table = STAYS, targets: Table = TARGETS, reports: Table = REPORTS
) -> list[Path]:
    files = {
        "discharge.csv.gz": (NOTE_HEAD, notes),
        "discharge_target.csv.gz": (TARGET_HEAD, targets),
        "radiology.csv.gz": (NOTE_HEAD, reports),
    }
    folder = root / "dischargeme" / "test_phase_1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (head, rows) in files.items():
        with gzip.open(folder / name, "wt", encoding="utf-8", newline="", compresslevel=1) as file:
            file.write(head + "\n")
            csv.writer(file, lineterminator="\n").writerows(rows)
    return [folder / name for name in files]


def test_dischargeme_asks_each_stay_for_both_sections(tmp_path: Path) -> None:
    """The asked section is out, the other stays; the earliest report; an empty target is out."""
    write_dischargeme(tmp_path)
    course, letter, hip = instances("dischargeme", tmp_path)
    assert course == Instance(
        id="501-brief_hospital_course",
        context=(
            "Discharge note:\nBrief Hospital Course:\n\n \nDischarge Instructions:\n"
            "You had a chest infection.\n\nRadiology report:\nFirst film."
        ),
        question=dischargeme.QUESTIONS["brief_hospital_course"],
        references=(COURSE,),
        cluster="1",
        metadata={"document": "brief_hospital_course"},
    )
    assert letter == Instance(
        id="501-discharge_instructions",
        context=(
            f"Discharge note:\nBrief Hospital Course:\n{COURSE}\n \nDischarge Instructions:\n\n"
            "Radiology report:\nFirst film."
        ),
        question=dischargeme.QUESTIONS["discharge_instructions"],
        references=(LETTER,),
        cluster="1",
        metadata={"document": "discharge_instructions"},
    )
    assert hip.id == "502-brief_hospital_course"
    assert hip.context == "Discharge note:\nCourse:\n\nEnd\n\nRadiology report:\nHip film."
    benchmark = load("dischargeme")
    assert prompt(benchmark, hip) == (f"{benchmark.instruction}\n\n{hip.context}\n\n{hip.question}")
    assert "Brief Hospital Course" in hip.question


@pytest.mark.slow
def test_dischargeme_memory_does_not_grow_with_the_tables(tmp_path: Path) -> None:
    text = "word " * 3000
    notes = ([f"{n}-DS-1", str(n), str(n), "DS", "1", "2150-01-02", "", text] for n in range(800))
    targets = ([f"{n}-DS-1", str(n), text, text, "1", "1"] for n in range(800))
    reports = ([f"{n}-RR-1", str(n), str(n), "RR", "1", "2150-01-02", "", text] for n in range(800))
    paths = write_dischargeme(tmp_path, notes, targets, reports)  # 36 MB of text
    count, peak = peak_mib(dischargeme.read(paths, "test"))
    assert count == 1600
    assert peak < 3


def test_dischargeme_mistakes_are_named(tmp_path: Path) -> None:
    paths = write_dischargeme(tmp_path)
    with gzip.open(paths[1], "wt") as file:
        file.write("note_id,hadm_id,discharge_instructions\n")
    assert refusal("dischargeme", tmp_path) == (
        "dischargeme: discharge_target.csv.gz: there is no column brief_hospital_course"
    )
    write_dischargeme(tmp_path, reports=[["1-RR-1", "1"]])
    assert "radiology.csv.gz, row 1: 2 cells, the header has 8" in refusal("dischargeme", tmp_path)
    write_dischargeme(tmp_path)
    paths[0].write_bytes(paths[0].read_bytes()[:-12])
    assert "discharge.csv.gz: not a whole gzip file" in refusal("dischargeme", tmp_path)
    paths[0].write_bytes(b"note_id,subject_id")
    assert "discharge.csv.gz: not a whole gzip file" in refusal("dischargeme", tmp_path)
    write_dischargeme(tmp_path, notes=[[*STAYS[0][:-1], " "]])
    assert refusal("dischargeme", tmp_path) == (
        "dischargeme: discharge.csv.gz, row 1: text is empty"
    )
    write_dischargeme(tmp_path, targets=[])
    assert "has no instance" in refusal("dischargeme", tmp_path)
    paths[2].unlink()
    message = refusal("dischargeme", tmp_path)
    assert "radiology.csv.gz is missing" in message
    assert "credentialed user of physionet.org" in message


# MIMIC-RRS ---------------------------------------------------------------------------------


def write_rrs(root: Path, findings: str, impressions: str) -> list[Path]:
    folder = root / "mimic_rrs"
    folder.mkdir(exist_ok=True)
    texts = {"test.findings.tok": findings, "test.impression.tok": impressions}
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    return [folder / name for name in texts]


def test_mimic_rrs_pairs_by_line_and_leaves_empty_ones_out(tmp_path: Path) -> None:
    write_rrs(
        tmp_path, "clear .\n\nnodule\x0b .\u2028 7 mm\nmass .", "normal .\r\nlost .\nct .\n \n"
    )
    benchmark = load("mimic_rrs")
    first, third = instances("mimic_rrs", tmp_path)
    assert first == Instance(
        id="1",
        context="Findings:\nclear .",
        question="Write the impression of this report.",
        references=("normal .",),
    )
    assert (third.id, third.references) == ("3", ("ct .",))
    assert third.context == "Findings:\nnodule\x0b .\u2028 7 mm"
    assert prompt(benchmark, first) == (
        f"{benchmark.instruction}\n\nFindings:\nclear .\n\nWrite the impression of this report."
    )


def test_mimic_rrs_files_must_have_the_same_lines(tmp_path: Path) -> None:
    write_rrs(tmp_path, "a\nb\nc\n", "a\nb\n")
    assert refusal("mimic_rrs", tmp_path) == (
        "mimic_rrs: test.impression.tok ends behind line 2, the other file goes on; "
        "take both from one release"
    )
    write_rrs(tmp_path, "a\n", "a\nb\n")
    assert "test.findings.tok ends behind line 1" in refusal("mimic_rrs", tmp_path)
    write_rrs(tmp_path, "a\nb\n", "a\nb\n")[1].write_bytes(b"a\n\xff\n")
    assert "test.impression.tok: not UTF-8" in refusal("mimic_rrs", tmp_path)


@pytest.mark.slow
def test_mimic_rrs_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    paths = write_rrs(tmp_path, "word " * 200 + "\n", "short .\n")
    for path in paths:
        path.write_bytes(path.read_bytes() * 20_000)
    count, peak = peak_mib(mimic_rrs.read(paths, "test"))
    assert count == 20_000
    assert peak < 1


# MIMIC-IV-BHC ------------------------------------------------------------------------------

BHC = [
    ["10-DS-21", "<SEX> F\n<SERVICE> MEDICINE", 'She said "fine".\nHome.', "12", "4"],
    ["10-DS-22", "<SEX> F <SERVICE> SURGERY", " ", "12", "0"],
    ["11-DS-3", "<SEX> M <SERVICE> MEDICINE", "Treated for gout.", "12", "5"],
]
BHC_HEAD = ["note_id", "input", "target", "input_tokens", "target_tokens"]


def write_bhc(root: Path, rows: Table = BHC, head: Sequence[str] = BHC_HEAD) -> Path:
    path = root / "mimic_bhc" / "mimic-iv-bhc.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def write_bhc_lines(root: Path, lines: Iterable[object]) -> Path:
    path = root / "mimic_bhc" / "mimic_iv_bhc.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_mimic_bhc_of_the_csv_release(tmp_path: Path) -> None:
    write_bhc(tmp_path)
    first, last = instances("mimic_bhc", tmp_path)
    assert first == Instance(
        id="10-DS-21",
        context="<SEX> F\n<SERVICE> MEDICINE",
        question="Write the brief hospital course of this stay.",
        references=('She said "fine".\nHome.',),
        cluster="10",
    )
    assert (last.id, last.cluster) == ("11-DS-3", "11")
    benchmark = load("mimic_bhc")
    assert prompt(benchmark, last) == (
        f"{benchmark.instruction}\n\n<SEX> M <SERVICE> MEDICINE\n\n"
        "Write the brief hospital course of this stay."
    )


def test_mimic_bhc_of_the_first_release_has_no_patients(tmp_path: Path) -> None:
    """The CSV file need not be there."""
    lines = [{"input": i, "target": t} for _, i, t, _, _ in BHC]
    write_bhc_lines(tmp_path, [*lines, {"input": "x", "target": None}])
    found = instances("mimic_bhc", tmp_path, "release_1_0")
    assert [i.references for i in found] == [('She said "fine".\nHome.',), ("Treated for gout.",)]
    assert [i.cluster for i in found] == [None, None]
    assert len({i.id for i in found if len(i.id) == 16}) == 2


def test_mimic_bhc_mistakes_are_named(tmp_path: Path) -> None:
    write_bhc(tmp_path, head=["note_id", "text", "target", "a", "b"])
    assert refusal("mimic_bhc", tmp_path) == (
        "mimic_bhc: mimic-iv-bhc.csv: there is no column input"
    )
    write_bhc(tmp_path, [*BHC, ["12-DS-1", "x"]])
    assert "mimic-iv-bhc.csv, row 4: 2 cells, the header has 5" in refusal("mimic_bhc", tmp_path)
    write_bhc_lines(tmp_path, [[1]])
    assert "line 1: not a JSON object" in refusal("mimic_bhc", tmp_path, "release_1_0")
    write_bhc_lines(tmp_path, [{"input": "a", "target": "b"}, {"input": 4, "target": "b"}])
    assert "line 2: input is not text" in refusal("mimic_bhc", tmp_path, "release_1_0")
    write_bhc_lines(tmp_path, []).write_text('{"input": "a"\n')
    assert refusal("mimic_bhc", tmp_path, "release_1_0") == (
        "mimic_bhc: mimic_iv_bhc.json, line 1: not a JSON object on one line"
    )
    write_bhc(tmp_path).unlink()
    assert "mimic-iv-bhc.csv is missing" in refusal("mimic_bhc", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["test", "release_1_0"])
def test_mimic_bhc_memory_does_not_grow_with_the_file(tmp_path: Path, split: str) -> None:
    text = "word " * 3000
    if split == "test":
        rows = ([f"{n}-DS-1", text, text, "1", "1"] for n in range(1000))
        path = write_bhc(tmp_path, rows)  # 30 MB
    else:
        path = write_bhc_lines(tmp_path, ({"input": text, "target": text} for _ in range(1000)))
    count, peak = peak_mib(mimic_bhc.read([path], split))
    assert count == 1000
    assert peak < 2
