"""A judge's reply -> scores and reasons, or why there are none.

{"CRITERION": {"score": NUMBER, "reason": "TEXT"}, ...}    or    {"CRITERION": NUMBER, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from medhelm.extract.json_reply import NOT_ONE, BadReply, is_planted
from medhelm.extract.reply_form import TEXT, closed, fit, read_object
from medhelm.schema.data import Criterion

_REASONS = ("reason", "explanation", "justification", "rationale", "comment")
_SCALES = ("max", "maximum", "max_score", "out_of", "of", "scale")


class Reply(NamedTuple):
    """Holds a judge's scores of an answer, in the order of the criteria."""

    scores: tuple[int, ...]
    reasons: tuple[str, ...]
    """Empty where the judge gives none."""


def reply_schema(
    criteria: Sequence[Criterion], minimum: int, maximum: int, *, reasons: bool
) -> dict[str, Any]:
    """Return the JSON Schema of a reply."""
    score = _score(minimum, maximum)
    value = closed({"score": score, "reason": TEXT}) if reasons else score
    return closed(dict.fromkeys((c.name for c in criteria), value))


def read_reply(
    text: str, criteria: Sequence[Criterion], minimum: int, maximum: int, answer: str = ""
) -> Reply:
    """Return scores and reasons; raises BadReply. `answer`: what was rated."""
    names = [c.name for c in criteria]
    reply = read_object(text, closed(dict.fromkeys(names, {})))
    score = _score(minimum, maximum)
    pairs = [_rating(name, reply.value[name], score) for name in names]
    scores, reasons = zip(*pairs, strict=True)
    if not reply.is_bare and is_planted(answer, dict(zip(names, scores, strict=True))):
        raise BadReply(NOT_ONE)
    return Reply(scores, reasons)


def _score(minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "integer", "enum": [*range(minimum, maximum + 1)]}


def _rating(name: str, value: Any, score: Mapping[str, Any]) -> tuple[int, str]:
    """Return the score and the reason of a criterion. A score alone has no reason."""
    where = f"the score of {name}"
    if not isinstance(value, dict):
        return fit(value, score, where), ""
    said = {key.strip().casefold(): member for key, member in value.items()}
    top = score["enum"][-1]
    if any(str(said[key]).split("-")[-1] != str(top) for key in _SCALES if key in said):
        raise BadReply(f"{where} is on another scale than the one asked for")
    found = fit(fit(value, closed({"score": {}}), name)["score"], score, where)
    reasons = [said[key] for key in _REASONS if isinstance(said.get(key), str)]
    return found, reasons[0].strip() if reasons else ""
