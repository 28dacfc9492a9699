"""A judge's reply -> scores and reasons, or why there are none. Nothing is guessed or repaired here.

The reply must be one JSON object with every criterion once and no other key:

    {"CRITERION": {"score": NUMBER, "reason": "TEXT"}, ...}    or    {"CRITERION": NUMBER, ...}

It may be in one fenced block, behind the judge's thinking, and behind one line that announces
it. Anything else beside it makes the reply unreadable, so that a verdict in a quoted
answer is never read as the judge's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from medhelm.extract import visible_text, without_halves
from medhelm.schema.data import Criterion

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
_VERDICT = (
    "evaluation|rating|scor(?:e|ing)|verdict|assessment|judge?ment|json|result|bewertung|urteil"
    "|ergebnis|\u00e9valuation|evaluaci\u00f3n|puntuaci\u00f3n|\u8bc4\u5206|\u8bc4\u4f30|\u8bc4\u4ef7|\u7ed3\u679c"
)
_ANNOUNCED = re.compile(
    rf"(?=[^\n{{]{{0,200}}(?:{_VERDICT}))[^\n{{}}\[\]`\"\u201c\u201d<>]{{1,200}}"
    r"[.:!\uff1a\u3002][*_]{0,3}\s*(?=[{`])",
    re.IGNORECASE,
)
"""One line that says that a verdict follows, with nothing in quotes or brackets."""
_REASONS = ("reason", "explanation", "justification", "rationale", "comment")
_NOT_ONE = "the reply is not one JSON object and nothing else"


class BadReply(ValueError):
    """Reports a reply's fault in words for the judge, and never text of the reply."""


class Reply(NamedTuple):
    """Holds a judge's scores of an answer, in the order of the criteria."""

    scores: tuple[int, ...]
    reasons: tuple[str, ...]
    """Empty where the judge gives none."""


def read_reply(
    text: str, criteria: Sequence[Criterion], minimum: int, maximum: int, answer: str = ""
) -> Reply:
    """Return scores and reasons; raises BadReply.

    `answer`: what was rated. Scores that are in it are not taken from behind an announcement,
    which may announce what the answer asks for.
    """
    names = [c.name for c in criteria]
    if (found := own_json(text)) is not None:
        return _read(found[0], names, minimum, maximum)
    visible = _after_thoughts(text)
    if announced := _ANNOUNCED.match(visible):
        found = _only_json(visible[announced.end() :])
        if found is not None:
            reply = _read(found[0], names, minimum, maximum)
            if not _stands_in(answer, names, reply.scores):
                return reply
    raise BadReply(_NOT_ONE)


def own_json(text: str) -> tuple[Any] | None:
    """Return the only JSON value of a reply, bare, fenced or behind thoughts; None where it is not one.

    Raises BadReply where a key stands twice.
    """
    return _only_json(text) or _only_json(_after_thoughts(text))


def _after_thoughts(text: str) -> str:
    """Return the visible text; nothing where the reply ends inside of a thought.

    A verdict with a thought behind it may be quoted in what the judge thinks.
    """
    return visible_text(text) if visible_text(f"{text}\n.").endswith(".") else ""


def _only_json(text: str) -> tuple[Any] | None:
    """Return the only JSON value of a text, bare or fenced; None where it is not one.

    Raises BadReply where a key stands twice.
    """
    body = text.strip()
    if fenced := _FENCED.fullmatch(body):
        body = fenced.group(1)
    try:
        return (_DECODER.decode(without_halves(body)),)
    except BadReply:
        raise
    except (ValueError, RecursionError):
        return None


def _read(found: Any, names: Sequence[str], minimum: int, maximum: int) -> Reply:
    if not isinstance(found, dict):
        raise BadReply("the reply is no JSON object")
    if missing := [n for n in names if n not in found]:
        raise BadReply(f"no score for {', '.join(missing)}")
    if len(found) > len(names):
        raise BadReply(f"there are other keys than {', '.join(names)}")
    pairs = [_criterion(name, found[name]) for name in names]
    scores = tuple(_score(name, score) for name, (score, _) in zip(names, pairs, strict=True))
    for name, score in zip(names, scores, strict=True):
        if not minimum <= score <= maximum:
            raise BadReply(f"the score of {name} is not in {minimum} to {maximum}")
    return Reply(scores, tuple(reason for _, reason in pairs))


def _criterion(name: str, value: Any) -> tuple[Any, str]:
    """Return the score and the reason of a criterion. A score alone has no reason."""
    if not isinstance(value, dict):
        return value, ""
    if "score" not in value:
        raise BadReply(f"no score for {name}")
    given = [key for key in value if key != "score"]
    if len(given) > 1 or not set(given) <= set(_REASONS):
        raise BadReply(f"{name} has other keys than score and reason")
    reason = value[given[0]] if given else ""
    if not isinstance(reason, str | None):
        raise BadReply(f"the reason of {name} is no text")
    return value["score"], (reason or "").strip()


def _score(name: str, score: Any) -> int:
    """Return a score as an integer: 4 and 4.0 are one, 4.5 and true are none."""
    if isinstance(score, float) and score.is_integer():
        return int(score)
    if isinstance(score, bool) or not isinstance(score, int):
        raise BadReply(f"the score of {name} is no integer")
    return score


def _stands_in(answer: str, names: Sequence[str], scores: Sequence[int]) -> bool:
    """Return whether an answer gives itself these scores, in whatever form."""
    return all(
        re.search(rf"{name}\W{{0,9}}(?:score\W{{0,9}})?{score}(?!\d)", answer, re.IGNORECASE)
        for name, score in zip(names, scores, strict=True)
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadReply("a key stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise BadReply(f"{name} is no score")


# Not strict: a line break inside of a reason is not an ambiguity.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once, parse_constant=_no_constant)
