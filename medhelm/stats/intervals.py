"""Resampling and intervals: pure functions on arrays.

Every aggregate is a function of sums over instances, so one draw of the cluster
bootstrap is a weighted sum of the clusters' sums: a (draws x clusters) matrix of multinomial
counts times a (clusters x sums) matrix. All models of a benchmark share the counts, which
keeps them paired. The counts depend on a seed and on names, never on order.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling, design_effect, on_all_cores
from medhelm.stats.student_t import t_quantile

SMALL = 300
"""Below this many instances a rate gets a Wilson interval (statistics of small samples)."""

NEAR_BORDER = 10
"""A rate with fewer successes or failures than this is near 0 or 1: the bootstrap collapses."""

FEW_CLUSTERS = 20
"""Below so many effective clusters an interval of skewed values covers less than it says."""

PERMUTATIONS = 9_999

ONE_SIDED = "exact, one-sided"
"""Name of the interval of a rate of which all or none of the trials are events."""

NO_WIDTH = "none (all draws equal)"

_GAFFKE_DRAWS = 20_000
"""Enough that an end moves by some thousandths with the seed; fewer where clusters are many."""

_GAFFKE_WEIGHTS = 20_000_000
"""Random weights after which there are no more draws: half a second."""

_CHUNK = 100_000
"""Numbers held at a time while resampling: 0.8 MB, which stays in a core's cache."""

_KEPT = 2_000_000
"""Numbers of a bootstrap or of swaps that are kept for the next one of the same seed: 4 MB, or 2."""

_STREAMS = 16
"""Streams of random numbers in one bootstrap, drawn side by side on as many cores as there are."""


@dataclass(frozen=True)
class Interval:
    """An interval and how it was made; None where there is none, and then the method says why."""

    low: float | None
    high: float | None
    method: str
    has_few_clusters: bool = False
    """True if its clusters are worth fewer than `FEW_CLUSTERS`, so that it may be too short."""

    def ends(self, prefix: str = "") -> dict[str, object]:
        """Return the ends under the names of a table's columns: `low` and `high`, or `PREFIX_low`."""
        head = f"{prefix}_" if prefix else ""
        return {f"{head}low": self.low, f"{head}high": self.high}

    def columns(self, prefix: str) -> dict[str, object]:
        """Return the ends and the method under `PREFIX_low`, `PREFIX_high` and `PREFIX_method`."""
        return {**self.ends(prefix), f"{prefix}_method": self.method}

    @property
    def described(self) -> str:
        """The method, with a mark where the clusters are few."""
        return f"{self.method}, few clusters" if self.has_few_clusters else self.method


def seed_of(seed: int, *names: str) -> int:
    """Return a seed that depends on a number and on names only."""
    digest = hashlib.sha256(json.dumps([seed, *names]).encode()).digest()
    return int.from_bytes(digest[:16])


def cluster_sums(sums: Floats, clusters: Ints, count: int) -> Floats:
    """Return the sums (count, k) of the instances' sums (n, k) over clusters coded 0..count-1."""
    if len(sums) == count and np.array_equal(clusters, np.arange(count)):
        return sums  # each row is a cluster
    columns = [np.bincount(clusters, weights=column, minlength=count) for column in sums.T]
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
    if len(sums) * draws <= _KEPT:
        kept = _kept_weights(len(sums), draws, seed)
        return np.concatenate([w.astype(np.float64) @ sums for w in kept])

    def stream(weights: Iterator[Floats]) -> list[Floats]:
        return [w @ sums for w in weights]

    blocks = on_all_cores(stream, _streams(len(sums), draws, seed))
    return np.concatenate([block for found in blocks for block in found])


def _streams(clusters: int, draws: int, seed: int) -> list[Iterator[Floats]]:
    """Return the counts of each stream of random numbers, not yet drawn."""
    sizes = [len(part) for part in np.array_split(np.arange(draws), _STREAMS)]
    seeds = np.random.SeedSequence(seed).spawn(_STREAMS)
    return [
        _weights(clusters, size, np.random.default_rng(own))
        for size, own in zip(sizes, seeds, strict=True)
    ]


@lru_cache(maxsize=2)
def _kept_weights(clusters: int, draws: int, seed: int) -> tuple[NDArray[np.uint16], ...]:
    """Return the counts of a bootstrap, kept for those that follow with the same seed: other
    metrics of a benchmark, and other pairs of its models."""
    streams = _streams(clusters, draws, seed)
    # a cluster that is drawn 65,536 times is not to be feared
    blocks = on_all_cores(lambda weights: [w.astype(np.uint16) for w in weights], streams)
    return tuple(w for found in blocks for w in found)


def swap_differences(
    a: Floats, b: Floats, value: Pooling, *, permutations: int, seed: int
) -> Floats:
    """Return differences (permutations,) of two models with whole clusters swapped at random.

    `a` and `b` are the models' cluster sums (C, k). For a mean this is the sign-flip test of the
    clusters' paired differences. It serves any aggregate.
    """
    pair = np.stack([a, b])
    totals = pair.sum(1)
    out: list[Floats] = []
    for flips in swaps(len(a), permutations, seed):
        gain = flips @ (b - a)  # of the first from clusters that are swapped
        out.append(value(totals[0] + gain) - value(totals[1] - gain))
    return np.concatenate(out)


def swaps(clusters: int, permutations: int, seed: int) -> Iterator[Floats]:
    """Return which clusters are swapped, 0 or 1 (some permutations, clusters), all in turn.

    They depend on the seed and on the number of clusters only, so that a pair of models has the
    same ones whoever is compared beside it.
    """
    if clusters * permutations <= _KEPT:
        return (flips.astype(np.float64) for flips in _kept_swaps(clusters, permutations, seed))
    return _swaps(clusters, permutations, seed)


def _swaps(clusters: int, permutations: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    width, step = -(-clusters // 8), max(1, 10 * _CHUNK // max(1, clusters))
    for start in range(0, permutations, step):
        size = min(step, permutations - start)
        bits = np.frombuffer(rng.bytes(size * width), dtype=np.uint8).reshape(size, width)
        yield np.unpackbits(bits, axis=1, count=clusters).astype(np.float64)


@lru_cache(maxsize=2)
def _kept_swaps(clusters: int, permutations: int, seed: int) -> tuple[NDArray[np.uint8], ...]:
    """Return the swaps, kept for the next pair of models."""
    return tuple(flips.astype(np.uint8) for flips in _swaps(clusters, permutations, seed))


def permutation_p(observed: float, permuted: Floats) -> float:
    """Return the two-sided p, (1 + number at least as extreme) / (1 + number of permutations)."""
    extreme = int(np.count_nonzero(np.abs(permuted) >= abs(observed) - TIE))
    return (1 + extreme) / (1 + len(permuted))


def effective_clusters(sizes: Ints) -> float:
    """Return how many equal clusters those of these sizes are worth: C where all are equal.

    1 + df, the degrees of freedom of the mean's CR2 variance if values were independent: with
    shares h_c = n_c / n, 1 / df = sum_c h_c^2 + sum_{c != d} h_c^2 h_d^2 / ((1 - h_c)(1 - h_d)).
    (Bell and McCaffrey, Survey Methodology 28, 2002.) At least 2.
    """
    h = sizes[sizes > 0] / sizes.sum()
    if len(h) < 2:
        return float(len(h))
    q = h * h / (1 - h)
    return 1.0 + max(1.0, 1 / float((h * h).sum() + q.sum() ** 2 - (q * q).sum()))


def percentile(draws: Floats, confidence: float, clusters: float | None = None) -> Interval:
    """Return the percentile interval of bootstrap draws, NaN draws left out; none without width.

    With a number C of effective clusters the percentiles are the expanded ones,
    Phi(-+ sqrt(C/(C-1)) t[C-1]): plain ones are too short by that factor, 25 % at 8 clusters and
    nothing from some hundreds on. (Hesterberg, The American Statistician 69, 2015.)
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
        return Interval(None, None, NO_WIDTH)
    return Interval(float(low), float(high), "bootstrap")


def percentile_ends(draws: Floats, confidence: float) -> Floats:
    """Return the ends (R, 2) of the plain percentile interval of each row of draws (R, D) without
    NaN; NaN where an interval has no width."""
    tail = (1 - confidence) / 2
    ends = np.quantile(draws, [tail, 1 - tail], axis=1).T
    return np.where(np.ptp(ends, axis=1, keepdims=True) > TIE, ends, np.nan)


def clustered_percentile(draws: Floats, confidence: float, sizes: Ints) -> Interval:
    """Return the expanded percentile interval of draws of clusters of these sizes; none of a single one."""
    if np.count_nonzero(sizes) < 2:
        return Interval(None, None, "none (one cluster)")
    worth = effective_clusters(sizes)
    found = percentile(draws, confidence, worth)
    is_few = bool((sizes > 1).any()) and worth < FEW_CLUSTERS and found.low is not None
    return replace(found, has_few_clusters=is_few)


def holding(ends: Interval, value: float) -> Interval:
    """Return an interval widened where needed to hold the value itself.

    Ties of the scores as they are come apart in most draws, so that a win rate can lie outside
    the percentiles of its draws.
    """
    if ends.low is None or ends.high is None:
        return ends
    return replace(ends, low=min(ends.low, value), high=max(ends.high, value))


def wilson(rate: float, n: float, confidence: float) -> tuple[float, float]:
    """Return Wilson's score interval of a rate from n trials; n may be an effective number.

    (Wilson 1927): (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n).
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return min(low, rate), max(high, rate)  # at 0 and 1 the ends are the rate, but for rounding


def jeffreys(rate: float, n: float, confidence: float) -> tuple[float, float]:
    """Return Jeffreys' interval of a rate from n trials, 0 or 1 at an end. (Brown, Cai and DasGupta 2001)"""
    from scipy.special import betaincinv

    some, rest, tail = rate * n, n - rate * n, (1 - confidence) / 2
    low = float(betaincinv(some + 0.5, rest + 0.5, tail)) if rate > TIE else 0.0
    return low, float(betaincinv(some + 0.5, rest + 0.5, 1 - tail)) if rate < 1 - TIE else 1.0


def exact_rate(events: int, n: int, confidence: float) -> tuple[float, float, str]:
    """Return the exact interval of a rate of `events` in n trials, and its name.

    Clopper-Pearson 1934: the beta quantiles of (1 - confidence) / 2 and its complement. Where none
    or all of the trials are events, one end is 0 or 1 and the other the exact one-sided bound: at
    95 % a rate of up to 1 - 0.05^(1/n), which the rule of three rounds to 3 / n.
    """
    least = (1 - confidence) ** (1 / n)
    if events == 0:
        return 0.0, 1 - least, ONE_SIDED
    if events == n:
        return least, 1.0, ONE_SIDED
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(events, n - events + 1, tail))
    return low, float(betaincinv(events + 1, n - events, 1 - tail)), "clopper-pearson"


@lru_cache(maxsize=1024)  # each table of a command asks for the same judges
def exact_share(
    events: float, n: float, squares: tuple[float, float, float], clusters: int, confidence: float
) -> tuple[float, float]:
    """Return the exact interval of a share of events in n trials that come in clusters.

    Clopper-Pearson's for an effective n (Korn and Graubard, Survey Methodology 24, 1998): n / design effect,
    times (t[n - 1] / t[clusters - 1])^2, at most n. `squares`: sums over clusters of e^2, e * m and m^2 for e
    events in m trials; none of the events, or all, leaves n / design effect at n. A single cluster has (0, 1).
    """
    if clusters < 2 or n <= 1:
        return 0.0, 1.0
    from scipy.special import betaincinv

    share, (ee, em, mm) = events / n, squares
    spread = ee - 2 * share * em + share * share * mm
    variance = clusters / (clusters - 1) * spread / (n * n)
    worth = min(n, share * (1 - share) / variance) if variance > 0 else n
    tail = (1 - confidence) / 2
    worth = min(n, worth * (t_quantile(1 - tail, n - 1) / t_quantile(1 - tail, clusters - 1)) ** 2)
    some, rest = share * worth, (1 - share) * worth
    low = float(betaincinv(some, rest + 1, tail)) if some > 0 else 0.0
    return low, float(betaincinv(some + 1, rest, 1 - tail)) if rest > 0 else 1.0


def bounded(
    sums: Floats,
    value: Pooling,
    span: tuple[float, float],
    confidence: float,
    seed: int,
) -> Interval:
    """Return Gaffke's interval of a bounded score from cluster sums (C, k).

    docs/statistics.md has the rule. A score that gets worse never gets a better interval: an error more
    passes no threshold. (Gaffke 2005; Learned-Miller and Thomas, arXiv 1905.06208. For pooled scores, of
    which theirs is the mean, by simulation.)
    """
    extremes = value.extremes(sums, *span)
    count = len(sums)
    score = float(value(sums.sum(0)))
    if extremes is None or math.isnan(score):
        return Interval(None, None, NO_WIDTH)
    rng, drawn = np.random.default_rng(seed), []
    draws = min(_GAFFKE_DRAWS, max(1_000, _GAFFKE_WEIGHTS // (count + 1)))
    step = max(1, _CHUNK // (count + 1))
    for start in range(0, draws, step):
        weights = rng.standard_exponential((min(step, draws - start), count + 1))
        seen, unseen = weights[:, :-1] @ sums, weights[:, -1:]
        ends = [value(seen + unseen * extreme) for extreme in extremes]
        drawn.append(np.stack(ends, axis=1))
    drawn_ends = np.concatenate(drawn)
    # What is undefined in a draw could be anything.
    drawn_ends = np.where(np.isnan(drawn_ends), np.array(span), drawn_ends)
    tail = (1 - confidence) / 2
    is_lowest, is_highest = score <= span[0] + TIE, score >= span[1] - TIE
    low = float(np.quantile(drawn_ends[:, 0], 2 * tail if is_highest else tail))
    high = float(np.quantile(drawn_ends[:, 1], 1 - (2 * tail if is_lowest else tail)))
    return Interval(
        span[0] if is_lowest else min(low, score),
        span[1] if is_highest else max(high, score),
        "gaffke",
    )


def effective_trials(values: Floats, clusters: Ints, confidence: float) -> float:
    """Return how many independent trials clustered 0/1 values are worth.

    n / design effect (at least 1), times (z / t[C-1])^2 for few clusters, C the effective number;
    C in place of the first where all values are equal and the design effect is undefined. (Korn
    and Graubard 1998)
    """
    worth = effective_clusters(np.bincount(clusters))
    effect = design_effect(values, clusters)
    trials = worth if math.isnan(effect) else len(values) / max(1.0, effect)
    upper = 0.5 + confidence / 2
    return trials * (NormalDist().inv_cdf(upper) / t_quantile(upper, worth - 1)) ** 2


def share_interval(values: Floats, clusters: Ints, confidence: float) -> Interval:
    """Return Wilson's interval of the share of values (n,), 0 or 1, that are 1.

    It is for the effective trials where clusters hold several values; none of a single such cluster.
    """
    sizes, share = np.bincount(clusters), float(values.mean())
    if (sizes <= 1).all():
        return Interval(*wilson(share, len(values), confidence), "wilson")
    if np.count_nonzero(sizes) < 2:
        return Interval(None, None, "none (one cluster)")
    ends = wilson(share, effective_trials(values, clusters, confidence), confidence)
    return Interval(*ends, "wilson, clustered", effective_clusters(sizes) < FEW_CLUSTERS)


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
    a rate, whose intervals docs/statistics.md explains. Graded values that happen to lie at the ends of
    their scale are none: a jury that says 5 of every answer has not tossed coins. `is_exact`: a rate
    of independent instances gets Clopper-Pearson's whatever their number.
    """
    sizes = np.bincount(clusters)
    count = int(np.count_nonzero(sizes))
    if count < 2:
        return Interval(None, None, "none (one cluster)" if len(values) > 1 else "none (n < 2)")
    top = int(np.count_nonzero(values == 1.0))
    is_rate = is_mean and span == (0.0, 1.0) and bool(((values == 0.0) | (values == 1.0)).all())
    if is_rate and is_exact and count == len(values):
        return Interval(*exact_rate(top, count, confidence))
    if is_rate and (len(values) < SMALL or min(top, len(values) - top) < NEAR_BORDER):
        return share_interval(values, clusters, confidence)
    return clustered_percentile(draws, confidence, sizes)


def score_limits(
    score: float, rate: Floats | None, clusters: Ints, error: float, confidence: float
) -> tuple[float, float]:
    """Return limits of a score at any confidence, for `difference`; NaN with one cluster.

    `rate`: values (n,) that are a rate where all are 0 or 1: Jeffreys' limits for its effective trials (Wilson's
    hold too rarely from 99 % on). Others get score -+ t[E-1] times the error.
    """
    sizes = np.bincount(clusters)
    if np.count_nonzero(sizes) < 2:
        return math.nan, math.nan
    worth = effective_clusters(sizes)
    if rate is not None and bool(((rate == 0.0) | (rate == 1.0)).all()):
        is_clustered = bool((sizes > 1).any())
        trials = effective_trials(rate, clusters, confidence) if is_clustered else len(rate)
        return jeffreys(score, trials, confidence)
    half = t_quantile(0.5 + confidence / 2, worth - 1) * error
    return score - half, score + half


def difference(
    a: tuple[float, float, float], b: tuple[float, float, float], correlation: float
) -> Interval:
    """Return the interval of a - b from each one's value and limits, and their correlation.

    low = a - b - sqrt(x^2 + y^2 - 2 r x y) with x = a - a_low and y = b_high - b, and so the upper end: the method
    of variance estimates recovery. (Newcombe, Statistics in Medicine 17, 1998; Zou and Donner, ibid. 27, 2008)
    """

    def reach(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x * x + y * y - 2 * correlation * x * y))

    gap = a[0] - b[0]
    low, high = gap - reach(a[0] - a[1], b[2] - b[0]), gap + reach(a[2] - a[0], b[0] - b[1])
    if math.isnan(low) or math.isnan(high):
        return Interval(None, None, "none (one cluster, or undefined)")
    if high - low <= TIE:
        return Interval(None, None, NO_WIDTH)
    return Interval(low, high, "mover")


GROUPS = 20
"""Groups of clusters that are left out in turn. With fewer clusters each is one."""

_FEWEST = 3


def jackknife(
    measure: Callable[[NDArray[np.bool_]], Sequence[float]], clusters: Ints, confidence: float
) -> list[Interval]:
    """Return an interval for each of the numbers that `measure` gives for a mask of rows.

    `clusters` holds a code >= 0 for each row. With G groups of whole clusters, left out in turn,
    and z = atanh of a number, the ends are tanh(z -+ t[G-1] sqrt((G-1)/G sum (z_g - mean)^2)): for
    numbers that run from -1 to 1. None where there are too few clusters, or a number at an end.
    (Delete-a-group jackknife: Kott, Journal of Official Statistics 17, 2001.)
    """
    whole = measure(np.ones(len(clusters), dtype=np.bool_))
    count = int(clusters.max()) + 1 if len(clusters) else 0
    groups = min(count, GROUPS)
    if groups < _FEWEST:
        return [Interval(None, None, f"none (fewer than {_FEWEST} clusters)")] * len(whole)
    parts = [measure(clusters % groups != g) for g in range(groups)]
    t = t_quantile(0.5 + confidence / 2, groups - 1)
    return [
        _interval(value, np.array(left, dtype=np.float64), t)
        for value, left in zip(whole, zip(*parts, strict=True), strict=True)
    ]


def _interval(value: float, left: NDArray[np.float64], t: float) -> Interval:
    if not (np.abs([value, *left]) < 1).all():
        return Interval(None, None, "none (undefined, or at an end, without some of the rows)")
    z, groups = np.arctanh(left), len(left)
    if np.ptp(z) <= TIE:
        return Interval(None, None, "none (equal without any of the groups)")
    half = t * math.sqrt((groups - 1) / groups * float(np.sum((z - z.mean()) ** 2)))
    return Interval(
        math.tanh(math.atanh(value) - half), math.tanh(math.atanh(value) + half), "jackknife"
    )
