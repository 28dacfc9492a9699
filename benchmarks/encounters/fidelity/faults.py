"""Faults of the roles that a model plays beside the clinician, and the lines that they said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from medhelm_benchmarks.encounters.fault_kinds import FaultKind, Played
from medhelm_benchmarks.encounters.record import Encounter


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


def counted(lines: Sequence[Line], role: Played) -> int:
    """Return how many lines of a role were said."""
    return sum(line.role == role for line in lines)


def speakers(text: str) -> Iterator[str]:
    """Yield the title before a line's colon, as in "Mother: ..."; nothing where there is none."""
    title, colon, rest = text.partition(":")
    title = title.partition("(")[0]  # "Mother (anxious): ..."
    words = title.split()
    is_title = bool(colon) and rest[:1] in (" ", "") and 0 < len(words) <= 3
    if is_title and words[0][:1].isupper() and not any(c.isdigit() for c in title):
        yield " ".join(words)
