"""Numbers in a sentence: which digits are one, of what sign, and which cannot be read.

Digits inside names (CURB-65), units (/100 mL), ages and compounds (45-year-old) are not numbers.
Bounds (`at least 60`) and ranges are found, and cannot be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from medhelm.extract.late import Lower, late
from medhelm.extract.numbers.value_types import Value, ValueKind

_MOST = 500
"""Values of one sentence that are read."""
TO_TWENTY = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)
_NUMERAL = late(
    r"(?P<digits>\.?\d(?<![\w^]\d)(?<!\^[-+]\d)(?<!\d\.\d)(?<!\w\.\d)(?:[\d.,:/]*\d)?)"
    r"(?:[eE](?P<power>[-+]?\d{1,3})(?!\w|\.\d)"
    r"|\s{0,2}[xX\u00d7*\u00b7]\s{0,2}10\s?\^\s?(?P<ten>[-+]?\d{1,3})(?!\d|\.\d)"
    r"|(?<=10)\^(?P<alone>[-+]?\d{1,3})(?!\d|\.\d))?"
)
_WORDS = "|".join(TO_TWENTY)
_HAS_WORD = Lower(rf"\b(?:{_WORDS})\b")
_IN_WORDS = Lower(
    r"(?:^\W{0,12}|[,;(]\s?|(?P<lead>[=\u2248:\u2192]\s?"
    r"|\b(?:is|was|are|be|equals?|totals|scores?|scored|earns?|gets?|has|have|meets?|fulfil+s|"
    r"satisf(?:y|ies|ied)|receives?|altogether|in total|(?:up|comes|came|amounts|equal) to|makes?|gives?|yields?|so|thus|"
    r"therefore|hence|only|just|exactly|with|(?<!not )all|at|answer|(?:total|score|sum) of)\s))"
    rf"(?:(?:therefore|thus|only|just|exactly)\s)?(?P<minus>(?:minus|negative)\s)?(?P<word>{_WORDS})\b(?![-\w])"
    r"(?P<rest>\s{1,2}(?:(?:out )?of (?:the )?(?:\w+ )?)?(?:[\w-]{1,15}\s){0,2}(?:points?|criteri(?:a|on))\b"
    rf"|\s(?:out )?of (?:the |an? )?(?:possible |maximum )?(?:\d{{1,3}}|{_WORDS})\W{{0,3}}$"
    r"|\s(?:is|are)\s(?:met|fulfilled|positive|present|satisfied)\b|\s(?:in (?:all|total)|altogether|all told)\b|\W{0,12}$|\s{0,2}[.,;:!(])"
)
"""A number in words where it can only be a result."""
_WRITTEN = late(r"(?!0\d*,)\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+")
_FRACTION = late(r"(\d+(?:\.5)?)/(\d+(?:\.5)?)")
_QUOTIENT = late(r"\d+(?:\.\d+)?/\d+(?:\.\d+)?")
_GOES_ON = late(
    r"[eE][-+]?\d|\s\d{1,2}/\d{1,2}(?!\d)|\sand\s(?:an?|one|two|three)[\s-](?:third|half|quarter|fifth)"
)
"""Matches a change of the number: a power that is not read, a fraction (93 1/3)."""
_CALENDAR = late(r"\d{1,4}/\d{1,2}/\d{1,4}")
_UNIT = late(r"\s{0,2}(%|percent\b|[^\W\d_][\w\u00b5%]{0,15}(?:[/\u00b7.^-]\w{1,12}){0,4})")
_NO_UNIT = frozenset(
    [
        "and",
        "or",
        "to",
        "is",
        "was",
        "for",
        "which",
        "with",
        "in",
        "of",
        "on",
        "at",
        "by",
        "as",
        "the",
        "a",
        "so",
        "if",
        "than",
        "plus",
        "minus",
    ]
)
_LAST_WORD = late(r"([A-Za-z]+)\.?\s{1,3}$")
_NAMES = frozenset(
    [
        "step",
        "stage",
        "grade",
        "type",
        "class",
        "table",
        "equation",
        "eq",
        "figure",
        "fig",
        "phase",
        "section",
        "part",
        "question",
        "option",
        "version",
        "criterion",
        "item",
        "no",
        "category",
        "group",
        "covid",
        "epi",
        "since",
        "year",
        "chapter",
        "article",
    ]
)
"""Words before a number that is part of a name."""
_COMPOUND = Lower(
    r"-[a-z]|\s?[\u5e74\ub144]|(?:st|nd|rd|th)\b|\s?years?[- ]old\b"
    r"|(?:(?<=\b19\d\d)|(?<=\b20\d\d))\s(?:version|edition|revision|update|guidelines?)\b"
)
_OUT_OF = Lower(
    r"\bout\sof(?:\s(?:a|the))?(?:\s(?:possible|maximum|total)(?:\s(?:score|points))?)?(?:\sof)?\s{1,3}$"
    r"|(?<![\w.-])\d{1,3}(?:\s(?:points?|criteria))?\s{1,3}of(?:\sthe|\sa\s(?:possible|total|maximum))?(?:\sof)?\s{1,3}$"
)
_OPERATOR_BEFORE = Lower(
    r"(?:[-+*\u00d7/^\u2013\u221a]|\b(?:plus|minus|times|divided by|multiplied by|sqrt|ln|log|exp))[\s(\[]{0,4}[-+]?$"
)
_OPERATOR_AFTER = Lower(
    r"[\s)\]]{0,3}[-+*\u00d7/^\u2013][\s(\[]{0,3}[-+]?[\d.]"
    r"|\s{0,2}[a-z\u00b5%][\w\u00b5%/^.]{0,15}[\s)\]]{1,3}[-+*\u00d7/\u2013]\s{0,3}[(\[]{0,3}\s?[\d.]"
    r"|[\s)\]]{0,3}(?:\s[a-z/\u00b5%^\d]{1,12})?\s(?:plus|minus|times|divided by|multiplied by)\s"
    r"|[\s)\]]{0,3}[*\u00d7/+]\s{0,2}(?:[(\[{]|sqrt|ln|log|exp|\u221a)"
    r"|[\s)\]]{0,3}[*\u00d7^]\s{0,2}[a-z\u0391-\u03c9]"
    r"|(?:(?<=\(\d)|(?<=\(\d\d)|(?<=\(\d\d\d))\s?[-+\u2013]\s?[a-z]"
)
_ABOUT = Lower(r"(?:[~\u2248]|\b(?:about|approx\w*\.?|around|roughly|rounded to))\s*$")
_LEADS_ON = Lower("\\s{0,2}(?:[=\u2248\u2192]|,\\s(?:about|approximately|roughly|i\\.e\\.)\\s)")
_LEADS_TO_SIGN = Lower(
    r"(?:[=\u2248:(]|\b(?:is|of|was|be|equals|to|approximately|about|answer|result|score|a|roughly|gives))\s*$"
)
_COUNTS = Lower(
    r"\b(?:scores?|rating|points|criteria|total|gcs|scale|tally)\b"
    r"|(?:\b(?:sirs|perc|curb-?65|crb-?65|cha2?ds2\S{0,6}|has-?bled|feverpain|centor|mcisaac|wells|caprini|"
    r"psi|rcri|cci|q?sofa|apache|gbs|blatchford|child-?pugh|charlson|glasgow|news2?|abcd2|heart)\b)(?:[^\d\n;,.]{0,25}|.*=\s?)$"
)
_CUT = late(
    r"(?<![\w^/.])[-+\u2013]?\.?\d[\d.,:/]{0,30}\s?(?:[-\u2013x\u00d7*\u00b7eE^+/]|\bto|\bor)?\s?(?:10)?\^?[-+]?$"
)
_SIGN = late(r"(?P<prev>[^\s])?(?P<space>\s*)(?P<sign>[-+\u2013\u2014])$")
_LOOSE_SIGN = Lower(
    r"(?:[=\u2248:(]|\b(?:is|of|was|be|equals|to|approximately|about|answer|result))\s{0,3}[-\u2013]\s{1,2}$"
)
_BOUND = Lower(
    r"(?P<sign>[<>\u2264\u2265])\s{0,3}=?\s{0,3}$"
    r"|(?<!add)(?<!adds)(?<!adding)(?<!sum)(?<!sums)(?<!total)(?<!totals)(?<!comes)"
    r"(?:^|[^\w])(?P<words>at least|at most|(?:less|more|greater|fewer|higher|lower|no more|no less|not more|"
    r"larger|smaller|older|younger|later|earlier|longer|shorter) than|up to|over|under|above|below|"
    r"exceed(?:s|ing)?|beyond|short of|(?:not |never )?(?:before|until|till|prior to)|not after|(?:a )?(?:minimum|maximum)(?: of)?|"
    r"within)(?:\s(?:or\s)?equal\sto)?\s{1,3}(?:approximately\s|about\s)?[(\"']{0,2}$"
)
_BOUND_ENDS = (
    *("<", ">", "\u2264", "\u2265", "=", "least", "most", "than", "to", "over", "under", "above"),
    *(
        "below",
        "exceed",
        "exceeds",
        "exceeding",
        "beyond",
        "of",
        "before",
        "until",
        "till",
        "after",
    ),
    *("minimum", "maximum", "within", "approximately", "about"),
)
"""The last word or sign of a bound, without which none is looked for."""
_OR_MORE = Lower(
    r"\+(?!\s{0,2}[\d(])|\s{0,2}[\w%/]{0,12}\s{1,2}or\s(?:more|higher|greater|above|less|lower|fewer|"
    r"below|over|older|under|later|earlier)\b|\s[\w%/]{1,12}\sat (?:most|least)\b"
)
_RANGE = Lower(
    r"\s{0,2}[\w%/^]{0,12}\s{0,2}(?:[-\u2013]|(?<!\s)\u2014|\bto\b|\u00b1|\+/-|\bthrough\b)\s{0,2}\.?\d"
)
_AND = late(r"\s{0,2}[\w%/^]{0,12}\s{1,2}and\s{1,2}(?:about\s)?[-+]?\.?\d")
_RESULT = Lower("[=\u2248]|\\b(?:leaves|gives|makes|equals|yields|comes to|works out)\\b")


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    value: float
    decimals: int = 0
    """The digits behind the point. Below 0 the last digits are not given."""
    unit: str = field(default="", compare=False)
    is_rounded: bool = field(default=False, compare=False)
    """True if the text calls it approximate."""


def bound(text: str, start: int, end: int) -> str:
    """Return why the value at `start` to `end` of a sentence is only a bound, "" where it is not."""
    written, before = text[start:end], text[max(0, start - 40) : start]
    may_bound = before.rstrip("(\"'").rstrip().lower().endswith(_BOUND_ENDS)
    found = _BOUND.search(before) if may_bound else None
    if found:
        return f"only a bound: {found['words'] or found['sign']} {written}"
    return f"only a bound: {written} or more or less" if _OR_MORE.match(text, end) else ""


def _is_range(text: str, start: int, end: int) -> bool:
    """Return whether the value at `start` to `end` of a sentence begins a range."""
    if text[max(0, start - 10) : start].rstrip().lower().endswith("between") and _AND.match(
        text, end
    ):
        return True
    match = _RANGE.match(text, end)
    return match is not None and not _RESULT.search(text[match.end() : match.end() + 200])


def _find(text: str) -> list[Value[Number]]:
    """Return the numbers of a sentence, in order. Those of recent ones are kept."""
    return list(_found(text))


@lru_cache(maxsize=256)
def _found(text: str) -> Sequence[Value[Number]]:
    written = _find_written(text)
    if not _HAS_WORD.search(text):
        return written
    return sorted([*written, *_find_spelled(text)], key=lambda v: v.start)


def _find_spelled(text: str) -> list[Value[Number]]:
    """Return the numbers in words that can only be results (`three points`, `is four.`)."""
    found = []
    for match in islice(_IN_WORDS.finditer(text), _MOST):
        start, end = match.span("word")
        rest = match["rest"]
        is_whole = bool(match["lead"]) or end + len(rest) == len(text)
        if not rest.strip(" .,;:!(") and not is_whole:
            continue
        size = TO_TWENTY.index(match["word"])
        number = Number(-size if match["minus"] else size, 0, _unit(text, end))
        limit = bound(text, start, end)
        found.append(Value(start, end, None if limit else number, limit, unit=number.unit))
    return found


def _find_written(text: str) -> list[Value[Number]]:
    """Return the numbers in digits."""
    found: list[Value[Number]] = []
    last_equals = max(text.rfind("="), text.rfind("\u2248"))
    is_upper_end = False
    for match in islice(_NUMERAL.finditer(text), _MOST):
        if is_upper_end:
            is_upper_end = False
            continue
        sign, start = _sign(text, match.start())
        end, digits = match.end(), match["digits"]
        before = text[max(0, start - 40) : start]
        word = _LAST_WORD.search(before) if before[-1:].isspace() else None
        last = word[1].lower() if word else ""
        is_in_name = last in _NAMES or (before[-1:] in "-/" and before[-2:-1].isalpha())
        if (
            is_in_name
            or _COMPOUND.match(text, end)
            or (last in ("of", "the", "a") and _OUT_OF.search(before))
        ):
            continue
        name = "%" if before.rstrip(" =:\u2248").endswith("%") else _unit(text, end)
        number, reason = _number(match, sign, name)
        if number is not None and _ABOUT.search(before):
            number = replace(number, is_rounded=True)
        if last == "not" or _GOES_ON.match(text, end):
            number, reason = None, f"{digits} is not stated plainly"
        part = _part(digits) if "/" in digits and _COUNTS.search(text[:start]) else None
        if number is None and part is not None:
            number, reason = Number(part, 0, name), ""
        is_operand = bool(_OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(text, end))
        is_later = last_equals >= end
        is_led_on = is_later or (part is None and _LEADS_ON.match(text, end))
        if is_led_on and _QUOTIENT.fullmatch(digits):
            is_operand = True
        if _is_range(text, start, end):
            number, reason, is_operand = None, "a range, no single number", False
            is_upper_end = True
        elif not is_later or not is_operand:
            limit = bound(text, start, end)
            number, reason = (None, limit) if limit else (number, reason)
        found.append(Value(start, end, number, "" if number else reason, is_operand, name))
    return found


def _unit(text: str, at: int) -> str:
    unit = _UNIT.match(text, at)
    return unit[1] if unit and unit[1].lower() not in _NO_UNIT else ""


def _sign(text: str, start: int) -> tuple[str, int]:
    """Return the sign before a number ("?" where it can be read in two ways) and its start."""
    before = text[max(0, start - 60) : start]
    if not before:
        return "", start
    word = before.rstrip()[-8:].lower()
    if before[-1] == " " and word.endswith(("minus", "negative")):
        lead = before.rstrip()[: -5 if word.endswith("minus") else -8]
        is_sign = not lead.strip() or _LEADS_TO_SIGN.search(lead)
        sign = "-" if is_sign else "?" if not lead.rstrip()[-1:].isdigit() else ""
        return sign, start - len(before) + len(lead)
    if before.rstrip()[-1:] not in "-+\u2013\u2014":
        return "", start
    match = _SIGN.search(before)
    if match is None:
        at = start - len(before) + len(before.rstrip()) - 1
        is_bullet = not before.strip("-\u2013 ") and start < 60
        return ("-", at) if _LOOSE_SIGN.search(before) else ("?", at) if is_bullet else ("", start)
    previous, space, sign = match.groups()
    if previous and (not space and (previous.isalnum() or previous in ")]%") or previous.isdigit()):
        is_word = previous.isalpha() and not space and sign == "\u2013"
        return ("?" if is_word else ""), start
    if sign == "\u2014":
        return "?", start - 1
    return ("-" if sign == "\u2013" else sign), start - 1


def _number(match: re.Match[str], sign: str, unit: str) -> tuple[Number | None, str]:
    digits = match["digits"]
    if sign == "?":
        return None, "a number whose sign can be read in two ways"
    if not _WRITTEN.fullmatch(digits):
        if _CALENDAR.fullmatch(digits):
            return None, "a date, no number"
        for mark, name in ((":", "ratio"), ("/", "fraction")):
            if mark in digits:
                return None, f"a {name} ({digits}) is not a number"
        return None, f"{digits} can be read in two ways"
    exponent = int(match["power"] or match["ten"] or 0)
    if match["alone"]:
        digits, exponent = "1", int(match["alone"])
    value = float(f"{sign}{digits.replace(',', '')}e{exponent}")
    if not math.isfinite(value):
        return None, "a number beyond all bounds"
    return Number(value, len(digits.partition(".")[2]) - exponent, unit), ""


def _part(digits: str) -> float | None:
    """Return the points of a score that is written with its maximum (4/9)."""
    match = _FRACTION.fullmatch(digits)
    is_score = match is not None and float(match[1]) <= float(match[2]) <= 200
    return float(match[1]) if match and is_score else None


def _of_maximum(text: str, value: Value[Number]) -> Value[Number]:
    """Return the points of a fraction (4/9) that is one in a reply about a score."""
    is_ratio = "ratio" in text[: value.start].lower()
    part = None if value.is_operand or is_ratio else _part(text[value.start : value.end])
    return value if part is None else replace(value, value=Number(part), reason="")


def merge(a: Number, b: Number) -> Number | None:
    """Return the more precise of two numbers where one is a rounding of the other, else None."""
    if a.value == b.value:
        return a if a.decimals >= b.decimals else b
    if (a.unit == "%") != (b.unit == "%"):
        share, percent = (b, a) if a.unit == "%" else (a, b)
        if not share.unit and abs(share.value) > 1:
            return merge(replace(share, unit="%"), percent)
        scaled = Number(share.value * 100, share.decimals - 2, "%")
        is_rounded = _rounds(scaled, percent) or _rounds(percent, scaled)
        is_same = not share.unit and math.isclose(scaled.value, percent.value, rel_tol=1e-9)
        return percent if is_same or (not share.unit and is_rounded) else None
    coarse, fine = (a, b) if a.decimals < b.decimals else (b, a)
    if abs(coarse.value) * 10.0**coarse.decimals < 10 and not coarse.is_rounded:
        return None  # one digit says too little: a score of 2 is not a rounded 2.4
    return fine if coarse.decimals < fine.decimals and _rounds(fine, coarse) else None


def _rounds(fine: Number, coarse: Number) -> bool:
    half: float = 0.5 * 10.0**-coarse.decimals
    return abs(fine.value - coarse.value) <= half * (1 + 1e-9)


def _is_sum(values: list[Number], total: Number) -> bool:
    return math.isclose(sum(number.value for number in values), total.value, rel_tol=1e-9)


def _leads_to(value: Number, parts: list[Number], result: Number) -> bool:
    """Return whether a value times one of the parts, or plus one or all of them, is a result."""
    if value.value == result.value or not parts:
        return False
    half = _half_digit(value), _half_digit(result)
    for part in parts:
        factor = part.value / 100 if part.unit == "%" else part.value
        is_factor = 0 < factor < 3 and factor != 1 and part.decimals > 0 or part.unit == "%"
        if is_factor and abs(value.value * factor - result.value) <= half[0] * factor + half[1]:
            return True
    sums = [*(p.value for p in parts if p.value), sum(p.value for p in parts)]
    return any(abs(value.value + part - result.value) <= half[1] for part in sums)


def _half_digit(number: Number) -> float:
    """Return half of what the last digit of a number counts."""
    half: float = 0.5 * 10.0**-number.decimals
    return half * (1 + 1e-9)


NUMBER: ValueKind[Number] = ValueKind(
    noun="number",
    has_unit=True,
    is_sum=_is_sum,
    leads_to=_leads_to,
    of_maximum=_of_maximum,
    find=_find,
    merge=merge,
    same=lambda number: f"{number.value:.2e}",
    show=lambda number: f"{number.value:.10g}",
    cut=_CUT,
)
