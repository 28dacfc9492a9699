"""A judge's reply -> scores and reasons, or why there are none.

{"CRITERION": {"score": NUMBER, "reason": "TEXT"}, ...}    or    {"CRITERION": NUMBER, ...}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from medhelm.extract.reply_form import TEXT, closed, read_object
from medhelm.schema.data import Criterion

_REASONS = ("reason", "explanation", "justification", "rationale", "comment")


class Reply(NamedTuple):
    """Holds a judge's scores of an answer, in the order of the criteria."""

    scores: tuple[int, ...]
    reasons: tuple[str, ...]
    """Empty where the judge gives none."""


def reply_schema(
    criteria: Sequence[Criterion], minimum: int, maximum: int, *, reasons: bool
) -> dict[str, Any]:
    """Return the JSON Schema of a reply."""
    score = {"type": "integer", "enum": [*range(minimum, maximum + 1)]}
    value = closed({"score": score, "reason": TEXT}) if reasons else score
    return closed(dict.fromkeys((c.name for c in criteria), value))


def read_reply(
    text: str, criteria: Sequence[Criterion], minimum: int, maximum: int, answer: str = ""
) -> Reply:
    """Return scores and reasons; raises BadReply. `answer`: what was rated."""
    schema = reply_schema(criteria, minimum, maximum, reasons=True)
    for value in schema["properties"].values():
        value["properties"] |= dict.fromkeys(_REASONS, {})
        value["required"] = ["score"]
    said = [*read_object(text, schema, answer).values()]
    reasons = ([own[key] for key in _REASONS if isinstance(own.get(key), str)] for own in said)
    return Reply(
        tuple(own["score"] for own in said),
        tuple(given[0].strip() if given else "" for given in reasons),
    )
