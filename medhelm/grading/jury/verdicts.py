"""Define one judge's verdict on one answer, and its origin."""

from __future__ import annotations

from typing import Protocol

import msgspec

from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's scores in the order of the criteria; None: the judge abstained."""

    judge: str
    scores: tuple[int, ...] | None
    reason: str = ""
    """Gives the reason for no scores ('unreadable reply', 'refused', 'error'), never reply text."""


class Panel(Protocol):
    """Judges whose verdicts are at hand."""

    judges: tuple[str, ...]

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[Verdict, ...]:
        """Return one verdict of each judge."""
