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
    """Why it cannot be read."""
    is_operand: bool = False
    """Whether it is part of a calculation."""
    unit: str = ""
    fits: bool = False
    """Whether its unit is the one that was asked for."""
    is_alone: bool = False
    """Whether nothing says, behind that unit, of what it is."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """How values of one kind are found and compared."""

    noun: str
    find: Callable[[str], list[Value[T]]]
    """Return the values of a sentence, in order."""
    merge: Callable[[T, T], T | None]
    """Return the more precise of two values that agree, None where they differ."""
    same: Callable[[T], Hashable]
    """Return a coarse key that is the same for values that agree closely."""
    show: Callable[[T], str]
    cut: re.Pattern[str]
    """What is not known to be whole at the end of a text that was cut."""
    has_unit: bool = False
    is_score: bool = False
    """Whether a score is asked for."""
    is_asked: Callable[[str], bool | None] = lambda name: None
    """Return whether a name is that of what was asked for; None where it says nothing."""
    is_asked_by: Callable[[str], bool] = lambda name: False
    """Return whether a text ends with the name of what was asked for."""


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
    """Whether it interprets a result (a risk, a class) and is not the result itself."""
    is_running: bool = False
    """Whether it is a total on the way."""
    is_used: bool = False
    """Whether a later sentence takes it up again."""
    is_rounded: bool = False
    """Whether it is rounded to a whole number on purpose."""
    is_opening: bool = False
    """Whether it is in the first sentence that has a value."""
    is_supposed: bool = False
    """Whether it would be so."""
    is_asked: bool = False
    """Whether it is called by the name of what was asked for."""
    fits: bool = False
    """Whether its unit is the one that was asked for."""
    is_final: bool = False
    """Whether it is called so and worked out before."""


def differ(a: T, b: T, kind: Kind[T]) -> str:
    """Return the reason for which two results are no answer."""
    return f"two results are stated: {kind.show(a)} and {kind.show(b)}"
