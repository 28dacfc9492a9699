"""Views of the roles: the barrier is a type, and prompts are written from these alone.

role        sees                                           does not see
clinician   its packet, replies to it                      all other packets, where the states are
patient     its packet, the talk                           actions, results, states, any rubric
controller  its packet as far as it has come, actions,     the patient's packet, any rubric
            the talk
grader      the rubric, the transcript                     the other packets

A view of a packet is written once, as the first message to its role. Each turn then adds one message,
written from `Heard`, `Said` or `Order`.
"""

from __future__ import annotations

from dataclasses import dataclass

from medhelm_benchmarks.encounters.packets import ControllerPacket, Fact, PatientPacket, State
from medhelm_benchmarks.encounters.replies import Limits
from medhelm_benchmarks.encounters.states import Place


@dataclass(frozen=True)
class Heard:
    """Holds the part of a turn that reaches the clinician: the answers to its words and to its actions."""

    said: tuple[str, ...]
    """By the patient's side."""
    feedback: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    status: str = ""


@dataclass(frozen=True)
class ClinicianView:
    """The clinician's side of a case."""

    packet: str
    opening: tuple[str, ...]
    """Natural changes of the first state."""
    cap: int
    """The most turns."""
    limits: Limits


@dataclass(frozen=True)
class Said:
    """Holds the part of a turn that reaches the patient's side."""

    words: str
    """Of the clinician."""
    facts: tuple[Fact, ...] = ()
    """Facts from now on, of a state that has begun since the last time."""


@dataclass(frozen=True)
class PatientView:
    """The script of the patient's side. Of the facts it holds those of the first state."""

    text: str
    companions: tuple[str, ...]
    can_speak: bool
    facts: tuple[Fact, ...]

    @classmethod
    def of(cls, packet: PatientPacket) -> PatientView:
        """Return the view of a packet: without facts of states that have not begun."""
        facts = tuple(fact for fact in packet.facts if fact.state == 0)
        return cls(packet.text, packet.companions, packet.can_speak, facts)


@dataclass(frozen=True)
class Order:
    """Holds the part of a turn that the controller is given."""

    talk: tuple[tuple[str, tuple[str, ...]], ...]
    """The talk since it was last asked: words, and the answers."""
    actions: tuple[str, ...]
    eos: bool
    place: Place
    """The place of the encounter before this turn."""
    next_state: State | None = None
    """The state that begins by `eos`, where the packet lists states."""


@dataclass(frozen=True)
class ControllerView:
    """The material of the surroundings. Of listed states it holds the first one; later ones come by orders."""

    text: str
    staff: tuple[str, ...]
    first: State | None

    @classmethod
    def of(cls, packet: ControllerPacket) -> ControllerView:
        """Return the view of a packet: without the states that have not begun."""
        first = packet.states[0] if packet.states else None
        return cls(packet.text, packet.staff, first)
