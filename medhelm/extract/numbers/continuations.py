"""Find what a text works a result on to: by a factor, a correction, a further part of a sum.

`CrCl = 64.8 mL/min, times 0.85 for a woman: 55.1 mL/min` names the value before the factor, and
comes to the one behind it. The arithmetic has to hold: what follows is the product or the sum.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from medhelm.extract.late import late
from medhelm.extract.numbers.value_statements import find_statements
from medhelm.extract.numbers.value_types import Kind, Value
from medhelm.extract.numbers.value_words import SECONDARY
from medhelm.extract.reading import Reading
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_NEAR = 3
"""Sentences behind a result in which it may be worked on."""
_STEPS = 5
_GOES_ON = late(
    r"\b(?:times|multipl\w+|factor|adjust\w*|correct(?:ed|ion|ing)?|plus|add(?:ing|ed|s)?|then|after|apply(?:ing)?"
    r"|becomes?|brings?|take|of\s(?:that|this|it))\b|[\u00d7x*+]\s?\d",
    re.IGNORECASE,
)
_ADJUSTED = late(
    r"\b(?:(?:sex|gender|sodium|weight|age|height|albumin|obesity)[- ](?:adjust|correct)\w*|with\s(?:the\s)?(?:sodium|na\b)|(?:after|including|without|before)"
    r"\s(?:the\s)?(?:\w+\s)?(?:factor|correction|adjustment))",
    re.IGNORECASE,
)
"""Words that call a value the one after a correction, or before it."""
_OF_OTHERS = late(
    r"\b(?:(?:in|for)\s(?:(?:a|all)\s)?(?:wom[ae]n|m[ae]n|(?:fe)?males?|(?:black|obese)\s\w+))\b",
    re.IGNORECASE,
)
_LIMIT = late(
    r"\b(?:norm\w*|limits?|cut-?offs?|thresholds?|reference|range|maximum|minimum|typical\w*|optimal|goal|target)\b",
    re.IGNORECASE,
)
_SUPPOSED = late(r"\b(?:would|were|if|should|could)\b", re.IGNORECASE)
_NAME = late(r"[^=:\u2248]{1,40}?(?=\s(?:is|=|equals)\s|:)")
"""The name with which a sentence begins."""
_OF_PATIENT = late(
    r"\b(?:s?he|(?:the|this|our)\s(?:patient|wom[ae]n|man)|since|because|as\s(?:an?|the)|her|his)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Place(Generic[T]):
    """A value of a text, the number of its sentence, and what the sentence says around it."""

    value: Value[T]
    number: int
    sentence: str
    may_be_result: bool
    """True if it is no operand, and in the unit that was asked for or without one."""


def worked_on(value: T, text: str, kind: Kind[T], any_unit: Kind[T]) -> Reading[T]:
    """Return the value that a plain text works a result on to, which may be the result itself.

    `any_unit` finds factors and parts, `kind` what can be a result. Nothing is read where the text
    goes on to another value and it is unclear whether for this case.
    """
    places = _places_from(value, text, kind, any_unit)
    for _ in range(_STEPS):
        step = _step(value, places, kind)
        if step.value is None or kind.merge(step.value, value) is not None:
            return step
        value = step.value
    return Reading(value)


def _places_from(value: T, text: str, kind: Kind[T], any_unit: Kind[T]) -> list[_Place[T]]:
    """Return the values of a text, from the last sentence that has the given one on."""
    places: list[_Place[T]] = []
    for number, (sentence, _) in reversed([*enumerate(split_sentences(text))]):
        results = {v.start: v for v in kind.find(sentence)}
        here = [
            _Place(v, number, sentence, _may_be_result(results.get(v.start), v.unit, kind))
            for v in any_unit.find(sentence)
            if v.value is not None
        ]
        places = here + places
        if any(_same(place, value, kind) for place in here):
            return places
    return places


def common_end(text: str, kind: Kind[T], any_unit: Kind[T]) -> T | None:
    """Return the value that all results of a plain text are worked on to, None where they differ."""
    found = [s for s in find_statements(text, kind) if s.level or s.fits]
    if len(found) < 2 or any(s.is_secondary or s.is_supposed or s.value is None for s in found):
        return None
    last = found[-1].value
    for s in found:
        end = worked_on(cast("T", s.value), text, kind, any_unit).value
        if end is None or last is None or kind.merge(end, last) is None:
            return None
    return last


def _step(value: T, places: list[_Place[T]], kind: Kind[T]) -> Reading[T]:
    """Return what a value is worked on to in one step, else the value."""
    own = [i for i, p in enumerate(places) if _same(p, value, kind)]
    if not own:
        return Reading(value)
    start = places[own[-1]]
    rest = [p for p in places[own[-1] + 1 :] if p.number - start.number < _NEAR]
    for i, place in enumerate(rest):
        before = place.sentence[: place.value.start]
        is_beside = SECONDARY.search(before) or _LIMIT.search(before[-60:])
        if not place.may_be_result or is_beside or _of_other(before, kind):
            continue
        between = _between(start, place, rest[:i])
        if _SUPPOSED.search(between):
            continue
        parts = [p.value.value for p in rest[:i] if p.value.value is not None]
        assert place.value.value is not None
        is_led_to = kind.leads_to(value, parts, place.value.value) or _is_sum(place, places, kind)
        if is_led_to and _GOES_ON.search(between + before):
            if _OF_OTHERS.search(between) and not _OF_PATIENT.search(between):
                return Reading(None, f"what follows {kind.show(value)} may be the result")
            return Reading(place.value.value)
        if _ADJUSTED.search(between):
            return Reading(None, f"what follows {kind.show(value)} may be the result")
    return Reading(value)


def _of_other(before: str, kind: Kind[T]) -> bool:
    """Return whether a sentence begins with the name of another quantity."""
    name = _NAME.match(before)
    if name is None or _ADJUSTED.search(name[0]):
        return False
    return name[0].lower().startswith("non-") or kind.is_asked(name[0]) is False


def _is_sum(place: _Place[T], places: list[_Place[T]], kind: Kind[T]) -> bool:
    """Return whether a value is what three or more before it in its sentence add up to."""
    same = [p for p in places if p.number == place.number and p.value.start < place.value.start]
    same = [p for p in same if p.value.unit == place.value.unit]
    parts = [p.value.value for p in same if p.value.value is not None]
    total = place.value.value
    return len(parts) > 2 and total is not None and not kind.is_score and kind.is_sum(parts, total)


def _may_be_result(found: Value[T] | None, unit: str, kind: Kind[T]) -> bool:
    """Return whether a value is no operand, and in the asked unit or without one."""
    if found is None or found.is_operand or found.is_other:
        return False
    return found.fits or not unit or kind.is_score


def _same(place: _Place[T], value: T, kind: Kind[T]) -> bool:
    found = place.value.value
    return found is not None and kind.merge(found, value) is not None


def _between(start: _Place[T], end: _Place[T], inner: list[_Place[T]]) -> str:
    """Return the text between two values, and a little behind the second one."""
    behind = end.sentence[: end.value.end + 30]
    if start.number == end.number:
        return behind[start.value.end :]
    middle = dict.fromkeys(p.sentence for p in inner if start.number < p.number < end.number)
    return " ".join([start.sentence[start.value.end :], *middle, behind])
