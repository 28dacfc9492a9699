import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "id": "45258d3d",
    "question": "The largest commissure of the brain:\nAnswer Choices: (A) Ganser (B) Gudden "
    "(C) Corpus callosum (D) Both (A) & (C)",
    "label": ["C"],
    "label_rationale": "It joins the hemispheres.",
    "subject_name": "Anatomy",
    "topic_name": None,
    "choice_type": "single",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("med_mcqa")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="45258d3d",
        question="The largest commissure of the brain:",
        choices=("Ganser", "Gudden", "Corpus callosum", "Both (A) & (C)"),
        references=("C",),
        metadata={"subject": "Anatomy", "choice_type": "single", "picture": "none"}
        | {"of_others": "no"},
    )
    shown = prompt(benchmark, instance)
    assert "hemispheres" not in shown and shown.count("Gudden") == 1
    with pytest.raises(DataError, match=r"does not end with the options"):
        benchmark.to_instance(ROW | {"question": "No options"})


def test_the_second_file_gives_the_type(tmp_path: Path) -> None:
    rows = [{k: v for k, v in ROW.items() if k != "choice_type"} | {"id": i} for i in "abc"]
    (tmp_path / "all").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "single").write_text(json.dumps({"realidx": "b"}) + "\n")
    dataset = load("med_mcqa").dataset
    assert isinstance(dataset, FileDataset) and dataset.read
    paths = [tmp_path / "all", tmp_path / "single"]
    kinds = [(r["id"], r["choice_type"]) for r in dataset.read(paths, "validation")]
    assert kinds == [("a", "multi"), ("b", "single"), ("c", "multi")]
    assert [r["id"] for r in dataset.read(paths, "single")] == ["b"]


def test_the_real_files(real_instances: Callable[..., list[Instance]], real_data: Path) -> None:
    instances = real_instances("med_mcqa")
    golds = Counter(i.references[0] for i in instances)
    assert golds == {"A": 1348, "B": 1085, "C": 925, "D": 825}
    assert Counter(i.metadata["choice_type"] for i in instances) == {"single": 2816, "multi": 1367}
    assert Counter(i.metadata["picture"] for i in instances)["named"] == 35
    subjects = Counter(i.metadata["subject"] for i in instances)
    assert subjects.most_common(2) == [("Dental", 1318), ("Surgery", 369)]
    assert sum(len(set(i.choices)) < 4 for i in instances) == 21
    assert round(golds["A"] / 4183, 4) == 0.3223
    # the other copy of the single ones has its options apart: what was parted here is the same
    path = real_data / "med_mcqa" / "medmcqa_validation_single.medagents.jsonl"
    apart = {row["realidx"]: row for row in map(json.loads, path.read_text().splitlines())}
    single = real_instances("med_mcqa", "single")
    assert {i.id for i in single} == set(apart)
    for one in single:
        row = apart[one.id]
        assert (one.question, one.references[0]) == (row["question"].strip(), row["answer_idx"])
        assert list(one.choices) == [text.strip() for text in row["options"].values()]
    assert round(Counter(i.references[0] for i in single)["A"] / 2816, 4) == 0.3374
