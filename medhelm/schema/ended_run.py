"""A finished run, as trackers receive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """Names, hashes and numbers of a run: no text of data, prompts or answers, no address and no path."""

    id: str
    """16 hex digits, the same each time that a command ends with this run and grading."""
    name: str
    settings: Mapping[str, str | int | float | None]
    """Values that decide `id`: never another one under the same."""
    numbers: Mapping[str, float]
    """Each score under its metric's name with `METRIC.low`, `.high` and `.n`; coverage, outcomes, tokens, USD. What is
    not known is not there."""


Tracker = Callable[[EndedRun], None]
"""Receives each finished run."""
