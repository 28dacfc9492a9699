import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm_benchmarks import medhallu

from .conftest import load, prompt

PASSAGES = [
    "It was 4.1% in 'A'.",
    'The "B" group\nhad none.',
    "Both 'x' and \"y\": 5 µg\\kg.",
    "n/a",
]
ROW: dict[str, Any] = {
    "Question": "Does it work?",
    "Knowledge": PASSAGES,
    "Ground Truth": "It does in most patients.",
    "Difficulty Level": "hard",
    "Hallucinated Answer": "It does in all patients.",
    "Category of Hallucination": "Incomplete Information",
}
SHOWN = "It was 4.1% in 'A'.\nThe \"B\" group had none.\nBoth 'x' and \"y\": 5 µg\\kg.\nn/a"


def printed(passages: list[str]) -> str:
    """Return what NumPy prints of an array of texts, as the exported CSV holds it."""
    return str(np.array(passages, dtype=object))


def write_csv(root: Path, rows: list[dict[str, Any]]) -> Path:
    path = root / "medhallu" / "pqa_labeled.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def instances(root: Path) -> list[Instance]:
    return list(open_dataset(load("medhallu"), "full", root=root).instances())


def test_a_row_and_its_prompt() -> None:
    benchmark = load("medhallu")
    instance = benchmark.to_instance({"row": 3, "shown": "hallucinated", **ROW})
    assert instance == Instance(
        id="3-hallucinated",
        context=SHOWN,
        question="Question: Does it work?\nAnswer to be judged: It does in all patients.",
        choices=("factual", "hallucinated"),
        references=("B",),
        cluster="3",
        metadata={"difficulty": "hard", "category": "Incomplete Information"},
    )
    assert prompt(benchmark, instance).endswith(
        f"{SHOWN}\n\nQuestion: Does it work?\nAnswer to be judged: It does in all patients.\n\n"
        "A. factual\nB. hallucinated\n\nExactly one option is right. Reply with its letter alone "
        "(A or B)."
    )
    factual = benchmark.to_instance({"row": 3, "shown": "true", **ROW})
    assert factual is not None
    assert (factual.id, factual.references, factual.cluster) == ("3-true", ("A",), "3")
    assert "most patients" in factual.question
    assert factual.metadata == {"difficulty": "hard", "category": "none"}


def test_the_csv_export(tmp_path: Path) -> None:
    """Each row twice, the factual answer first; ids count rows from 0."""
    rows = [
        {**ROW, "Knowledge": printed(PASSAGES)},
        {**ROW, "Knowledge": printed(["One."]), "Ground Truth": "n/a"},
    ]
    write_csv(tmp_path, rows)
    found = instances(tmp_path)
    assert [i.id for i in found] == ["0-true", "0-hallucinated", "1-true", "1-hallucinated"]
    assert Counter(i.cluster for i in found) == {"0": 2, "1": 2}
    assert found[0].context == SHOWN
    assert found[2].context == "One."
    assert found[2].question.endswith("Answer to be judged: n/a"), "a text, not a missing cell"


def test_the_parquet_file_gives_the_same(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [{**ROW, "Knowledge": printed(PASSAGES)}])
    from_csv = instances(tmp_path)
    parquet.write_table(pa.Table.from_pylist([ROW]), path)
    assert instances(tmp_path) == from_csv


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
    ],
)
def test_passages(cell: object, passages: list[str]) -> None:
    assert medhallu.read_passages(cell) == passages


@pytest.mark.parametrize("passages", [PASSAGES, ["a" * 300] * 5, ["'", '"', "\\", "\\'", "[']"]])
def test_what_numpy_prints_is_read_back(passages: list[str]) -> None:
    expected = [" ".join(p.split()) for p in passages]
    assert medhallu.read_passages(printed(passages)) == expected


@pytest.mark.parametrize("cell", ["['a' 'b", "['a' ... 'b']", "['a' b]", "['\\x']", None, [1]])
def test_damaged_passages(cell: object) -> None:
    with pytest.raises(DataError, match="^Knowledge ") as caught:
        medhallu.read_passages(cell)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Difficulty Level": "unknown"}, "Difficulty Level is none of easy, medium, hard"),
        ({"Difficulty Level": None}, "Difficulty Level is none of"),
        ({"Ground Truth": " "}, "Question or Ground Truth is empty"),
        ({"Question": ""}, "Question or Ground Truth is empty"),
        ({"Question": 4}, "Question is not text"),
        ({"shown": "both"}, "shown is none of true, hallucinated"),
    ],
)
def test_bad_rows(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load("medhallu").to_instance({"row": 0, "shown": "true", **ROW, **change})


def test_a_missing_category_is_said_to_be_missing() -> None:
    row = {"row": 0, "shown": "hallucinated", **ROW, "Category of Hallucination": None}
    instance = load("medhallu").to_instance(row)
    assert instance is not None
    assert instance.metadata["category"] == "not stated"


def test_damaged_files(tmp_path: Path) -> None:
    path = write_csv(tmp_path, [{k: v for k, v in ROW.items() if k != "Ground Truth"}])

    def refusal() -> str:
        with pytest.raises(DataError) as caught:
            instances(tmp_path)
        return str(caught.value)

    assert refusal() == "medhallu: row 1: there is no column 'Ground Truth'"
    path.write_text("Question,Knowledge\nWhy?\n")
    assert "pqa_labeled.csv, row 1: 1 cells, the header has 2" in refusal()
    path.write_text("Question,Knowledge\nWhy?,a,b\n")
    assert "pqa_labeled.csv, row 1: 3 cells, the header has 2" in refusal()
    path.write_text('Question,Knowledge\n"Why?')
    assert "pqa_labeled.csv, row 1: not CSV" in refusal()
    path.write_bytes(b"Question\ncaf\xe9\n")
    assert "pqa_labeled.csv: not UTF-8" in refusal()
    path.write_bytes(b"PAR1 cut off")
    assert "pqa_labeled.csv: not readable as Parquet" in refusal()
    parquet.write_table(pa.table({"Question": ["Why?"]}), path)
    assert "row 1: there is no column 'Difficulty Level'" in refusal()


def test_the_source_is_pinned() -> None:
    (file,) = load("medhallu").dataset.files  # type: ignore[union-attr]
    assert file.hub is not None and file.hub.config == "pqa_labeled"
    assert file.hub.revision == "515060458a945c633debc6fd5baac7764416b724"
    assert load("medhallu").expected_instances == {"train": 2000}
