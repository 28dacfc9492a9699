"""AgentClinic: the diagnosis of an OSCE-like case, by asking and testing (Schmidgall et al., 2024).

arXiv 2405.07960. The cases were made of MedQA questions. The clinician sees the objective alone; who
plays the patient has history and symptoms, who plays the surroundings findings and results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from medhelm import Benchmark, FileDataset, GitHub, Instance, LeftOut, Row
from medhelm_benchmarks.encounters.matches import folded
from medhelm_benchmarks.encounters.packets import (
    ControllerPacket,
    Fact,
    Packets,
    PatientPacket,
    Result,
    State,
    case_instance,
)
from medhelm_benchmarks.encounters.protocol import CONSULTATION

_GITHUB = GitHub("SamuelSchmidgall/AgentClinic", "b6570edefb940857a7c334350656b29f9d984f24")

_ASKED = {
    "History": ("history", "brings", "tell me", "what happened", "problem", "when", "how long"),
    "Symptoms": ("symptoms", "symptom", "feel", "complaint", "pain"),
    "Past_Medical_History": ("past medical", "illnesses", "medical history", "conditions"),
    "Social_History": ("social", "smoke", "drink", "alcohol", "work", "home"),
    "Review_of_Systems": ("other symptoms", "review systems", "anything else", "fever"),
    "Family_History": ("family",),
    "Current_Medications": ("medications", "drugs", "medicines", "take"),
    "Medications": ("medications", "drugs", "medicines", "take"),
    "Drug_History": ("medications", "drugs", "medicines", "take"),
}
"""Wordings by which a rule tells what a question is about."""


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a case. Its id is a hash of its content, since the source has none."""
    if "image_url" in row:
        return LeftOut("it shows an image, which is only linked")
    case: Mapping[str, Any] = row["OSCE_Examination"]
    actor, gold = case["Patient_Actor"], case["Correct_Diagnosis"].strip()
    findings, tests = case["Physical_Examination_Findings"], case["Test_Results"]
    results = (*_results(findings), *_results(tests))
    shown = folded(_plain(tests))
    content = json.dumps(case, sort_keys=True).encode()
    return case_instance(
        hashlib.sha256(content).hexdigest()[:16],
        case["Objective_for_Doctor"].strip(),
        Packets(
            patient=PatientPacket(
                text=f"You are the patient. {_plain(actor['Demographics'])}.",
                facts=tuple(
                    Fact(asked_by=_ASKED.get(key, (_name(key),)), answer=_plain(value))
                    for key, value in actor.items()
                    if key != "Demographics" and _plain(value)
                ),
            ),
            controller=ControllerPacket(
                text="Findings and results of one patient. Each is given when it is asked for.",
                states=(State(label="consultation", results=results),),
            ),
        ),
        references=(gold,),
        metadata={"diagnosis_in_results": "yes" if folded(gold) in shown else "no"},
    )


def _results(tree: Mapping[str, Any]) -> Iterator[Result]:
    """Yield the entries of findings or tests, whole ones and the named parts within them."""
    for key, value in tree.items():
        wordings = [_name(key)]
        if isinstance(value, Mapping):
            wordings += [_name(part) for part in value if part.casefold() not in _GENERAL]
        if text := _plain(value):
            yield Result(asked_by=tuple(wordings), text=f"{_name(key)}: {text}")


_GENERAL = {"findings", "finding", "result", "results", "impression", "interpretation", "other"}


def _name(key: str) -> str:
    return " ".join(key.replace("_", " ").split())


def _plain(value: object) -> str:
    """Return a value of the source's tree as words, every leaf as it is."""
    if isinstance(value, Mapping):
        parts = [(_name(key), _plain(item)) for key, item in value.items()]
        return "; ".join(f"{key}: {text}" for key, text in parts if text)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_plain, value)))
    return "" if value is None else " ".join(str(value).split())


AGENTCLINIC = Benchmark(
    name="agentclinic",
    title="AgentClinic (MedQA cases)",
    description="A diagnosis by asking a patient and ordering tests, in at most 20 turns. The patient's "
    "side and the surroundings are played by models of the cast or by rule. Cases with images are left out.",
    subcategory="supporting_diagnostic_decisions",
    tasks=("generate_follow_up_questions", "generate_differential_diagnoses"),
    dataset=FileDataset(
        files=(
            _GITHUB.file(
                "agentclinic_medqa_extended.jsonl",
                "54a024eb2705c6c55d1988766adf4ab02ea7bbe2a28f843107b740032200f232",
                splits=("test",),
            ),
            _GITHUB.file(
                "agentclinic_medqa.jsonl",
                "d91038a2984f21bb1d43edd88c7958d090ef42ba80f5be487b22b903bf3a35ea",
                splits=("medqa",),
            ),
        ),
        splits=("test", "medqa"),
        source=str(_GITHUB),
    ),
    to_instance=to_instance,
    protocol=CONSULTATION,
    prompt="plain",
    answer="text",
    metrics=["diagnosis_accuracy", "diagnosis_named", "simulation_fidelity", "role_conduct"],
    max_output_tokens=1024,
    redistributable=True,
    licence="MIT",
    citation="Schmidgall et al., AgentClinic, arXiv 2405.07960, 2024",
    expected_instances={"test": 214, "medqa": 107},
)
