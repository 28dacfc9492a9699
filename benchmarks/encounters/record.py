"""The end state of an encounter: that of its episode, turn by turn."""

from __future__ import annotations

from typing import Any

import msgspec

from medhelm import DataError, Episode

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
    """Corrective retries by role."""
    patient_side: tuple[str, ...] | None = None
    """Titles of those whom the patient's side names as present; None: it was not asked, or not stored."""
    staff: tuple[str, ...] | None = None
    """Those whom the surroundings name."""


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
