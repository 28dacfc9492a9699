import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

RECORD: dict[str, Any] = {
    "QUESTION": "Does it work?",
    "CONTEXTS": ["It was not known.", "It did in 9 of 10."],
    "LABELS": ["BACKGROUND", "MATERIALS AND METHODS"],
    "MESHES": ["Humans"],
    "YEAR": "2014",
    "reasoning_required_pred": "yes",
    "reasoning_free_pred": "yes",
    "final_decision": "maybe",
    "LONG_ANSWER": "It may work.",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("pubmed_qa")
    instance = benchmark.to_instance({"pmid": "123", **RECORD})
    assert instance == Instance(
        id="123",
        context="Background. It was not known.\nMaterials And Methods. It did in 9 of 10.",
        question="Does it work?",
        choices=("yes", "no", "maybe"),
        references=("C",),
        metadata={"year": "2014"},
    )
    assert prompt(benchmark, instance) == (
        "Below is the abstract of a biomedical study without its conclusion, and a question. "
        "Choose the answer that the findings support; maybe is for findings that do not settle "
        "it.\n\n"
        "Background. It was not known.\nMaterials And Methods. It did in 9 of 10.\n\n"
        "Does it work?\n\n"
        "A. yes\nB. no\nC. maybe\n\n"
        "Exactly one option is right. Reply with its letter alone (A, B or C)."
    )


@pytest.mark.parametrize(("decision", "letter"), [("yes", "A"), ("no", "B"), ("maybe", "C")])
def test_labels_become_letters(decision: str, letter: str) -> None:
    row = {"pmid": "1", **RECORD, "final_decision": decision}
    del row["YEAR"]
    instance = load("pubmed_qa").to_instance(row)
    assert instance is not None
    assert instance.references == (letter,)
    assert instance.metadata == {"year": "not stated"}


def test_parts_and_labels_must_match() -> None:
    with pytest.raises(ValueError, match="zip"):
        load("pubmed_qa").to_instance({"pmid": "1", **RECORD, "LABELS": ["BACKGROUND"]})


def test_splits(tmp_path: Path) -> None:
    records, truth = tmp_path / "ori_pqal.json", tmp_path / "test_ground_truth.json"
    records.write_text(json.dumps({"1": RECORD, "2": RECORD, "3": RECORD}))
    truth.write_text(json.dumps({"3": "maybe", "1": "maybe"}))
    dataset = load("pubmed_qa").dataset
    assert isinstance(dataset, FileDataset) and dataset.read
    assert dataset.splits == ("test", "all")
    assert [r["pmid"] for r in dataset.read([records, truth], "test")] == ["1", "3"]
    assert [r["pmid"] for r in dataset.read([records, truth], "all")] == ["1", "2", "3"]


def test_the_real_files(real_data: Path, real_instances: Callable[..., list[Instance]]) -> None:
    test, everything = real_instances("pubmed_qa"), real_instances("pubmed_qa", "all")
    assert Counter(i.references[0] for i in test) == {"A": 276, "B": 169, "C": 55}
    assert Counter(i.references[0] for i in everything) == {"A": 552, "B": 338, "C": 110}
    assert sum(i.metadata["year"] == "not stated" for i in everything) == 58
    truth = json.loads((real_data / "pubmed_qa" / "test_ground_truth.json").read_text())
    letters = {"yes": "A", "no": "B", "maybe": "C"}
    assert {i.id: i.references[0] for i in test} == {k: letters[v] for k, v in truth.items()}
    records = json.loads((real_data / "pubmed_qa" / "ori_pqal.json").read_text())
    benchmark = load("pubmed_qa")
    assert not any(records[i.id]["LONG_ANSWER"] in prompt(benchmark, i) for i in everything)
