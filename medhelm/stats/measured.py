"""Measures of how raters' values meet, with bootstrap intervals over whole clusters.

Every measure is a function of counts, summed over units, so that a draw of clusters is a weighted
sum of theirs. Of two raters on a scale the counts are a table (m, m): the first rater's value is
the row, the second's the column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from medhelm.stats.aggregation import Floats, Ints, mean_of_defined, ratio
from medhelm.stats.agreement import Level as Level
from medhelm.stats.agreement import common_pairs as common_pairs
from medhelm.stats.agreement import icc2 as icc2
from medhelm.stats.agreement import icc3k as icc3k
from medhelm.stats.agreement import krippendorff_alpha as krippendorff_alpha
from medhelm.stats.agreement import mean_squares as mean_squares
from medhelm.stats.agreement import weighted_kappa
from medhelm.stats.intervals import (
    Interval,
    bootstrap,
    cluster_sums,
    percentile,
    score_interval,
)

Measure = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Pair:
    """The values of two raters as places 0..m-1 on a scale, of the units that both rated."""

    first: Ints
    second: Ints
    units: Ints
    """Places of these units among all."""


@dataclass(frozen=True)
class Measured:
    """The measures of one pair of raters, or their means over several pairs."""

    n: int
    """Units that both of any pair rated."""
    clusters: int
    values: Mapping[str, float]
    """By name; NaN where undefined in every pair."""
    intervals: Mapping[str, Interval]
    undefined: Mapping[str, int]
    """Pairs without a value, left out of its mean."""
    draws: Mapping[str, Floats]

    @property
    def row(self) -> dict[str, object]:
        """Return the values, and the ends of their intervals as `NAME_low` and `NAME_high`."""
        row: dict[str, object] = dict(self.values)
        for name, own in self.intervals.items():
            row |= own.ends(name)
        return row


def measure(
    pairs: Sequence[Pair],
    clusters: Ints,
    size: int,
    measures: Mapping[str, Measure],
    *,
    with_interval: Collection[str],
    draws: int,
    seed: int,
    confidence: float,
) -> Measured:
    """Return the measures of raters' values on a scale of `size` places; of several pairs the mean.

    `clusters` are of all units. The bootstrap draws the same clusters for all pairs.
    """
    used = np.unique(np.concatenate([p.units for p in pairs])) if pairs else np.empty(0, np.int64)
    names, own = np.unique(clusters[used], return_inverse=True)
    codes = np.zeros(len(clusters), dtype=np.int64)
    codes[used] = own
    count = len(names)
    sums = [_sums(pair, codes[pair.units], count, size) for pair in pairs]
    of_sums = {name: partial(_of_table, value, size) for name, value in measures.items()}
    return _measured(len(used), count, sums, of_sums, with_interval, draws, seed, confidence)


def counted(
    counts: Floats,
    clusters: Ints,
    measures: Mapping[str, Measure],
    *,
    with_interval: Collection[str],
    rates: Collection[str] = (),
    draws: int,
    seed: int,
    confidence: float,
) -> Measured:
    """Return measures of the counts (n, k) of units, whose clusters these are.

    `rates`: measures with an interval whose value of each unit is 0 or 1; it is that of a rate.
    """
    names, codes = np.unique(clusters, return_inverse=True)
    sums = cluster_sums(counts, codes, len(names))
    found = _measured(
        len(counts), len(names), [sums], measures, with_interval, draws, seed, confidence
    )
    ends = {
        name: score_interval(
            measures[name](counts),
            codes,
            found.draws[name],
            span=(0, 1),
            is_mean=True,
            confidence=confidence,
        )
        for name in (rates if found.draws else ())
    }
    return replace(found, intervals={**found.intervals, **ends})


def _measured(
    n: int,
    count: int,
    sums: Sequence[Floats],
    measures: Mapping[str, Measure],
    with_interval: Collection[str],
    draws: int,
    seed: int,
    confidence: float,
) -> Measured:
    """Return the measures of sums (count, k) over clusters, one of each pair."""
    each = [{name: value(s.sum(0)) for name, value in measures.items()} for s in sums]
    values = {name: float(_mean(each, name)) for name in measures if each}
    undefined = {name: sum(bool(np.isnan(m[name])) for m in each) for name in measures}
    if count < 2 or not with_interval:
        none = {name: no_interval(values.get(name)) for name in with_interval}
        return Measured(n, count, values, none, undefined, {})
    weighted = (bootstrap(s, draws, seed) for s in sums)  # one at a time
    drawn = [{name: measures[name](w) for name in with_interval} for w in weighted]
    means = {name: _mean(drawn, name) for name in with_interval}
    intervals = {
        name: no_interval(values[name])
        if np.isnan(values[name])
        else percentile(means[name], confidence, count)
        for name in with_interval
    }
    return Measured(n, count, values, intervals, undefined, means)


def _sums(pair: Pair, clusters: Ints, count: int, size: int) -> Floats:
    """Return how often each two values meet in each cluster, (C, m * m)."""
    cells = clusters * size * size + pair.first * size + pair.second
    found = np.bincount(cells, minlength=count * size * size)
    return found.reshape(count, size * size).astype(np.float64)


def _of_table(value: Measure, size: int, sums: Floats) -> Floats:
    return value(sums.reshape(*sums.shape[:-1], size, size))


def _mean(each: Sequence[Mapping[str, Floats]], name: str) -> Floats:
    """Return the mean over pairs of what is defined."""
    return mean_of_defined(np.stack([own[name] for own in each]).T)


def no_interval(value: float | None) -> Interval:
    """Return why there is none: of less than two clusters, or of what is undefined."""
    if value is None or np.isnan(value):
        return Interval(None, None, "none (nothing rated, or by one of the two all the same)")
    return Interval(None, None, "none (one case)")


def share(cost: Floats) -> Measure:
    """Return the measure that is the mean over units of what their cell says."""
    return lambda table: ratio((table * cost).sum((-2, -1)), table.sum((-2, -1)))


def column_mean(column: int) -> Measure:
    """Return the measure that is a column of counts over the last, which counts the units."""
    return lambda counts: ratio(counts[..., column], counts[..., -1])


def kappa(cost: Floats) -> Measure:
    """Return weighted kappa; NaN where one rater gives all units the same value."""

    def of(table: Floats) -> Floats:
        varies = ((table.sum(-1) > 0).sum(-1) > 1) & ((table.sum(-2) > 0).sum(-1) > 1)
        return np.asarray(np.where(varies, weighted_kappa(table, cost), np.nan))

    return of
