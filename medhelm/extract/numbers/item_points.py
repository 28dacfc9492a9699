"""Find the points of a score that a text gives finding by finding without ever adding them up."""

from __future__ import annotations

import re

from medhelm.extract.late import late
from medhelm.extract.numbers.asked import Asked
from medhelm.extract.numbers.words import GENERAL_NAMES

_MOST = 3
"""Points of one finding."""
_POINTS = late(
    r"(?<![\w.,/+-])(?P<plus>\+)?(?P<n>\d{1,2}|one|two|three)(?![\w/%]|[.,]\d|\s?[<>=])",
    re.IGNORECASE,
)
_IN_WORDS = {"one": 1, "two": 2, "three": 3}
_FOR = late(
    r"\s?(?:points?\s)?(?:for|due\sto|because\sof|from)\s(?:an?\s|the\s)?([a-z][\w/-]*)", re.I
)
_PLUS_OF = late(r"\s([a-z][\w/-]*)", re.IGNORECASE)
_BEFORE = late(
    r"([a-z][\w/-]*)\s?(?:[:=(\u2013\u2014-]\s?|\s(?:gives|adds|gets|counts)\s)?\(?$", re.IGNORECASE
)
_ENDED = late(r"\)?\s?(?:[,;.+|\n]|points?\b|$)", re.IGNORECASE)
_NO_FINDING = frozenset(
    word
    for line in (
        "a an and are at be by class equals final get gets give gives giving grade has have index is",
        "it just make makes of only or overall receives result score scores so stage sum than the",
        "therefore thus to total totals was with answer",
    )
    for word in line.split()
)
"""Words that are not a finding, beside the general names of a result."""


def gives_points_one_by_one(text: str, value: float, asked: Asked) -> bool:
    """Return whether a value is in a text only as the points of single findings, two or more."""
    findings: set[str] = set()
    for match in _POINTS.finditer(text) if 0 < value <= _MOST else ():
        size = match["n"].lower()
        if _IN_WORDS.get(size) != value and size != f"{value:g}":
            continue
        finding = _finding(text, match)
        if not finding or finding in _NO_FINDING | GENERAL_NAMES or asked.is_named(finding):
            return False
        findings.add(finding)
    return len(findings) > 1


def _finding(text: str, match: re.Match[str]) -> str:
    """Return the word for which points are given; empty where there is none beside them."""
    named = _FOR.match(text, match.end())
    if named is None and match["plus"]:
        named = _PLUS_OF.match(text, match.end())
    if named is None and _ENDED.match(text, match.end()):
        named = _BEFORE.search(text, max(0, match.start() - 60), match.start())
    return named[1].lower() if named else ""
