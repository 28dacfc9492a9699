"""AgentClinic: rows to cases, whole consultations by rule, and the 214 real cases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm import DataError, LeftOut, Message, load_results
from medhelm_benchmarks.encounters.agentclinic import AGENTCLINIC, to_instance
from medhelm_benchmarks.encounters.grading.diagnosis import DiagnosisNamed
from medhelm_benchmarks.encounters.packets import packets_of
from medhelm_benchmarks.encounters.prompts import biases
from medhelm_benchmarks.encounters.protocol import CONSULTATIONS
from medhelm_benchmarks.encounters.record import encounter_of
from tests.benchmarks.encounters.stage import answers, in_turn, play, rule, says
from tests.shell import Shell

pytestmark = pytest.mark.slow

ROW = {
    "OSCE_Examination": {
        "Objective_for_Doctor": "Assess the patient with a cough.",
        "Patient_Actor": {
            "Demographics": "30-year-old male",
            "History": "Cough for a week.",
            "Symptoms": {"Primary_Symptom": "Cough", "Secondary_Symptoms": ["Fever", "Chills"]},
            "Family_History": "",
        },
        "Physical_Examination_Findings": {"Vital_Signs": {"Temperature": "38.9 °C"}},
        "Test_Results": {"Chest_X-ray": {"Findings": "Lobar pneumonia on the left"}},
        "Correct_Diagnosis": "Lobar pneumonia",
    }
}


RESULTS = (
    "Vital Signs: Temperature: 38.9 °C",
    "Chest X-ray: Findings: Lobar pneumonia on the left",
)


def test_a_row_becomes_three_packets_and_a_gold() -> None:
    case = to_instance(ROW)
    packets = packets_of(case)
    assert case.context == "Assess the patient with a cough."
    assert case.references == ("Lobar pneumonia",)
    assert case.metadata == {"diagnosis_in_results": "yes"}
    assert [fact.answer for fact in packets.patient.facts] == [
        "Cough for a week.",
        "Primary Symptom: Cough; Secondary Symptoms: Fever, Chills",
    ]
    (state,) = packets.controller.states
    assert tuple(r.text for r in state.results) == RESULTS
    assert "neumonia" not in packets.patient.text + packets.controller.text


def test_a_consultation_asks_orders_and_is_scored_by_its_diagnosis() -> None:
    case = to_instance(ROW)
    asked = says("Which symptoms do you have?", "temperature", "chest x-ray", "lumbar puncture")
    named = says("", "diagnosis: left lobar pneumonia", eos=True)
    episode = play(case, in_turn(asked, named), protocol=CONSULTATIONS)
    first = encounter_of(episode).turns[0]
    assert first.heard == ("Primary Symptom: Cough; Secondary Symptoms: Fever, Chills",)
    assert first.feedback == RESULTS
    assert first.unsupported == ("lumbar puncture",)
    score = DiagnosisNamed().score(case, episode)
    assert (score.value, score.extracted) == (1.0, "left lobar pneumonia")
    wrong = play(case, in_turn(says("", "diagnosis: pneumonia")), protocol=CONSULTATIONS)
    assert DiagnosisNamed().score(case, wrong).value == 0.0
    capped = play(case, in_turn(says("Hm?")), protocol=CONSULTATIONS)
    score = DiagnosisNamed().score(case, capped)
    assert (score.value, score.reason) == (0.0, "no diagnosis: capped")
    assert len(encounter_of(capped).turns) == 20
    prose = play(case, in_turn("I think it is lobar pneumonia"), protocol=CONSULTATIONS)
    assert DiagnosisNamed().score(case, prose).outcome == "unparsed"


@pytest.mark.parametrize("reply", ["json", "markers"])
def test_the_rules_play_whole_consultations_in_both_forms(reply: str) -> None:
    case = to_instance(ROW)
    for name, value in (("oracle", 1.0), ("ends_at_once", 0.0), ("asks_everything", 0.0)):
        episode = play(case, rule(case, name), protocol=CONSULTATIONS, reply=reply)
        assert DiagnosisNamed().score(case, episode).value == value
        assert episode.ending == "completed"
    ordered = play(case, rule(case, "orders_everything"), protocol=CONSULTATIONS, reply=reply)
    assert len(encounter_of(ordered).turns[0].feedback) == 2


def test_three_wrong_diagnoses_bound_the_accuracy_from_above(tmp_path: Path, shell: Shell) -> None:
    shell(
        "run",
        "model=encounter/asks_everything",
        "benchmark=agentclinic",
        "data=sample",
        f"results_dir={tmp_path}",
    )
    found = load_results(tmp_path, data="sample").typed("benchmarks").rows
    (row,) = [r for r in found if r["metric"] == "diagnosis_accuracy"]
    assert (row["score"], row["low"], row["n"]) == (0.0, 0.0, 3)
    assert row["high"] == pytest.approx(1 - 0.05 ** (1 / 3), abs=0.01), (
        "Gaffke's bound of three zeros"
    )


def test_the_214_real_cases_are_played_stored_and_not_played_again(
    tmp_path: Path, real_data: Path, shell: Shell
) -> None:
    line = ("run", "model=encounter/oracle", "benchmark=agentclinic", "data=full")
    line += (f"data_dir={real_data}", f"results_dir={tmp_path}")
    shell(*line)
    (row,) = (r for r in load_results(tmp_path).typed("benchmarks").rows if r["is_main"])
    assert (row["score"], row["scored"]) == (1.0, 214)
    (log,) = tmp_path.glob("runs/agentclinic/*/*/responses.jsonl")
    before = log.read_bytes()
    shell(*line)
    assert log.read_bytes() == before
    assert before.count(b'"ending"') == 214
    path = real_data / "agentclinic" / "agentclinic_medqa_extended.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    cases = [to_instance(row) for row in rows]
    assert len({case.id for case in cases}) == AGENTCLINIC.expected_instances["test"] == 214
    for row, case in zip(rows, cases, strict=True):  # counted apart, on the raw text of the results
        raw = json.dumps(row["OSCE_Examination"]["Test_Results"], ensure_ascii=False).lower()
        is_there = row["OSCE_Examination"]["Correct_Diagnosis"].lower() in raw
        assert case.metadata["diagnosis_in_results"] == ("yes" if is_there else "no")


def test_biases_are_in_the_message_of_the_role_that_is_swayed_and_no_other() -> None:
    """Upstream has eleven of the patient and twelve of the doctor; a rule cannot be swayed."""
    assert len(biases("patient")) == 11 and len(biases("clinician")) == 12
    case = to_instance(ROW)

    def sent(**settings: str) -> dict[str, str]:
        says_so = in_turn(says("Hm?"), says("", "diagnosis: lobar pneumonia"))
        answer = in_turn(answers("Yes."))
        episode = play(case, says_so, patient=answer, protocol=CONSULTATIONS, **settings)
        return {c.role: c.messages[0].content for c in reversed(episode.calls)}

    plain = sent()
    for role in ("patient", "clinician"):
        for name, text in biases(role).items():
            swayed = sent(**{f"{role}_bias": name})
            assert text in swayed[role] and text not in plain[role]
            assert swayed | {role: ""} == plain | {role: ""}
    with pytest.raises(DataError, match="patient_bias=confirmation .*none, rec"):
        sent(patient_bias="confirmation")
    with pytest.raises(DataError, match="script/packet .*no bias"):
        play(case, in_turn(says("Hm?")), protocol=CONSULTATIONS, patient_bias="race")


def test_a_case_with_an_image_is_left_out_with_its_reason() -> None:
    row = {"image_url": "https://example.org/1", "question": "?", "patient_info": "A rash."}
    assert to_instance(row) == LeftOut("it shows an image, which is only linked")


def test_the_clinician_is_told_its_turns_and_which_is_the_last() -> None:
    """It gives a diagnosis when it is told that no turn is left, as upstream's doctor does."""
    case = to_instance(ROW)

    def obedient(messages: Sequence[Message]) -> str:
        told = messages[-1].content.rpartition("\n\n")[2]
        seen.append(told)
        return says("", "diagnosis: lobar pneumonia") if "your last" in told else says("Hm?")

    seen: list[str] = []
    episode = play(case, obedient, protocol=CONSULTATIONS, turns=3)
    assert (episode.ending, len(encounter_of(episode).turns)) == ("completed", 3)
    assert [told.split(".")[0] for told in seen] == [f"This is turn {n} of 3" for n in (1, 2, 3)]
    seen.clear()
    untold = play(case, obedient, protocol=CONSULTATIONS, turns=3, last_turn="none")
    assert untold.ending == "capped" and not any("This is turn" in told for told in seen)
    with pytest.raises(DataError, match="last_turn=always .*upstream or none"):
        play(case, obedient, protocol=CONSULTATIONS, last_turn="always")
