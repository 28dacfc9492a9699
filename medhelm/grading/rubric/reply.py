"""A judge's reply about criteria -> booleans and explanations, or why there are none.

    {"explanation": "TEXT", "criteria_met": true}                           one criterion
    {"verdicts": [{"id": "ID", "explanation": ..., "criteria_met": ...}]}   all of a case

Bare or in one fenced block, behind the judge's thinking, and with nothing else beside it. Text,
numbers and null are not booleans: nothing is met by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from medhelm.grading.jury.reply import BadReply, own_json

_KEYS = ("explanation", "criteria_met")


class Decision(NamedTuple):
    """Holds the reply of a judge on one criterion."""

    is_met: bool
    explanation: str


def read_decision(text: str) -> Decision:
    """Return the decision on one criterion; raises BadReply."""
    return _decision(_object(text), _KEYS, "the reply")


def read_decisions(text: str, names: Sequence[str]) -> dict[str, Decision]:
    """Return the decisions on all criteria, each of which is named once; raises BadReply."""
    found = _object(text)
    if set(found) != {"verdicts"} or not isinstance(found["verdicts"], list):
        raise BadReply('the reply is not {"verdicts": [...]}')
    decisions: dict[str, Decision] = {}
    for item in found["verdicts"]:
        if not isinstance(item, dict):
            raise BadReply("a verdict is not an object")
        name = item.get("id")
        if not isinstance(name, str) or name not in names:
            raise BadReply("a verdict has an id that is not one of the criteria")
        if name in decisions:
            raise BadReply(f"there are two verdicts of {name}")
        decisions[name] = _decision(item, ("id", *_KEYS), f"the verdict of {name}")
    if missing := [name for name in names if name not in decisions]:
        raise BadReply(f"no verdict of {', '.join(missing)}")
    return decisions


def _object(text: str) -> dict[str, Any]:
    found = own_json(text)
    if found is None:
        raise BadReply("the reply is not one JSON object and nothing else")
    if not isinstance(found[0], dict):
        raise BadReply("the reply is not a JSON object")
    return found[0]


def _decision(found: Mapping[str, Any], keys: Sequence[str], where: str) -> Decision:
    if missing := [key for key in keys if key not in found]:
        raise BadReply(f"{where} has no {missing[0]}")
    if len(found) > len(keys):
        raise BadReply(f"{where} has other keys than {', '.join(keys)}")
    if not isinstance(found["criteria_met"], bool):
        raise BadReply(f"criteria_met of {where} is neither true nor false")
    if not isinstance(found["explanation"], str):
        raise BadReply(f"the explanation of {where} is not text")
    return Decision(found["criteria_met"], found["explanation"].strip())
