"""The types of the readers of numbers, dates and durations."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Value(Generic[T]):
    """One value in a sentence."""

    start: int
    end: int
    value: T | None
    """None where it cannot be read."""
    reason: str = ""
    """The reason why it cannot be read."""
    is_operand: bool = False
    """True if it is part of a calculation."""
    unit: str = ""
    fits: bool = False
    """True if its unit is the one that was asked for."""
    is_alone: bool = False
    """True if no quantity is named behind that unit."""
    is_other: bool = False
    """True if it is the amount of another substance than the one that was asked for."""


@dataclass(frozen=True)
class ValueKind(Generic[T]):
    """A kind of value: how it is found in a text and compared."""

    noun: str
    find: Callable[[str], list[Value[T]]]
    """Return the values of a sentence, in order."""
    merge: Callable[[T, T], T | None]
    """Return the more precise of two values that agree, None where they differ."""
    same: Callable[[T], Hashable]
    """Return a coarse key that is the same for values that agree closely."""
    show: Callable[[T], str]
    cut: re.Pattern[str]
    """Matches the end of a cut text that may not be whole."""
    find_any: Callable[[str], list[Value[T]]] | None = None
    """Return the values in any unit, where `find` leaves out those that cannot answer."""
    has_unit: bool = False
    is_known: bool = False
    """True if it is known what is asked for."""
    is_score: bool = False
    """True if a score is asked for."""
    is_sum: Callable[[list[T], T], bool] = lambda values, total: False
    """Return whether values add up to a total."""
    leads_to: Callable[[T, list[T], T], bool] = lambda value, parts, result: False
    """Return whether a value and a factor, or further parts of a sum, give a result."""
    of_maximum: Callable[[str, Value[T]], Value[T]] = lambda text, value: value
    """Return a value as the points of a score where it is written with their maximum."""
    is_asked: Callable[[str], bool | None] = lambda name: None
    """Return whether a name is that of what was asked for; None where it says nothing."""


@dataclass(frozen=True)
class Statement(Generic[T]):
    """A value that a sentence sets something equal to."""

    value: T | None
    reason: str
    at: tuple[int, int]
    """Its sentence and where it begins there."""
    level: int
    """3: called the answer. 2: concluded. 1: called by a name of something calculated, or the
    result of a calculation. 0: any other."""
    key: tuple[str, ...] = ()
    """The words of what it is called."""
    is_named: bool = False
    is_computed: bool = False
    is_secondary: bool = False
    """True if it interprets a result (a risk, a class) and is not the result itself."""
    is_running: bool = False
    """True if it is an intermediate total."""
    is_used: bool = False
    """True if a later sentence takes it up again."""
    is_rounded: bool = False
    """True if it is rounded to a whole number on purpose."""
    is_opening: bool = False
    """True if it is in the first sentence that has a value."""
    is_supposed: bool = False
    """True if it would be so."""
    is_asked: bool = False
    """True if it is called by the name of what was asked for."""
    fits: bool = False
    """True if its unit is the one that was asked for."""
    is_final: bool = False
    """True if it is called so and worked out before."""


def differ(a: T, b: T, kind: ValueKind[T]) -> str:
    """Return the reason for which two results are not an answer."""
    return f"two results are stated: {kind.show(a)} and {kind.show(b)}"
