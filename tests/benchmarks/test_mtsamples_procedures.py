from collections import Counter
from pathlib import Path

from medhelm.data.dataset import open_dataset
from medhelm.schema import FileDataset, Instance

from .conftest import load, prompt

HEADER = "Medical Specialty:Gastroenterology\nSample Name: A scope\nDescription: A scope.\n"
NOTE = (
    f"{HEADER}PROCEDURE:  Gastroscopy.INDICATION:  Anemia.GROSS FINDINGS:  An ulcer, clipped.\nEnd."
)


def test_a_note_asks_for_the_part_that_its_gold_is() -> None:
    benchmark = load("mtsamples_procedures")
    instance = benchmark.to_instance({"name": "A scope", "text": NOTE})
    assert isinstance(instance, Instance)
    assert instance.context == f"{HEADER}PROCEDURE:  Gastroscopy.INDICATION:  Anemia."
    assert instance.references == ("An ulcer, clipped.",)
    assert instance.metadata == {"section": "findings", "specialty": "Gastroenterology"}
    assert instance.question.startswith("Write the findings of this procedure note")
    shown = prompt(benchmark, instance)
    assert shown == f"{benchmark.instruction}\n\n{instance.context}\n\n{instance.question}"
    assert "plan" not in shown and "ulcer" not in shown


def test_plans_and_summaries() -> None:
    to_instance = load("mtsamples_procedures").to_instance
    plan = to_instance({"name": "x", "text": "FINDINGS: A polyp.\nPLAN: Scope in 5 years."})
    assert plan is not None
    assert (plan.context, plan.references) == ("FINDINGS: A polyp.", ("Scope in 5 years.",))
    assert plan.question.startswith("Write the plan")
    summary = to_instance({"name": "x", "text": "Done. PLAN:\nSUMMARY: Normal."})
    assert summary is not None and summary.question.startswith("Write the summary")
    assert to_instance({"name": "x", "text": "Plan: none. FINDINGS: Normal."}) is None
    assert to_instance({"name": "x", "text": "Nothing."}) is None


def test_a_folder_of_notes(tmp_path: Path) -> None:
    benchmark = load("mtsamples_procedures")
    assert isinstance(benchmark.dataset, FileDataset)
    (source,) = benchmark.dataset.files
    assert source.url.endswith("/zip/c4c252443fa9c52afb6960f53e51be278639bea2")
    folder = tmp_path / benchmark.name / "mtsample_procedure"
    folder.mkdir(parents=True)
    (folder / "A scope.txt").write_text(NOTE)
    (folder / "B & C - 1 .txt").write_text("Done. PLAN: Rest.\n")
    (folder / "No gold.txt").write_text("Done.\n")
    found = list(open_dataset(benchmark, "full", root=tmp_path).instances())
    assert [i.id for i in found] == ["A scope", "B & C - 1 "]
    assert Counter(i.metadata["section"] for i in found) == {"findings": 1, "plan": 1}
