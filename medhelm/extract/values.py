"""Completion text -> a number, a date or a duration, or None. Nothing is guessed.

What is marked as final (see `answer_marks`) counts before what is not; several different values
that are not marked are no answer.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from medhelm.extract.marks import last_mark, unify, visible_text

T = TypeVar("T")

_LONGEST = 2_000
"""Characters of a one-line completion that is read like a marked answer."""
_MOST = 500
"""Repetitions of one unmarked value, beyond which a completion states nothing."""

_RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a"
_LOWERED = str.maketrans(_RAISED, "0123456789-+")
_POWER_OF_TEN = re.compile(rf"(?<=10)[{_RAISED}]{{1,4}}")
_PLAIN = {0xFF10 + d: str(d) for d in range(10)}
_PLAIN |= {0xFF0E: ".", 0xFF0C: ",", 0xFF0D: "-", 0x2212: "-", 0x2010: "-", 0x2011: "-"}
_PLAIN |= {0x00A0: " ", 0x202F: " ", 0x2009: " "}
_UNUSUAL = re.compile(f"[{re.escape(''.join(map(chr, _PLAIN)))}]+")
_BODY_SURFACE = re.compile(r"(?:/|\bper\b)\s{0,3}1\.73\s{0,3}m", re.IGNORECASE)
_OUT_OF = re.compile(r"(?<=\w)\s{1,3}(?:out\s{1,3})?of\s{1,3}\d+")
_ASIDE = re.compile(r"\([^()]{0,500}\)|\[[^\[\]]{0,500}\]")

_NUMERAL = re.compile(
    r"(?<![\w^])((?<![\w)\]])[-+](?=[\d.]))?(\.?\d(?:[\d.,:/]*\d)?)"
    r"(?:[eE]([-+]?\d{1,3})(?![\w.])"
    r"|\s?(?:[xX\u00d7]|\\times|\\cdot)\s?10\s?\^\s?\{?([-+]?\d{1,3})\}?)?"
)
_WRITTEN = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+")
_PART_OF_WORD = re.compile(r"-[A-Za-z]|(?:st|nd|rd|th)\b")
_BOUND = re.compile(r"(?:[<>\u2264\u2265]|\\[lg]eq?)\s{0,2}$")
_EQUALS = re.compile(r"[=\u2248\u2243]|\\approx|\\simeq")
_APPROXIMATELY = re.compile(
    r"(?:[^\w.+-]|-(?![\d.])|\\(?:text|mathrm|mathbf|f?boxed)\s?\{"
    r"|(?:approximately|approx|about|around|roughly|is|exactly|equals|score|value|of)\b\.?)*",
    re.IGNORECASE,
)
_HEAD_END = re.compile(
    r"[(\[]|[,;]\s(?=[A-Za-z])(?!(?:plus|and|or|to)\b)|\.\s(?=[A-Za-z])", re.IGNORECASE
)
_ANSWER_IS = re.compile(
    r"\b(?:answer|result)\s{1,9}(?:is|would\s{1,9}be)\b\s{0,9}:?\s{0,9}", re.IGNORECASE
)
_BARE_LINE = re.compile(r"(?!\W{0,9}\d+[.)]\s)[^\w\n.+-]{0,9}[-+]?\.?\d[\d.,]*\s{0,3}[^\d\n]{0,20}")

_MONTHS = "january february march april may june july august september october november december"
_MONTH_OF = {m[:n]: i for i, m in enumerate(_MONTHS.split(), 1) for n in (3, 4, len(m))}
_DATE = re.compile(
    r"(?<![\d/.-])(?:(?P<m>\d{1,2})(?P<sep>[/-])(?P<d>\d{1,2})(?P=sep)(?P<y>\d{4})"
    r"|(?P<iy>\d{4})-(?P<im>\d{1,2})-(?P<id>\d{1,2})"
    r"|(?P<wd>\d{1,2})(?:st|nd|rd|th)?\s(?:of\s)?(?P<wm>[A-Za-z]{3,9})\.?,?\s(?P<wy>\d{4}))"
    r"(?![\d/]|-\d)"
    r"|\b(?P<nm>[A-Za-z]{3,9})\.?\s{1,2}(?P<nd>\d{1,2})(?:st|nd|rd|th)?,?\s{1,2}(?P<ny>\d{4})\b"
)
_WEEKS_DAYS = re.compile(
    r"(?<![\d.])(?P<w>\d{1,3})\s{0,3}(?:weeks?|wks?|w)(?![a-z])[\s,&+\"']{0,5}(?:and\s{1,3})?[\"']?"
    r"(?P<d>\d{1,3})\s{0,3}(?:days?|d)(?![a-z])"
    r"|(?<![\d.])(?P<fw>\d{1,2})\s{0,2}(?:\+\s{0,2}|\s)(?P<fd>[0-6])/7\s{0,3}(?:weeks?|wks?|w)\b"
    r"|(?<![\d.])(?P<pw>\d{1,2})\s{0,2}\+\s{0,2}(?P<pd>[0-6])\s{0,3}(?:weeks?|wks?|w)\b",
    re.IGNORECASE,
)
_ONLY_WEEKS = re.compile(r"\W{0,9}(\d{1,3})\s{0,3}(?:weeks?|wks?)\W{0,9}", re.IGNORECASE)
_PAIR = re.compile(r"\W{0,5}\([\"']?(\d{1,3})[\"']?,\s{0,3}[\"']?(\d{1,3})[\"']?\)\W{0,5}")


def extract_number(text: str) -> float | None:
    """Return the number that a completion states, or None.

    Read are a sign, thousands commas, `1.2e3` and `1.2 x 10^3`; units, a percent sign (`12 %` is
    12) and `out of 15` may follow, and of `70 / 1.75 = 40` the result counts. Not read, since they
    have two meanings: fractions and ratios (`3/4`), decimal commas (`12,5`), bounds (`> 60`),
    ranges, numbers in words.
    """
    visible = _normalise(visible_text(text))
    mark = last_mark(visible)
    if mark is not None:
        if _numbers(mark.value):
            return _number_of(mark.value)
        visible = visible[mark.start :]
    ends = deque((match.end() for match in _ANSWER_IS.finditer(visible)), maxlen=50)
    if stated := [value for at in ends if _numbers(value := _sentence(visible, at))]:
        return _single(map(_number_of, stated))
    lines = visible.splitlines() or [""]
    if len(lines) == 1 and len(visible) <= _LONGEST:
        return _number_of(visible)
    if bare := [line for line in (lines[0], lines[-1]) if _BARE_LINE.fullmatch(line)]:
        return _single(map(_number_of, bare))
    return _single(value for _, value in _numerals(visible))


def extract_date(text: str) -> datetime.date | None:
    """Return the date that a completion states, or None.

    M/D/Y with or without zeros (also with hyphens), Y-M-D, and an English month name; the year
    has four digits. D/M/Y is not read.
    """
    return _marked_or_single(text, _dates)


def extract_weeks_days(text: str) -> tuple[int, int] | None:
    """Return the (weeks, days) that a completion states, or None.

    `(14 weeks, 1 day)`, quoted or not, `14 weeks and 1 day`, `14w1d`, `14 1/7 weeks`; where it is
    the whole answer also `14 weeks` and `(14, 1)`.
    """
    return _marked_or_single(text, _durations)


def _normalise(text: str) -> str:
    """Return `text` with plain digits, minus signs and powers, without marks of emphasis."""
    text = text.replace("*", "").replace("`", "")
    if not text.isascii():
        text = _UNUSUAL.sub(lambda match: match[0].translate(_PLAIN), text)
        text = _POWER_OF_TEN.sub(lambda match: "^" + match[0].translate(_LOWERED), text)
    if "1.73" in text:
        text = _BODY_SURFACE.sub("/m", text)
    return _OUT_OF.sub("", text) if "of" in text else text


def _sentence(text: str, start: int) -> str:
    """Return the rest of the line, as far as a stated value can reach."""
    end = text.find("\n", start, start + 300)
    return text[start : end if end >= 0 else start + 300]


def _single(values: Iterable[T | None]) -> T | None:
    """Return the one value that all agree on; an unreadable one (None) agrees with nothing."""
    found = None
    for i, value in enumerate(values):
        if value is None or i == _MOST or (found is not None and value != found):
            return None
        found = value
    return found


def _numerals(text: str) -> Iterator[tuple[int, float | None]]:
    """Yield where each number begins, and what it is; None for what can be read in two ways.

    Digits inside names (CURB-65), units (/100 mL) and compounds (45-year-old) are no numbers.
    """
    for match in _NUMERAL.finditer(text):
        before = text[max(0, match.start() - 8) : match.start()]
        is_in_name = before[-1:] == "-" and before[-2:-1].isalpha()
        is_in_unit = before[-1:] == "/" and not before[-2:-1].isdigit()
        if is_in_name or is_in_unit or _PART_OF_WORD.match(text, match.end()):
            continue
        sign, digits, power, ten = match.groups()
        value = None
        if _WRITTEN.fullmatch(digits) and not _BOUND.search(before):
            exponent = power or ten or "0"
            value = float(f"{sign or ''}{digits.replace(',', '')}e{exponent}")
        yield match.start(), value if value is not None and math.isfinite(value) else None


def _numbers(text: str) -> list[float | None]:
    return [value for _, value in _numerals(text)]


def _number_of(value: str) -> float | None:
    """Return the number that a marked value, or a whole one-line completion, comes down to."""
    results = [part for part in _EQUALS.split(value) if _numbers(part)]
    if not results:
        return None
    result = results[-1]
    lead = _APPROXIMATELY.match(result)
    start, _ = next(_numerals(result))
    if lead is None or lead.end() < start:
        return _single(_numbers(_ASIDE.sub(" ", result)) or _numbers(result))
    end = _HEAD_END.search(result, start)
    return _single(_numbers(result[: end.start() if end else None]))


def _dates(text: str) -> list[datetime.date | None]:
    matches = islice(_DATE.finditer(text), _MOST + 1)
    return [_to_date(match) for match in matches if _names_month(match)]


def _names_month(match: re.Match[str]) -> bool:
    name = match["wm"] or match["nm"]
    return name is None or name.lower() in _MONTH_OF


def _to_date(match: re.Match[str]) -> datetime.date | None:
    year = match["y"] or match["iy"] or match["wy"] or match["ny"]
    name = match["wm"] or match["nm"]
    month = _MONTH_OF[name.lower()] if name else int(match["m"] or match["im"])
    day = match["d"] or match["id"] or match["wd"] or match["nd"]
    try:
        return datetime.date(int(year), month, int(day))
    except ValueError:
        return None


def _durations(text: str) -> list[tuple[int, int] | None]:
    whole = _ONLY_WEEKS.fullmatch(text) or _PAIR.fullmatch(text)
    if whole:
        return [(int(whole[1]), int(whole[2]) if whole.re is _PAIR else 0)]
    groups = (match.groups() for match in islice(_WEEKS_DAYS.finditer(text), _MOST + 1))
    pairs = ([int(g) for g in group if g is not None] for group in groups)
    return [(weeks, days) for weeks, days in pairs]


def _marked_or_single(text: str, find: Callable[[str], list[T | None]]) -> T | None:
    """Return the one value in what is marked as final, else in all of the text."""
    visible = unify(visible_text(text)).replace("*", "").replace("`", "")
    mark = last_mark(visible)
    if mark is not None:
        for value in (_ASIDE.sub(" ", mark.value), mark.value):
            if found := find(value):
                return _single(found)
        visible = visible[mark.start :]
    return _single(find(visible))
