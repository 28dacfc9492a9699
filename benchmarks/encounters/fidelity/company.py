"""Faults of who is present, and of actions that have no place: by what the roles' own records say.

Replies of both roles name those who are present, and the surroundings say of each action whether it has a
place. The clinician sees neither, so that a record that does not fit what it reads is found here alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medhelm_benchmarks.encounters.fault_kinds import FaultKind, Played
from medhelm_benchmarks.encounters.fidelity.faults import Line, speakers
from medhelm_benchmarks.encounters.matches import words
from medhelm_benchmarks.encounters.packets import Packets

_NOBODY = frozenset({"a", "an", "and", "the", "of", "on", "in", "duty", "patient", "companion"})
_ORDERED = frozenset(
    {
        "the",
        "and",
        "for",
        "with",
        "order",
        "give",
        "check",
        "obtain",
        "perform",
        "start",
        "call",
        "ask",
    }
)


def faults_of_company(
    lines: Sequence[Line], packets: Packets, clinician: str
) -> Iterator[tuple[int, FaultKind, str]]:
    """Yield (number of the line, kind, quote). Faults of a whole turn are those of its first line."""
    seen: set[tuple[int, Played]] = set()
    named = words(f"{packets.patient.text} {packets.controller.text} {clinician}")
    named |= words(" ".join((*packets.patient.companions, *packets.controller.staff)))
    for line in lines:
        if line.present is None:
            continue
        present = [title.partition("(")[0].strip() for title in line.present]
        if (line.turn, line.role) not in seen:
            seen.add((line.turn, line.role))
            for title in present:
                if kind := _misplaced(title, line, packets, named):
                    yield line.number, kind, title
        for title in speakers(line.text):
            if _is_absent(title, line, packets, present):
                yield line.number, "role_break", title
        for action in line.unsupported:
            ordered = {word for word in words(action) - _ORDERED if len(word) > 2}
            if ordered and ordered <= words(line.text):
                yield line.number, "invented_finding", action


def _misplaced(title: str, line: Line, packets: Packets, named: frozenset[str]) -> FaultKind | None:
    """Return what is wrong with somebody's being present; None where nothing is."""
    own = {name.casefold() for name in packets.patient.companions} | {"patient", "the patient"}
    if line.role == "controller" and title.casefold() in own | {"clinician", "the clinician"}:
        return "mixed_speech"
    called = named | words(line.asked) if line.role == "controller" else named
    return None if words(title) - _NOBODY <= called else "role_break"


def _is_absent(title: str, line: Line, packets: Packets, present: Sequence[str]) -> bool:
    """Return whether somebody of the role's own speaks and is not among those present."""
    own = packets.patient.companions if line.role == "patient" else packets.controller.staff
    there = {name.casefold() for name in present}
    return title.casefold() in {name.casefold() for name in own} - there
