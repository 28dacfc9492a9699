import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

ROW = {
    "part": "icliniq",
    "position": "7",
    "src": "Patient: Hello, my ear hurts. Doctor: Hi. Since when? ",
    "tgt": "My ear hurts. What can I do?\n",
}


def files(root: Path, magic: int, icliniq: int) -> Path:
    for part, count in (("healthcaremagic", magic), ("icliniq", icliniq)):
        records = [{"src": f"Patient: {part} {n}", "tgt": f"Title {n}"} for n in range(count)]
        path = root / "med_dialog" / part / "test.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"data": records}))
    return root


def read(root: Path, split: str | None = None) -> list[Instance]:
    return list(open_dataset(load("med_dialog"), "full", split=split, root=root).instances())


def test_a_dialogue_and_its_prompt() -> None:
    benchmark = load("med_dialog")
    instance = benchmark.to_instance(ROW)
    question = "Say in one sentence what this patient wants to know, with the facts that matter."
    context = "Patient: Hello, my ear hurts. Doctor: Hi. Since when?"
    assert instance == Instance(
        id="icliniq-7",
        context=context,
        question=question,
        references=("My ear hurts. What can I do?",),
        metadata={"part": "icliniq"},
    )
    assert prompt(benchmark, instance) == f"{benchmark.instruction}\n\n{context}\n\n{question}"


def test_both_parts_are_read(tmp_path: Path) -> None:
    found = read(files(tmp_path, 2, 1))
    assert [i.id for i in found] == ["healthcaremagic-0", "healthcaremagic-1", "icliniq-0"]
    assert [i.metadata["part"] for i in found] == ["healthcaremagic"] * 2 + ["icliniq"]
    assert load("med_dialog").parts == ("healthcaremagic", "icliniq")


def test_a_thousand_of_each_part_are_drawn_as_published_results_were(tmp_path: Path) -> None:
    files(tmp_path, 1500, 1200)
    found = read(tmp_path)
    assert Counter(i.metadata["part"] for i in found) == {"healthcaremagic": 1000, "icliniq": 1000}
    drawn = [int(i.id.rpartition("-")[2]) for i in found[:1000]]
    np.random.seed(0)
    assert drawn == sorted(np.random.choice(np.arange(1500), 1000, replace=False).tolist())
    assert len(read(tmp_path, "all")) == 2700


def test_a_file_of_another_form(tmp_path: Path) -> None:
    files(tmp_path, 1, 1)
    path = tmp_path / "med_dialog" / "icliniq" / "test.json"
    for text, message in (
        ("[]", "has no list under 'data'"),
        ('{"data": {}}', "has no list under 'data'"),
        ('{"data": [', "not JSON in UTF-8"),
        ('{"data": ["x"]}', "record 0 has no texts under 'src' and 'tgt'"),
        ('{"data": [{"src": "a", "tgt": null}]}', "record 0 has no texts under"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=f"med_dialog: icliniq/test.json: {message}"):
            read(tmp_path)


def test_a_record_cannot_say_what_part_it_is_of(tmp_path: Path) -> None:
    path = files(tmp_path, 1, 1) / "med_dialog" / "icliniq" / "test.json"
    record = {"src": "a", "tgt": "b", "part": "healthcaremagic", "position": "7"}
    path.write_text(json.dumps({"data": [record]}))
    assert [i.id for i in read(tmp_path)] == ["healthcaremagic-0", "icliniq-0"]


def test_the_parts_are_files_of_one_bundle() -> None:
    dataset = load("med_dialog").dataset
    assert isinstance(dataset, FileDataset)
    assert [f.name for f in dataset.files] == ["healthcaremagic/test.json", "icliniq/test.json"]
    assert all(f.url.endswith(f"/contents/blob/{f.name}") for f in dataset.files)
