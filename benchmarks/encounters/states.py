"""The state machine: clinical states advance when the clinician ends one, one at a time, and by code.

The controller says in each reply where it believes the encounter to be. It is believed only where the
packet's states are in its text alone, and then only within the rules; what it claims otherwise is
overruled and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from medhelm_benchmarks.encounters.packets import State

INITIAL = "initial"
"""The label of the first state where a packet has no list of states."""

Overruled = Literal[
    "progress_without_eos",
    "end_without_eos",
    "jump",
    "label_without_index",
    "index_without_label",
    "end_and_progress",
    "neither_end_nor_progress",
    "progress_after_the_last",
    "end_before_the_last",
]
"""A claim of the controller that the state machine does not follow."""


@dataclass(frozen=True)
class Place:
    """Holds the place of an encounter: index and label change together."""

    index: int = 0
    label: str = INITIAL
    is_over: bool = False


@dataclass(frozen=True)
class Claim:
    """Holds the place of the encounter by the controller's word."""

    index: int
    label: str
    is_over: bool


def begin(states: Sequence[State]) -> Place:
    """Return the place at which an encounter begins."""
    return Place(label=states[0].label if states else INITIAL)


def next_place(states: Sequence[State], now: Place, *, eos: bool) -> Place:
    """Return the place after a turn of a case whose states are listed, whatever anyone claims."""
    if not eos:
        return now
    if now.index + 1 < len(states):
        return Place(now.index + 1, states[now.index + 1].label)
    return Place(now.index, now.label, is_over=True)


def follow(
    states: Sequence[State], now: Place, claim: Claim, *, eos: bool
) -> tuple[Place, tuple[Overruled, ...]]:
    """Return the place after a turn, and what of the controller's claim is overruled."""
    if not eos:
        return now, _held(now, claim)
    if states:
        return _listed(states, now, claim)
    return _in_text(now, claim)


def _held(now: Place, claim: Claim) -> tuple[Overruled, ...]:
    """Return what is overruled where the clinician has not ended the state."""
    found: list[Overruled] = []
    if (claim.index, claim.label) != (now.index, now.label):
        found.append("progress_without_eos")
    if claim.is_over:
        found.append("end_without_eos")
    return tuple(found)


def _listed(
    states: Sequence[State], now: Place, claim: Claim
) -> tuple[Place, tuple[Overruled, ...]]:
    then = next_place(states, now, eos=True)
    claimed = Place(claim.index, claim.label, claim.is_over)
    if claimed == then:
        return then, ()
    if then.is_over:
        moved = (claim.index, claim.label) != (now.index, now.label)
        return then, ("progress_after_the_last",) if moved else ("neither_end_nor_progress",)
    if claim.is_over:
        return then, ("end_before_the_last",)
    return then, (_kind(now, claim),)


def _in_text(now: Place, claim: Claim) -> tuple[Place, tuple[Overruled, ...]]:
    is_new = claim.label not in ("", now.label)
    if claim.index > now.index and is_new:
        found: list[Overruled] = ["jump"] if claim.index > now.index + 1 else []
        if claim.is_over:
            found.append("end_and_progress")
        return Place(now.index + 1, claim.label), tuple(found)
    if claim.is_over:
        kept = (claim.index, claim.label) == (now.index, now.label)
        over = Place(now.index, now.label, is_over=True)
        return over, () if kept else (_kind(now, claim),)
    return now, (_kind(now, claim),)


def _kind(now: Place, claim: Claim) -> Overruled:
    """Return how a claim departs from one step of index and label."""
    if claim.index > now.index + 1:
        return "jump"
    if claim.index == now.index and claim.label == now.label:
        return "neither_end_nor_progress"
    if claim.index == now.index:
        return "label_without_index"
    return "index_without_label"
