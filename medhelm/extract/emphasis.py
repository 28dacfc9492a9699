"""The options that a text sets in bold as its answer: a lettered one, an order, its last words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from medhelm.extract.late import late
from medhelm.extract.options import Options
from medhelm.extract.polarity import DENIED, NOT_CHOSEN, OTHER_ANSWER

_LETTERED = late(r"\*\*\(?([A-Z][.):,]\)?\s{0,3}[^*\n]{1,300})\*\*")
_ORDER = late(
    r"\*\*((?:add|give|start|begin|initiate|order|perform|obtain|administer|prescribe|request|insert)"
    r"\s(?:(?:an?|the|oral|iv|intravenous)\s){0,2}([^*\n]{2,300}))\*\*",
    re.IGNORECASE,
)
_RATING = late(r"[-+\u2212]?\d")
_SENTENCE_END = late(r"[.;!]\s|\n")
_AT_END = late(
    r"(?:[:=\u2013\u2014\u2192]|\s-|\b(?:is|so|hence|therefore|thus),?)\s{0,3}\*\*([^*\n]{1,300})\*\*[.!]?\s*$",
    re.IGNORECASE,
)


def emphasised(options: Options, text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the options in bold that a text states, each with its place."""
    for match in _LETTERED.finditer(text):
        is_inside = text[match.start() - 1 : match.start()] not in ("", "\n")
        if is_inside and options.is_own(match[1]):
            yield options.letter_at(match[1]), match
    found = [(options.whole(m[1]) or options.whole(m[2]), m) for m in _ORDER.finditer(text)]
    orders = [(letter, match) for letter, match in found if letter in options.own]
    if len({letter for letter, _ in orders}) == 1 and _is_said(options, orders[-1][1]):
        yield orders[-1]
    end = _AT_END.search(text, max(0, len(text) - 500))
    is_rating = all(_RATING.fullmatch(text) for text in options.texts)
    if end is not None and (is_rating or _is_said(options, end)):
        letter = options.read(end[1])
        yield (letter if letter in options.own else ""), end


def _is_said(options: Options, bold: re.Match[str]) -> bool:
    """Return whether the sentence around bold words chooses them: no denial, no other answer."""
    text = bold.string
    before = options.blanked(
        _SENTENCE_END.split(text[max(0, bold.start() - 200) : bold.start()])[-1]
    )
    behind = options.blanked(_SENTENCE_END.split(text[bold.end() : bold.end() + 80])[0])
    is_other = NOT_CHOSEN.search(before) or OTHER_ANSWER.search(before + " ")
    return not (is_other or DENIED.search(behind) or "?" in behind)
