"""Two values side by side: one amount in two forms, or two results."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from medhelm.extract.numbers.value_types import Kind, Value, differ
from medhelm.extract.numbers.value_words import BESIDE, DAILY, HOURLY, PARALLEL
from medhelm.extract.reading import Reading

T = TypeVar("T")


def is_rounded(before: str, value: Value[T], kind: Kind[T]) -> bool:
    """Return whether a score is rounded to whole points; one digit may be part of a ratio."""
    shown = "" if value.value is None or not kind.is_score else kind.show(value.value)
    return len(shown) > 1 and shown.isdigit() and before.rstrip()[-1:] in ("\u2248", "\u2192")


def same_amount(before: Value[T], value: Value[T], kind: Kind[T]) -> Value[T]:
    """Return the result of a chain whose last two members are both values."""
    if before.value is None or value.value is None:
        return value
    merged = kind.merge(before.value, value.value)
    if merged is not None:
        return value if is_rounded("\u2248", value, kind) else replace(value, value=merged)
    return replace(value, value=None, reason=differ(before.value, value.value, kind))


def alternatives(text: str, value: Value[T], values: list[Value[T]], kind: Kind[T]) -> Reading[T]:
    """Return the value, or why it is none where another is offered beside it (`12 or 13`)."""
    following = next((v for v in values if v.start >= value.end), None)
    if following is None or value.value is None:
        return Reading(value.value, value.reason)
    between = text[value.end : following.start]
    is_rate = HOURLY.match(text, value.end) and DAILY.match(text, following.end)
    is_parallel = len(between) < 120 and PARALLEL.fullmatch(between) is not None
    is_beside = len(between) < 40 and BESIDE.fullmatch(between) is not None
    if not (is_parallel and following.value is not None) and (
        not is_beside or (is_rate and " or " not in between)
    ):
        return Reading(value.value, value.reason)
    if following.value is None:
        return Reading(None, following.reason)
    merged = kind.merge(value.value, following.value)
    if merged is None and following.unit == "%" != value.unit:
        return Reading(value.value)  # a score and what it means
    if merged is None:
        return Reading(None, differ(value.value, following.value, kind))
    return Reading(merged)
