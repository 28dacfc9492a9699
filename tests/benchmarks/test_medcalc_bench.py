import csv
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW = {
    "Row Number": "7",
    "Calculator ID": "39",
    "Calculator Name": "Anion Gap",
    "Category": "lab test",
    "Output Type": "decimal",
    "Note ID": "pmc-1",
    "Note Type": "Extracted",
    "Patient Note": "Sodium 140, chloride 100, bicarbonate 20.\n",
    "Question": "What is the anion gap? ",
    "Relevant Entities": "{'sodium': [140, 'mEq/L']}",
    "Ground Truth Answer": "20.0",
    "Lower Limit": "19.0",
    "Upper Limit": "21.0",
    "Ground Truth Explanation": "140 - 120 = 20.0",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("medcalc_bench")
    instance = benchmark.to_instance(ROW)
    note = "Sodium 140, chloride 100, bicarbonate 20."
    assert instance == Instance(
        id="7",
        context=note,
        question="What is the anion gap?",
        references=("20.0",),
        answer_key={
            "output_type": "decimal",
            "category": "lab test",
            "lower_limit": "19.0",
            "upper_limit": "21.0",
            "calculator_id": "39",
        },
        cluster=hashlib.sha256(note.encode()).hexdigest()[:16],
        metadata={
            "category": "lab",
            "calculator": "Anion Gap",
            "output_type": "decimal",
            "note_type": "Extracted",
        },
    )
    assert prompt(benchmark, instance) == (
        "Take what you need from the patient note and work out the value that the question asks "
        "for. Give decimals to three places.\n\n"
        "Sodium 140, chloride 100, bicarbonate 20.\n\n"
        "What is the anion gap?\n\n"
        "Reply with the value alone: no unit, no working, no other words."
    )


@pytest.mark.parametrize(
    ("spelling", "one"),
    [("lab", "lab"), ("lab test", "lab"), ("dosage conversion", "dosage"), ("risk", "risk")],
)
def test_slices_have_one_name_for_a_category(spelling: str, one: str) -> None:
    instance = load("medcalc_bench").to_instance(ROW | {"Category": spelling})
    assert instance is not None
    assert instance.metadata["category"] == one
    assert instance.answer_key["category"] == spelling


def test_the_real_file(real_data: Path, real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("medcalc_bench")
    assert [i.id for i in instances] == [str(n) for n in range(1, 1048)]
    kinds = Counter((i.metadata["category"], i.metadata["output_type"]) for i in instances)
    assert kinds == {
        ("lab", "decimal"): 327,
        ("physical", "decimal"): 240,
        ("risk", "integer"): 220,
        ("risk", "decimal"): 20,
        ("severity", "integer"): 80,
        ("diagnosis", "integer"): 60,
        ("date", "date"): 40,
        ("date", "integer"): 20,
        ("dosage", "decimal"): 40,
    }
    assert len({i.cluster for i in instances}) == 979
    assert len({(i.context, i.question) for i in instances}) == 1039
    tuples = [i for i in instances if "weeks" in i.references[0]]
    assert {i.answer_key["calculator_id"] for i in tuples} == {"69"}
    assert len(tuples) == 20
    with (real_data / "medcalc_bench" / "test_data.csv").open(newline="") as file:
        explanations = [row["Ground Truth Explanation"] for row in csv.DictReader(file)]
    benchmark = load("medcalc_bench")
    for instance, explanation in zip(instances, explanations, strict=True):
        assert explanation not in prompt(benchmark, instance)
