"""Find models that are clearly better, all pairs at once, and the ranks that follow.

docs/statistics.md has the rule. (Mogstad, Romano, Shaikh and Wilhelm, Review of Economic Studies 91, 2024.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medhelm.stats.aggregation import TIE, Floats, Ints, on_all_cores, pair_blocks
from medhelm.stats.student_t import t_quantiles

Bools = NDArray[np.bool_]

_MOST_DF = 1000
"""From so many degrees of freedom on Student's t is the normal distribution."""


@dataclass(frozen=True)
class Errors:
    """Standard errors (M, M) of paired differences and their degrees of freedom."""

    error: Floats
    df: Floats


def clearly_better(
    values: Floats, draws: Floats, confidence: float, errors: Errors | None = None
) -> Bools:
    """Return (M, M) whether row is clearly better than column, over all pairs at once.

    `values` (M,) and their paired `draws` (D, M). `errors`: what the differences are measured by;
    None takes the SD of the draws. The quantile is the upper end of what so many draws leave open,
    so that no seed parts models. A difference with df degrees of freedom must be larger than
    the quantile by the ratio of Student's t to the normal, at the level of one pair (Bonferroni).
    """
    models = len(values)
    found = np.zeros((models, models), dtype=np.bool_)
    if models < 2 or len(draws) < 2:
        return found
    spread, largest = _spreads(draws)
    has_spread = spread > TIE
    tail = (1 - confidence) / (2 * len(spread))
    alone = NormalDist().inv_cdf(1 - tail)
    critical = alone
    if has_spread.any():
        slack = NormalDist().inv_cdf(confidence) * math.sqrt(confidence * (1 - confidence))
        level = min(1.0, confidence + slack / math.sqrt(len(draws)))
        critical = float(np.quantile(largest, level))
        if not has_spread.all():  # pairs without spread are not in the largest difference
            critical = max(critical, alone)
    i, j = np.triu_indices(models, 1)
    needed = np.full(len(i), critical)
    error = spread
    if errors is not None:
        error = errors.error[i, j]
        degrees = np.clip(errors.df[i, j], 1.0, _MOST_DF)
        needed *= t_quantiles(1 - tail, degrees) / alone
    gap = values[i] - values[j]
    is_clear = (np.abs(gap) > TIE) & (np.abs(gap) > needed * error)
    found[i, j] = is_clear & (gap > 0)
    found[j, i] = is_clear & (gap < 0)
    return found


def _spreads(draws: Floats) -> tuple[Floats, Floats]:
    """Return the SD (P,) of each pair's differences over the draws (D, M), and the largest
    standardised difference (D,) of each draw, block of pairs by block."""
    count, models = draws.shape
    by_model = np.ascontiguousarray(draws.T)

    def block(pairs: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
        gaps = by_model[pairs[0]]
        gaps -= by_model[pairs[1]]
        gaps -= gaps.mean(axis=1, keepdims=True)
        spread = np.sqrt(np.sum(gaps * gaps, axis=1) / (count - 1))
        has_spread = spread > TIE
        size = np.abs(gaps)[has_spread] / spread[has_spread, None]
        return spread, size.max(axis=0, initial=0.0)

    found = on_all_cores(block, pair_blocks(models, count))
    return np.concatenate([s for s, _ in found]), np.max([top for _, top in found], axis=0)


def macro_errors(scores: Floats, draws: Floats, clusters: Floats) -> Errors:
    """Return the errors of differences of macro-averages from scores (M, B) and draws (D, M, B).

    docs/statistics.md has the formulas. With one cluster a variance is 1, the largest that scores from 0
    to 1 can have.
    """
    count, models, benchmarks = draws.shape
    total = np.zeros((models, models))
    squares = np.zeros((models, models))
    for b in range(benchmarks):
        c = float(clusters[b])
        if c < 2:
            total += 1.0
            continue
        moved = draws[:, :, b] - draws[:, :, b].mean(axis=0)
        both = moved.T @ moved / max(1, count - 1)
        own = np.diag(both)
        variance = np.maximum(own[:, None] + own[None, :] - 2 * both, 0.0) * c / (c - 1)
        gap = scores[:, None, b] - scores[None, :, b]
        variance = np.maximum(variance, (2 * gap / c) ** 2)
        total += variance
        squares += variance**2 / (c - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(squares > 0, total**2 / squares, np.inf)
    return Errors(np.sqrt(total) / benchmarks, np.asarray(df, dtype=np.float64))


def rank_sets(is_better: Bools) -> tuple[Ints, Ints]:
    """Return the lowest and highest rank (M,) that each model may have."""
    low = 1 + is_better.sum(axis=0)
    high = len(is_better) - is_better.sum(axis=1)
    return np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
