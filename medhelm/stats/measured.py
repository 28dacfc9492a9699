"""Measures of how two raters' values meet, with bootstrap intervals over whole clusters.

A unit that both rated is counted in a cell of a table (m, m): the first rater's value is the row,
the second's the column. Every measure is a function of tables (..., m, m), summed over units, so
that a draw of clusters is a weighted sum of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.stats.aggregation import Floats, Ints, mean_of_defined, ratio
from medhelm.stats.agreement import Level as Level
from medhelm.stats.agreement import common_pairs as common_pairs
from medhelm.stats.agreement import krippendorff_alpha as krippendorff_alpha
from medhelm.stats.agreement import weighted_kappa
from medhelm.stats.intervals import Interval, bootstrap, percentile

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
    each = [_measure(s.sum(0, keepdims=True), size, measures) for s in sums]
    values = {name: float(_mean(each, name)[0]) for name in measures if each}
    undefined = {name: sum(bool(np.isnan(m[name][0])) for m in each) for name in measures}
    wanted = {name: measures[name] for name in with_interval}
    if count < 2:
        none = {name: no_interval(values.get(name)) for name in wanted}
        return Measured(len(used), count, values, none, undefined, {})
    drawn = [_measure(bootstrap(s, draws, seed), size, wanted) for s in sums]
    means = {name: _mean(drawn, name) for name in wanted}
    intervals = {
        name: no_interval(values[name])
        if np.isnan(values[name])
        else percentile(means[name], confidence, count)
        for name in wanted
    }
    return Measured(len(used), count, values, intervals, undefined, means)


def _sums(pair: Pair, clusters: Ints, count: int, size: int) -> Floats:
    """Return how often each two values meet in each cluster, (C, m * m)."""
    cells = clusters * size * size + pair.first * size + pair.second
    found = np.bincount(cells, minlength=count * size * size)
    return found.reshape(count, size * size).astype(np.float64)


def _measure(sums: Floats, size: int, measures: Mapping[str, Measure]) -> dict[str, Floats]:
    tables = sums.reshape(-1, size, size)
    return {name: value(tables) for name, value in measures.items()}


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


def kappa(cost: Floats) -> Measure:
    """Return weighted kappa; NaN where one rater gives all units the same value."""

    def of(table: Floats) -> Floats:
        varies = ((table.sum(-1) > 0).sum(-1) > 1) & ((table.sum(-2) > 0).sum(-1) > 1)
        return np.asarray(np.where(varies, weighted_kappa(table, cost), np.nan))

    return of
