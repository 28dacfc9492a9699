"""Replies to options under other labels: each label that is one becomes its letter, to be read as such.

A number is a label only where it is set off as labels are (`2.`, `(2)`, `Answer: 2`, `option 2 is`):
neither in `2 mg` nor in `type 2 diabetes`. Letters, which no option has, become unreadable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase

from medhelm.extract.languages import words
from medhelm.extract.late import late
from medhelm.extract.marks import fold, unify

NO_LABEL = "\u25a1"
"""The sign in place of a letter where a label is expected."""
_SPAN = 40
_BEFORE = late(
    r"(?:^|[\n:;,.!?|=<>(\[{\"'*_`#\u2013\u2014\u3001\u3002\uff0c-]|[^\x00-\u024f]"
    rf"|{words('option')}|{words('answer')}|{words('right')}|{words('copula')}|{words('choose')}"
    rf"|{words('negation')}|{words('article')}"
    r"|\b(?:and|or|but|so|both|that|is|it[\u2019']s|be|pick|number|label|choice|option|choose|select|with|than|not))"
    r"[ \t*_`\"'(\[{$]{0,6}$",
    re.IGNORECASE,
)
_AFTER = late(
    r"[ \t]{0,3}(?:$|\n|[)\]}:;!?|*_`\"'<>(=\u2013\u2014\u3001\u3002\uff0c%-](?!\d)|[.,](?!\d)|[^\x00-\u024f])"
    rf"|[ \t]{{1,3}}(?:{words('copula')}|{words('tail')}|{words('because')}"
    r"|(?:and|or|is|are|because|since|as|which|but|best|seems|fits)\b)",
    re.IGNORECASE,
)
_QUANTITY = late(r"[ \t]?%")
_BRACKET = late(r"[(\[][ \t]{0,2}$")
_OPENED = late(
    rf"(?:^|[\n:.*]|{words('answer')}|{words('option')}|{words('copula')})[ \t*_]{{0,4}}$", re.I
)
_PRONOUN = late(r"[ \t]+(?!(?:is|and|or)\b)[\w'(]|,[ \t]|['\u2019]")
_LETTER = r"(?<![\w'\u2019])[A-Za-z](?![\w'\u2019])"


def with_letters(text: str, choices: Sequence[str], labels: Sequence[str]) -> str:
    """Return a reply in which the labels of the options are the letters A, B, C, ... of the same places."""
    text = unify(text)
    letters = dict(zip(labels, ascii_uppercase, strict=False))
    options = [fold(unify(choice)) for choice in choices]
    if fold(text).strip(" .\n") in options:
        return _without_capitals(text)

    def read(match: re.Match[str]) -> str:
        token, before = match[0], text[max(0, match.start() - _SPAN) : match.start()]
        before = before if match.start() <= _SPAN else f"\x00{before}"
        after = text[match.end() : match.end() + _SPAN]
        letter = letters.get(token, NO_LABEL)
        if letter == NO_LABEL and token.isalpha() and len(token) > 1:
            return token
        own = options[ascii_uppercase.index(letter)] if letter != NO_LABEL else ""
        is_led = own and fold(after).lstrip().startswith(own)
        if _is_label(token, before, after, own) or (is_led and _BEFORE.search(before)):
            return letter if not token.islower() or not token.isalpha() else token
        return token.lower() if len(token) == 1 else token

    return _labels(tuple(labels)).sub(read, text)


def _is_label(token: str, before: str, after: str, own: str) -> bool:
    if not _BEFORE.search(before) or not _AFTER.match(after) or _QUANTITY.match(after):
        return False
    if token == "I" and _PRONOUN.match(after):
        led = before.rstrip(" *_(\"'")[-1:]
        if not (after.startswith(",") and (led.isalnum() or led == ":")):
            return False
    if opened := _BRACKET.search(before):
        lead = before[: opened.start()]
        return bool(_OPENED.search(lead)) or bool(own and fold(lead).rstrip(" *_").endswith(own))
    return True


def _without_capitals(text: str) -> str:
    return re.sub(_LETTER, lambda match: match[0].lower(), text)


@lru_cache(maxsize=64)
def _labels(labels: tuple[str, ...]) -> re.Pattern[str]:
    known = any_of_labels(labels)
    return late(rf"(?<![A-Za-z0-9.,/\u2019'-])(?:{known})(?![A-Za-z0-9/\u2019'])|{_LETTER}")


def any_of_labels(labels: Sequence[str]) -> str:
    """Return a pattern of labels, the longest first."""
    return "|".join(sorted(map(re.escape, labels), key=lambda label: (-len(label), label)))
