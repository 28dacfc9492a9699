"""Hits of cases by model, and what is made of them: other thresholds, ranks, controls of length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
THRESHOLDS = (7, 8, 12, 15)
"""The thresholds that the paper compares with its own."""


@dataclass(frozen=True)
class Hits:
    """The hits of each model on the same cases, with the threshold and the number of criteria."""

    k: int
    n: int
    of: Mapping[str, Floats]
    """By model, of each case."""

    @property
    def other_thresholds(self) -> tuple[int, ...]:
        """Return the thresholds that are compared with k."""
        return tuple(k for k in THRESHOLDS if k <= self.n and k != self.k)

    def coverage(self, model: str, k: int) -> float:
        """Return CACS@k of a model, 0 to 100."""
        credit = np.maximum(0.0, self.of[model] - k + 1)
        return float(100 * credit.sum() / (len(credit) * (self.n - k + 1)))

    def counts(self, model: str) -> list[int]:
        """Return how many cases have 0, 1, ... N hits."""
        found = np.bincount(self.of[model].astype(np.int64), minlength=self.n + 1)
        return [int(count) for count in found]


def alternatives(hits: Hits) -> dict[str, dict[str, float]]:
    """Return the scores of each model by other thresholds, by accuracy and by passing."""
    found = {f"CACS@{k}": {m: hits.coverage(m, k) for m in hits.of} for k in hits.other_thresholds}
    found["Rubric Accuracy"] = {m: float(own.mean() / hits.n) for m, own in hits.of.items()}
    found[f"Pass@{hits.k}"] = {m: float((own >= hits.k).mean()) for m, own in hits.of.items()}
    return found


def spearman(a: Sequence[float] | Floats, b: Sequence[float] | Floats) -> float | None:
    """Return the rank correlation, ties at their mean rank; None where one side does not vary."""
    from scipy.stats import rankdata

    return pearson(rankdata(a), rankdata(b))


def pearson(a: Sequence[float] | Floats, b: Sequence[float] | Floats) -> float | None:
    """Return the correlation; None where one side does not vary."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if len(x) < 2:
        return None
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x**2).sum() * (y**2).sum()))
    scale = float(np.abs(x).max() * np.abs(y).max()) * len(x)
    return float((x * y).sum() / norm) if norm > 1e-12 * max(scale, 1e-300) else None


def top_overlap(main: Mapping[str, float], other: Mapping[str, float], size: int) -> int | None:
    """Return how many of the first `size` models are among the first by another score, too.

    Both rankings order ties by name. None where there are no more models than `size`, of
    which any two orders share all.
    """
    if len(main) <= size:
        return None
    first, second = (
        sorted(scores, key=lambda model: (-scores[model], model))[:size] for scores in (main, other)
    )
    return len({*first} & {*second})


def partial_correlation(x: Floats, y: Floats) -> float | None:
    """Return the correlation of two arrays (models, cases) given model and case.

    Both are taken less their model's mean and their case's mean: every model has every case.
    """
    x, y = (
        own - own.mean(axis=1, keepdims=True) - own.mean(axis=0, keepdims=True) + own.mean()
        for own in (x, y)
    )
    return pearson(x.ravel(), y.ravel())
