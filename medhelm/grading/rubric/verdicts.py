"""The decisions of one judge on the criteria of a case, read from its replies, and those of several together.

    {"explanation": "TEXT", "criteria_met": true}                           one criterion
    {"verdicts": [{"id": "ID", "explanation": ..., "criteria_met": ...}]}   all of a case

Numbers, null and any text but true and false are not booleans: nothing is met by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from medhelm.errors import DataError
from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import closed, read_object
from medhelm.schema.data import Criterion
from medhelm.schema.episode import of_threads

_DECISION = {"explanation": str, "criteria_met": bool}
ONE = closed(_DECISION)
"""The JSON Schema of a decision on one criterion."""


class Decision(NamedTuple):
    """The reply of a judge on one criterion."""

    is_met: bool
    explanation: str


def all_of(names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON Schema of the decisions on all criteria."""
    one = {"id": {"type": "string", "enum": [*names]}, **_DECISION}
    return closed({"verdicts": [closed(one)]})


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


@of_threads
class Verdicts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The decisions on a case's criteria, in their order: the end state of a grading."""

    met: tuple[bool | None, ...]
    """None: no valid decision."""
    invalid: dict[str, str] = {}
    """Reasons for missing ones by the name of the criterion: unreadable, refused, truncated."""

    def to_state(self) -> dict[str, Any]:
        """Return the verdicts as JSON values."""
        return {"met": [*self.met], "invalid": dict(self.invalid)}


def read_verdicts(state: Mapping[str, Any], criteria: Sequence[Criterion], where: str) -> Verdicts:
    """Return stored verdicts; raises DataError where they are not of these criteria."""
    try:
        found = msgspec.convert(state, Verdicts)
    except msgspec.ValidationError as e:
        raise DataError(f"{where}: stored verdicts cannot be read: {e}") from None
    if len(found.met) != len(criteria):
        raise DataError(
            f"{where}: there are {len(found.met)} stored verdicts of {len(criteria)} criteria"
        )
    return found


def majority(votes: Sequence[Verdicts], quorum: int) -> tuple[bool | None, ...]:
    """Return what several judges decided on each criterion: met by more than half. A tie is not met.

    None: fewer than `quorum` gave a valid decision, or those that are missing could turn it. A judge without any
    valid decision on the case is not one of them.
    """
    heard = [vote.met for vote in votes if any(met is not None for met in vote.met)]
    return tuple(decide(own, quorum) for own in zip(*heard or (votes[0].met,), strict=True))


def decide(given: Sequence[bool | None], quorum: int) -> bool | None:
    """Return what more than half of several judges say; None where too few do, or where missing ones could turn it."""
    missing, yes = given.count(None), given.count(True)
    if len(given) - missing < quorum:
        return None
    is_met = 2 * yes > len(given)
    return None if is_met != (2 * (yes + missing) > len(given)) else is_met
