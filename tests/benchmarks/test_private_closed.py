"""The private closed-ended benchmarks on small files such as a hospital would write."""

import csv
from pathlib import Path

import numpy as np
import pytest

import medhelm_benchmarks
from medhelm.data.dataset import find_duplicate_ids, open_dataset
from medhelm.errors import DataError
from medhelm.grading.grade import in_parts
from medhelm.plugins.registry import Registry, load_registry
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.prompts.messages import render_prompt
from medhelm.schema.data import Benchmark, FileDataset, Instance
from medhelm.schema.episode import Response
from medhelm.stats.aggregation import MEAN_OF_PARTS, Pooling
from tests.graded import grade

FOLDER = Path(medhelm_benchmarks.__path__[0])
LABELS = {
    "clear": ("yes", "no", "uncertain"),
    "adhd_behavior": ("yes", "no"),
    "adhd_medeffects": ("yes", "no"),
    "medconfinfo": ("yes", "no"),
    "privacy_detection": ("yes", "no"),
    "proxy_sender": ("proxy", "patient", "unclear"),
    "bmt_status": ("yes", "no"),
    "hospice_referral": ("yes", "no"),
    "clinic_referral": ("yes", "no"),
    "cdi_qa": ("yes", "no"),
    "ent_referral": ("yes", "no", "none"),
}
WITH_QUESTION = {"bmt_status", "clinic_referral", "cdi_qa"}
CONDITIONS = (
    "alcohol_dependence",
    "attention_deficit_hyperactivity_disorder",
    "bipolar_disorder",
    "chronic_pain",
    "homelessness",
    "liver_disease",
    "major_depression",
    "personality_disorder",
    "post_traumatic_stress_disorder",
    "substance_use_disorder",
    "suicidal_behavior",
    "tobacco_dependence",
    "unemployment",
)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def row(name: str, label: str, number: int = 1) -> dict[str, str]:
    """A row with every column; the extra one holds what the benchmark asks row by row."""
    extra = {"condition": "chronic_pain"} if name == "clear" else {"question": "Was it so?"}
    text = 'He said "no",\nthen – yes.'
    return {"id": f"k{number}", **extra, "text": text, "label": label, "patient": "p7"}


def read(benchmark: Benchmark, rows: list[dict[str, str]], root: Path) -> list[Instance]:
    path = root / benchmark.name / f"{benchmark.name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return list(open_dataset(benchmark, "full", root=root).instances())


@pytest.mark.parametrize("name", LABELS)
def test_the_declaration_is_complete(name: str, registry: Registry) -> None:
    benchmark = registry.benchmark(name)
    subcategory = load_taxonomy().subcategory(benchmark.subcategory)
    assert subcategory.id == benchmark.subcategory
    assert benchmark.tasks and set(benchmark.tasks) <= {task.id for task in subcategory.tasks}
    for value in ("title", "description", "instruction", "licence", "citation", "how_to_get"):
        assert getattr(benchmark, value), value
    assert (benchmark.data_class, benchmark.redistributable) == ("private", False)
    assert benchmark.curation == ("formulated" if name == "clear" else "new")
    assert (benchmark.answer, benchmark.metrics[0]) == ("choice", "exact_match")
    assert 64 <= benchmark.max_output_tokens < benchmark.reasoning_output_tokens
    assert benchmark.cluster == "patient"
    assert isinstance(benchmark.dataset, FileDataset)
    file, *sheets = benchmark.dataset.files
    assert len(sheets) == (13 if name == "clear" else 0)
    assert (file.name, file.url, file.sha256) == (f"{name}.csv", "", "")
    assert not benchmark.expected_instances, "a hospital's own number is not known"
    assert benchmark.columns.keys() == row(name, "").keys()
    assert [*benchmark.columns][-1] == "patient", "required columns come first"
    described = benchmark.columns["label"]
    assert all(label in described for label in LABELS[name]), "users see the allowed labels"
    assert file.name in " ".join(benchmark.how_to_get)


@pytest.mark.parametrize("name", LABELS)
def test_a_file_of_the_documented_form(name: str, registry: Registry, tmp_path: Path) -> None:
    benchmark = registry.benchmark(name)
    rows = [row(name, label, n) for n, label in enumerate(LABELS[name])]
    instances = read(benchmark, rows, tmp_path)
    assert [i.references for i in instances] == [("A",), ("B",), ("C",)][: len(rows)]
    for number, instance in enumerate(instances):
        assert (instance.id, instance.cluster) == (f"k{number}", "p7")
        assert instance.context == 'He said "no",\nthen – yes.'
        (message,) = render_prompt(benchmark, instance)
        for part in (benchmark.instruction, instance.context, instance.question):
            assert message.content.count(part) == 1 and part
        assert "\nA. " in message.content and "Reply with its letter alone" in message.content


@pytest.mark.parametrize("name", sorted(LABELS.keys() - WITH_QUESTION - {"clear"}))
def test_a_row_without_a_question_is_asked_the_benchmarks_own(
    name: str, registry: Registry, tmp_path: Path
) -> None:
    """The column may be missing or its cell empty; either way one question is asked."""
    benchmark = registry.benchmark(name)
    full = row(name, LABELS[name][0])
    without = {key: cell for key, cell in full.items() if key != "question"}
    (asked,) = read(benchmark, [full], tmp_path)
    (absent,) = read(benchmark, [without], tmp_path)
    (empty,) = read(benchmark, [full | {"question": " "}], tmp_path)
    assert asked.question == "Was it so?"
    assert absent == empty and absent.question.count("?") == 1
    assert "?" not in benchmark.instruction


@pytest.mark.parametrize("name", LABELS)
def test_a_label_that_is_none_is_refused_with_the_allowed_ones(
    name: str, registry: Registry, tmp_path: Path
) -> None:
    benchmark = registry.benchmark(name)
    allowed = ", ".join(LABELS[name])
    with pytest.raises(DataError) as caught:
        read(benchmark, [row(name, LABELS[name][0]), row(name, "maybe", 2)], tmp_path)
    assert str(caught.value) == (
        f"{name}: {name}.csv, row 2: column 'label' must hold one of: {allowed}"
    )
    without = {key: cell for key, cell in row(name, LABELS[name][0]).items() if key != "label"}
    with pytest.raises(DataError, match="row 1: there is no column 'label'; the columns are id, "):
        read(benchmark, [without], tmp_path)
    with pytest.raises(DataError, match="row 1: unknown column 'ward'; the columns are id, "):
        read(benchmark, [row(name, LABELS[name][0]) | {"ward": "3"}], tmp_path)
    empty = row(name, LABELS[name][0]) | {"text": "  "}
    with pytest.raises(DataError, match="row 1: column 'text' is empty"):
        read(benchmark, [empty], tmp_path)


@pytest.mark.parametrize("name", LABELS)
def test_the_samples_hold_every_label_and_name_patients(name: str, registry: Registry) -> None:
    benchmark = registry.benchmark(name)
    assert benchmark.samples == FOLDER / "samples" / f"{name}.jsonl"
    dataset = open_dataset(benchmark, "sample", root=FOLDER)
    instances = list(dataset.instances())
    assert 6 <= len(instances) <= 12
    assert find_duplicate_ids(dataset) == []
    assert {i.references[0] for i in instances} == set("ABC"[: len(LABELS[name])])
    first, second = instances[:2]
    assert first.references != second.references, "a template shows two labels"
    assert all(i.cluster for i in instances)
    assert all(i.context.startswith("Synthetic ") for i in instances)


def test_a_prompt_of_clear(registry: Registry) -> None:
    benchmark = registry.benchmark("clear")
    instance = benchmark.to_instance(
        {
            "id": "1",
            "condition": "post_traumatic_stress_disorder",
            "text": "His brother has PTSD.",
            "label": "no",
            "patient": "p1",
        }
    )
    assert instance == Instance(
        id="1",
        context="His brother has PTSD.",
        question="Does the patient have a history of post-traumatic stress disorder (PTSD)?",
        choices=("yes", "no", "uncertain"),
        references=("B",),
        cluster="p1",
        metadata={"part": "post_traumatic_stress_disorder"},
    )
    (message,) = render_prompt(benchmark, instance)
    assert message.content == (
        "Read a clinical note and decide what it says about one condition in the patient's "
        "present or past: yes if it says that the patient has or had it, no if it rules it out or "
        "says nothing of it, uncertain if it hints at it without settling it. What is said of "
        "relatives or other people does not count.\n\n"
        "His brother has PTSD.\n\n"
        "Does the patient have a history of post-traumatic stress disorder (PTSD)?\n\n"
        "A. yes\nB. no\nC. uncertain\n\n"
        "Exactly one option is right. Reply with its letter alone (A, B or C)."
    )


def test_clear_has_13_parts_each_with_its_question(registry: Registry, tmp_path: Path) -> None:
    benchmark = registry.benchmark("clear")
    assert benchmark.parts == CONDITIONS
    rows = [row("clear", "yes", n) | {"condition": c} for n, c in enumerate(CONDITIONS)]
    instances = read(benchmark, rows, tmp_path)
    assert tuple(i.metadata["part"] for i in instances) == CONDITIONS
    questions = {i.question for i in instances}
    assert len(questions) == 13
    assert all(q.startswith("Does the patient have a history of ") for q in questions)
    assert all(c in benchmark.columns["condition"] for c in CONDITIONS)
    with pytest.raises(DataError, match="column 'condition' must hold one of: alcohol_dependence"):
        read(benchmark, [row("clear", "yes") | {"condition": "gout"}], tmp_path)


def test_clear_counts_each_condition_alike(registry: Registry, tmp_path: Path) -> None:
    """Three right notes of one condition and one wrong of another: 0.5, not 0.75."""
    benchmark = registry.benchmark("clear")
    rows = [row("clear", "yes", n) for n in range(3)]
    rows.append(row("clear", "no", 3) | {"condition": "homelessness"})
    metric = registry.metric("exact_match")
    rows_of_sums = []
    for instance in read(benchmark, rows, tmp_path):
        score = grade(metric, instance, Response(instance_id=instance.id, text="A"))
        rows_of_sums.append(in_parts(score, "mean_of_parts", instance, benchmark.parts).sums)
    names = tuple(rows_of_sums[0])
    sums = np.array([sum(own[name] for own in rows_of_sums) for name in names])
    assert float(Pooling(MEAN_OF_PARTS, names)(sums)) == 0.5


def test_an_answer_in_words_is_read(registry: Registry) -> None:
    instance = registry.benchmark("ent_referral").to_instance(row("ent_referral", "none"))
    assert instance is not None
    metric = registry.metric("exact_match")
    for text, value in (("C", 1), ("No mention", 1), ("no", 0), ("Answer: C", 1)):
        score = grade(metric, instance, Response(instance_id="k1", text=text))
        assert (score.value, score.outcome) == (value, "scored"), text
    strict = registry.metric("exact_match", "helm")
    assert grade(strict, instance, Response(instance_id="k1", text="No mention")).value == 0
