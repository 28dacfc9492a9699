"""A judge's reply -> scores, or why there are none. Strict: nothing is guessed or repaired here.

The reply must be one JSON object and nothing else, bare or in one fenced block:
{"CRITERION": INTEGER, ...} with every criterion once and no other key. So a verdict that
stands somewhere in a quoted answer is never read as the judge's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from medhelm.schema import Criterion

_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL | re.IGNORECASE)


class BadReply(ValueError):
    """What is wrong with a reply, in words that go back to the judge; never text of the reply."""


def read_reply(
    text: str, criteria: Sequence[Criterion], minimum: int, maximum: int
) -> tuple[int, ...]:
    """Return the scores in the order of the criteria; raises BadReply."""
    body = text.strip()
    if fenced := _FENCED.fullmatch(body):
        body = fenced.group(1)
    try:
        found: Any = json.loads(body, object_pairs_hook=_once, parse_constant=_no_constant)
    except BadReply:
        raise
    except (ValueError, RecursionError):
        raise BadReply("the reply is not one JSON object and nothing else") from None
    if not isinstance(found, dict):
        raise BadReply("the reply is no JSON object")
    names = [c.name for c in criteria]
    if missing := [n for n in names if n not in found]:
        raise BadReply(f"no score for {', '.join(missing)}")
    if len(found) > len(names):
        raise BadReply(f"there are other keys than {', '.join(names)}")
    for name in names:
        score = found[name]
        if isinstance(score, bool) or not isinstance(score, int):
            raise BadReply(f"the score of {name} is no integer")
        if not minimum <= score <= maximum:
            raise BadReply(f"the score of {name} is not in {minimum} to {maximum}")
    return tuple(found[name] for name in names)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadReply("a key stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise BadReply(f"{name} is no score")
