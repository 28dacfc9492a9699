"""A run that has ended, as trackers are told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """Names, hashes and numbers of a run: no text of data, prompts or answers, no address and no path."""

    id: str
    """16 hex digits, the same each time that a command ends with this run and grading."""
    name: str
    """Benchmark and model."""
    settings: Mapping[str, str | int | float | None]
    """What `id` stands for; never another value under one id."""
    scores: Mapping[str, Mapping[str, float]]
    """By metric `score`, the interval's `low` and `high` where there is one, and `n`; no metric without a value."""
    numbers: Mapping[str, float]
    """Coverage, outcomes of the main metric, tokens, USD where the price is known."""

    @property
    def flat(self) -> dict[str, float]:
        """Return all numbers: a score under its metric's name, the rest of it under METRIC.low and so on."""
        inner = {f"{m}.{k}": v for m, own in self.scores.items() for k, v in own.items()}
        return {name.removesuffix(".score"): v for name, v in inner.items()} | {**self.numbers}


Tracker = Callable[[EndedRun], None]
"""Is told of each run that ends."""
