"""Faults of the roles that are played beside the clinician, and the lines that they said."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from medhelm_benchmarks.encounters.record import Encounter

Played = Literal["patient", "controller"]
ROLES: tuple[Played, ...] = get_args(Played)
FaultKind = Literal[
    "leak",
    "contradiction",
    "invented_finding",
    "role_break",
    "hint",
    "meta_language",
    "mixed_speech",
]
MEANING: dict[FaultKind, str] = {
    "leak": "an item of the rubric, or hidden text of a packet, shown before it was asked for",
    "contradiction": "against the packet, or against what was said before",
    "invented_finding": "a finding, value or fact that no packet holds",
    "role_break": "somebody who does not exist, or who cannot speak, speaks; the part is left",
    "hint": "what the clinician should do, think or ask",
    "meta_language": "of a simulation, a script, a packet, or of what is not provided",
    "mixed_speech": "the patient's side speaks for the staff, or the surroundings for the patient",
}
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
HEADINGS: dict[FaultKind, str] = {
    "leak": "leaks",
    "contradiction": "contra.",
    "invented_finding": "invented",
    "role_break": "breaks",
    "hint": "hints",
    "meta_language": "meta",
    "mixed_speech": "mixed",
}
BY_RULE: tuple[FaultKind, ...] = ("leak", "invented_finding", "role_break", "mixed_speech")
"""The kinds that rules look for; a judge looks for all."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of patient or surroundings, in the order in which the clinician read it."""

    number: int
    """From 1."""
    turn: int
    """From 1."""
    role: Played
    text: str
    asked: str
    """All that the clinician said (patient) or did (controller) until then."""
    state: int
    """The state in which it was said."""
    is_change: bool = False
    """A natural change, which the code releases."""
    present: tuple[str, ...] | None = None
    """Those whom the role names as present in this turn; None: not stored."""
    unsupported: tuple[str, ...] = ()
    """Actions of the turn that the role itself says have no place in the encounter."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault. Where it is can be looked up; its text is in the run alone."""

    kind: FaultKind
    role: Played
    turn: int
    line: int
    by: Literal["rule", "judge"] = "rule"
    quote: str = ""
    """Words of the line, for a reader on this machine."""


def lines_of(encounter: Encounter) -> list[Line]:
    """Return the lines of the roles that are played."""
    found: list[Line] = []
    said, done = "", ""
    for n, turn in enumerate(encounter.turns, 1):
        said, done = f"{said}\n{turn.speak}", "\n".join((done, *turn.actions))
        later = max((t.state for t in encounter.turns[: n + 1]), default=turn.state)
        texts: list[tuple[Played, str, str]] = [("patient", text, said) for text in turn.heard]
        shown = (*turn.feedback, *turn.events, *filter(None, (turn.status,)))
        texts += [("controller", text, done) for text in shown]
        found += [
            Line(
                number=len(found) + place,
                turn=n,
                role=role,
                text=text,
                asked=asked,
                state=turn.state if role == "patient" else later,
                is_change=text in turn.events,
                present=turn.patient_side if role == "patient" else turn.staff,
                unsupported=turn.unsupported if role == "controller" else (),
            )
            for place, (role, text, asked) in enumerate(texts, 1)
        ]
    return found
