"""Dates and durations in a sentence."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from medhelm.extract.late import late
from medhelm.extract.numbers.numerals import bound
from medhelm.extract.numbers.value_types import Value, ValueKind

T = TypeVar("T")

_MOST = 500
"""Values of one sentence that are read."""
_MONTHS = "january february march april may june july august september october november december"
_MONTH_OF = {m[:n]: i for i, m in enumerate(_MONTHS.split(), 1) for n in (3, 4, len(m))}
_MONTHS_ABROAD = (
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "januar februar m\u00e4rz april mai juni juli august september oktober november dezember",
    "janvier f\u00e9vrier mars avril mai juin juillet ao\u00fbt septembre octobre novembre d\u00e9cembre",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "janeiro fevereiro mar\u00e7o abril maio junho julho agosto setembro outubro novembro dezembro",
)
_MONTH_OF |= {m: i for months in _MONTHS_ABROAD for i, m in enumerate(months.split(), 1)}
_DATE = late(
    r"(?<![\d/.-])(?:(?P<m>\d{1,2})(?P<sep>[/-])(?P<d>\d{1,2})(?P=sep)(?P<y>\d{4})"
    r"|(?P<td>\d{1,2})\.(?P<tm>\d{1,2})\.(?P<ty>\d{4})"
    r"|(?P<iy>\d{4})-(?P<im>\d{1,2})-(?P<id>\d{1,2})"
    r"|(?P<wd>\d{1,2})(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?(?P<wm>[^\W\d_]{3,10})\.?,?\s(?:del?\s)?(?P<wy>\d{4}))"
    r"(?![\d/]|-\d)"
    r"|\b(?P<nm>[A-Za-z]{3,9})\.?\s{1,2}(?P<nd>\d{1,2})(?:st|nd|rd|th)?,?\s{1,2}(?P<ny>\d{4})\b"
)
_WEEKS_DAYS = late(
    r"(?<![\d.])(?P<w>\d{1,3})\s{0,3}(?:weeks?|wks?|w|semaines?|SA|semanas?|settimane|wochen|SSW)(?![a-z])(?:\s(?:pregnant|gestation))?"
    r"[\s,&+\"']{0,5}(?:(?:and|plus|et|und|y|e)\s{1,3})?[\"']?"
    r"(?P<d>\d{1,3}|one|two|three|four|five|six)\s{0,3}(?:days?|d|jours?|j|d[ií]as?|giorni|tage?)(?![a-z])"
    r"|(?<![\d.])(?P<fw>\d{1,2})\s{0,2}(?:\+\s{0,2}|\s)(?P<fd>[0-6])/7\s{0,3}(?:weeks?|wks?|w)\b"
    r"|(?<![\d.])(?P<pw>\d{1,2})\s{0,2}\+\s{0,2}(?P<pd>[0-6])\s{0,3}(?:weeks?|wks?|w)\b"
    r"|(?<![\w.+*/\u00d7-])(?<![+*/\u00d7-]\s)(?P<bw>[1-4]\d|[4-9])\+(?P<bd>[0-6])"
    r"(?!\d|\.\d|/|\s{0,2}(?:[-+*/=\u2248\u00d7\u2192]|days?\b))"
    r"|(?:(?<=[\u2192=:]\s)|(?<=\bis\s))\((?P<qw>[1-4]?\d),\s{0,3}(?P<qd>[0-6])\)",
    re.IGNORECASE,
)
_ONLY_WEEKS = late(r"\W{0,9}(\d{1,3})\s{0,3}(?:weeks?|wks?)\W{0,9}", re.IGNORECASE)
_PAIR = late(r"\W{0,5}\([\"']?(\d{1,3})[\"']?,\s{0,3}[\"']?(\d{1,3})[\"']?\)\W{0,5}")
_DAYS_IN_WORDS = ("", "one", "two", "three", "four", "five", "six")
_ADDED = late(r"\s?[-+\u2212]\s?\(?\d")

_COUNTED_FROM = late(r"\b(?:days?|weeks?|months?)\s(?:after|from|before|past|to)\s$", re.IGNORECASE)


def _find_dates(text: str) -> list[Value[datetime.date]]:
    found = []
    for match in islice(_DATE.finditer(text), _MOST):
        if not _names_month(match):
            continue
        date, reason = _to_date(match)
        before = text[max(0, match.start() - 90) : match.start()]
        is_operand = _COUNTED_FROM.search(before) is not None
        is_operand |= _ADDED.match(text, match.end()) is not None
        found.append(_bounded(Value(match.start(), match.end(), date, reason, is_operand), text))
    return found


def _bounded(value: Value[T], text: str) -> Value[T]:
    """Return a value, without what it is where it is only a bound."""
    limit = bound(text, value.start, value.end)
    return replace(value, value=None, reason=limit) if limit else value


def _names_month(match: re.Match[str]) -> bool:
    name = match["wm"] or match["nm"]
    return name is None or name.lower() in _MONTH_OF


def _to_date(match: re.Match[str]) -> tuple[datetime.date | None, str]:
    """Return the date that is written, else why there is none; with points the day comes first."""
    year = match["y"] or match["iy"] or match["wy"] or match["ny"] or match["ty"]
    name = match["wm"] or match["nm"]
    month = _MONTH_OF[name.lower()] if name else int(match["m"] or match["im"] or match["tm"])
    day = match["d"] or match["id"] or match["wd"] or match["nd"] or match["td"]
    if match["td"] and month != int(day) <= 12 and month <= 12:
        return None, "a date that may begin with the month or with the day"
    if match["td"] and month > 12:
        month, day = int(day), str(month)
    try:
        return datetime.date(int(year), month, int(day)), ""
    except ValueError:
        return None, "a date that does not exist"


def _whole(number: str) -> int:
    return int(number) if number.isdigit() else _DAYS_IN_WORDS.index(number.lower())


def _find_durations(text: str) -> list[Value[tuple[int, int]]]:
    whole = _ONLY_WEEKS.fullmatch(text) or _PAIR.fullmatch(text)
    if whole:
        pair = (int(whole[1]), int(whole[2]) if whole.lastindex == 2 else 0)
        return [Value(whole.start(1), whole.end(), pair)]
    found = []
    for match in islice(_WEEKS_DAYS.finditer(text), _MOST):
        weeks, days = (_whole(group) for group in match.groups() if group is not None)
        found.append(_bounded(Value(match.start(), match.end(), (weeks, days)), text))
    return found


DATE: ValueKind[datetime.date] = ValueKind(
    noun="date",
    find=_find_dates,
    merge=lambda a, b: a if a == b else None,
    same=lambda date: date,
    show=lambda date: f"{date:%m/%d/%Y}",
    cut=late(r"\d{4}-\d{1,2}-\d$"),
)
DURATION: ValueKind[tuple[int, int]] = ValueKind(
    noun="number of weeks and days",
    find=_find_durations,
    merge=lambda a, b: a if 7 * a[0] + a[1] == 7 * b[0] + b[1] else None,
    same=lambda pair: 7 * pair[0] + pair[1],
    show=lambda pair: f"{pair[0]} weeks {pair[1]} days",
    cut=late(r"\d{1,3}\s{0,3}(?:weeks?|wks?|w)\W{0,6}(?:and?\s?)?\d{0,3}$", re.IGNORECASE),
)
