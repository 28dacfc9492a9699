"""Strict replies: what is read, and what is sent back to its writer."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm import Message
from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import read_form
from medhelm_benchmarks.encounters.replies import (
    ClinicianReply,
    ControllerReply,
    PatientReply,
    diagnosis_of,
    read_markers,
    rejected,
)
from tests.benchmarks.encounters.stage import answers, shows

THOUGHT = "<think>Perhaps so.</think>"
GOOD = '{"speak": "Hello.", "actions": ["ECG"], "eos": false}'
NOT_ONE = "not one JSON object"


@pytest.mark.parametrize(
    "text",
    [GOOD, f"<think>{{'speak': 1}} or so</think>\n{GOOD}", f"```json\n{GOOD}\n```", f"Here it is: {GOOD}"],
)  # fmt: skip
def test_one_object_is_read_without_thinking_or_fence(text: str) -> None:
    assert read_form(text, ClinicianReply) == (ClinicianReply("Hello.", ["ECG"], False), GOOD)


@pytest.mark.parametrize(
    ("text", "form", "why"),
    [
        *((text, ClinicianReply, NOT_ONE) for text in ("", "null", "I would order an ECG.", GOOD[:-1], GOOD + GOOD)),
        ("<think>never ended " + GOOD, ClinicianReply, NOT_ONE),
        (f"He says: {GOOD}", ClinicianReply, NOT_ONE),
        (GOOD.replace("false", "0"), ClinicianReply, "eos"),
        (GOOD.replace('["ECG"]', '"ECG"'), ClinicianReply, "actions"),
        (GOOD.replace('["ECG"]', "[1]"), ClinicianReply, "actions"),
        (GOOD.replace(', "eos": false', ""), ClinicianReply, "eos"),
        (GOOD.replace("}", ', "eos": true}'), ClinicianReply, "stands twice"),
        (shows(progress_index=-1), ControllerReply, "Expected `int` >= 0"),
        (shows(unsupported="MRI").replace('"unsupported"', '"done"'), ControllerReply, "none of executed, pending"),
    ],
)  # fmt: skip
def test_all_else_is_unreadable_with_the_reason(text: str, form: type[Any], why: str) -> None:
    with pytest.raises(BadReply, match=why):
        read_form(text, form)


def test_the_other_roles_are_read_by_their_own_fields() -> None:
    said = ["Ow.", "Mother: He fell."]
    assert read_form(answers(*said), PatientReply)[0].speak == said
    assert read_form(shows("ECG"), ControllerReply)[0].feedback == ["ECG"]


@pytest.mark.parametrize(
    ("text", "speak", "actions", "eos"),
    [
        ("Where does it hurt?", "Where does it hurt?", [], False),
        ("Fine.\n**REQUEST TEST:** CBC\nrequest test: [Urinalysis]", "Fine.", ["CBC", "Urinalysis"], False),
        ("<think>x</think>So: DIAGNOSIS READY: **Gout**\nbecause", "", ["diagnosis: Gout"], True),
    ],
)  # fmt: skip
def test_marker_lines_are_orders_and_the_diagnosis(
    text: str, speak: str, actions: list[str], eos: bool
) -> None:
    assert read_markers(text)[0] == ClinicianReply(speak, actions, eos)


def test_the_last_diagnosis_of_a_turn_counts() -> None:
    assert diagnosis_of(["ECG"]) is None
    assert diagnosis_of(["Diagnosis: flu", "ECG", " DIAGNOSIS:  gout "]) == "gout"


def test_a_reply_is_sent_back_without_its_thoughts() -> None:
    _, said, asked = rejected((Message("user", "Reply."),), f"{THOUGHT}\nNo.", "one\ntwo")
    assert said.content == "No." and "- one\n- two\n" in asked.content
    assert rejected((), THOUGHT, "x")[0].content == "(no text)"
