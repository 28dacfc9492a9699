"""Open-ended benchmarks on one's own records: small files in the declared columns."""

import csv
import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.data.dataset import find_duplicate_ids, open_dataset
from medhelm.errors import DataError
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.schema.data import FileDataset, Instance
from medhelm_benchmarks.note_extract import FORM

from .conftest import SAMPLES, load, prompt, sample_file

NAMES = ("note_extract", "patient_instruct", "mental_health")
ROWS: dict[str, dict[str, str]] = {
    "note_extract": {"id": "n1", "note": "Cough since\nMonday. ", "patient": "p1"},
    "patient_instruct": {
        "id": "c1",
        "diagnosis": "Gallstones",
        "procedure": "Cholecystectomy",
        "history_and_physical": "Pain after meals.",
        "operative_note": "Four ports.\nNo drain.",
        "instructions": " Shower tomorrow. ",
        "qc": "TRUE",
        "patient": "p1",
    },
    "mental_health": {
        "id": "t1",
        "dialogue": "d1",
        "topic": "anxiety",
        "dialogue_type": "first session",
        "context": "Client: I can't sleep.",
        "response": "That sounds exhausting.",
    },
}


def write(root: Path, name: str, *rows: Mapping[str, str]) -> None:
    path = root / name / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def instances(root: Path, name: str, *rows: Mapping[str, str]) -> list[Instance]:
    write(root, name, *rows)
    return list(open_dataset(load(name), "full", root=root).instances())


def refusal(root: Path, name: str, *rows: Mapping[str, str]) -> str:
    with pytest.raises(DataError) as caught:
        instances(root, name, *rows)
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "\n" not in message
    return message.removeprefix(f"{name}: ")


def without(row: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: cell for name, cell in row.items() if name not in names}


@pytest.mark.parametrize("name", NAMES)
def test_the_declaration_is_that_of_a_private_open_ended_benchmark(name: str) -> None:
    benchmark = load(name)
    subcategory = load_taxonomy().subcategory(benchmark.subcategory)
    assert set(benchmark.tasks) <= {task.id for task in subcategory.tasks}
    assert benchmark.data_class == "private"
    assert not benchmark.redistributable
    assert benchmark.curation == "new"
    assert benchmark.answer == "text"
    assert isinstance(benchmark.dataset, FileDataset)
    assert [file.name for file in benchmark.dataset.files] == [f"{name}.csv"]
    assert benchmark.how_to_get[-1].startswith(f"Name the file {name}.csv;")
    assert list(benchmark.columns) == list(ROWS[name])
    if name == "note_extract":
        assert benchmark.metrics == ["jury"]
        assert benchmark.rubric == "history_form"
    else:
        assert benchmark.metrics == ["jury", "rouge_l", "rouge_1", "rouge_2"]


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_have_the_columns_and_show_no_gold(name: str) -> None:
    benchmark = replace(load(name), samples=sample_file(name))
    dataset = open_dataset(benchmark, "sample", root=SAMPLES)
    found = list(dataset.instances())
    assert 6 <= len(found) <= len(list(dataset.rows())) <= 12
    assert find_duplicate_ids(dataset) == []
    assert all(set(row) == set(benchmark.columns) for row in dataset.rows())
    clusters = [i.cluster for i in found if i.cluster]
    assert len(set(clusters)) < len(clusters), "no two instances share a cluster"
    for instance in found:
        assert len(instance.references) == (name != "note_extract")
        assert not any(gold in prompt(benchmark, instance) for gold in instance.references)
        assert instance.question


@pytest.mark.parametrize("name", NAMES)
def test_wrong_columns_are_named(tmp_path: Path, name: str) -> None:
    row, known = ROWS[name], ", ".join(load(name).columns)
    layout = importlib.import_module(f"medhelm_benchmarks.{name}").LAYOUT
    known += f" (in the published file {', '.join(layout.published.values())})"
    required = [c for c, text in load(name).columns.items() if not text.startswith("optional")]
    for column in required:
        assert refusal(tmp_path, name, without(row, column)) == (
            f"{name}.csv, row 1: there is no column {column!r}; the columns are {known}; "
            f"the file has {', '.join(without(row, column))}"
        )
    assert refusal(tmp_path, name, row | {"extra": "x"}) == (
        f"{name}.csv, row 1: unknown column 'extra'; the columns are {known}"
    )
    assert refusal(tmp_path, name, row, row | {"id": " "}) == (
        f"{name}.csv, row 2: column 'id' is empty"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_answered_with_the_template(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"medhelm data template {name}"):
        open_dataset(load(name), "full", root=tmp_path)


def test_note_extract_shows_note_and_form_and_has_no_gold(tmp_path: Path) -> None:
    row = ROWS["note_extract"]
    (instance,) = instances(tmp_path, "note_extract", row, row | {"id": "n2", "note": " "})
    assert instance == Instance(
        id="n1",
        context="Cough since\nMonday.",
        question=f"Fill in this form from the note:\n{FORM}",
        cluster="p1",
    )
    benchmark = load("note_extract")
    assert prompt(benchmark, instance) == (
        f"{benchmark.instruction}\n\nCough since\nMonday.\n\n{instance.question}"
    )
    assert "'Not mentioned'" in benchmark.instruction
    assert FORM.count("\n") == 7
    (alone,) = instances(tmp_path, "note_extract", without(row, "patient"))
    assert alone.cluster is None


def test_patient_instruct_gives_the_case_and_leaves_out_what_failed(tmp_path: Path) -> None:
    name, row = "patient_instruct", ROWS["patient_instruct"]
    dropped = [row | {"qc": "False"}]
    texts = ("diagnosis", "procedure", "history_and_physical", "operative_note", "instructions")
    dropped += [row | {column: " "} for column in texts]
    lower = row | {"id": "c2", "qc": " true"}
    first, second = instances(tmp_path, name, row, *dropped, lower)
    assert first == Instance(
        id="c1",
        context=(
            "Diagnosis:\nGallstones\n\nProcedure:\nCholecystectomy\n\n"
            "History and physical:\nPain after meals.\n\nOperative note:\nFour ports.\nNo drain."
        ),
        question="Write this patient's instructions for home.",
        references=("Shower tomorrow.",),
        cluster="p1",
    )
    assert second.id == "c2"
    benchmark = load(name)
    assert prompt(benchmark, first) == (
        f"{benchmark.instruction}\n\n{first.context}\n\n{first.question}"
    )
    (alone,) = instances(tmp_path, name, without(row, "qc", "patient"))
    assert (alone.id, alone.cluster) == ("c1", None)
    assert refusal(tmp_path, name, row | {"qc": "yes"}) == (
        "patient_instruct.csv, row 1: column 'qc' must hold one of: TRUE, FALSE"
    )


def test_mental_health_gives_the_dialogue_so_far(tmp_path: Path) -> None:
    name, row = "mental_health", ROWS["mental_health"]
    opening = row | {"id": "t0", "context": "", "dialogue_type": ""}
    first, second = instances(tmp_path, name, row, opening)
    assert first == Instance(
        id="t1",
        context=(
            "Topic: anxiety\nKind of dialogue: first session\n\n"
            "Dialogue so far:\nClient: I can't sleep."
        ),
        question="What does the counsellor say next?",
        references=("That sounds exhausting.",),
        cluster="d1",
        metadata={"topic": "anxiety", "dialogue_type": "first session"},
    )
    assert second.context == "Topic: anxiety\n\nDialogue so far:\n(not begun)"
    benchmark = load(name)
    shown = prompt(benchmark, first)
    assert shown == f"{benchmark.instruction}\n\n{first.context}\n\n{first.question}"
    assert shown.count("What does the counsellor say next?") == 1
    for column in ("dialogue", "topic", "response"):
        assert refusal(tmp_path, name, row | {column: " "}) == (
            f"mental_health.csv, row 1: column {column!r} is empty"
        )
