"""Define the result of a reader of completions: an answer, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Reading(Generic[T]):
    """The answer that a completion commits to; without one, why not."""

    value: T | None
    reason: str = ""
    """Empty where there is a value."""
