from collections import Counter
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from medhelm.data.dataset import open_dataset
from medhelm.schema.data import FileDataset, Instance, LeftOut

from .conftest import load, prompt

HEADER = "Medical Specialty:Gastroenterology\nSample Name: A scope\nDescription: A scope.\n"
STORY = (
    "PROCEDURE IN DETAIL:  The scope was passed under sedation into the second part of the duodenum. "
    "In the antrum a vessel was seen in the base of a crater, on which two clips were set; the "
    "bleeding came to a stop."
)
BEFORE = f"{HEADER}PROCEDURE:  Gastroscopy.INDICATION:  Anemia."
NOTE = f"{BEFORE}GROSS FINDINGS:  An ulcer, clipped.\n{STORY}\nKeywords: gastric ulcer, \n"


def test_of_a_note_that_is_asked_for_its_findings_the_section_alone_is_taken_out() -> None:
    benchmark = load("mtsamples_procedures")
    instance = benchmark.to_instance({"name": "A scope", "text": NOTE})
    assert isinstance(instance, Instance)
    assert instance.context == f"{BEFORE}\n[...]\n{STORY}"
    assert instance.references == ("An ulcer, clipped.",)
    assert instance.metadata == {"section": "findings", "specialty": "Gastroenterology"}
    assert instance.question.startswith("Write the section FINDINGS of this procedure note")
    shown = prompt(benchmark, instance)
    assert shown == f"{benchmark.instruction}\n\n{instance.context}\n\n{instance.question}"
    assert "plan" not in shown and "ulcer" not in shown


def test_findings_that_nothing_tells_are_left_out() -> None:
    """An imaging report ends with its findings; the list of keywords is no description."""
    to_instance = load("mtsamples_procedures").to_instance
    words = "Keywords: " + "ulcer, " * 40
    assert isinstance(
        to_instance({"name": "x", "text": f"EXAM: Chest. FINDINGS: Clear.\n{words}"}), LeftOut
    )
    short = f"EXAM: Chest. FINDINGS: Clear.\n{'word ' * 29}\n{words}"
    assert isinstance(to_instance({"name": "x", "text": short}), LeftOut)
    assert isinstance(to_instance({"name": "x", "text": f"word {short}"}), LeftOut)
    assert to_instance({"name": "x", "text": short.replace("word ", "a word ", 1)}) is not None


def test_the_published_split_asks_each_note_for_a_plan_and_ends_at_the_first_heading() -> None:
    text = "Done. SUMMARY: Fine. FINDINGS: Clear. PLAN: Rest."
    to_instance = load("mtsamples_procedures").to_instance
    instance = to_instance({"name": "x", "text": text, "split": "published"})
    assert isinstance(instance, Instance)
    assert (instance.context, instance.references) == ("Done.", ("Rest.",))
    short = to_instance(
        {"name": "x", "text": "EXAM: Chest. FINDINGS: Clear.", "split": "published"}
    )
    assert isinstance(short, Instance) and short.question == instance.question


def test_plans_and_summaries() -> None:
    to_instance = load("mtsamples_procedures").to_instance
    plan = to_instance({"name": "x", "text": "FINDINGS: A polyp.\nPLAN: Scope in 5 years."})
    assert plan is not None
    assert (plan.context, plan.references) == ("FINDINGS: A polyp.", ("Scope in 5 years.",))
    assert plan.question.startswith("Write the plan")
    summary = to_instance({"name": "x", "text": "Done. PLAN:\nSUMMARY: Normal."})
    assert summary is not None and summary.question.startswith("Write the summary")
    assert isinstance(to_instance({"name": "x", "text": "Plan: none. FINDINGS: Normal."}), LeftOut)
    assert isinstance(to_instance({"name": "x", "text": "Nothing."}), LeftOut)


def test_a_folder_of_notes(tmp_path: Path) -> None:
    benchmark = load("mtsamples_procedures")
    assert isinstance(benchmark.dataset, FileDataset)
    (source,) = benchmark.dataset.files
    assert source.url.endswith("/zip/c4c252443fa9c52afb6960f53e51be278639bea2")
    assert source.sha256.startswith("34b0f540534b")
    dataset = replace(benchmark.dataset, files=(structs.replace(source, sha256=""),))
    benchmark = replace(benchmark, dataset=dataset)
    folder = tmp_path / benchmark.name / "mtsample_procedure"
    folder.mkdir(parents=True)
    (folder / "A scope.txt").write_text(NOTE)
    (folder / "B & C - 1 .txt").write_text("Done. PLAN: Rest.\n")
    (folder / "No gold.txt").write_text("Done.\n")
    found = list(open_dataset(benchmark, "full", root=tmp_path).instances())
    assert [i.id for i in found] == ["A scope", "B & C - 1 "]
    assert Counter(i.metadata["section"] for i in found) == {"findings": 1, "plan": 1}
    published = open_dataset(benchmark, "full", split="published", root=tmp_path)
    assert [i.context for i in published.instances()] == [BEFORE + "GROSS", "Done."]
