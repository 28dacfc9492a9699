"""Choose the interval of a score."""

from __future__ import annotations

import numpy as np

from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling
from medhelm.stats.intervals import NO_WIDTH, Interval, bounded, score_interval


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
    own = bounded(sums[is_own], pooling, span, confidence=confidence, seed=seed)
    return found if own.low is None else own
