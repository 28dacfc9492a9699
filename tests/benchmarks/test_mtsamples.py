from collections import Counter
from collections.abc import Callable

import pytest

from medhelm.schema.data import FileDataset, Instance

from .conftest import load, prompt

HEADER = "Medical Specialty:Nephrology\nSample Name: A stone\nDescription: A first stone.\n"
BODY = (
    "HISTORY:  He passed a stone.LABORATORY FINDINGS:  Calcium 9.4.\nASSESSMENT AND PLAN:  Drink."
)
ROW = {"name": "A stone", "text": f"{HEADER}{BODY} Come back in May.\nKeywords: stone, \n"}


def test_a_note_ends_at_the_heading_of_its_gold() -> None:
    benchmark = load("mtsamples")
    instance = benchmark.to_instance(ROW)
    context = f"{HEADER}HISTORY:  He passed a stone.LABORATORY FINDINGS:  Calcium 9.4."
    question = "Write the treatment plan for this patient: what is to be done next, and how."
    assert instance == Instance(
        id="A stone",
        context=context,
        question=question,
        references=("Drink. Come back in May.",),
        metadata={"section": "plan", "specialty": "Nephrology"},
    )
    assert prompt(benchmark, instance) == f"{benchmark.instruction}\n\n{context}\n\n{question}"


def test_a_gold_that_is_no_plan_is_left_out() -> None:
    to_instance = load("mtsamples").to_instance
    findings = {"name": "x", "text": "EXAM: Chest. FINDINGS: Clear lungs.\nPLAN:\nx"}
    assert to_instance(findings) is None, "the note before them cannot tell them"
    assert to_instance({"name": "x", "text": "Seen. FINDINGS: Pale. SUMMARY: Better."}) is None


def test_what_is_left_out_and_what_has_no_gold() -> None:
    to_instance = load("mtsamples").to_instance
    assert to_instance({"name": "x", "text": "No heading at all."}) is None
    assert to_instance({"name": "x", "text": "Empty. PLAN: \nSUMMARY:"}) is None
    assert to_instance({"name": "x", "text": "Findings: pale. PLAN: Iron."}) is None
    elsewhere = to_instance({"name": "x", "text": "Tylenol. PLAN:  See above."})
    assert elsewhere is not None and elsewhere.references == ()


def test_it_is_one_folder_of_one_pinned_archive() -> None:
    benchmark = load("mtsamples")
    assert isinstance(benchmark.dataset, FileDataset)
    (source,) = benchmark.dataset.files
    assert source.name == source.folder == "mtsamples_processed"
    assert source.url.endswith("/zip/52ba5528fd1ff1c6ec4ad1d0850126836404e71f")


@pytest.mark.slow
def test_the_real_folder(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("mtsamples")
    sections = Counter(i.metadata["section"] for i in instances)
    assert sections == {"plan": 338}
    benchmark = load("mtsamples")
    without = []
    for instance in instances:
        assert len(instance.context.split()) >= 20, instance.id
        if not instance.references:
            without.append(instance.id)
            continue
        gold = " ".join(instance.references[0].casefold().split())
        shown = " ".join(prompt(benchmark, instance).casefold().split())
        assert len(gold.split()) < 4 or gold not in shown, instance.id
        half = ("ASSESSMENT AND", "IMPRESSION AND", "GROSS", "ASSESSMENT/")
        assert not instance.context.endswith(half), instance.id
    assert without == ["Headache - Urgent Care Visit"]
    assert "OB-GYN Consultation - 4" not in {i.id for i in instances}
