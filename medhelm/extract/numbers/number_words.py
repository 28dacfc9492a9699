"""Numbers in words that cannot be anything else -> digits."""

from __future__ import annotations

import re

from medhelm.extract.late import late

TO_TWENTY = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)
_TENS = ("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SIZE = {word: size for size, word in enumerate(TO_TWENTY)}
_SIZE |= {word: size for size, word in zip(range(30, 100, 10), _TENS, strict=True)}
_DIGIT = "|".join(TO_TWENTY[:10])
_BELOW = rf"(?:(?:twenty|{'|'.join(_TENS)})(?:[- ](?:{'|'.join(TO_TWENTY[1:10])}))?|{'|'.join(reversed(TO_TWENTY[:20]))})"
_WHOLE = rf"(?:(?:(?:{'|'.join(TO_TWENTY[1:10])})\shundred(?:\s(?:and\s)?{_BELOW})?)|{_BELOW})"
_POINT = late(
    rf"\b(?P<whole>{_WHOLE})\spoint\s(?P<digits>(?:{_DIGIT})(?:[\s-](?:{_DIGIT})){{0,5}})\b",
    re.IGNORECASE,
)
_BESIDE = late(
    rf"\b(?P<minus>(?:minus|negative)\s)?(?P<whole>{_WHOLE})(?P<half>\sand\sa\shalf)?"
    r"(?P<points>\spoints?)?\s\((?P<digits>[-\u2212]?\d{1,3}(?:\.\d+)?)\)",
    re.IGNORECASE,
)
"""A number in words before its digits in brackets."""
_PARTS = {"half": ".5", "quarter": ".25", "third": ".333"}
_PART = late(
    r"(?P<lead>(?:[=\u2248:]|\b(?:is|equals|about|exactly|was|to|of))\s)(?:one|a)[- ]"
    r"(?P<part>half|quarter|third)(?=\s{0,3}(?:[.,;!)*]|$))",
    re.IGNORECASE | re.MULTILINE,
)


def in_digits(text: str) -> str:
    """Return `text` with `ten point six`, `eleven (11)` and `is one half.` in digits."""
    if "point" in text:
        text = _POINT.sub(lambda m: _decimal(m), text)
    if "(" in text:
        text = _BESIDE.sub(_beside, text)
    return _PART.sub(lambda m: f"{m['lead']}0{_PARTS[m['part'].lower()]}", text)


def _beside(match: re.Match[str]) -> str:
    """Return the digits of a number that is also written in words, all of it if they differ."""
    said = _whole(match["whole"]) + (0.5 if match["half"] else 0)
    digits = match["digits"].replace("\u2212", "-")
    is_same = float(digits) == (-said if match["minus"] else said)
    return f"{digits}{match['points'] or ''}" if is_same else match[0]


def _decimal(match: re.Match[str]) -> str:
    digits = re.split(r"[\s-]", match["digits"].lower())
    return f"{_whole(match['whole'])}.{''.join(str(_SIZE[digit]) for digit in digits)}"


def _whole(words: str) -> int:
    size = 0
    for word in re.split(r"[\s-]", words.lower()):
        size = size * 100 if word == "hundred" else size + _SIZE.get(word, 0)
    return size
