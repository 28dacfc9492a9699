"""A judge's reply about criteria -> booleans and explanations, or why there are none.

    {"explanation": "TEXT", "criteria_met": true}                           one criterion
    {"verdicts": [{"id": "ID", "explanation": ..., "criteria_met": ...}]}   all of a case

Numbers, null and any text but true and false are not booleans: nothing is met by accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import BOOLEAN, TEXT, closed, list_of, read_object

_DECISION = {"explanation": TEXT, "criteria_met": BOOLEAN}
ONE = closed(_DECISION)
"""The JSON Schema of a decision on one criterion."""


class Decision(NamedTuple):
    """Holds the reply of a judge on one criterion."""

    is_met: bool
    explanation: str


def all_of(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of the decisions on all criteria."""
    one = {"id": {"type": "string", "enum": [*names]}, **_DECISION}
    return closed({"verdicts": list_of(closed(one))})


def read_decision(text: str, answer: str = "") -> Decision:
    """Return the decision on one criterion; raises BadReply. `answer`: what was decided on."""
    return _decision(read_object(text, ONE, answer))


def read_decisions(text: str, names: Sequence[str], answer: str = "") -> dict[str, Decision]:
    """Return the decisions on all criteria, each of which is named once; raises BadReply."""
    decisions: dict[str, Decision] = {}
    for found in read_object(text, all_of(names), answer)["verdicts"]:
        if found["id"] in decisions:
            raise BadReply(f"there are two verdicts of {found['id']}")
        decisions[found["id"]] = _decision(found)
    if missing := [name for name in names if name not in decisions]:
        raise BadReply(f"no verdict of {', '.join(missing)}")
    return decisions


def _decision(found: dict[str, Any]) -> Decision:
    return Decision(found["criteria_met"], found["explanation"].strip())
