"""Files of a hospital's own records, in their own columns or those of the published file."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.grading.grade import in_parts
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Response
from medhelm.stats.aggregation import MEAN_OF_PARTS, Pooling
from tests.cases import cases
from tests.graded import grade

from .conftest import load
from .written import write

YES_NO = {"yes": "A", "no": "B"}
PUBLISHED: dict[str, tuple[dict[str, str], str]] = {
    "adhd_behavior": (YES_NO, "prompt"),
    "adhd_medeffects": (YES_NO, "prompt"),
    "bmt_status": (YES_NO, "prompt"),
    "cdi_qa": (YES_NO, "prompt"),
    "clinic_referral": (YES_NO, "question"),
    "ent_referral": ({**YES_NO, "none": "C"}, "prompt"),
    "hospice_referral": (YES_NO, "prompt"),
    "medconfinfo": (YES_NO, "prompt"),
    "privacy_detection": (YES_NO, "prompt"),
    "proxy_sender": ({"proxy": "A", "patient": "B", "unclear": ""}, "prompt"),
}
"""The labels with the letters of the published file, and its column of the question."""
LABELS = {name: tuple(labels) for name, (labels, _) in PUBLISHED.items()}
LABELS["clear"] = ("yes", "no", "uncertain")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def row(name: str, label: str, number: int = 1) -> dict[str, str]:
    """A row with every column; the extra one holds what the benchmark asks row by row."""
    extra = {"condition": "chronic_pain"} if name == "clear" else {"question": "Was it so?"}
    text = 'He said "no",\nthen – yes.'
    return {"id": f"k{number}", **extra, "text": text, "label": label, "patient": "p7"}


def read(name: str, root: Path, *rows: Mapping[str, object], split: str = "test") -> list[Instance]:
    write(root, name, {f"{name}.csv": [[*rows[0]], *([*own.values()] for own in rows)]})
    return list(open_dataset(load(name), "full", split=split, root=root).instances())


@pytest.mark.parametrize("name", LABELS)
def test_the_columns_of_a_file_are_declared(name: str) -> None:
    benchmark = load(name)
    assert benchmark.columns.keys() == row(name, "").keys()
    assert all(label in benchmark.columns["label"] for label in LABELS[name])
    assert (benchmark.cluster, benchmark.answer) == ("patient", "choice")
    assert "?" not in benchmark.instruction, "the row asks, not the instruction"


@pytest.mark.parametrize("name", ["cdi_qa", "clear"])
def test_cells_and_columns_that_are_refused(name: str, tmp_path: Path) -> None:
    good = row(name, LABELS[name][0])
    without = {key: cell for key, cell in good.items() if key != "label"}
    allowed = f"'label' must hold one of: {', '.join(LABELS[name])}"
    for rows, *words in (
        ([good, row(name, "maybe", 2)], f"{name}.csv, row 2", allowed),
        ([without], "row 1", "no column 'label'", "columns are id, "),
        ([good | {"ward": "3"}], "unknown column 'ward'", "columns are id, "),
        ([good | {"text": "  "}], "column 'text' is empty"),
    ):
        with pytest.raises(DataError) as caught:
            read(name, tmp_path, *rows)
        assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_read_under_the_same_name(name: str, tmp_path: Path) -> None:
    """Without a key, with columns that nobody reads; equal rows stay two instances."""
    labels, column = PUBLISHED[name]
    letters = [letter for letter in labels.values() if letter]
    rows = [
        {"": n, column: f"Is it so, {letter}?", "context": "A note.", "label": letter}
        for n, letter in enumerate(letters)
    ]
    found = read(name, tmp_path, *rows, rows[0])
    assert [i.references for i in found[:-1]] == [(letter,) for letter in letters]
    assert [i.question for i in found[:-1]] == [own[column] for own in rows]
    assert {i.context for i in found} == {"A note."}
    assert len({i.id for i in found}) == len(rows) + 1 and all(i.id for i in found)
    steps = " ".join(load(name).how_to_get)
    assert all(word in steps for word in (column, "context", "label", "published file"))


@pytest.mark.parametrize(
    ("name", "own", "words"), cases(__file__, "published_cells_that_are_refused")
)
def test_published_cells_that_are_refused(
    name: str, own: dict[str, str | None], words: list[str], tmp_path: Path
) -> None:
    """Letters are no labels of one's own file; a key of the patient is not lost by its spelling."""
    cells = {"prompt": "?", "context": "A note.", "label": "A"} | own
    with pytest.raises(DataError) as caught:
        read(name, tmp_path, {key: cell for key, cell in cells.items() if cell is not None})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_published_file_may_have_the_key_of_the_patient(tmp_path: Path) -> None:
    cells = {"prompt": "?", "context": "A note.", "label": "A", "patient": "p1"}
    assert read("cdi_qa", tmp_path, cells)[0].cluster == "p1"


def test_the_13_sheets_of_clear(tmp_path: Path) -> None:
    """Whole numbers, as a spreadsheet holds them, or numbers with a point behind an empty cell."""
    benchmark = load("clear")
    rows = [("A note.", 1), ("B note.", 0.0), ("C note.", 2), (None, 1), ("D note.", None)]
    sheet = [("row", "text", "result_human"), *((n, *own) for n, own in enumerate(rows))]
    write(tmp_path, "clear", {f"{condition}.xlsx": sheet for condition in benchmark.parts})
    found = list(open_dataset(benchmark, "full", split="sheets", root=tmp_path).instances())
    assert [i.metadata["part"] for i in found[::3]] == list(benchmark.parts)
    assert [i.references[0] for i in found] == ["A", "B", "C"] * 13


def test_clear_asks_for_each_condition_by_a_question_of_its_own(tmp_path: Path) -> None:
    benchmark = load("clear")
    rows = [row("clear", "yes", n) | {"condition": c} for n, c in enumerate(benchmark.parts)]
    instances = read("clear", tmp_path, *rows)
    assert [i.metadata["part"] for i in instances] == list(benchmark.parts)
    questions = {i.question for i in instances}
    assert len(questions) == 13
    assert all(q.startswith("Does the patient have a history of ") for q in questions)
    assert all(condition in benchmark.columns["condition"] for condition in benchmark.parts)


def test_clear_counts_each_condition_alike(registry: Registry, tmp_path: Path) -> None:
    """Three right notes of one condition and one wrong of another: 0.5, not 0.75."""
    benchmark: Benchmark = registry.benchmark("clear")
    rows = [row("clear", "yes", n) for n in range(3)]
    rows.append(row("clear", "no", 3) | {"condition": "homelessness"})
    metric = registry.metric("exact_match")
    rows_of_sums = []
    for instance in read("clear", tmp_path, *rows):
        score = grade(metric, instance, Response(instance_id=instance.id, text="A"))
        rows_of_sums.append(in_parts(score, "mean_of_parts", instance, benchmark.parts).sums)
    names = tuple(rows_of_sums[0])
    sums = np.array([sum(own[name] for own in rows_of_sums) for name in names])
    assert float(Pooling(MEAN_OF_PARTS, names)(sums)) == 0.5


def test_an_answer_in_words_is_read(registry: Registry) -> None:
    instance = registry.benchmark("ent_referral").to_instance(row("ent_referral", "none"))
    assert isinstance(instance, Instance)
    metric = registry.metric("exact_match")
    for text, value in (("C", 1), ("No mention", 1), ("no", 0), ("Answer: C", 1)):
        score = grade(metric, instance, Response(instance_id="k1", text=text))
        assert (score.value, score.outcome) == (value, "scored"), text
    strict = registry.metric("exact_match", "helm")
    assert grade(strict, instance, Response(instance_id="k1", text="No mention")).value == 0
