"""Sets whose files the tests do not have: literal rows and files in the published layout."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Instance, LeftOut
from medhelm_benchmarks import healthqa_br, longhealth

from .conftest import load, prompt


def mapped(name: str, row: dict[str, Any]) -> Instance:
    instance = load(name).to_instance(row)
    assert instance is not None
    return instance


def test_mmlu_pro_health() -> None:
    row = {
        "question_id": 70,
        "question": "Which vitamin is lacking in scurvy?",
        "options": [" C ", "A", "D", "K", "E", "B1", "B6"],
        "answer": "A",
        "answer_index": 0,
        "cot_content": "A: Let's think.",
        "category": "health",
        "src": "ori_mmlu-nutrition",
    }
    instance = mapped("mmlu_pro_health", row)
    assert (instance.id, instance.choices[0], instance.references) == ("70", "C", ("A",))
    assert instance.metadata == {"src": "nutrition", "options": "7"}
    assert "Let's think" not in prompt(load("mmlu_pro_health"), instance)
    assert isinstance(load("mmlu_pro_health").to_instance(row | {"category": "law"}), LeftOut)
    assert mapped("mmlu_pro_health", row | {"question_id": 71}).cluster == instance.cluster
    with pytest.raises(DataError, match="no option"):
        mapped("mmlu_pro_health", row | {"answer": "H"})


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        ("Qual?\nA: Um\nB: Dois", ["Um", "Dois"]),
        ("Qual?\n(A) Um\ncontinua\n(B) Dois", ["Um continua", "Dois"]),
        ("Qual?\n{'A': 'copo d'água', 'B': 'Dois'}", ["copo d'água", "Dois"]),
        ("Qual?\n{'A': \"copo d'água\", 'B': 'a, b'}", ["copo d'água", "a, b"]),
        ('Qual?\n{"A": "Um", "B": "Dois", "C": "Três"}', ["Um", "Dois", "Três"]),
    ],
)
def test_healthqa_br_parts_both_forms(cell: str, options: list[str]) -> None:
    assert healthqa_br.part_options(cell) == ("Qual?", options)


@pytest.mark.parametrize("cell", ["Qual?", "Qual?\nA: Um", "Qual?\nA: Um\nC: Três", "{'B': 'x'}"])
def test_healthqa_br_names_a_row_that_it_cannot_part(cell: str) -> None:
    with pytest.raises(DataError, match="does not end with the options"):
        healthqa_br.part_options(cell)


def test_healthqa_br_asks_in_portuguese() -> None:
    row = {"id": 1, "source": "Revalida", "year": 2022, "group": None, "answer": "B"}
    instance = mapped("healthqa_br", row | {"question": "Qual?\nA: Um\nB: Dois"})
    assert instance.metadata == {"source": "Revalida", "group": "Revalida", "year": "2022"}
    assert prompt(load("healthqa_br"), instance).endswith("Responda apenas com a letra.")
    with pytest.raises(DataError, match="answer"):
        mapped("healthqa_br", row | {"question": "Qual?\nA: Um\nB: Dois", "answer": "C"})


def test_truthfulqa_health_orders_by_the_question() -> None:
    row = {"Type": "Adversarial", "Category": "Health", "Best Answer": "No, it does not"}
    row |= {"Best Incorrect Answer": "Yes"}
    found = [mapped("truthfulqa_health", row | {"Question": f"Is it so, {n}?"}) for n in range(40)]
    golds = Counter(i.references[0] for i in found)
    assert set(golds) == {"A", "B"} and min(golds.values()) >= 10
    assert all(i.choices["AB".index(i.references[0])] == "No, it does not" for i in found)
    assert {i.metadata["longer_answer"] for i in found} == {"true"}
    again = mapped("truthfulqa_health", row | {"Question": "Is it so, 3?"})
    assert again == found[3]
    assert isinstance(load("truthfulqa_health").to_instance(row | {"Category": "Law"}), LeftOut)


def test_careqa_pairs_its_languages(tmp_path: Path) -> None:
    row = {"exam_id": 7, "question": "¿Qué?", "cop": 4, "year": 2023, "category": "Nursing"}
    row |= {f"op{n}": f"opción {n}" for n in (1, 2, 3, 4)} | {"unique_id": "x7"}
    folder = tmp_path / "careqa"
    folder.mkdir()
    for language in ("es", "en"):
        (folder / f"CareQA_{language}.json").write_text(json.dumps([row]), encoding="utf-8")
    spanish, english = open_dataset(load("careqa"), "full", root=tmp_path).instances()
    assert (spanish.id, english.id) == ("es/x7", "en/x7")
    assert spanish.cluster == english.cluster == "2023/Nursing/7"
    assert spanish.references == ("D",) and spanish.choices[3] == "opción 4"
    with pytest.raises(DataError, match="cop"):
        mapped("careqa", row | {"cop": 0, "language": "es"})


def test_longhealth_shows_the_documents_of_each_part(tmp_path: Path) -> None:
    question = {f"answer_{c}": f"answer {c}" for c in "abcde"}
    question |= {"No": 0, "question": "Which?", "correct": "answer b"}
    patients = {
        key: {"texts": {"text_0": f"first of {key}", "text_1": f"second of {key}"}}
        | {"questions": [question], "name": "N", "birthday": "2000", "diagnosis": "D"}
        for key in ("patient_01", "patient_02")
    }
    folder = tmp_path / "longhealth"
    folder.mkdir()
    (folder / "benchmark_v5.json").write_text(json.dumps(patients))
    found = {i.id: i for i in open_dataset(load("longhealth"), "full", root=tmp_path).instances()}
    assert len(found) == 6
    mixed, present, absent = (found[f"patient_01/0/{part}"] for part in longhealth.PARTS)
    assert {mixed.cluster, present.cluster, absent.cluster} == {"patient_01"}
    assert [i.references for i in (mixed, present, absent)] == [("B",), ("B",), ("F",)]
    assert (len(mixed.choices), len(present.choices), len(absent.choices)) == (5, 6, 6)
    assert "of patient_02" in mixed.context and "of patient_01" in mixed.context
    assert "of patient_02" not in present.context and "of patient_01" not in absent.context
    shown = prompt(load("longhealth"), mixed)
    assert shown.index("second of patient_02") < shown.index("Which?"), "nothing cuts the question"


def test_med_halt_balances_its_proposals(tmp_path: Path) -> None:
    options = {"0": "Axillary", "1": "Radial", "correct answer": "Radial"}
    cells = {
        "id": "1",
        "question": "Which nerve?",
        "correct_index": "0",
        "correct_answer": "Axillary",
    }
    folder = tmp_path / "med_halt"
    folder.mkdir()
    for config, cell in (
        ("FCT", str(options)),
        ("nota", json.dumps(options)),
        ("fake", str(options)),
    ):
        with (folder / f"reasoning_{config}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [*cells, "options"])
            writer.writeheader()
            writer.writerow(cells | {"options": cell})
    found = {i.id: i for i in open_dataset(load("med_halt"), "full", root=tmp_path).instances()}
    wrong = found["FCT/1"]
    assert (wrong.choices, wrong.references) == (("yes", "no"), ("B",))
    assert wrong.metadata == {"part": "proposal_wrong"}
    assert "Proposed answer: Radial" in wrong.question
    right = mapped(
        "med_halt", {**cells, "config": "FCT", "options": options, "correct_answer": "radial"}
    )
    assert (right.references, right.metadata["part"]) == (("A",), "proposal_right")
    assert found["nota/1"].choices == ("Axillary", "Radial", "None of the above")
    assert found["nota/1"].references == found["fake/1"].references == ("C",)
    assert found["fake/1"].choices[-1] == "The question makes no sense"
    with pytest.raises(DataError, match="not an object"):
        mapped("med_halt", {**cells, "config": "nota", "options": "[broken"})


def test_med_halt_has_one_way_to_say_that_a_question_makes_no_sense() -> None:
    texts = [
        "Mars",
        "Venus",
        "Saturn",
        "Jupiter",
        "To give up is all that is left",
        "I do not know",
    ]
    row = {"config": "fake", "id": "1", "question": "Which planet cures gout?"}
    instance = mapped("med_halt", row | {"options": str(dict(enumerate(texts)))})
    assert instance.choices == ("Mars", "Venus", "Saturn", "The question makes no sense")
    assert instance.references == ("D",)
    in_one = str({"0": "1. Mars\n2. Venus\n3. I do not know."})
    assert isinstance(load("med_halt").to_instance(row | {"options": in_one}), LeftOut)
    with pytest.raises(DataError, match="fewer than two"):
        mapped("med_halt", row | {"options": str({"0": "Mars"})})


def test_m_arc() -> None:
    row = {"question_id": "ID001", "question": "What now?", "answer": "E", "src": "emergency"}
    row |= {"options": '["a", "b", "c", "d", "More must be known"]', "cot_content": ""}
    instance = mapped("m_arc", row)
    assert instance.choices[4] == "More must be known"
    assert (instance.id, instance.references) == ("ID001", ("E",))
    assert instance.cluster == mapped("m_arc", row | {"question": "What  now?"}).cluster


def test_afrimedqa_reads_no_rationale_and_leaves_out_an_empty_gold() -> None:
    row = {"sample_id": "a1", "question": "Which?", "rationale": "Because of B", "answer": "B"}
    row |= {"options_len": "4", "A": "x", "B": "y", "C": "y", "D": "z", "E": "N/A"}
    row |= {"model_prompt": "###", "outputs": "B"}
    instance = mapped("afrimedqa", row)
    assert instance == Instance(
        id="a1",
        question="Which?",
        choices=("x", "y", "y", "z"),
        references=("B",),
        metadata={"options": "4"},
    )
    assert "Because" not in prompt(load("afrimedqa"), instance)
    assert isinstance(load("afrimedqa").to_instance(row | {"answer": "E"}), LeftOut)
    moved = mapped("afrimedqa", row | {"A": " ", "E": "w", "answer": "E"})
    assert (moved.choices, moved.references) == (("y", "y", "z", "w"), ("D",))
    assert isinstance(load("afrimedqa").to_instance(row | dict.fromkeys("ABCDE", "")), LeftOut)
    labelled = zip(
        "ABCDE", ("a.Gout", "b)\tLupus", ". Sepsis", "D.\u200b5 mg", "c. Mumps"), strict=True
    )
    found = mapped("afrimedqa", row | dict(labelled)).choices
    assert found == ("Gout", "Lupus", "Sepsis", "5 mg", "Mumps")
    species = {"A": "E. coli", "B": ".5 mg", "C": "C. difficile", "D": "E.coli", "E": "S. aureus"}
    assert mapped("afrimedqa", row | species).choices == tuple(species.values())
    with pytest.raises(DataError, match="A to E"):
        mapped("afrimedqa", row | {"answer": "F"})
    assert not load("afrimedqa").redistributable


def test_medcasereasoning_shows_no_reasons() -> None:
    row = {"pmcid": "PMC1", "case_prompt": "A man has a fever. ", "final_diagnosis": "Malaria"}
    row |= {"diagnostic_reasoning": ["He was in Ghana"]}
    benchmark = load("medcasereasoning")
    instance = mapped("medcasereasoning", row)
    assert (instance.id, instance.references) == ("PMC1", ("Malaria",))
    shown = prompt(benchmark, instance)
    assert "Ghana" not in shown and "Malaria" not in shown
    assert shown.endswith("Diagnosis: ...")
