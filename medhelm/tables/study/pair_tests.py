"""Permutation p values of the differences of macro-averages, of all pairs of models at once.

A permutation swaps whole clusters of two models, on each benchmark with the swaps that every pair
has there. Memory grows with the models: permutations are taken some at a time, and pairs by their
first model. Where a score is a mean of equally many instances, a swapped difference is one number
of the first model less one of the second, whatever the number of benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from medhelm.schema.aggregation import MEAN
from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling, on_all_cores
from medhelm.stats.intervals import PERMUTATIONS, cluster_sums, seed_of, swaps
from medhelm.tables.study.cells import shared_pooling
from medhelm.tables.study.study import Study, placed_sums

_NUMBERS = 200_000
"""Swapped differences held for one first model."""
_SENT = 3_000_000
"""Swapped differences of all pairs from which on other machines help."""


@dataclass(frozen=True)
class _Benchmark:
    """The ranked models' sums on one benchmark."""

    sums: Floats
    """Of the clusters (C, k, M)."""
    pooling: Pooling
    span: float
    """Range of the metric, negative where lower is better."""
    seed: int

    @property
    def is_linear(self) -> bool:
        """Return whether the score is a mean over what is the same in all models."""
        return self.pooling.aggregation == MEAN and bool(
            (self.sums[:, 1] == self.sums[:, 1, :1]).all()
        )

    def given(self, step: int) -> Iterator[Floats]:
        """Yield the sums (k, M, step) of the clusters that are swapped, `step` permutations a time."""
        clusters, k, models = self.sums.shape
        joined = self.sums.reshape(clusters, -1)
        for flips in _in_steps(swaps(clusters, PERMUTATIONS, self.seed), step):
            yield np.ascontiguousarray((flips @ joined).T).reshape(k, models, -1)

    def scores(self, sums: Floats) -> Floats:
        """Return the scores of sums (k, ...), in widths of the range; lower ones are better."""
        return self.pooling(np.moveaxis(sums, 0, -1)) / self.span


def _in_steps(parts: Iterator[Floats], step: int) -> Iterator[Floats]:
    """Yield the rows of arrays that follow each other, `step` rows at a time."""
    held: list[Floats] = []
    for part in parts:
        held.append(part)
        while sum(map(len, held)) >= step:
            rows = np.concatenate(held) if len(held) > 1 else held[0]
            yield rows[:step]
            held = [rows[step:]]
    if sum(map(len, held)):
        yield np.concatenate(held)


def permutation_ps(study: Study, observed: Floats) -> Floats:
    """Return the two-sided p (P,) of the observed differences (P,) of all pairs, in order."""
    ranking = study.ranking
    models, count = len(ranking.models), len(ranking.benchmarks)
    step = min(1000, max(32, _NUMBERS // models))
    alone = np.zeros((models, PERMUTATIONS))
    pooled = []
    for name in ranking.benchmarks:
        own = _benchmark(study, name)
        if not own.is_linear:
            pooled.append(own)
            continue
        whole = own.sums.sum(axis=0)
        for at, given in zip(_places(step), own.given(step), strict=True):
            alone[:, at] += (whole[0, :, None] - 2 * given[0]) / whole[1, 0] / own.span
    extreme = np.zeros(len(observed), dtype=np.int64)
    for at, *given in zip(_places(step), *(b.given(step) for b in pooled), strict=True):
        chunk = _Swapped(alone[:, at], pooled, given, np.abs(observed) * count - count * TIE)
        is_large = len(observed) * step > _SENT
        extreme += np.concatenate(on_all_cores(chunk.extreme, range(models - 1), is_large))
    return np.asarray((1 + extreme) / (1 + PERMUTATIONS))


def _places(step: int) -> Iterator[slice]:
    return (slice(i, min(i + step, PERMUTATIONS)) for i in range(0, PERMUTATIONS, step))


def _benchmark(study: Study, name: str) -> _Benchmark:
    panel = study.panels[name]
    placed = placed_sums(panel, study.ranking.models)
    metric = panel.metric
    return _Benchmark(
        sums=np.stack([cluster_sums(*found) for found in placed], axis=2),
        pooling=shared_pooling([panel.scores(m) for m in study.ranking.models], name),
        span=(metric.maximum - metric.minimum) * (1 if metric.higher_is_better else -1),
        seed=seed_of(study.settings.bootstrap_seed, name, "swaps"),
    )


class _Swapped:
    """Some permutations of all benchmarks."""

    def __init__(
        self, alone: Floats, pooled: list[_Benchmark], given: list[Floats], least: Floats
    ) -> None:
        self._alone, self._least = alone, least
        self._pooled = [
            (b, b.sums.sum(axis=0)[:, :, None] - g, g) for b, g in zip(pooled, given, strict=True)
        ]

    def extreme(self, first: int) -> Ints:
        """Return how many differences of a model and each later one are at least as extreme."""
        models, later = len(self._alone), slice(first + 1, None)
        gap = self._alone[first] - self._alone[later]
        for benchmark, kept, given in self._pooled:
            gap += benchmark.scores(kept[:, first, None] + given[:, later])
            gap -= benchmark.scores(kept[:, later] + given[:, first, None])
        start = first * (2 * models - first - 1) // 2
        least = self._least[start : start + len(gap), None]
        return np.asarray(np.count_nonzero(np.abs(gap, out=gap) >= least, axis=1))
