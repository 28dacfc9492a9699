import csv
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm_benchmarks import medalign

from .conftest import load, prompt

Table = Iterable[Sequence[str]]

REVIEWED = [
    ["7", "100", "GPT-4", "What is the potassium?"],
    ["7", "100", "MPT", "What is the potassium?"],
    ["8", "100", "GPT-4", 'List "open" issues.'],
    ["7", "200", "GPT-4", "What is the sodium?"],
    ["9", "200", "GPT-4", "Nobody answered this."],
]
ANSWERS = [
    ["8", "100", "Annotator_2", "A second view."],
    ["7", "100", "Annotator_1", "4.1,\nlast week"],
    ["8", "100", "Annotator_1", "None."],
    ["7", "200", "Annotator_1", "138"],
    ["9", "200", "Annotator_1", " "],
    ["55", "300", "Annotator_1", "Of another file."],
]
HEADS = (
    ["instruction_id", "person_id", "model_name", "question"],
    ["instruction_id", "person_id", "annotator_num", "clinician_response"],
)


def instances(root: Path) -> list[Instance]:
    return list(open_dataset(load("medalign"), "full", root=root).instances())


def refusal(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        instances(root)
    return str(caught.value)


def write(
    root: Path,
    reviewed: Table = REVIEWED,
    answers: Table = ANSWERS,
    records: dict[str, str] | None = None,
    heads: Sequence[Sequence[str]] = HEADS,
) -> list[Path]:
    folder = root / "medalign"
    folder.mkdir(exist_ok=True)
    names = ("clinician-reviewed-model-responses.tsv", "clinician-instruction-responses.tsv")
    paths = [folder / name for name in names]
    for path, head, rows in zip(paths, heads, (reviewed, answers), strict=True):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n").writerows([head, *rows])
    found = {"medalign_ehr_xml/100.xml": "<ehr>one</ehr>\n", "ehrs/EHR_200.xml": "<ehr>two</ehr>"}
    for name, text in (records or found).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return paths


def test_joins_by_instruction_and_patient(tmp_path: Path) -> None:
    write(tmp_path)
    assert instances(tmp_path) == [
        Instance(
            id="7-100",
            context="<ehr>one</ehr>",
            question="What is the potassium?",
            references=("4.1,\nlast week",),
            cluster="100",
        ),
        Instance(
            id="8-100",
            context="<ehr>one</ehr>",
            question='List "open" issues.',
            references=("None.",),
            cluster="100",
        ),
        Instance(
            id="7-200",
            context="<ehr>two</ehr>",
            question="What is the sodium?",
            references=("138",),
            cluster="200",
        ),
    ]


def test_prompt_is_instruction_record_question(tmp_path: Path) -> None:
    write(tmp_path)
    benchmark = load("medalign")
    first = instances(tmp_path)[0]
    assert prompt(benchmark, first) == (
        f"{benchmark.instruction}\n\n<ehr>one</ehr>\n\nWhat is the potassium?"
    )


def test_answers_without_a_patient_are_joined_by_the_instruction(tmp_path: Path) -> None:
    heads = (HEADS[0], ["instruction_id", "annotator_num", "clinician_response"])
    answers = [[i, annotator, text] for i, _, annotator, text in ANSWERS[:3]]
    write(tmp_path, REVIEWED[:3], answers, heads=heads)
    found = instances(tmp_path)
    assert [(i.id, i.references) for i in found] == [
        ("7-100", ("4.1,\nlast week",)),
        ("8-100", ("None.",)),
    ]


def test_finds_a_record_by_the_file_name_of_the_row(tmp_path: Path) -> None:
    heads = ([*HEADS[0], "filename"], HEADS[1])
    reviewed = [[*REVIEWED[0], "longitudinal-1.xml"]]
    write(tmp_path, reviewed, records={"ehrs/longitudinal-1.xml": "<ehr>x</ehr>"}, heads=heads)
    assert [i.context for i in instances(tmp_path)] == ["<ehr>x</ehr>"]
    (tmp_path / "medalign" / "outside.xml").write_text("<ehr>not this</ehr>")
    write(tmp_path, [[*REVIEWED[0], "../outside.xml"]], heads=heads, records={"x": ""})
    assert "row 1: the record of its patient is missing" in refusal(tmp_path)


def test_shows_the_end_of_a_long_record_from_a_whole_element(tmp_path: Path) -> None:
    event = '<event name="Kreislauf stabil, größer">ü</event>\n'
    text = "<ehr>\n" + event * 10_000 + "<event>the last</event>\n</ehr>"
    write(tmp_path, REVIEWED[:1], records={"medalign_ehr_xml/100.xml": text})
    (instance,) = instances(tmp_path)
    head, _, rest = instance.context.partition("\n")
    assert head == "[The earlier part of the record is left out.]"
    assert rest.startswith('<event name="Kreislauf')
    assert rest.endswith("<event>the last</event>\n</ehr>")
    size = len(rest.encode())
    assert medalign.LONGEST - len(event.encode()) <= size <= medalign.LONGEST
    exact = "<e>" + "x" * (medalign.LONGEST - 7) + "</e>"
    write(tmp_path, REVIEWED[:1], records={"medalign_ehr_xml/100.xml": exact})
    assert instances(tmp_path)[0].context == exact


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    paths = write(tmp_path, REVIEWED[:3])
    with (tmp_path / "medalign" / "medalign_ehr_xml" / "100.xml").open("w") as file:
        for _ in range(40):
            file.write("<event>nothing new</event>\n" * 40_000)  # 43 MB in all
    tracemalloc.start()
    try:
        assert sum(1 for _ in medalign.read(paths, "test")) == 2
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**20
    finally:
        tracemalloc.stop()


def test_mistakes_are_named(tmp_path: Path) -> None:
    write(tmp_path, records={"medalign_ehr_xml/100.xml": "<ehr/>"})
    assert refusal(tmp_path) == (
        "medalign: clinician-reviewed-model-responses.tsv, row 4: the record of its patient is "
        "missing; put the XML files of the release into "
        f"{tmp_path / 'medalign' / 'medalign_ehr_xml'}"
    )
    write(tmp_path, heads=(HEADS[0][:3] + ["text"], HEADS[1]))
    assert "responses.tsv: there is no column question" in refusal(tmp_path)
    write(tmp_path, [*REVIEWED[:1], ["8", "100"]])
    assert "row 2: 2 cells, the header has 4" in refusal(tmp_path)
    write(tmp_path, answers=ANSWERS[:1])
    assert "no clinician_response of annotator_num Annotator_1" in refusal(tmp_path)
    write(tmp_path, [["7", "100", "GPT-4", " "]])
    assert "model-responses.tsv, row 1: question is empty" in refusal(tmp_path)
    (path, _) = write(tmp_path)
    path.write_bytes(path.read_bytes() + b"\xff\n")
    assert "not UTF-8" in refusal(tmp_path)
    write(tmp_path)
    (tmp_path / "medalign" / "medalign_ehr_xml" / "100.xml").write_bytes(b"<ehr>\xff</ehr>")
    assert refusal(tmp_path) == (
        "medalign: medalign_ehr_xml: a record is not UTF-8; unpack it again"
    )
