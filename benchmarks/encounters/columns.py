"""Descriptive columns of an encounter: what the clinician did with its turns. They score nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from medhelm import Floats, Sums, pooled_share
from medhelm_benchmarks.encounters.record import CAPPED, Encounter

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
"""Words by which an action counts as a decision."""


def share(part: str, whole: str) -> Callable[[Sums], Floats]:
    """Return what divides one sum by another, for an aggregation that has further sums."""
    return pooled_share("share", part, whole).of


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
