"""The words by which a reply labels an action."""

from __future__ import annotations

import re
from functools import lru_cache

APPROPRIATE, INAPPROPRIATE = "Appropriate", "Inappropriate"
MOST_COMMENT = 600
"""Limits how much of a comment behind a label is searched for a second one."""
_OPEN, _CLOSE = r"[\s*_`\"'(\[{<]{0,9}", r"[\s*_`\"')\]}>]{0,9}"
LONG = re.compile(
    rf"{_OPEN}(?:(?:(?P<check>[\u2705\u2714\u2713\u2611])|(?P<cross>[\u274c\u2717\u2718\u2716\u2715]))"
    rf"\ufe0f?{_OPEN})?(?:(?:very|highly|strongly|clearly|definitely)\s{{1,3}})?"
    r"(?P<no>not\s{1,3}|non[\s-]?|in|un)?appropriate(?![^\W_])",
    re.IGNORECASE,
)
SHORT = re.compile(rf"{_OPEN}(?:(?P<yes>yes|true)|no|false)(?![^\W_])", re.IGNORECASE)
_TAIL = re.compile(rf"{_CLOSE}(?:$|[.,;:(\[!\u2013\u2014]|-+\s)")
"""Matches the text behind a label: nothing, or a comment behind a sign."""
_SECOND = re.compile(r"[\W_]*(?:(?:or|but|no|wait|rather|actually|and)[\W_]+){0,3}", re.IGNORECASE)
_SHORT_BEHIND = re.compile(
    r"[\s*_`\"')\]>]{0,9}[:=?|\-\u2013\u2014][\s*_`\"'|:(\[]{0,9}(?P<short>yes|true|no|false)"
    r"(?![^\W_])",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"(?<!\w)(?P<no>not\s{1,3}|non[\s-]?|in|un)?appropriate(?=[\s*_`\"')\]>]{0,9}(?:$|[.,;:!)|]))",
    re.IGNORECASE,
)
_EXCUSED = re.compile(
    r"(?<!\w)(?:never|not|delay\w*|wait\w*|withhold\w*|omi(?:t|ss)\w*|defer\w*|postpon\w*)(?!\w)"
    r"[^.;]*$",
    re.IGNORECASE,
)


@lru_cache(maxsize=256)  # a reply says the same two words of dozens of actions
def read_word(text: str, *, is_short_too: bool = True) -> str:
    """Return the label that a text is, perhaps with a comment behind it; empty where it is none."""
    match = LONG.match(text)
    if match is not None:
        word = INAPPROPRIATE if match["no"] else APPROPRIATE
        if match["cross" if word == APPROPRIATE else "check"]:
            return ""
    elif is_short_too and (match := SHORT.match(text)) is not None:
        word = APPROPRIATE if match["yes"] else INAPPROPRIATE
    else:
        return ""
    is_long = match.re is LONG
    end = match.end()
    behind = _SHORT_BEHIND.match(text, end) if is_long else None
    if behind is not None and _TAIL.match(text, behind.end()) is not None:  # Appropriate: No
        end = behind.end()
        if behind["short"].casefold() in ("no", "false"):
            if word == INAPPROPRIATE and text[end:].strip(" \t\n*_`\"').]}>|"):
                return ""  # "Inappropriate: No, it is not": of what?
            word = APPROPRIATE if word == INAPPROPRIATE else INAPPROPRIATE
    elif _TAIL.match(text, end) is None:
        return ""
    comment = text[end : end + MOST_COMMENT]
    if is_long and behind is None and (other := SHORT.match(comment.lstrip(" .,;(!"))):
        rest = comment.lstrip(" .,;(!")
        if (other["yes"] is None) and _TAIL.match(rest, other.end()):
            return "" if word == APPROPRIATE else word
    start = _SECOND.match(comment)
    second = LONG.match(comment, start.end() if start else 0)
    is_other = second is not None and bool(second["no"]) != (word == INAPPROPRIATE)
    return "" if is_other or is_denied(word, comment) else word


def is_denied(word: str, comment: str) -> bool:
    """Return whether a clause of a comment ends in the other label: `otherwise inappropriate`."""
    return any(
        bool(other["no"]) != (word == INAPPROPRIATE)
        and _EXCUSED.search(comment[: other.start()]) is None
        for other in _ENDS.finditer(comment[:MOST_COMMENT])
    )


class Short(str):
    """A label that was given as yes or no, which a question of the other pole turns round."""


def plain_word(value: str) -> str:
    """Return the label of a plain value, marked where it was a yes or no."""
    word = read_word(value)
    return Short(word) if word and LONG.match(value) is None else word


def is_both(text: str) -> bool:
    """Return whether a text holds both labels."""
    return len({bool(found["no"]) for found in _ENDS.finditer(text[:MOST_COMMENT])}) > 1
