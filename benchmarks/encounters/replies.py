"""Strict replies of the roles: one JSON object with exactly its fields, or what is wrong with it.

Thinking is taken off, and a fence around the whole. Nothing else is forgiven: a field of another
type, a missing or an unknown one, a key that occurs twice, words around the object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from medhelm.data.readers import repeated_key
from medhelm.extract import visible_text, without_halves

_KEY = re.compile(r'"\s*:')
"""Matches at least once for each key of a JSON text."""
_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL | re.IGNORECASE)


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
    status: str
    rationale: str


class ControllerReply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds the answer of the surroundings, and the controller's claim of where the encounter is."""

    feedback: list[str]
    events: list[str]
    actors_present: dict[str, str]
    action_assessments: list[Assessment]
    patient_status: str
    progress_index: int
    state_label: str
    should_end: bool
    completion_reason: str


@dataclass(frozen=True)
class Limits:
    """The most that a turn of the clinician holds, so that one reply of each other role can answer it."""

    actions: int
    action_characters: int
    speech_characters: int

    def check(self, reply: ClinicianReply) -> None:
        """Refuse a reply beyond a limit; raises Unreadable."""
        if len(reply.actions) > self.actions:
            raise Unreadable(
                f"it has {len(reply.actions)} actions; a turn has at most {self.actions}"
            )
        if (longest := max(map(len, reply.actions), default=0)) > self.action_characters:
            most = self.action_characters
            raise Unreadable(f"an action has {longest} characters; it has at most {most}")
        if (spoken := len(reply.speak)) > self.speech_characters:
            most = self.speech_characters
            raise Unreadable(f"what you say has {spoken} characters; it has at most {most}")


class Unreadable(Exception):
    """A reply that is not what was asked for; its text says why, in words for its writer."""


Reply = TypeVar("Reply", bound=msgspec.Struct)


def read_reply(text: str, kind: type[Reply]) -> tuple[Reply, str]:
    """Return a reply of a form, and its text as history keeps it. Raises Unreadable."""
    shown = visible_text(text)
    if fenced := _FENCE.fullmatch(shown):
        shown = fenced[1].strip()
    if not shown:
        raise Unreadable("it was empty")
    try:
        whole = without_halves(shown)
        reply = msgspec.json.decode(whole.encode("utf-8", "replace"), type=kind)
    except msgspec.ValidationError as e:
        raise Unreadable(f"a field is not as asked for: {e}") from None
    except msgspec.DecodeError:
        raise Unreadable("it was not one JSON object and nothing else") from None
    if _keys_of(reply) < len(_KEY.findall(shown)) and (repeated := repeated_key(shown)):
        raise Unreadable(f"the key {repeated[0]!r} occurs twice")
    if isinstance(reply, ControllerReply):
        _check(reply)
    return reply, shown


def _keys_of(reply: msgspec.Struct) -> int:
    """Return how many different keys the objects of a reply have, taken together."""
    keys = len(reply.__struct_fields__) + len(getattr(reply, "actors_present", ()))
    assessed = getattr(reply, "action_assessments", ())
    return keys + len(assessed) * len(Assessment.__struct_fields__)


def _check(reply: ControllerReply) -> None:
    if reply.progress_index < 0:
        raise Unreadable("progress_index is below 0")
    for found in reply.action_assessments:
        if found.status not in ("executed", "pending", "unsupported"):
            raise Unreadable("the status of an action is not executed, pending or unsupported")


_ORDER = re.compile(
    r"^[^\w\n]*REQUEST TEST[^\w\n]*:[^\w\n]*(.+?)[^\w\n]*$", re.MULTILINE | re.IGNORECASE
)
_DIAGNOSIS = re.compile(r"DIAGNOSIS READY\W*:\s*(.+)", re.DOTALL | re.IGNORECASE)
NAMED = "diagnosis:"
"""Begins the action by which a diagnosis is given."""


def read_markers(text: str) -> tuple[ClinicianReply, str]:
    """Return a reply in plain text with marker lines, as AgentClinic's clinician writes it.

    A line `REQUEST TEST: NAME` is an action, `DIAGNOSIS READY: NAME` ends the encounter, all else is said
    to the patient. Raises Unreadable.
    """
    shown = visible_text(text)
    if not shown:
        raise Unreadable("it was empty")
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
