"""Kinds of faults of the roles that are played beside the clinician, and their words in tables."""

from __future__ import annotations

from typing import Literal, get_args

Played = Literal["patient", "controller"]
FaultKind = Literal[
    "leak",
    "contradiction",
    "invented_finding",
    "role_break",
    "hint",
    "meta_language",
    "mixed_speech",
]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
MEANING: dict[FaultKind, str] = {
    "leak": "an item of the rubric, or hidden text of a packet, shown before it was asked for",
    "contradiction": "against the packet, or against what was said before",
    "invented_finding": "a finding, value or fact that no packet holds",
    "role_break": "somebody who does not exist, or who cannot speak, speaks; the part is left",
    "hint": "what the clinician should do, think or ask",
    "meta_language": "of a simulation, a script, a packet, or of what is not provided",
    "mixed_speech": "the patient's side speaks for the staff, or the surroundings for the patient",
}
SHORT: dict[FaultKind, str] = {
    "leak": "leaks",
    "contradiction": "contra.",
    "invented_finding": "invented",
    "role_break": "breaks",
    "hint": "hints",
    "meta_language": "meta",
    "mixed_speech": "mixed",
}
BY_RULE: tuple[FaultKind, ...] = tuple(kind for kind in KINDS if kind != "contradiction")
"""The kinds that rules look for."""
ROLES: tuple[Played, ...] = get_args(Played)
