from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "subject": "virology",
    "language": "zu",
    "number": 3,
    "question": "Yimuphi umuthi owehlisa imfiva?",
    "A": "I-Insulin ",
    "B": "I-Paracetamol",
    "C": "I-Heparin",
    "D": "I-Paracetamol",
    "answer": "B",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("mmlu_clinical_afr")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="zu/virology/3",
        question="Yimuphi umuthi owehlisa imfiva?",
        choices=("I-Insulin", "I-Paracetamol", "I-Heparin", "I-Paracetamol"),
        references=("B", "D"),
        cluster="virology/3",
        metadata={"part": "zu", "subject": "virology"},
    )
    assert "B. I-Paracetamol" in prompt(benchmark, instance)
    with pytest.raises(DataError, match="not one of A to D"):
        benchmark.to_instance(ROW | {"answer": "E"})


def test_the_name_of_a_file_says_subject_and_language(tmp_path: Path) -> None:
    for name in ("virology_test.csv", "virology_test_nso.csv"):
        (tmp_path / name).write_text('"Q, with a comma",a,b,c,d,C\n')
    dataset = load("mmlu_clinical_afr").dataset
    assert isinstance(dataset, FileDataset) and dataset.read
    rows = list(dataset.read(sorted(tmp_path.iterdir()), "test"))
    assert [(r["subject"], r["language"], r["number"]) for r in rows] == [
        ("virology", "en", 0),
        ("virology", "nso", 0),
    ]
    assert rows[0]["question"] == "Q, with a comma" and rows[0]["answer"] == "C"
    for name in ("medicine_test.csv", "medicine_test_nso.csv"):
        (tmp_path / name).write_text('Other,a,b,c,d,A\n"Q,  with a comma",a,b,c,d,C\n')
    again = {
        (r["subject"], r["language"], r["number"]): r["first"]
        for r in dataset.read(sorted(tmp_path.iterdir(), reverse=True), "test")
    }
    assert again["medicine", "en", 0] == "medicine/0"
    assert again["medicine", "nso", 1] == again["medicine", "en", 1] == again["virology", "nso", 0]
    (tmp_path / "virology_test.csv").write_text("Q,a,b,c\n")
    with pytest.raises(DataError, match="row 1: 4 cells"):
        list(dataset.read([tmp_path / "virology_test.csv"], "test"))


def test_the_real_files(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("mmlu_clinical_afr")
    assert set(Counter(i.metadata["part"] for i in instances).values()) == {604}
    english = {i.id.removeprefix("en/"): i for i in instances if i.metadata["part"] == "en"}
    subjects = Counter(i.metadata["subject"] for i in english.values())
    assert subjects == {"clinical_knowledge": 265, "college_medicine": 173, "virology": 166}
    others = [i for i in instances if i.metadata["part"] != "en"]
    assert len(others) == 6644
    of_id = {i.id: english[i.id.partition("/")[2]] for i in others}
    assert all(i.references[0] == of_id[i.id].references[0] for i in others)
    assert all(i.cluster == of_id[i.id].cluster for i in others)
    repeated = [i for place, i in english.items() if i.cluster != place]
    assert len(repeated) == 78 and len({i.cluster for i in english.values()}) == 526
    for one in repeated:
        first = english[str(one.cluster)]
        assert (one.references, one.choices) == (first.references, first.choices)
        assert one.metadata["subject"] == "college_medicine" != first.metadata["subject"]
    assert sum(len(set(i.choices)) < 4 for i in others) == 109
    assert sum(len(i.references) > 1 for i in others) == 62
