"""What each role is shown: the barrier is a type, and prompts are written from these alone.

role        sees                                           does not see
clinician   its packet, replies to it                      all other packets, where the states are
patient     its packet, the talk                           actions, results, states, any rubric
controller  its packet as far as it has come, actions,     the patient's packet, any rubric
            the talk
grader      the rubric, the transcript                     the other packets
"""

from __future__ import annotations

from dataclasses import dataclass

from medhelm_benchmarks.encounters.packets import ControllerPacket, Fact, PatientPacket, State
from medhelm_benchmarks.encounters.states import Place


@dataclass(frozen=True)
class Heard:
    """What reaches the clinician of one turn: the answers to its words and to its actions."""

    said: tuple[str, ...]
    """By the patient's side."""
    feedback: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class ClinicianView:
    """A turn of the clinician."""

    packet: str
    opening: tuple[str, ...]
    """Natural changes of the first state."""
    past: tuple[tuple[str, Heard], ...]
    """Each own reply, as it was read, and what came of it."""
    cap: int
    """The most turns."""


@dataclass(frozen=True)
class Said:
    """What reaches the patient's side of a turn."""

    words: str
    """Of the clinician."""
    facts: tuple[Fact, ...] = ()
    """What is so from now on, by a state that has begun since the last time."""


@dataclass(frozen=True)
class PatientView:
    """A turn of the patient's side. Of the facts it holds those of the first state."""

    text: str
    companions: tuple[str, ...]
    can_speak: bool
    facts: tuple[Fact, ...]
    past: tuple[tuple[Said, str], ...]
    """What was said, and the own reply to it."""
    now: Said

    @classmethod
    def of(
        cls, packet: PatientPacket, past: tuple[tuple[Said, str], ...], now: Said
    ) -> PatientView:
        """Return the view of a packet: without facts of states that have not begun."""
        facts = tuple(fact for fact in packet.facts if fact.state == 0)
        return cls(packet.text, packet.companions, packet.can_speak, facts, past, now)


@dataclass(frozen=True)
class Order:
    """What the controller is given of a turn."""

    talk: tuple[tuple[str, tuple[str, ...]], ...]
    """What was said, and the answers, since it was last asked."""
    actions: tuple[str, ...]
    eos: bool
    place: Place
    """Where the encounter is before this turn."""
    next_state: State | None = None
    """The state that begins by `eos`, where the packet lists states."""


@dataclass(frozen=True)
class ControllerView:
    """A turn of the surroundings. Of listed states it holds the first one; later ones come by orders."""

    text: str
    staff: tuple[str, ...]
    first: State | None
    past: tuple[tuple[Order, str], ...]
    """What was ordered, and the own reply to it."""
    now: Order

    @classmethod
    def of(
        cls, packet: ControllerPacket, past: tuple[tuple[Order, str], ...], now: Order
    ) -> ControllerView:
        """Return the view of a packet: without the states that have not begun."""
        first = packet.states[0] if packet.states else None
        return cls(packet.text, packet.staff, first, past, now)
