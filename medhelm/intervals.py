"""Resampling and intervals: pure functions on arrays.

Every aggregate is a function of sums of per-instance statistics, so one draw of the cluster
bootstrap is a weighted sum of the clusters' sums: a (draws x clusters) matrix of multinomial
counts times a (clusters x statistics) matrix. All models of a benchmark share the counts, which
keeps them paired; the counts depend on a seed and on names, never on order.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np

from medhelm.stats import AGGREGATIONS, TIE, Floats, Ints, design_effect

SMALL = 300
"""Below this many instances a rate gets a Wilson interval (statistics of small samples)."""

NEAR_BORDER = 10
"""A rate with fewer successes or failures than this is near 0 or 1: the bootstrap collapses."""

PERMUTATIONS = 9_999

_CHUNK = 100_000
"""Numbers held at a time while resampling: 0.8 MB, which stays in a core's cache."""

_STREAMS = 16
"""Streams of random numbers in one bootstrap, drawn side by side on as many cores as there are."""

_MOST_STEPS = 200
"""Newton's steps to a quantile: 5 or 6 as a rule, one for each doubling in the tails of df 1."""


@dataclass(frozen=True)
class Interval:
    """An interval and how it was made; None where there is none, and then the method says why."""

    low: float | None
    high: float | None
    method: str


def seed_of(seed: int, *names: str) -> int:
    """Return a seed that depends on a number and on names only."""
    digest = hashlib.sha256(json.dumps([seed, *names]).encode()).digest()
    return int.from_bytes(digest[:16])


def cluster_sums(stats: Floats, clusters: Ints, count: int) -> Floats:
    """Return the sums (count, k) of statistics (n, k) over clusters coded 0..count-1."""
    if len(stats) == count and np.array_equal(clusters, np.arange(count)):
        return stats  # each row is a cluster
    columns = [np.bincount(clusters, weights=column, minlength=count) for column in stats.T]
    return np.stack(columns, axis=1) if columns else np.empty((count, 0))


def _weights(clusters: int, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield multinomial counts (some draws, clusters), each row summing to `clusters`."""
    step = max(1, _CHUNK // clusters)
    for start in range(0, draws, step):
        yield _counts(clusters, min(step, draws - start), rng)


def _counts(clusters: int, draws: int, rng: np.random.Generator) -> Floats:
    picks = rng.integers(0, clusters, size=(draws, clusters))
    picks += np.arange(draws)[:, None] * clusters
    counts = np.bincount(picks.ravel(), minlength=picks.size)
    return counts.reshape(picks.shape).astype(np.float64)


def bootstrap(sums: Floats, draws: int, seed: int) -> Floats:
    """Return resampled sums (draws, p) of cluster sums (C, p): whole clusters, with replacement.

    A fixed number of streams share the draws, so the number of cores changes nothing.
    """
    sizes = [len(part) for part in np.array_split(np.arange(draws), _STREAMS)]

    def stream(size: int, own: np.random.SeedSequence) -> list[Floats]:
        return [w @ sums for w in _weights(len(sums), size, np.random.default_rng(own))]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        drawn = pool.map(stream, sizes, np.random.SeedSequence(seed).spawn(_STREAMS))
        return np.concatenate([block for blocks in drawn for block in blocks])


def swap_differences(
    a: Floats, b: Floats, aggregation: str, *, permutations: int, seed: int
) -> Floats:
    """Return differences (permutations,) of two models with whole clusters swapped at random.

    `a` and `b` are the models' cluster sums (C, k). For a mean this is the sign-flip test of the
    clusters' paired differences; it serves any aggregate.
    """
    pair = swaps_of_pairs([a, b], [(0, 1)], aggregation, permutations=permutations, seed=seed)
    return pair[:, 0]


def swaps_of_pairs(
    sums: Sequence[Floats],
    pairs: Sequence[tuple[int, int]],
    aggregation: str,
    *,
    permutations: int,
    seed: int,
) -> Floats:
    """Return differences (permutations, pairs), first less second, of models (C, k) by place.

    All pairs share the swaps, so that a pair has the same ones whoever stands beside it.
    """
    value = AGGREGATIONS[aggregation]
    rng = np.random.default_rng(seed)
    clusters, k = sums[0].shape
    totals = np.stack([s.sum(0) for s in sums])
    # A statistic that is the same in all models (a mean's number of instances) never moves.
    moved = [j for j in range(k) if any((s[:, j] != sums[0][:, j]).any() for s in sums)]
    joined = np.concatenate([s[:, moved] for s in sums], axis=1)
    first, second = (np.array(places) for places in zip(*pairs, strict=True))
    out = np.empty((permutations, len(pairs)))
    width, step = -(-clusters // 8), max(1, 10 * _CHUNK // max(1, clusters))
    for start in range(0, permutations, step):
        size = min(step, permutations - start)
        bits = np.frombuffer(rng.bytes(size * width), dtype=np.uint8).reshape(size, width)
        flips = np.unpackbits(bits, axis=1, count=clusters).astype(np.float64)
        given = (flips @ joined).reshape(
            size, len(sums), len(moved)
        )  # of clusters that are swapped
        gain = np.zeros((size, len(pairs), k))
        gain[:, :, moved] = given[:, second] - given[:, first]
        out[start : start + size] = value(totals[first] + gain) - value(totals[second] - gain)
    return out


def permutation_p(observed: float, permuted: Floats) -> float:
    """Return the two-sided p, (1 + number at least as extreme) / (1 + number of permutations)."""
    extreme = int(np.count_nonzero(np.abs(permuted) >= abs(observed) - TIE))
    return (1 + extreme) / (1 + len(permuted))


@cache
def t_quantile(p: float, df: int) -> float:
    """Return the p quantile of Student's t with a whole number of degrees of freedom.

    Newton's steps on the finite series of its distribution (Abramowitz and Stegun 26.7.3, 26.7.4)
    from the normal quantile: it lies nearer to 0, so that no step passes the root. Every interval
    needs this one function, and importing scipy's takes longer than most tables.
    """
    if p < 0.5:
        return -t_quantile(1 - p, df)
    t = NormalDist().inv_cdf(p)
    height = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    for _ in range(_MOST_STEPS):
        density = height * (1 + t * t / df) ** (-(df + 1) / 2)
        step = (p - (1 + _within(t, df)) / 2) / density
        t += step
        if step <= 1e-15 * t:  # rounding has the last word
            break
    return t


def _within(t: float, df: int) -> float:
    """Return the share of Student's t between -t and t."""
    sine, cosine = t / math.hypot(t, math.sqrt(df)), math.sqrt(df) / math.hypot(t, math.sqrt(df))
    k, odd = np.arange(1, df // 2), df % 2
    terms = np.cumprod((2 * k - 1 + odd) / (2 * k + odd) * cosine**2)
    total = 1 + float(terms.sum()) if df > 1 else 0.0
    if odd:
        return 2 / math.pi * (math.atan2(sine, cosine) + sine * cosine * total)
    return sine * total


def percentile(draws: Floats, confidence: float, clusters: int | None = None) -> Interval:
    """Return the percentile interval of bootstrap draws, NaN draws left out; none without width.

    With a number of clusters C the percentiles are the expanded ones, Phi(-+ sqrt(C/(C-1)) t[C-1]):
    plain ones are too short by that factor, 25 % at 8 clusters and nothing from some hundreds on.
    (Hesterberg, The American Statistician 69, 2015.)
    """
    tail = (1 - confidence) / 2
    if clusters is not None:
        t = t_quantile(1 - tail, clusters - 1) * math.sqrt(clusters / (clusters - 1))
        tail = NormalDist().cdf(-t)
    known = draws[~np.isnan(draws)]
    if not len(known):
        return Interval(None, None, "none (undefined in every draw)")
    low, high = np.quantile(known, [tail, 1 - tail])
    if high - low <= TIE:
        return Interval(None, None, "none (all draws equal)")
    return Interval(float(low), float(high), "bootstrap")


def holding(ends: Interval, value: float) -> Interval:
    """Return an interval widened where needed to hold the value itself.

    Ties of the scores as they are come apart in most draws, so that a win rate can lie outside
    the percentiles of its draws.
    """
    if ends.low is None or ends.high is None:
        return ends
    return Interval(min(ends.low, value), max(ends.high, value), ends.method)


def wilson(rate: float, n: float, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval of a rate from n trials; n may be an effective number.

    (Wilson 1927): (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def exact_rate(events: int, n: int, confidence: float) -> tuple[float, float, str]:
    """Return the exact interval of a rate of `events` in n trials, and its name.

    Clopper-Pearson 1934: the beta quantiles of (1 - confidence) / 2 and its complement. Where no
    event was seen, the rule of three: 3 / n at 95 %, -ln(1 - confidence) / n in general.
    """
    if events == 0:
        return 0.0, min(1.0, -math.log(1 - confidence) / n), "rule of three"
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(events, n - events + 1, tail))
    high = 1.0 if events == n else float(betaincinv(events + 1, n - events, 1 - tail))
    return low, high, "clopper-pearson"


def _count(clusters: Ints) -> int:
    """Return how many different codes there are."""
    return int(np.count_nonzero(np.bincount(clusters)))


def effective_trials(values: Floats, clusters: Ints, confidence: float) -> float:
    """Return how many independent trials clustered 0/1 values are worth.

    n / design effect (at least 1), times (z / t[C-1])^2 for few clusters; C in place of the first
    where all values are equal and the design effect is undefined. (Korn and Graubard 1998)
    """
    count = _count(clusters)
    effect = design_effect(values, clusters)
    trials = float(count) if math.isnan(effect) else len(values) / max(1.0, effect)
    upper = 0.5 + confidence / 2
    return trials * (NormalDist().inv_cdf(upper) / t_quantile(upper, count - 1)) ** 2


def score_interval(
    values: Floats,
    clusters: Ints,
    draws: Floats,
    *,
    span: tuple[float, float],
    is_mean: bool,
    confidence: float,
    is_exact: bool = False,
) -> Interval:
    """Return the interval of a score from values (n,), their cluster codes, and bootstrap draws.

    `span` is the metric's range. A mean of values that are all 0 or 1, of a metric from 0 to 1, is
    a rate: with fewer than `SMALL` instances, or fewer than `NEAR_BORDER` successes or failures,
    it gets Wilson's interval (of effective trials where clustered), since normal and bootstrap
    intervals are too short there and have no width at 0 and 1. All else gets the bootstrap, graded
    values that happen to lie at the ends of their scale too: a jury that says 5 of every answer
    has not tossed coins. `is_exact`: a rate
    of independent instances gets Clopper-Pearson's whatever their number. One cluster, or a bootstrap without width, gives no interval.
    """
    count = _count(clusters)
    if count < 2:
        return Interval(None, None, "none (one cluster)" if len(values) > 1 else "none (n < 2)")
    top = int(np.count_nonzero(values == 1.0))
    is_rate = is_mean and span == (0.0, 1.0) and bool(((values == 0.0) | (values == 1.0)).all())
    if is_rate and is_exact and count == len(values):
        low, high, method = exact_rate(top, len(values), confidence)
        return Interval(low, high, method)
    if is_rate and (len(values) < SMALL or min(top, len(values) - top) < NEAR_BORDER):
        is_clustered = count < len(values)
        trials = effective_trials(values, clusters, confidence) if is_clustered else len(values)
        low, high = wilson(top / len(values), trials, confidence)
        return Interval(low, high, "wilson, clustered" if is_clustered else "wilson")
    return percentile(draws, confidence, count)
