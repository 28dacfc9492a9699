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
    """A place in an encounter, as it is or as the controller claims: index and label change together."""

    index: int = 0
    label: str = INITIAL
    is_over: bool = False


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
    states: Sequence[State], now: Place, claim: Place, *, eos: bool
) -> tuple[Place, tuple[Overruled, ...]]:
    """Return the place after a turn, and what of the controller's claim is overruled."""
    has_moved = (claim.index, claim.label) != (now.index, now.label)
    found: list[Overruled] = []
    if not eos:
        if has_moved:
            found.append("progress_without_eos")
        if claim.is_over:
            found.append("end_without_eos")
        return now, tuple(found)
    if states:
        then = next_place(states, now, eos=True)
        if claim == then:
            return then, ()
        if then.is_over:
            return then, ("progress_after_the_last" if has_moved else "neither_end_nor_progress",)
        return then, ("end_before_the_last" if claim.is_over else _departure(now, claim),)
    if claim.index > now.index and claim.label not in ("", now.label):
        if claim.index > now.index + 1:
            found.append("jump")
        if claim.is_over:
            found.append("end_and_progress")
        return Place(now.index + 1, claim.label), tuple(found)
    over = Place(now.index, now.label, claim.is_over)
    return over, () if claim.is_over and not has_moved else (_departure(now, claim),)


def _departure(now: Place, claim: Place) -> Overruled:
    """Return how a claim departs from one step of index and label."""
    if claim.index > now.index + 1:
        return "jump"
    if claim.index != now.index:
        return "index_without_label"
    return "neither_end_nor_progress" if claim.label == now.label else "label_without_index"
