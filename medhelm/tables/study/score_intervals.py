"""Choose the interval of a score."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling
from medhelm.stats.intervals import NO_WIDTH, Interval, bounded, score_interval

_KEPT = 20_000
"""Bytes of sums up to which an interval is kept: several tables and the site show the same one."""


def interval_of(
    metric: MetricRef,
    pooling: Pooling,
    scored: tuple[Floats, Ints, Floats],
    score: float,
    draws: Floats,
    confidence: float,
    seed: int,
) -> Interval:
    """Return the interval of a score as its metric declares it.

    `scored`: values (n,), codes of their clusters (n,) and the clusters' sums (C, k).
    A score at an end of its range has no width in any draw. It is bounded from the other side.
    """
    values, codes, sums = scored
    span = (metric.minimum, metric.maximum)
    found = score_interval(
        values,
        codes,
        draws,
        span=span,
        is_mean=metric.aggregation == "mean",
        is_exact=metric.interval == "exact",
        confidence=confidence,
    )
    is_at_end = found.method == NO_WIDTH and min(abs(score - end) for end in span) <= TIE
    is_own = np.bincount(codes, minlength=len(sums)) > 0
    if is_own.sum() < 2 or not (metric.interval == "bounded" or is_at_end):
        return found
    own = _bounded(sums[is_own], pooling, span, confidence, seed)
    return found if own.low is None else own


def _bounded(
    sums: Floats, pooling: Pooling, span: tuple[float, float], confidence: float, seed: int
) -> Interval:
    """Return the bounded interval, from those kept where it is of few clusters."""
    if sums.nbytes > _KEPT:
        return bounded(sums, pooling, span, confidence=confidence, seed=seed)
    exact = np.asarray(sums, dtype=np.float64)
    return _of_bytes(exact.tobytes(), exact.shape[1], pooling, span, confidence, seed)


@lru_cache(maxsize=4096)
def _of_bytes(
    sums: bytes,
    width: int,
    pooling: Pooling,
    span: tuple[float, float],
    confidence: float,
    seed: int,
) -> Interval:
    found = np.frombuffer(sums, dtype=np.float64).reshape(-1, width)
    return bounded(found, pooling, span, confidence=confidence, seed=seed)
