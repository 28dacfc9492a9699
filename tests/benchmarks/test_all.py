"""What every bundled benchmark keeps."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from medhelm.data.dataset import find_duplicate_ids, open_dataset
from medhelm.data.rubrics import load_rubric
from medhelm.plugins.registry import Registry, load_registry
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.prompts.messages import resolve_prompt
from medhelm.proof.manifest import read_manifest
from medhelm.proof.validation import validate
from medhelm.schema.data import FileDataset

from .conftest import NAMES, PAPER, SAMPLES, TODAY, load, prompt, sample_file

CORE = {"headqa", "medbullets", "medcalc_bench", "medec", "pubmed_qa", "race_bias"}
UNPINNED = {"med_dialog", "medhallu"}
"""Public ones whose files we never had: the hash of a user's first fetch is recorded."""
MOVING = {"med_dialog"}
"""Public ones whose source has no commit."""
UNKNOWN = {"ehrshot", "medalign", "mimic_rrs", "mimiciv_billing_code"}
"""Gated ones of whose release nobody says how many instances our rules leave."""
REPUBLISHED = (CORE - {"medbullets"}) | {"aci_bench", "ehrsql", "medhallu"}
"""Those whose licence lets their text be shown."""
PUBLIC = sorted(name for name in PAPER if load(name).data_class == "public")
OTHERS = sorted(set(PAPER) - set(PUBLIC))
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def test_the_suite_of_the_paper_is_whole() -> None:
    assert len(PAPER) == 35 and set(PAPER) < set(NAMES)
    found = [load(name) for name in PAPER]
    assert Counter(b.data_class for b in found) == {"public": 14, "gated": 7, "private": 14}
    assert Counter(b.curation for b in found) == {"existing": 17, "formulated": 5, "new": 13}
    assert sum("jury" in b.metrics for b in found) == 13
    assert len({b.subcategory for b in found}) == 22


@pytest.mark.parametrize(
    ("suite", "names"),
    [
        ("medhelm", PAPER),
        ("medhelm_public", PUBLIC),
        ("medhelm_core", CORE),
        ("today", TODAY),
        ("all_public", [*PUBLIC, *TODAY]),
    ],
)
def test_the_suites_name_them(suite: str, names: list[str]) -> None:
    values = yaml.safe_load((ROOT / "conf" / "suite" / f"{suite}.yaml").read_text("utf-8"))
    assert values["name"] == suite
    assert values["benchmarks"] == sorted(names)


@pytest.mark.parametrize("name", NAMES)
def test_the_declaration_is_complete(name: str, registry: Registry) -> None:
    """All facts of a set lie in its own file: no list elsewhere knows it but the suites."""
    benchmark, is_of_paper = load(name), name in PAPER
    assert benchmark.name == name
    subcategory = load_taxonomy().subcategory(benchmark.subcategory)
    assert (subcategory.id == benchmark.subcategory) or not is_of_paper
    assert benchmark.tasks and set(benchmark.tasks) <= {task.id for task in subcategory.tasks}
    assert resolve_prompt(benchmark).text
    for value in ("title", "description", "citation"):
        assert getattr(benchmark, value), value
    bundled = replace(benchmark, samples=sample_file(name))
    samples = open_dataset(bundled, "sample", root=SAMPLES).instances()
    has_turns = any(i.turns for i in samples)  # to which nothing is added
    assert bool(benchmark.instruction) != has_turns
    assert benchmark.licence not in ("", "unknown")
    assert 64 <= benchmark.max_output_tokens < benchmark.reasoning_output_tokens
    for metric in benchmark.metrics:
        assert registry.metric(metric).name == metric
    assert bool(benchmark.rubric) == ("jury" in benchmark.metrics)
    if benchmark.rubric:
        assert load_rubric(registry.benchmark(name)).name == benchmark.rubric
    dataset = benchmark.dataset
    assert isinstance(dataset, FileDataset) and dataset.files and dataset.source
    if is_of_paper:
        assert benchmark.redistributable == (name in REPUBLISHED)
        has_own_count = benchmark.data_class == "private" or name in UNKNOWN
        assert bool(benchmark.expected_instances) != has_own_count
    else:
        assert benchmark.exposure.public_since >= "2020"
        assert len(benchmark.mended) >= 2 and all(m.endswith(".") for m in benchmark.mended)
    assert set(benchmark.expected_instances) in (set(), set(dataset.splits))


@pytest.mark.parametrize("name", TODAY)
def test_a_source_of_a_set_of_today_is_a_commit_or_is_brought_by_the_user(name: str) -> None:
    benchmark = load(name)
    assert isinstance(benchmark.dataset, FileDataset)
    for file in benchmark.dataset.files:
        if not (file.hub or file.url):  # of no revision known to us: the user is told what to bring
            assert any(file.name in step for step in benchmark.how_to_get)
            continue
        assert len(file.sha256) == 64 or benchmark.unverified or file.splits
        if file.url:  # the revision of a hub is checked where a plugin is registered
            assert file.url.startswith("https://")
            assert re.search(r"/[0-9a-f]{40}/", file.url), "a commit, not a branch"


def test_noharm_maps_to_tasks_of_its_subcategory() -> None:
    """It is not of the paper's suite, and so not in NAMES."""
    noharm = load("noharm")
    known = {task.id for task in load_taxonomy().subcategory(noharm.subcategory).tasks}
    assert noharm.tasks and set(noharm.tasks) <= known
    assert "may be." not in noharm.instruction, "a sentence that ends nowhere"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_source_is_pinned(name: str) -> None:
    benchmark = load(name)
    assert isinstance(benchmark.dataset, FileDataset)
    for file in benchmark.dataset.needed(benchmark.dataset.splits[0]):
        assert len(file.sha256) == (0 if name in UNPINNED else 64)
        if file.hub:  # its revision is checked where a plugin is registered
            continue
        assert file.url.startswith("https://")
        has_commit = any(re.fullmatch("[0-9a-f]{40}", part) for part in file.url.split("/"))
        assert has_commit or name in MOVING, "a commit, not a branch"
        if file.url.startswith("https://raw.githubusercontent.com/"):
            assert file.url.endswith("/" + Path(file.name).name)


@pytest.mark.parametrize("name", OTHERS)
def test_other_sources_are_brought_by_the_user_who_is_told_how(name: str) -> None:
    benchmark = load(name)
    assert isinstance(benchmark.dataset, FileDataset)
    assert not any(file.url for file in benchmark.dataset.files)
    assert len(benchmark.how_to_get) >= 2
    steps = " ".join(benchmark.how_to_get)
    assert not benchmark.redistributable
    if benchmark.data_class == "gated":
        assert f"<data dir>/{name}" in steps
        assert not benchmark.columns
        return
    (file,) = benchmark.dataset.needed(benchmark.dataset.splits[0])
    assert file.name == f"{name}.csv" and file.name in steps
    assert next(iter(benchmark.columns)) == "id"
    is_optional = [text.startswith("optional") for text in benchmark.columns.values()]
    assert is_optional == sorted(is_optional), "required columns come first"
    assert all(benchmark.columns.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_load(name: str) -> None:
    benchmark = replace(load(name), samples=sample_file(name))
    dataset = open_dataset(benchmark, "sample", root=SAMPLES)
    instances = list(dataset.instances())
    assert 6 <= len(list(dataset.rows())) <= 12
    assert len(instances) >= 6
    assert find_duplicate_ids(dataset) == []
    for instance in instances:
        assert instance.references or instance.criteria or benchmark.metrics[0] == "jury"
        assert instance.metadata.keys() == instances[0].metadata.keys()
        assert (instance.metadata.get("part") in benchmark.parts) == bool(benchmark.parts)
        if "patient" not in benchmark.columns:  # a column that a user's file may lack
            assert (instance.cluster is not None) == bool(benchmark.cluster)
        shown = prompt(benchmark, instance)
        assert benchmark.instruction in shown
        assert instance.context in shown
        assert instance.question in shown
        golds = [gold for gold in instance.references if len(gold.split()) >= 8]
        assert not any(gold.split(maxsplit=1)[1] in shown for gold in golds)
    assert any(instance.cluster for instance in instances) == bool(benchmark.cluster)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_samples_pass_and_are_as_the_manifest_says(name: str, registry: Registry) -> None:
    benchmark = registry.benchmark(name)
    report = validate(benchmark, "sample", registry, SAMPLES)
    assert [f for f in report.findings if f.level == "failure"] == []
    assert (report.state, report.manifest) == ("passed", "agrees")
    assert report.facts is not None
    for metric in report.facts.metrics:
        assert report.facts.scores["oracle"][metric] == 1.0
    if report.facts.metrics:
        main = registry.metric(next(iter(report.facts.metrics)))
        assert report.facts.scores["empty"][main.name] == max(main.minimum, main.floor or 0.0)


def test_every_part_of_every_manifest_is_of_the_versions_of_today(registry: Registry) -> None:
    """What was measured by an older reader is measured again, or taken out."""
    old, seen = [], 0
    for benchmark in registry.benchmarks.values():
        for data in ("sample", "full"):
            if (facts := read_manifest(benchmark, data)) is None:
                continue
            seen += 1
            now = {name: registry.metric(name).version for name in facts.metrics}
            if (facts.version, facts.metrics) != (benchmark.version, now):
                old.append(f"{benchmark.name} {data}")
            if facts.split not in benchmark.dataset.splits:
                old.append(f"{benchmark.name} {data} {facts.split}")
    assert old == []
    assert seen > len(registry.benchmarks), "some have full data"


def test_the_samples_cover_every_form_of_answer() -> None:
    def golds(name: str) -> set[str]:
        benchmark = replace(load(name), samples=sample_file(name))
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
    assert golds("ent_referral") == golds("proxy_sender") == golds("clear") == {"A", "B", "C"}
    for name in ("n2c2_ct", "ehrshot", "medhallu", "cdi_qa", "hospice_referral"):
        assert golds(name) == {"A", "B"}, name
    assert "UNANSWERABLE" in golds("ehrsql")


@pytest.mark.parametrize("name", ["n2c2_ct", "ehrshot", "med_dialog"])
def test_the_samples_have_every_part(name: str) -> None:
    benchmark = replace(load(name), samples=sample_file(name))
    instances = open_dataset(benchmark, "sample", root=SAMPLES).instances()
    assert {instance.metadata["part"] for instance in instances} == set(benchmark.parts)
