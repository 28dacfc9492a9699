"""A stored grading of binary criteria -> each decision with the judge's explanation."""

from __future__ import annotations

from typing import NamedTuple

from medhelm.extract.json_reply import BadReply
from medhelm.grading.rubric.grader import BATCHED_STEP, STRICT_STEP
from medhelm.grading.rubric.verdicts import Decision, read_decision, read_decisions
from medhelm.schema.data import Criterion
from medhelm.schema.episode import Episode


class Explained(NamedTuple):
    """One criterion as one judge decided on it."""

    criterion: Criterion
    is_met: bool | None
    """None: no valid verdict."""
    explanation: str
    """The judge's words; of an invalid verdict why there is none."""


def explained(grading: Episode) -> list[Explained]:
    """Return the decisions of a grading in the order of its criteria; none of another grader's."""
    criteria = grading.instance.criteria
    met, invalid = grading.state.get("met", ()), grading.state.get("invalid", {})
    if not criteria or len(met) != len(criteria):
        return []
    said = _said(grading)
    return [
        Explained(
            c, is_met, invalid.get(c.name) or (said[c.name].explanation if c.name in said else "")
        )
        for c, is_met in zip(criteria, met, strict=True)
    ]


def _said(grading: Episode) -> dict[str, Decision]:
    found: dict[str, Decision] = {}
    for call in grading.calls:
        try:
            if call.step.startswith(STRICT_STEP):
                found[call.step.removeprefix(STRICT_STEP)] = read_decision(call.response.text)
            elif call.step == BATCHED_STEP:
                names = [c.name for c in grading.instance.criteria]
                found |= read_decisions(call.response.text, names)
        except BadReply:
            continue  # asked again, or invalid
    return found
