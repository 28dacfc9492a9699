import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance, LeftOut

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "exam": "Cuaderno_2016_1_B",
    "category": "biology",
    "year": "2016",
    "qid": "1",
    "qtext": "Which  protein forms fibres ?",
    "ra": "2",
    "answers": [
        {"aid": 1, "atext": "Fibronectin"},
        {"aid": 2, "atext": " Collagen"},
        {"aid": 3, "atext": "Integrins"},
        {"aid": 4, "atext": "Proteoglycans"},
    ],
    "image": "",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("headqa")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="Cuaderno_2016_1_B/1",
        question="Which protein forms fibres ?",
        choices=("Fibronectin", "Collagen", "Integrins", "Proteoglycans"),
        references=("B",),
        cluster=hashlib.sha256(b"which protein forms fibres ?").hexdigest()[:16],
        metadata={"category": "biology", "year": "2016"},
    )
    assert prompt(benchmark, instance) == (
        "This is a question from an exam for health professionals. Choose the right option.\n\n"
        "Which protein forms fibres ?\n\n"
        "A. Fibronectin\nB. Collagen\nC. Integrins\nD. Proteoglycans\n\n"
        "Exactly one option is right. Reply with its letter alone (A, B, C or D)."
    )


@pytest.mark.parametrize("image", [None, ""])
@pytest.mark.parametrize(("ra", "aid"), [("3", int), (3, str), (3, int), ("3", str)])
def test_the_gold_is_found_whether_text_or_number(image: str | None, ra: Any, aid: Any) -> None:
    answers = [{**answer, "aid": aid(answer["aid"])} for answer in ROW["answers"]]
    instance = load("headqa").to_instance(ROW | {"ra": ra, "answers": answers, "image": image})
    assert instance is not None
    assert instance.references == ("C",)


def test_image_questions_are_left_out_and_a_lost_gold_is_told() -> None:
    to_instance = load("headqa").to_instance
    assert isinstance(to_instance(ROW | {"image": "images/1.png"}), LeftOut)
    with pytest.raises(DataError, match="ra names no answer"):
        to_instance(ROW | {"ra": "5"})


def test_the_test_split_is_2016_and_2017(tmp_path: Path) -> None:
    question = {k: ROW[k] for k in ("qid", "qtext", "ra", "answers", "image")}
    exams = {
        f"Cuaderno_{year}_1_B": {"category": "biology", "year": year, "data": [question]}
        for year in ("2013", "2015", "2016", "2017")
    }
    path = tmp_path / "HEAD_EN.json"
    path.write_text(json.dumps({"exams": exams}))
    dataset = load("headqa").dataset
    assert isinstance(dataset, FileDataset) and dataset.read
    rows = list(dataset.read([path], "test"))
    assert rows[0] == ROW
    assert [row["year"] for row in rows] == ["2016", "2017"]


def test_the_real_file(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("headqa")
    assert len(instances) == 2675
    golds = Counter(i.references[0] for i in instances)
    assert golds == {"A": 651, "B": 692, "C": 719, "D": 613}
    assert Counter(i.metadata["category"] for i in instances) == {
        "chemistry": 458,
        "pharmacology": 457,
        "nursery": 455,
        "psychology": 455,
        "biology": 454,
        "medicine": 396,
    }
    assert {len(i.choices) for i in instances} == {4}
    clusters = Counter(i.cluster for i in instances)
    assert len(clusters) == 2675 - 12, "one question twice, eleven more stems that repeat"
    ids = {i.id: i for i in instances}
    twins = ids["Cuaderno_2016_1_Q/114"], ids["Cuaderno_2017_1_Q/106"]
    assert twins[0].cluster == twins[1].cluster
    longest = [
        i for i in instances if max(i.choices, key=len) == i.choices["ABCD".index(i.references[0])]
    ]
    assert round(len(longest) / 2675, 4) == 0.2998
