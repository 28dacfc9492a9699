from dataclasses import replace
from pathlib import Path

import pytest
from openpyxl import Workbook

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance, SourceFile

from .conftest import load, prompt

FILE = "MedInfo2019-QA-Medications.xlsx"
COLUMNS = ("Question", "Focus (Drug)", "Question Type", "Answer", "Section Title", "URL")
CELLS = ("how do i take it? ", "warfarin ", "Dose", "\nOnce a day. ", None, "https://a.example")
NO_ANSWERS = ("n/a", "No answers", "No Answer.", " unanswerable", "NO ANSWERS", "N/A ")


def sheet(root: Path, *rows: tuple[object, ...]) -> Path:
    book = Workbook()
    page = book.active
    assert page is not None
    page.title = "DrugQA"
    for row in rows:
        page.append(row)
    path = root / "medication_qa" / FILE
    path.parent.mkdir(exist_ok=True)
    book.save(path)
    return root


def read(root: Path) -> list[Instance]:
    """Read a file of one's own, for which the pinned hash is taken off."""
    benchmark = load("medication_qa")
    assert isinstance(benchmark.dataset, FileDataset)
    dataset = replace(benchmark.dataset, files=(SourceFile(name=FILE),))
    own = replace(benchmark, dataset=dataset)
    return list(open_dataset(own, "full", root=root).instances())


def test_a_row_and_its_prompt(tmp_path: Path) -> None:
    benchmark = load("medication_qa")
    (instance,) = read(sheet(tmp_path, COLUMNS, CELLS))
    assert instance == Instance(
        id="0",
        question="how do i take it?",
        references=("Once a day.",),
        cluster=instance.cluster,
        metadata={"question_type": "dose", "drug": "warfarin", "gold": "answer"},
    )
    assert prompt(benchmark, instance) == f"{benchmark.instruction}\n\n{instance.question}"


def test_a_text_is_never_taken_for_a_missing_value(tmp_path: Path) -> None:
    """A reader that guesses takes n/a, NA, null and nan for nothing and loses the row."""
    texts = ("n/a", "NA", "null", "nan", "None", "")
    rows = [(f"q{n}", "d", "t", text or None, None, "u") for n, text in enumerate(texts)]
    found = read(sheet(tmp_path, COLUMNS, *rows))
    assert [i.id for i in found] == ["0", "1", "2", "3", "4"], "only the empty cell is left out"
    assert [i.references for i in found] == [(), (), ("null",), ("nan",), ("None",)]


@pytest.mark.parametrize("answer", NO_ANSWERS)
def test_a_gold_that_says_there_is_none_is_kept_apart(answer: str) -> None:
    row = dict(zip(COLUMNS, CELLS, strict=True)) | {"Section Title": "", "row": "4"}
    instance = load("medication_qa").to_instance(row | {"Answer": answer})
    assert isinstance(instance, Instance)
    assert (instance.references, instance.metadata["gold"]) == ((), "no answer")
    kept = load("medication_qa").to_instance(row | {"Answer": "No. Stop taking it."})
    assert kept is not None and kept.references == ("No. Stop taking it.",)


def test_numbers_blank_rows_short_rows_and_further_columns(tmp_path: Path) -> None:
    columns = ("Note", *COLUMNS)
    rows = [(None, "q", 5, "Dose", 10, None, None), (None,) * 7, ("x", "r", "d", "t", "Yes.")]
    found = read(sheet(tmp_path, columns, *rows))
    assert [(i.id, i.references) for i in found] == [("0", ("10",)), ("2", ("Yes.",))]
    assert found[0].metadata["drug"] == "5"


def test_a_missing_column_and_a_file_that_is_no_sheet(tmp_path: Path) -> None:
    sheet(tmp_path, COLUMNS[:3], CELLS[:3])
    with pytest.raises(DataError, match=rf"{FILE}: there is no column 'Answer' in the first row"):
        read(tmp_path)
    (tmp_path / "medication_qa" / FILE).write_bytes(b"<html>")
    with pytest.raises(DataError, match=rf"^medication_qa: {FILE}: not readable as xlsx"):
        read(tmp_path)


def test_a_question_that_stands_twice_is_one_cluster(tmp_path: Path) -> None:
    """Whatever its case, blanks and end; 39 of 690 questions repeat an earlier one to the letter."""
    texts = ("how do i take it?", "How do I  take it", "how do i take it ?", "how do i stop it?")
    found = read(sheet(tmp_path, COLUMNS, *((text, *CELLS[1:]) for text in texts)))
    first, *others = [i.cluster for i in found]
    assert [cluster == first for cluster in others] == [True, True, False]


def test_the_source_is_pinned() -> None:
    dataset = load("medication_qa").dataset
    assert isinstance(dataset, FileDataset)
    (source,) = dataset.files
    assert source.name == FILE and source.sha256.startswith("4f13d0e3b195")
    assert "/8756adc5f4bb99f6bcff690a13921337d9f9bb7e/" in source.url
