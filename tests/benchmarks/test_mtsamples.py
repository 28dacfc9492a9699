from collections import Counter
from collections.abc import Callable

import pytest

from medhelm.schema.data import FileDataset, Instance, LeftOut

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
    assert isinstance(to_instance(findings), LeftOut), "the note before them cannot tell them"
    assert isinstance(
        to_instance({"name": "x", "text": "Seen. FINDINGS: Pale. SUMMARY: Better."}), LeftOut
    )


def test_what_is_left_out_and_what_has_no_gold() -> None:
    to_instance = load("mtsamples").to_instance
    assert isinstance(to_instance({"name": "x", "text": "No heading at all."}), LeftOut)
    assert isinstance(to_instance({"name": "x", "text": "Empty. PLAN: \nSUMMARY:"}), LeftOut)
    assert isinstance(to_instance({"name": "x", "text": "Findings: pale. PLAN: Iron."}), LeftOut)
    elsewhere = to_instance({"name": "x", "text": "Tylenol. PLAN:  See above."})
    assert elsewhere is not None and elsewhere.references == ()


@pytest.mark.parametrize(
    ("text", "context", "gold"),
    [
        ("Seen. FINDINGS: Pale.", "Seen. FINDINGS: Pale.", "Pale."),
        ("Seen. SUMMARY: Well. PLAN: See above.", "Seen. SUMMARY: Well.", "See above."),
    ],
)
def test_the_published_split_has_each_gold_and_ends_at_a_plan_alone(
    text: str, context: str, gold: str
) -> None:
    row = {"name": "x", "text": text, "split": "published"}
    instance = load("mtsamples").to_instance(row)
    assert isinstance(instance, Instance)
    assert (instance.context, instance.references) == (context, (gold,))
    assert "treatment plan" in instance.question


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
    published = real_instances("mtsamples", "published")
    assert len(published) == 539
    golds = [(" ".join(i.references[0].casefold().split()), i) for i in published]
    assert sum(g in " ".join(i.context.casefold().split()) for g, i in golds) == 202
