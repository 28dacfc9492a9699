"""Messages to the roles: the first one, and one for each turn.

`docs/encounters.md` says which role sees what: it is what the function that writes to it takes. A packet is
written once, in the first message; each turn adds one more. History is the messages as they were sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec

import medhelm_benchmarks.encounters.replies as replies
from medhelm import Message, visible_text
from medhelm_benchmarks.encounters.packets import ControllerPacket, Fact, PatientPacket, State
from medhelm_benchmarks.encounters.record import Turn
from medhelm_benchmarks.encounters.states import Place

Form = Literal["json", "markers"]
"""The form of the clinician's replies: one JSON object, or in plain text with marker lines."""


@cache
def prompt_text(name: str) -> str:
    """Return a text of `texts/`. A role's has its duties, which `docs/encounters.md` lists with their checks."""
    return (resources.files(__package__) / "texts" / f"{name}.md").read_text("utf-8").rstrip("\n")


DIAGNOSIS = (
    "Your task is to find the diagnosis. When you have it, give it as the only action of a turn, in the "
    "form `diagnosis: NAME`, with `eos` true; this ends the encounter, and no other reply ends it. You "
    "have at most {cap} turns."
)
SWAYED = "What sways you in this encounter, and shows in how you speak and decide: {}"
LIMITS = (
    "A turn has at most {actions} actions of at most {action_characters} characters each, and `speak` has "
    "at most {speech_characters} characters. A reply beyond that is sent back to you."
)


@cache
def biases(role: str) -> dict[str, str]:
    """Return what may sway a role, by name."""
    lines = prompt_text(f"bias_{role}").splitlines()
    return {name: text for name, _, text in (line.partition(": ") for line in lines)}


def _swayed(bias: str) -> str:
    return f"\n\n{SWAYED.format(bias)}" if bias else ""


def is_in_markers(messages: Sequence[Message]) -> bool:
    """Return whether a clinician's first message asks for plain text with marker lines."""
    return messages[0].content.startswith(prompt_text("markers").partition("{cap}")[0])


def clinician_opening(
    packet: str,
    changes: Sequence[str],
    cap: int,
    limits: Mapping[str, Any],
    form: Form,
    *,
    gives_diagnosis: bool,
    bias: str = "",
) -> Message:
    """Return the clinician's first message. `changes`: those of the first state; `cap`: the most turns."""
    most = {name: limits[name] for name in replies.LIMITS}
    if form == "markers":
        rules = prompt_text("markers").format(cap=cap, **most)
    else:
        rules = f"{prompt_text('clinician')}\n{LIMITS.format(**most)}"
        if gives_diagnosis:
            rules = f"{rules}\n\n{DIAGNOSIS.format(cap=cap)}"
    shown = f"\n\n{to_json({'events': list(changes)})}" if changes else ""
    return Message("user", f"{rules}{_swayed(bias)}\n\nWhat you are given:\n\n{packet}{shown}")


def answered_text(turn: Turn, form: Form) -> str:
    """Return what the clinician is sent of what came of its last turn."""
    if form == "markers":
        lines = [*turn.heard, *turn.feedback, *turn.events]
        return "\n".join(lines) or "(no answer)"
    return to_json(
        {
            "patient": list(turn.heard),
            "feedback": list(turn.feedback),
            "events": list(turn.events),
            "patient_status": turn.status,
        }
    )


def turn_text(number: int, cap: int) -> str:
    """Return the line that counts a clinician's turns and announces the last one, as upstream does."""
    last = " It is your last: give the diagnosis now." if number == cap else ""
    return f"This is turn {number} of {cap}.{last}"


def patient_opening(packet: PatientPacket, bias: str = "") -> Message:
    """Return the first message to the patient's side, without facts of states that have not begun."""
    script: dict[str, Any] = {"script": packet.text}
    if packet.companions:
        script["companions"] = list(packet.companions)
    if not packet.can_speak:
        script["patient_can_speak"] = False
    if facts := [fact for fact in packet.facts if fact.state == 0]:
        script["when_asked"] = _facts(facts)
    rules = f"{prompt_text('patient')}{_swayed(bias)}"
    return Message("system", f"{rules}\n\nYour script:\n\n{to_json(script)}")


def _facts(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    return [
        {"on": list(f.asked_by), "who": f.speaker or "Patient", "says": f.answer} for f in facts
    ]


def said_text(words: str, facts: Sequence[Fact] = ()) -> str:
    """Return what the patient's side is sent of a turn. `facts`: of states begun since the last time."""
    new = {"when_asked_from_now_on": _facts(facts)} if facts else {}
    return to_json({"clinician_says": words, **new})


def controller_opening(packet: ControllerPacket) -> Message:
    """Return the first message to the surroundings, without the states that have not begun."""
    material: dict[str, Any] = {"material": packet.text}
    if packet.staff:
        material["staff"] = list(packet.staff)
    if packet.states:
        material["first_state"] = msgspec.to_builtins(packet.states[0])
        material["further_states"] = "each is given to you when it begins"
    return Message(
        "system", f"{prompt_text('controller')}\n\nYour material:\n\n{to_json(material)}"
    )


def order_text(
    talk: Iterable[tuple[str, Sequence[str]]],
    actions: Sequence[str],
    place: Place,
    *,
    eos: bool,
    next_state: State | None = None,
) -> str:
    """Return what the surroundings are sent of a turn.

    `talk`: words and answers since they were last asked; `place`: that before this turn; `next_state`:
    the one that begins by `eos`, where the packet lists states.
    """
    values: dict[str, Any] = {
        "talk": [{"clinician": said, "patient": list(heard)} for said, heard in talk],
        "actions": list(actions),
        "eos": eos,
        "progress_index": place.index,
        "state_label": place.label,
    }
    if next_state is not None:
        values["next_state"] = msgspec.to_builtins(next_state)
    return to_json(values)


def correction(reply: str, fault: str, form: Form = "json") -> tuple[Message, ...]:
    """Return what is sent after a reply that could not be read: the reply, and what is wrong with it."""
    wanted = "one JSON object of the form asked for and nothing else"
    if form == "markers":
        wanted = "what you say, or one of the two marker lines"
    asked = f"Your reply could not be read: {fault}. Reply again, with {wanted}."
    return (Message("assistant", visible_text(reply) or "(empty)"), Message("user", asked))


def to_json(values: dict[str, Any]) -> str:
    """Return what a role is sent, or replies, as JSON."""
    return json.dumps(values, ensure_ascii=False)
