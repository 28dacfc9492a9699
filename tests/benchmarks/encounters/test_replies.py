"""Strict replies: what is read, and what is sent back to its writer."""

from __future__ import annotations

import json

import pytest

from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import read_form as read_reply
from medhelm_benchmarks.encounters.replies import (
    ClinicianReply,
    ControllerReply,
    PatientReply,
    diagnosis_of,
    read_markers,
)

GOOD = '{"speak": "Hello.", "actions": ["ECG"], "eos": false}'
CONTROLLER = {
    "feedback": [],
    "events": [],
    "actors_present": {},
    "action_assessments": [],
    "patient_status": "",
    "progress_index": 0,
    "state_label": "a",
    "should_end": False,
    "completion_reason": "",
}


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"<think>{{'speak': 1}} or so</think>\n{GOOD}",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"\n {GOOD} \n",
        f"Here it is: {GOOD}",
    ],
)
def test_one_object_is_read_without_thinking_or_fence(text: str) -> None:
    reply, shown = read_reply(text, ClinicianReply)
    assert reply == ClinicianReply("Hello.", ["ECG"], False)
    assert shown == GOOD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not one JSON object"),
        ("<think>never ended " + GOOD, "not one JSON object"),
        ("I would order an ECG.", "not one JSON object"),
        (f"He says: {GOOD}", "not one JSON object"),
        (GOOD + GOOD, "not one JSON object"),
        (GOOD[:-1], "not one JSON object"),
        (GOOD.replace("false", "0"), "eos"),
        (GOOD.replace('["ECG"]', '"ECG"'), "actions"),
        (GOOD.replace('["ECG"]', "[1]"), "actions"),
        (GOOD.replace(', "eos": false', ""), "eos"),
        (GOOD.replace("}", ', "eos": true}'), "stands twice"),
        ("null", "not one JSON object"),
    ],
)
def test_all_else_is_unreadable_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadReply, match=why):
        read_reply(text, ClinicianReply)


def test_the_other_roles_are_read_by_their_own_fields() -> None:
    said = '{"speak": ["Ow.", "Mother: He fell."], "actors_present": {"Patient": "x"}}'
    assert read_reply(said, PatientReply)[0].speak == ["Ow.", "Mother: He fell."]
    assert read_reply(json.dumps(CONTROLLER), ControllerReply)[0].state_label == "a"
    with pytest.raises(BadReply, match="Expected `int` >= 0"):
        read_reply(json.dumps(CONTROLLER | {"progress_index": -1}), ControllerReply)
    odd = {"raw": "", "interpreted_action": "", "status": "done", "rationale": ""}
    with pytest.raises(BadReply, match="none of executed, pending, unsupported"):
        read_reply(json.dumps(CONTROLLER | {"action_assessments": [odd]}), ControllerReply)


@pytest.mark.parametrize(
    ("text", "speak", "actions", "eos"),
    [
        ("Where does it hurt?", "Where does it hurt?", [], False),
        ("REQUEST TEST: Chest X-ray", "", ["Chest X-ray"], False),
        (
            "Fine.\n**REQUEST TEST:** CBC\nrequest test: [Urinalysis]",
            "Fine.",
            ["CBC", "Urinalysis"],
            False,
        ),
        ("DIAGNOSIS READY: Gout", "", ["diagnosis: Gout"], True),
        ("<think>x</think>So: DIAGNOSIS READY: **Gout**\nbecause", "", ["diagnosis: Gout"], True),
    ],
)
def test_marker_lines_are_orders_and_the_diagnosis(
    text: str, speak: str, actions: list[str], eos: bool
) -> None:
    assert read_markers(text)[0] == ClinicianReply(speak, actions, eos)


def test_the_last_diagnosis_of_a_turn_counts() -> None:
    assert diagnosis_of(["ECG"]) is None
    assert diagnosis_of(["Diagnosis: flu", "ECG", " DIAGNOSIS:  gout "]) == "gout"
