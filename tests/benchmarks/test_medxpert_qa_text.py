from collections import Counter
from collections.abc import Callable
from typing import Any

from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

TEXTS = ("Gout", "Lupus", "Sepsis")
SAMPLED: dict[str, Any] = {
    "id": "Text-20",
    "question": "A man has a swollen toe. What is it?\nAnswer Choices: (A) Gout (B) Lupus (C) Sepsis",
    "options": [{"letter": c, "content": t} for c, t in zip("ABC", TEXTS, strict=True)],
    "label": ["A"],
    "medical_task": "Diagnosis",
    "body_system": "Skeletal",
    "question_type": "Reasoning",
}


def test_both_layouts_give_one_instance_that_shows_its_options_once() -> None:
    benchmark = load("medxpert_qa_text")
    instance = benchmark.to_instance(SAMPLED)
    assert instance is not None
    hub = SAMPLED | {"options": dict(zip("ABC", TEXTS, strict=True)), "label": "A"}
    assert benchmark.to_instance(hub) == instance
    assert instance.question == "A man has a swollen toe. What is it?"
    assert (instance.choices, instance.references) == (TEXTS, ("A",))
    assert prompt(benchmark, instance).count("Lupus") == 1


def test_the_part_is_a_split_of_its_own() -> None:
    dataset = load("medxpert_qa_text").dataset
    assert isinstance(dataset, FileDataset)
    part, whole = (dataset.needed(split) for split in ("part_244", "test"))
    assert [f.name for f in part] == ["medxpertqa_text_sampled.jsonl"]
    assert [f.name for f in whole] == ["test.jsonl"]


def test_the_real_part(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("medxpert_qa_text", "part_244")
    golds = Counter(i.references[0] for i in instances)
    counts = (27, 21, 17, 31, 30, 19, 22, 20, 26, 31)
    assert golds == dict(zip("ABCDEFGHIJ", counts, strict=True))
    tasks = Counter(i.metadata["medical_task"] for i in instances)
    assert tasks == {"Diagnosis": 100, "Treatment": 81, "Basic Science": 63}
    kinds = Counter(i.metadata["question_type"] for i in instances)
    assert kinds == {"Reasoning": 186, "Understanding": 58}
    assert {len(i.choices) for i in instances} == {10}
    assert not any("Answer Choices" in i.question or "(A)" in i.question for i in instances)
    assert len({i.question for i in instances}) == 244
    assert round(golds["A"] / 244, 4) == 0.1107
