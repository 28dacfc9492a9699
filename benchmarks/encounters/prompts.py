"""Messages to the roles, written from their views: the first one, and one for each turn.

History is the messages as they were sent, so that nothing of it is written twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from medhelm import Message
from medhelm.extract.json_reply import BadReply
from medhelm_benchmarks.encounters.obligations import (
    CLINICIAN,
    CONTROLLER,
    PATIENT,
    as_prompt,
)
from medhelm_benchmarks.encounters.packets import Fact, State
from medhelm_benchmarks.encounters.views import (
    ClinicianView,
    ControllerView,
    Heard,
    Order,
    PatientView,
    Said,
)

Form = Literal["json", "markers"]
"""The form of the clinician's replies: one JSON object, or in plain text with marker lines."""

DIAGNOSIS = (
    "Your task is to find the diagnosis. When you have it, give it as the only action of a turn, in the "
    "form `diagnosis: NAME`, with `eos` true; this ends the encounter, and no other reply ends it. You "
    "have at most {cap} turns."
)
LIMITS = (
    "A turn has at most {actions} actions of at most {action_characters} characters each, and `speak` has "
    "at most {speech_characters} characters. A reply beyond that is sent back to you."
)
MARKERS = (
    "You are the clinician in this encounter. What you are given here is all that you know of it. Find out "
    "the rest: in each turn ask the patient one thing, in one to three sentences, or order one "
    "examination or test by a line `REQUEST TEST: NAME`. When you have the diagnosis, write only the "
    "line `DIAGNOSIS READY: NAME`; this ends the encounter. You have at most {cap} turns. A reply has at "
    "most {actions} marker lines with names of at most {action_characters} characters, and at most "
    "{speech_characters} characters of talk; beyond that it is sent back to you."
)


def clinician_opening(view: ClinicianView, form: Form, *, gives_diagnosis: bool) -> Message:
    """Return the clinician's first message: its rules, and what it is given."""
    most = asdict(view.limits)
    if form == "markers":
        rules = MARKERS.format(cap=view.cap, **most)
    else:
        rules = f"{as_prompt(CLINICIAN)}\n{LIMITS.format(**most)}"
        if gives_diagnosis:
            rules = f"{rules}\n\n{DIAGNOSIS.format(cap=view.cap)}"
    shown = f"\n\n{_json({'events': list(view.opening)})}" if view.opening else ""
    return Message("user", f"{rules}\n\nWhat you are given:\n\n{view.packet}{shown}")


def answered_text(heard: Heard, form: Form) -> str:
    """Return what the clinician is sent of what came of its last turn."""
    if form == "markers":
        lines = [*heard.said, *heard.feedback, *heard.events]
        return "\n".join(lines) or "(no answer)"
    return _json(
        {
            "patient": list(heard.said),
            "feedback": list(heard.feedback),
            "events": list(heard.events),
            "patient_status": heard.status,
        }
    )


def patient_opening(view: PatientView) -> Message:
    """Return the first message to the patient's side: its rules and its script."""
    script: dict[str, Any] = {"script": view.text}
    if view.companions:
        script["companions"] = list(view.companions)
    if not view.can_speak:
        script["patient_can_speak"] = False
    if view.facts:
        script["when_asked"] = _facts(view.facts)
    rules = as_prompt(PATIENT)
    return Message("system", f"{rules}\n\nYour script:\n\n{_json(script)}")


def _facts(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    return [
        {"on": list(f.asked_by), "who": f.speaker or "Patient", "says": f.answer} for f in facts
    ]


def said_text(said: Said) -> str:
    """Return what the patient's side is sent of a turn, as one JSON object."""
    new = {"when_asked_from_now_on": _facts(said.facts)} if said.facts else {}
    return _json({"clinician_says": said.words, **new})


def controller_opening(view: ControllerView) -> Message:
    """Return the first message to the surroundings: their rules and their material."""
    material: dict[str, Any] = {"material": view.text}
    if view.staff:
        material["staff"] = list(view.staff)
    if view.first is not None:
        material["first_state"] = _state(view.first)
        material["further_states"] = "each is given to you when it begins"
    rules = as_prompt(CONTROLLER)
    return Message("system", f"{rules}\n\nYour material:\n\n{_json(material)}")


def _state(state: State) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(state)
    return built


def order_text(order: Order) -> str:
    """Return what the controller is sent of a turn, as one JSON object."""
    place = order.place
    values: dict[str, Any] = {
        "talk": [{"clinician": said, "patient": list(heard)} for said, heard in order.talk],
        "actions": list(order.actions),
        "eos": order.eos,
        "progress_index": place.index,
        "state_label": place.label,
    }
    if order.next_state is not None:
        values["next_state"] = _state(order.next_state)
    return _json(values)


def correction(said: str, fault: BadReply, form: Form = "json") -> tuple[Message, ...]:
    """Return what is sent after a reply that could not be read: the reply, and what is wrong with it."""
    wanted = "one JSON object of the form asked for and nothing else"
    if form == "markers":
        wanted = "what you say, or one of the two marker lines"
    asked = f"Your reply could not be read: {fault}. Reply again, with {wanted}."
    return (Message("assistant", said or "(empty)"), Message("user", asked))


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)
