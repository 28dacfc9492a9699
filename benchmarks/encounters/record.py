"""The end state of an encounter: that of its episode, turn by turn."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from medhelm import DataError, Episode
from medhelm.plugin import runlog

CAPPED = "capped"
COMPLETED = "completed"
UNREADABLE = "clinician_unreadable"
CLINICIAN_FAILED = "clinician_failed"
OVERSIZE = "oversize"
PATIENT_FAILED = "patient_failed"
CONTROLLER_FAILED = "controller_failed"
"""The endings of an encounter. The last two are failures of the simulation."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn: what the clinician said and did, and what came of it."""

    state: int = 0
    """The clinical state in which it began."""
    speak: str = ""
    actions: tuple[str, ...] = ()
    eos: bool = False
    heard: tuple[str, ...] = ()
    """The lines of the patient's side; a companion's begins with `Title: `."""
    feedback: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    """New events; natural changes of a state that begins are the last ones."""
    status: str = ""
    unsupported: tuple[str, ...] = ()
    """Actions that the case holds nothing for."""
    overruled: tuple[str, ...] = ()
    """Claims of the controller that the state machine did not follow."""
    repaired: dict[str, int] = {}
    patient_side: tuple[str, ...] | None = None
    """Titles of those whom the patient's side names as present; None: it was not asked, or not stored."""
    staff: tuple[str, ...] | None = None
    """Those whom the surroundings name."""


@runlog.of_threads
class Encounter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An encounter as far as it came."""

    turns: tuple[Turn, ...] = ()
    opening: tuple[str, ...] = ()
    """Natural changes of the first state, shown to the clinician at the start."""
    states: tuple[str, ...] = ()
    """Labels of the states that were reached, in order."""
    diagnosis: str | None = None
    """The diagnosis that was given as an action, in protocols that ask for one."""


def as_state(value: msgspec.Struct) -> dict[str, Any]:
    """Return an encounter, or verdicts on one, as the JSON values of an episode's end state."""
    state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return state


def encounter_of(episode: Episode) -> Encounter:
    """Return the encounter that an episode holds; raises DataError where it is none."""
    try:
        return msgspec.convert(episode.state, Encounter)
    except msgspec.ValidationError as e:
        raise DataError(f"episode of {episode.instance_id!r} is not an encounter: {e}") from None


def text_of(encounter: Encounter) -> str:
    """Return what the clinician said and did, a line for each turn: the answer that is stored."""
    lines = []
    for n, turn in enumerate(encounter.turns, start=1):
        done = f" [{'; '.join(turn.actions)}]" if turn.actions else ""
        lines.append(f"{n}. {turn.speak or '(says nothing)'}{done}{' (eos)' if turn.eos else ''}")
    return "\n".join(lines)


def transcript(episode: Episode) -> list[tuple[str, str]]:
    """Return (who, text) of an episode, in order: both channels, and no claim of the controller."""
    encounter = encounter_of(episode)
    found = [("event", line) for line in encounter.opening]
    return found + [line for turn in encounter.turns for line in turn_lines(turn)]


def turn_lines(turn: Turn) -> list[tuple[str, str]]:
    """Return (who, text) of a turn, in order."""
    return [
        *([("clinician", turn.speak)] if turn.speak else []),
        *(("clinician's action", action) for action in turn.actions),
        *(("patient's side", line) for line in turn.heard),
        *(("feedback", line) for line in turn.feedback),
        *(("event", line) for line in turn.events),
    ]


# Descriptive columns: what the clinician did with its turns. They score nothing.

_QUESTION = re.compile(r"[?\uff1f]")
_TEST = re.compile(
    r"\b(?:test|lab|blood|urine|culture|imaging|x.?ray|ct|mri|ultrasound|ecg|ekg|scan|biopsy|panel|count|"
    r"level|echo\w*|endoscopy|spirometry|swab|puncture|troponin|glucose|electrolytes)\b",
    re.IGNORECASE,
)
"""Words by which an action counts as a test. Examinations at the bedside are none."""
_DECIDES = re.compile(
    r"\b(?:start|give|administer|prescribe|treat|infus\w+|inject|intubat\w+|operat\w+|admit|discharge|"
    r"refer|consult|transfer|call|activate|diagnosis)\b",
    re.IGNORECASE,
)


def input_chars(packet: str, encounter: Encounter) -> int:
    """Return the length of what the clinician has before it in its last turn, without instructions."""
    texts = [packet, *encounter.opening]
    for turn in encounter.turns[:-1]:
        texts += [turn.speak, *turn.actions, *turn.heard, *turn.feedback, *turn.events, turn.status]
    return sum(map(len, texts))


def describe(packet: str, encounter: Encounter, ending: str) -> dict[str, float]:
    """Return what one encounter adds to the descriptive sums. `packet`: the clinician's."""
    turns = encounter.turns
    asked = next((n for n, turn in enumerate(turns) if _QUESTION.search(turn.speak)), len(turns))
    tests = next((n for n, turn in enumerate(turns) if any(map(_TEST.search, turn.actions))), None)
    decided = next(
        (n for n, turn in enumerate(turns, 1) if any(map(_DECIDES.search, turn.actions))), None
    )
    found = {
        "encounters": 1,
        "capped": ending == CAPPED,
        "turns": len(turns),
        "questions": sum(len(_QUESTION.findall(turn.speak)) for turn in turns),
        "actions": sum(len(turn.actions) for turn in turns),
        "unsupported": sum(len(turn.unsupported) for turn in turns),
        "tests_first": tests is not None and tests < asked,
        "decided": decided is not None,
        "turns_to_decision": decided or 0,
        "corrections": sum(turn.repaired.get("clinician", 0) for turn in turns),
        "overruled": sum(len(turn.overruled) for turn in turns),
        "input_chars": input_chars(packet, encounter),
    }
    return {name: float(value) for name, value in found.items()}


DESCRIPTIVE = tuple(describe("", Encounter(), ""))
"""Sums of encounters that came to an end, in the order of the table."""
