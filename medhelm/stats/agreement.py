"""Agreement of raters, and scores corrected by a few human labels: pure functions on arrays.

`ratings` is (n, k), units by raters, NaN where a rater did not rate a unit. `weights` (D, n) says
how often each unit counts in each of D bootstrap draws; `once` is the data as it is. What is
undefined (a rater without spread, a correlation of two units) is NaN.

Sources: Shrout and Fleiss 1979 and McGraw and Wong 1996 for the ICC; Krippendorff 2011 for alpha;
Cohen 1968 for the weighted kappa; Angelopoulos et al. 2023 (arXiv 2301.09633) for the
prediction-powered mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from medhelm.stats.aggregation import TIE, Floats, Ints, mean_of_defined, ratio
from medhelm.stats.intervals import Interval, percentile
from medhelm.stats.student_t import t_quantile

LEAST = 3
"""A correlation needs that many units: of two it is 1 or -1 whatever they say."""

NEAR_IDENTITY = 0.9
"""From here on agreement is commonly called excellent. (Koo and Li, J Chiropr Med 15, 2016)"""

LEAST_ABOVE_CHANCE = 0.1
"""Below this much of Se + Sp - 1 a judge is too weak for a rate to be corrected by it."""

_NO_SPREAD = 1e-6
"""An SD below this share of the largest value is none: the rest of rounding."""

Level = Literal["nominal", "ordinal", "interval"]


class Icc(NamedTuple):
    """An intraclass correlation with its F interval, not clipped."""

    value: float
    low: float
    high: float


def once(n: int) -> Floats:
    """Return the weights (1, n) of the data as it is."""
    return np.ones((1, n))


def resampled(clusters: Ints, draws: int, seed: int) -> Floats:
    """Return weights (draws, n): whole clusters, coded 0..C-1, drawn with replacement."""
    count = int(clusters.max()) + 1
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(count, np.full(count, 1 / count), size=draws)
    return counts[:, clusters].astype(np.float64)


def z_scores(ratings: Floats) -> Floats:
    """Return (x - mean) / SD (ddof 1) within each rater; NaN for a rater without spread."""
    centred, means, inverse = _standards(ratings, once(len(ratings)))
    with np.errstate(invalid="ignore"):
        return np.where(inverse > 0, (centred - means) * inverse, np.nan)


def consensus(ratings: Floats, weights: Floats) -> Floats:
    """Return (D, n): the mean over raters of their z-scores, each rater standardised anew in each
    draw; NaN for a unit that no rater with spread has rated."""
    centred, means, inverse = _standards(ratings, weights)
    there = (~np.isnan(ratings)).astype(np.float64)
    total = inverse @ np.nan_to_num(centred).T - (inverse * means) @ there.T
    votes = (inverse > 0).astype(np.float64) @ there.T
    return ratio(total, votes)


def _standards(ratings: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ratings less each rater's plain mean (n, k), and of those the weighted means (D, k)
    and 1 / SD (D, k), 0 where a rater has no spread."""
    there = ~np.isnan(ratings)
    plain = np.where(there, ratings, 0.0)
    centres = ratio(plain.sum(0), there.sum(0).astype(np.float64))
    centred = ratings - centres
    own = np.where(there, centred, 0.0)
    counts = weights @ there
    means = np.nan_to_num(ratio(weights @ own, counts))
    squares = weights @ own**2 - counts * means**2
    sd = np.sqrt(np.maximum(np.nan_to_num(ratio(squares, counts - 1)), 0.0))
    has_spread = (counts > 1) & (sd > [_least_spread(own) for own in plain.T])
    return centred, means, np.where(has_spread, 1 / np.where(has_spread, sd, 1.0), 0.0)


def _least_spread(values: Floats) -> float:
    return max(_NO_SPREAD * float(np.abs(values).max(initial=0.0)), 1e-12)


def correlation(a: Floats, b: Floats, weights: Floats, *, least: int = LEAST) -> Floats:
    """Return Pearson's r (D,) of a and b, each (n,) or (D, n), over the units that have both.

    NaN with fewer than `least` different units in a draw, or where one of the two has no spread. All
    draws at once: 1,000 of 200 units one by one by `scipy.stats.pearsonr` take 240 times as long.
    """
    there = ~(np.isnan(a) | np.isnan(b))
    w = np.where(there, weights, 0.0)
    a, b = (np.where(there, x, 0.0) for x in (a, b))
    total = w.sum(-1, keepdims=True)
    da, db = (x - ratio((w * x).sum(-1, keepdims=True), total) for x in (a, b))
    sa, sb = (np.sqrt(ratio((w * d * d).sum(-1), total[:, 0])) for d in (da, db))
    has_spread = (sa > _least_spread(a)) & (sb > _least_spread(b))
    is_defined = has_spread & ((w > 0).sum(-1) >= least)
    r = ratio((w * da * db).sum(-1), total[:, 0] * np.where(is_defined, sa * sb, np.nan))
    return np.clip(r, -1.0, 1.0)


def two_rater_icc(r: Floats) -> Floats:
    """Return 2r / (1 + r): ICC(3,k) of two z-scored raters that correlate by r; -inf at r = -1."""
    above = 1 + np.asarray(r, dtype=np.float64)
    with np.errstate(divide="ignore"):  # what rounding leaves above -1 is not a number either
        return np.asarray(2 * np.asarray(r) / np.where(above > TIE, above, 0.0), dtype=np.float64)


def two_rater_interval(draws: Floats, confidence: float, clusters: int) -> Interval:
    """Return the bootstrap interval of `two_rater_icc` from draws of r, transformed at its ends."""
    if clusters < 2:
        return Interval(None, None, "none (one cluster)")
    found = percentile(draws, confidence, clusters)
    if found.low is None or found.high is None:
        return found
    low, high = map(float, two_rater_icc(np.asarray([found.low, found.high])))
    return informative(Interval(low, high, found.method))


def informative(found: Interval) -> Interval:
    """Return an interval of an ICC, or none with its ends as the reason where it says nothing:
    where it holds everything from contradiction to near identity."""
    if found.low is None or found.high is None or not found.low < 0 < NEAR_IDENTITY < found.high:
        return found
    return Interval(None, None, f"none ({found.low:.2f} to {found.high:.2f} says nothing)")


def common_pairs(ratings: Floats, minimum: int) -> list[tuple[int, int]]:
    """Return the pairs of raters with at least `minimum` units in common."""
    there = (~np.isnan(ratings)).astype(np.int64)
    common = there.T @ there
    return [p for p in combinations(range(ratings.shape[1]), 2) if common[p] >= minimum]


def pair_iccs(
    ratings: Floats, pairs: Sequence[tuple[int, int]], weights: Floats, *, least: int = LEAST
) -> Floats:
    """Return (D, pairs): ICC(3,k) of each pair, z-scored over its common units."""
    found = np.full((len(weights), len(pairs)), np.nan)
    for place, pair in enumerate(pairs):
        a, b = ratings[:, pair[0]], ratings[:, pair[1]]
        rows = ~(np.isnan(a) | np.isnan(b))
        found[:, place] = two_rater_icc(
            correlation(a[rows], b[rows], weights[:, rows], least=least)
        )
    return found


def icc3k(ratings: Floats, confidence: float = 0.95) -> Icc:
    """Return ICC(3,k): consistency of the mean of k fixed raters, (MSR - MSE) / MSR.

    Units with a missing rating are left out.
    """
    rows, _, error, n, k = mean_squares(ratings)
    low, high = math.nan, math.nan
    if rows > 0 and error > 0:
        ratio, df = rows / error, (n - 1, (n - 1) * (k - 1))
        upper = 0.5 + confidence / 2
        low = 1 - _f_quantile(upper, *df) / ratio
        high = 1 - 1 / (ratio * _f_quantile(upper, *reversed(df)))
    value = 1 - error / rows if rows > 0 else math.nan
    return Icc(value, low, high)


def icc2(ratings: Floats) -> tuple[float, float]:
    """Return ICC(2,1) and ICC(2,k): absolute agreement of random raters, of one and of their mean.

    Units with a missing rating are left out.
    """
    rows, columns, error, n, k = mean_squares(ratings)
    if not rows + columns + error > 0:
        return math.nan, math.nan
    one = (rows - error) / (rows + (k - 1) * error + k * (columns - error) / n)
    return one, k * one / (1 + (k - 1) * one)


def mean_squares(ratings: Floats) -> tuple[float, float, float, int, int]:
    """Return the mean squares of rows, columns and error, n and k; NaN below two of either."""
    full = ratings[~np.isnan(ratings).any(axis=1)]
    n, k = full.shape
    if n < 2 or k < 2:
        return math.nan, math.nan, math.nan, n, k
    by_row, by_column, grand = full.mean(1), full.mean(0), full.mean()
    rows = k * float(np.sum((by_row - grand) ** 2)) / (n - 1)
    columns = n * float(np.sum((by_column - grand) ** 2)) / (k - 1)
    left = full - by_row[:, None] - by_column + grand
    error = float(np.sum(left**2)) / ((n - 1) * (k - 1))
    noise = (
        TIE * max(1.0, float(np.abs(full).max()))
    ) ** 2  # equal means differ in their last bits
    rows, columns, error = (x if x > noise else 0.0 for x in (rows, columns, error))
    return rows, columns, error, n, k


def _f_quantile(p: float, df1: float, df2: float) -> float:
    from scipy.special import fdtri

    return float(fdtri(df1, df2, p))


def krippendorff_alpha(ratings: Floats, level: Level) -> float:
    """Return 1 - observed / expected disagreement over all pairable values, whoever rated what.

    Units with one rating are left out. NaN where all pairable values are equal.
    """
    there = ~np.isnan(ratings)
    used = there & (there.sum(1) > 1)[:, None]
    values, codes = np.unique(ratings[used], return_inverse=True)
    if len(values) < 2:
        return math.nan
    counts = np.zeros((len(ratings), len(values)))
    np.add.at(counts, (np.nonzero(used)[0], codes), 1)
    counts = counts[counts.sum(1) > 0]
    each = counts.sum(1)
    pairs = (counts / (each - 1)[:, None]).T @ counts - np.diag((counts.T / (each - 1)).sum(1))
    totals = counts.sum(0)
    squares = _disagreement(values, totals, level)
    expected = float(totals @ squares @ totals) / (float(totals.sum()) - 1)
    observed = float((pairs * squares).sum())
    return 1 - observed / expected


def alpha_without(ratings: Floats, rater: int, level: Level) -> float:
    """Return alpha of all raters but one."""
    return krippendorff_alpha(np.delete(ratings, rater, axis=1), level)


def _disagreement(values: Floats, totals: Floats, level: Level) -> Floats:
    """Return the squared differences (V, V) of values at a level of measurement."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    if level == "interval":
        return (values[:, None] - values) ** 2
    middle = np.cumsum(totals) - totals / 2  # ranks of ties are their mean
    return (middle[:, None] - middle) ** 2


def weighted_kappa(table: Floats, cost: Floats) -> Floats:
    """Return 1 - observed / expected cost of tables (..., m, m) of two raters' counts. (Cohen 1968)

    NaN where chance alone gives no disagreement.
    """
    rows, columns, n = table.sum(-1), table.sum(-2), table.sum((-2, -1))
    expected = np.einsum("...i,ij,...j->...", rows, cost, columns)
    return np.asarray(1 - ratio(n * (table * cost).sum((-2, -1)), expected))


def kappa_of_ratings(a: Floats, b: Floats, scale: Sequence[int]) -> float:
    """Return Cohen's kappa, quadratically weighted, of two raters on an ordinal scale.

    It is over the units that both rated; NaN where chance alone gives no disagreement.
    """
    there = ~(np.isnan(a) | np.isnan(b))
    steps = np.asarray(scale, dtype=np.float64)
    one, other = (x[there, None] == steps for x in (a, b))
    n = int(there.sum())
    if one.sum() != n or other.sum() != n:
        raise ValueError("a rating is not on the scale")
    places = np.arange(len(steps), dtype=np.float64)
    cost = np.subtract.outer(places, places) ** 2
    return float(weighted_kappa(one.T.astype(np.float64) @ other, cost))


def mean_absolute_error(a: Floats, b: Floats) -> float:
    """Return the mean of |a - b| over the units that have both; NaN where none has."""
    gaps = np.abs(a - b)
    gaps = gaps[~np.isnan(gaps)]
    return float(gaps.mean()) if len(gaps) else math.nan


def effective_votes(k: int, r: float) -> float:
    """Return k / (1 + (k - 1) r): how many independent judges k are worth whose errors correlate
    by r; NaN where that is not a number above 0."""
    spread = 1 + (k - 1) * r
    return k / spread if k > 0 and spread > 0 else math.nan


def mean_correlation(values: Floats) -> float:
    """Return the mean correlation over pairs of columns (n, k), such as judges' ratings or errors.

    A pair without a defined correlation is left out; NaN where none is left.
    """
    pairs = combinations(values.T, 2)
    found = [correlation(a, b, once(len(values)))[0] for a, b in pairs]
    return float(mean_of_defined(np.array(found, dtype=np.float64)))


@dataclass(frozen=True)
class Corrected:
    """A corrected value with its standard error; None where there is none, and the method says why."""

    value: float | None
    error: float | None
    method: str


def powered_mean(judge: Floats, human: Floats, clusters: Ints) -> Corrected:
    """Return the mean of the judge over all units plus the mean of human - judge over those with
    a human label (NaN: none), with its clustered error.

    The error is that of the sum of what each cluster adds to the two means, so that units in both
    count for both. Of separate units it is the sum of the two variances.
    """
    gaps = human - judge
    labelled = ~np.isnan(gaps)
    n, m = len(judge), int(labelled.sum())
    if m < 1:
        return Corrected(None, None, "none (no label)")
    value = float(judge.mean() + gaps[labelled].mean())
    held = len(np.unique(clusters[labelled]))
    if held < 2:
        return Corrected(value, None, "none (one labelled cluster)")
    adds = (judge - judge.mean()) / n
    adds[labelled] += (gaps[labelled] - gaps[labelled].mean()) / m
    sums = np.bincount(clusters, weights=adds)
    variance = float(np.sum(sums**2) * held / (held - 1))
    return Corrected(value, math.sqrt(variance), "prediction-powered")


def t_interval(found: Corrected, clusters: int, confidence: float) -> Interval:
    """Return value -+ t[C-1] * error; none without an error."""
    if found.value is None or found.error is None or clusters < 2:
        return Interval(None, None, found.method)
    if found.error <= TIE:
        return Interval(None, None, f"{found.method}, no interval (no spread)")
    half = t_quantile(0.5 + confidence / 2, clusters - 1) * found.error
    return Interval(found.value - half, found.value + half, found.method)
