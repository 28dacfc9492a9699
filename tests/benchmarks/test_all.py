"""What every bundled benchmark keeps."""

from dataclasses import replace

import pytest

from medhelm.data.dataset import find_duplicate_ids, open_dataset
from medhelm.prompts import resolve_prompt
from medhelm.schema import FileDataset
from medhelm.taxonomy import load_taxonomy

from .conftest import NAMES, SAMPLES, load, prompt


@pytest.mark.parametrize("name", NAMES)
def test_the_declaration_is_complete(name: str) -> None:
    benchmark = load(name)
    assert benchmark.name == name
    subcategory = load_taxonomy().subcategory(benchmark.subcategory)
    assert subcategory.id == benchmark.subcategory
    assert set(benchmark.tasks) <= {task.id for task in subcategory.tasks}
    assert benchmark.tasks
    assert resolve_prompt(benchmark).text
    for value in ("title", "description", "instruction", "licence", "citation"):
        assert getattr(benchmark, value), value
    assert benchmark.data_class == "public"
    assert benchmark.redistributable == (name != "medbullets")
    assert benchmark.max_output_tokens < benchmark.reasoning_output_tokens
    assert isinstance(benchmark.dataset, FileDataset)
    assert set(benchmark.expected_instances) == set(benchmark.dataset.splits)
    for file in benchmark.dataset.files:
        assert len(file.sha256) == 64
        assert file.url.startswith("https://raw.githubusercontent.com/")
        assert file.url.endswith("/" + file.name)
        assert any(len(part) == 40 for part in file.url.split("/")), "a commit, not a branch"
    assert benchmark.dataset.source


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_load(name: str) -> None:
    benchmark = replace(load(name), samples=SAMPLES / f"{name}.jsonl")
    dataset = open_dataset(benchmark, "sample", root=SAMPLES)
    instances = list(dataset.instances())
    assert 6 <= len(list(dataset.rows())) <= 12
    assert len(instances) >= 6
    assert find_duplicate_ids(dataset) == []
    for instance in instances:
        assert instance.references
        assert instance.metadata.keys() == instances[0].metadata.keys()
        assert (instance.cluster is not None) == bool(benchmark.cluster)
        shown = prompt(benchmark, instance)
        assert benchmark.instruction in shown
        assert instance.context in shown
        assert instance.question in shown
        golds = [gold for gold in instance.references if len(gold.split()) >= 8]
        assert not any(gold.split(maxsplit=1)[1] in shown for gold in golds)


def test_the_samples_cover_every_form_of_answer() -> None:
    def golds(name: str) -> set[str]:
        benchmark = replace(load(name), samples=SAMPLES / f"{name}.jsonl")
        dataset = open_dataset(benchmark, "sample", root=SAMPLES)
        return {i.references[0] for i in dataset.instances()}

    assert golds("race_bias") == {"A", "B"}
    assert golds("pubmed_qa") == {"A", "B", "C"}
    assert golds("headqa") == {"A", "B", "C", "D"}
    assert golds("medbullets") == {"A", "B", "C", "D", "E"}
    medcalc = golds("medcalc_bench")
    assert {"0.0", "-6.0", "-1", "45", "12/15/2021", "('5 weeks', '1 days')"} <= medcalc
    medec = golds("medec")
    assert "CORRECT" in medec
    assert {gold.split()[0] for gold in medec} == {"CORRECT", "0", "1", "3", "4", "10"}
