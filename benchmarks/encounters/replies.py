"""The forms in which the roles reply, what follows a reply of none, and a clinician's in plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from medhelm import Message, visible_text
from medhelm.plugin import questions, reply_form


class ClinicianReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the words and actions of the clinician in a turn."""

    speak: str
    actions: list[str]
    eos: bool


class PatientReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the words of the patient's side."""

    speak: list[str]
    actors_present: dict[str, str]


class Assessment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the controller's assessment of one action; never shown to the clinician."""

    raw: str
    interpreted_action: str
    status: Literal["executed", "pending", "unsupported"]
    rationale: str


class ControllerReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the answer of the surroundings, and the controller's claim of where the encounter is."""

    feedback: list[str]
    events: list[str]
    actors_present: dict[str, str]
    action_assessments: list[Assessment]
    patient_status: str
    progress_index: Annotated[int, msgspec.Meta(ge=0)]
    state_label: str
    should_end: bool
    completion_reason: str


LIMITS = {"actions": 12, "action_characters": 200, "speech_characters": 2_000}
"""The most that a turn of the clinician holds, so that one reply of each other role can answer it. The surroundings
repeat each action and assess it: in about half their budget."""


def check_limits(reply: ClinicianReply, limits: Mapping[str, int]) -> None:
    """Refuse a reply beyond a limit; raises BadReply."""
    longest = max(map(len, reply.actions), default=0)
    for name, count, said in (
        ("actions", len(reply.actions), "it has {} actions; a turn has at most {}"),
        ("action_characters", longest, "an action has {} characters; it has at most {}"),
        ("speech_characters", len(reply.speak), "what you say has {} characters; it has at most {}"),
    ):  # fmt: skip
        if count > limits[name]:
            raise reply_form.BadReply(said.format(count, limits[name]))


def _rejected(fault: str) -> Message:
    listed = "\n".join(f"- {line}" for line in fault.splitlines()[:20])
    asked = f"That cannot be used:\n{listed}\nReply again, with the whole JSON object."
    return Message("user", asked)


rejected = questions.followed_by(_rejected, visible_text)
"""Follows a reply that cannot be used: the reply without thoughts, and its faults, one a line."""


_ORDER = re.compile(
    r"^[^\w\n]*REQUEST TEST[^\w\n]*:[^\w\n]*(.+?)[^\w\n]*$", re.MULTILINE | re.IGNORECASE
)
_DIAGNOSIS = re.compile(r"DIAGNOSIS READY\W*:\s*(.+)", re.DOTALL | re.IGNORECASE)
NAMED = "diagnosis:"
"""The first word of the action by which a diagnosis is given."""


def read_markers(text: str) -> tuple[ClinicianReply, str]:
    """Return a reply in plain text with marker lines, as AgentClinic's clinician writes it.

    `REQUEST TEST: NAME` is an action, `DIAGNOSIS READY: NAME` ends the encounter, everything else is speech.
    """
    shown = visible_text(text)
    if not shown:
        raise reply_form.BadReply("it was empty")
    if found := _DIAGNOSIS.search(shown):
        name = found[1].strip().splitlines()[0].strip(" *_`\"'[]")
        return ClinicianReply("", [f"{NAMED} {name}"], True), shown
    orders = [" ".join(order.split()) for order in _ORDER.findall(shown)]
    said = _ORDER.sub("", shown).strip()
    return ClinicianReply(said, orders, False), shown


def diagnosis_of(actions: Iterable[str]) -> str | None:
    """Return the diagnosis that the actions of a turn give; the last one where there are several."""
    named = [a.strip() for a in actions if a.strip().casefold().startswith(NAMED)]
    return named[-1][len(NAMED) :].strip() if named else None
