"""The units of clinical numbers and how completions spell them: data only.

A unit is added by one entry. The first spelling that fits counts, so that a compound unit comes
before its parts. Spellings are patterns of a text that `notation.plain` has written plainly.
"""

from __future__ import annotations

from collections.abc import Mapping

from medhelm.extract.late import Lower

_PER = r"\s?(?:/|per\b|an?\b|each\b|every\b|over\b|in\b)\s?(?:the\s|an?\s|one\s)?"
_OF = r"(?:\s(?:of\s)?(?!per|each|every)[a-z]{2,12}){0,3}?"
_HOUR = _PER + r"h(?:(?:ou)?rs?)?"
_DAY = (
    _PER + r"(?:24[\s-]?h(?:(?:ou)?rs?)?|d(?:ays?)?|(?:first|next)\s(?:day|24\sh(?:(?:ou)?rs?)?))"
)
_MIN = _PER + r"min(?:ute)?s?"
_ML = r"(?:mls?|cc|millilit(?:er|re)s?)"
_LITRE = r"(?:l|lit(?:er|re)s?)"
_MG = r"(?:mgs?|milligrams?)"
_DOSE = (
    _PER
    + r"(?:dose|\d{1,2}(?:-\d{1,2})?\s?h(?:(?:ou)?rs?)?\b|\d{0,2}\s?hourly|tablet|patch)|\s?q\.?\s?\d{1,2}\s?h"
)
_SQUARE = r"\s?(?:\^\s?)?2"

UNITS: Mapping[str, str] = {
    "%": r"%|percent\b|pct\b",
    "MME": r"(?:(?:oral\s)?(?:m?mg\s)?(?:oral\s)?(?:of\s)?(?:oral\s)?(?:morphine(?:\smilligram|\smg)?(?:\sequivalents?)|mmes?|omes?|omeqs?|meds?\b))",
    "mL/min": rf"{_ML}\s?/\s?min(?:ute)?|{_ML}\sper\smin(?:ute)?",
    "mL/kg": rf"{_ML}{_PER}(?:kg|kilo(?:gram)?)",
    "mL/h": rf"{_ML}{_OF}{_HOUR}",
    "mL/day": rf"{_ML}{_OF}{_DAY}",
    "L/day": rf"{_LITRE}{_OF}{_DAY}",
    "L/h": rf"{_LITRE}{_OF}{_HOUR}",
    "mL": _ML,
    "mEq/L": r"(?:meqs?|mmols?|milliequivalents?|millimoles?)\s?(?:/|per\s)\s?(?:l|lit(?:er|re))",
    "mEq": r"(?:meq|mmol)s?",
    "mOsm": r"m?osm(?:ol(?:es?)?)?s?(?:\s?(?:/|per\s)\s?(?:kg|l|lit(?:er|re)))?",
    "\u00b5mol/L": r"(?:\u00b5|\u03bc|u|micro)mol\s?(?:/|per\s)\s?l",
    "mg/dL": r"(?:mgs?|milligrams?)\s?(?:/|per\s|%)\s?(?:dl|100\s?ml|decilit(?:er|re))|mg\s?%",
    "g/dL": r"(?:g|gm|grams?)\s?(?:/|per\s)\s?(?:dl|decilit(?:er|re))",
    "g/L": r"(?:g|gm|grams?)\s?(?:/|per\s)\s?l",
    "mg/m2": rf"{_MG}\s?/\s?m{_SQUARE}",
    "mg/kg": rf"(?:{_MG}|mcg|g|units?){_PER}kg",
    "mg/h": rf"(?:{_MG}|mcg|units?){_HOUR}",
    "mg/dose": rf"(?:{_MG}|mcg|g){_OF}(?:{_DOSE})",
    "mg": _MG,
    "\u00b5g": r"(?:mcg|\u00b5g|\u03bcg|micrograms?)",
    "kg/m2": r"kgs?\s?(?:/|per\s|\.|\u00b7)\s?\(?(?:m|sq)(?:\s?\^?\s?2|\^-2|et(?:er|re)s?\ssquared|\s?squared|uare)?|kg\sm\^?-2",
    "kg": r"kgs?|kilos?|kilograms?",
    "g": r"g|gm|grams?",
    "lb": r"lbs?|pounds?",
    "m2": rf"m{_SQUARE}|sq(?:uare|\.)?\s?m(?:et(?:er|re)s?)?|met(?:er|re)s?\ssquared|m\ssquared",
    "mm Hg": r"mm\s?hg|torr|millimet(?:er|re)s?\sof\smercury",
    "cm": r"cm|centimet(?:er|re)s?",
    "mm": r"mm",
    "ms": r"ms|msecs?|milliseconds?|\u6beb\u79d2",
    "bpm": rf"bpm|beats?{_MIN}|/\s?min|breaths?{_MIN}",
    "s": r"s|secs?|seconds?",
    "L": _LITRE,
    "ft": r"ft|feet|foot",
    "in": r"inch(?:es)?|in\b(?=[.,;)]|$)",
    "m": r"m|met(?:er|re)s?",
    "h": r"h|hrs?|hours?",
    "min": r"mins?|minutes?",
    "day": r"days?",
    "week": r"weeks?|wks?",
    "month": r"months?",
    "year": r"years?|yrs?|y/?o",
    "mU/L": r"(?:[\u00b5\u03bcmu]?i?u|units?)\s?/\s?m?l",
    "cells": r"(?:\u00d7|x)\s?10\^?\d|(?:cells\s?)?/\s?(?:\u00b5|\u03bc|u|m)m?l|k/(?:\u00b5|u)l",
    "\u00b0C": r"\u00b0\s?[cf]|deg(?:rees)?\b",
    "point": r"points?|pts?",
}
_SPELLED = Lower(
    r"\s{0,2}[-(\[]?\s?(?:"
    + "|".join(f"(?:{spelling})(?P<u{i}>)" for i, spelling in enumerate(UNITS.values()))
    + r")(?![\w\u00b0])"
)
_SIGNS = "%/\u00d7\u00b0"
"""The signs with which a unit may begin, beside letters."""
_NAMES = tuple(UNITS)
SAME: Mapping[str, tuple[str, ...]] = {
    "MME": ("mg",),
    "mg": ("MME",),
    "mEq/L": ("mEq",),
    "mOsm": ("mEq/L",),
}
"""The units in which completions give another one, without a factor between them."""
RATES: Mapping[tuple[str, str], str] = {
    ("mL", "hourly"): "mL/h",
    ("L", "hourly"): "L/h",
    ("mL", "daily"): "mL/day",
    ("L", "daily"): "L/day",
}
"""The rates of which a word beside the amount gives the time."""


def unit_at(text: str, at: int) -> tuple[str, int]:
    """Return the unit that follows a place of a plain text, "" where none is known, and its end."""
    lead = "".join(text[at : at + 4].split()).lstrip("-([")[:1]
    found = _SPELLED.match(text, at) if lead.isalnum() or lead in _SIGNS else None
    if found is None or found.lastgroup is None:
        return "", at
    return _NAMES[int(found.lastgroup[1:])], found.end()
