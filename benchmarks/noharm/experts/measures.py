"""Agreement of ratings of actions, 1 to 9 in half points: kappa, classes, differences.

A median of an even number of ratings may lie between two points. Kappa and differences take it as
it is. Its class and harm weight are those of the point above, so that 3.5 is uncertain and 6.5
appropriate (the higher class, as RAND/UCLA panels have it: Fitch et al. 2001).

Every measure is a function of sums over actions, so that the bootstrap draws whole cases.
Kappa: Cohen 1960 and 1968. It is undefined, NaN, where one of the two rates all actions the same:
whatever the other says, the formula then gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.agreement import weighted_kappa
from medhelm.stats.intervals import Interval, bootstrap, percentile, score_interval
from medhelm_benchmarks.noharm.rules.derive import (
    WEIGHTS,
    ActionClass,
    action_class,
    severity,
    to_point,
)

CLASSES: tuple[ActionClass, ...] = get_args(ActionClass)

_POINTS = np.arange(2, 19) / 2
"""1, 1.5, ..., 9."""

Pairs = Sequence[tuple[Floats, Floats]]


def median(ratings: Floats, least: int) -> Floats:
    """Return the median (n,) of the ratings (n, k) of each action, NaN where fewer than `least` are."""
    enough = (~np.isnan(ratings)).sum(axis=1) >= max(1, least)
    found = np.full(len(ratings), np.nan)
    if enough.any():
        found[enough] = np.nanmedian(ratings[enough], axis=1)
    return found


def harm_weight(rating: float) -> int:
    """Return what an error about an action weighs: above 0 leaving it out, below 0 endorsing it."""
    grave = severity(to_point(rating))
    if grave is None:
        return 0
    return WEIGHTS[grave] if action_class(to_point(rating)) == "appropriate" else -WEIGHTS[grave]


_CLASS = np.asarray([CLASSES.index(action_class(to_point(p))) for p in _POINTS])
_HARM = np.asarray([harm_weight(p) for p in _POINTS])
_GAP = np.abs(_POINTS[:, None] - _POINTS)
_IS_REVERSED = (np.abs(np.subtract.outer(_CLASS, _CLASS)) == 2).astype(np.float64)


def classes(ratings: Floats) -> Ints:
    """Return the places in `CLASSES` of ratings without NaN."""
    return np.asarray(_CLASS[_places(ratings)], dtype=np.int64)


def _places(ratings: Floats) -> Ints:
    return np.asarray(np.rint(2 * ratings - 2), dtype=np.int64)


def _kappa(table: Floats, cost: Floats) -> Floats:
    """Return weighted kappa of tables (..., m, m); NaN where all counts of a rater are in one row
    or column."""
    varies = ((table.sum(-1) > 0).sum(-1) > 1) & ((table.sum(-2) > 0).sum(-1) > 1)
    return np.asarray(np.where(varies, weighted_kappa(table, cost), np.nan))


def _share(cost: Floats) -> Callable[[Floats], Floats]:
    """Return the mean over actions of what a cell of the table says."""

    def mean(table: Floats) -> Floats:
        n = table.sum((-2, -1))
        total = (table * cost).sum((-2, -1))
        return np.asarray(np.where(n > 0, total / np.where(n > 0, n, 1.0), np.nan))

    return mean


def _by_class(table: Floats) -> Floats:
    """Return tables (..., 3, 3) of classes."""
    to_class = np.eye(len(CLASSES))[_CLASS]
    return np.asarray(to_class.T @ table @ to_class)


MEASURES: Mapping[str, Callable[[Floats], Floats]] = {
    "kappa_quadratic": lambda table: _kappa(table, _GAP**2),
    "kappa_linear": lambda table: _kappa(table, _GAP),
    "same_class": _share((_CLASS[:, None] == _CLASS).astype(np.float64)),
    "class_kappa": lambda table: _kappa(_by_class(table), 1 - np.eye(len(CLASSES))),
    "difference": _share(_POINTS[:, None] - _POINTS),
    "within_1": _share((_GAP <= 1).astype(np.float64)),
    "reversed": _share(_IS_REVERSED),
    "harm_changed": _share((_HARM[:, None] != _HARM).astype(np.float64)),
}
"""By name, of tables (..., 17, 17): rows the first rater's half points, columns the second's."""

WITH_INTERVAL = ("kappa_quadratic", "kappa_linear", "same_class", "class_kappa", "difference")


@dataclass(frozen=True)
class Agreement:
    """Holds the result of one comparison, or the mean over several."""

    n: int
    """Actions that both of any pair rated."""
    cases: int
    values: Mapping[str, float]
    """By name of the measure; NaN where undefined in every pair."""
    intervals: Mapping[str, Interval]
    undefined: int
    """Pairs without a quadratic kappa; left out of its mean."""


def compare(pairs: Pairs, clusters: Ints, *, draws: int, seed: int, confidence: float) -> Agreement:
    """Return the agreement of pairs of raters, first with second; of several pairs the mean.

    Ratings (n,) are NaN where one did not rate. An action counts in the pairs that have both. The
    bootstrap draws whole cases, the same ones for all pairs.
    """
    both = [~(np.isnan(a) | np.isnan(b)) for a, b in pairs]
    used = np.any(both, axis=0) if both else np.zeros(len(clusters), dtype=np.bool_)
    names, own = np.unique(clusters[used], return_inverse=True)
    codes = np.zeros(len(clusters), dtype=np.int64)
    codes[used] = own
    sums = [
        _counts(a[rows], b[rows], codes[rows], len(names))
        for (a, b), rows in zip(pairs, both, strict=True)
    ]
    each = [_measure(s.sum(0, keepdims=True)) for s in sums]
    values = {name: float(_mean([m[name] for m in each])[0]) for name in MEASURES if each}
    undefined = sum(bool(np.isnan(m["kappa_quadratic"][0])) for m in each)
    n, count = int(used.sum()), len(names)
    if count < 2:
        intervals = {name: _no_interval(values.get(name)) for name in WITH_INTERVAL}
        return Agreement(n, count, values, intervals, undefined)
    drawn = [_measure(bootstrap(s, draws, seed)) for s in sums]
    intervals = {
        name: percentile(_mean([m[name] for m in drawn]), confidence, count)
        if not np.isnan(values[name])
        else _no_interval(values[name])
        for name in WITH_INTERVAL
    }
    if len(pairs) == 1:
        same = (classes(pairs[0][0][used]) == classes(pairs[0][1][used])).astype(np.float64)
        intervals["same_class"] = score_interval(
            same, own, drawn[0]["same_class"], span=(0, 1), is_mean=True, confidence=confidence
        )
    return Agreement(n, count, values, intervals, undefined)


def _counts(a: Floats, b: Floats, clusters: Ints, count: int) -> Floats:
    """Return how often each pair of half points occurs in each case, (C, 17 * 17)."""
    size = len(_POINTS) ** 2
    cells = _places(a) * len(_POINTS) + _places(b)
    found = np.bincount(clusters * size + cells, minlength=count * size)
    return found.reshape(count, size).astype(np.float64)


def _measure(counts: Floats) -> dict[str, Floats]:
    tables = counts.reshape(-1, len(_POINTS), len(_POINTS))
    return {name: measure(tables) for name, measure in MEASURES.items()}


def _mean(values: Sequence[Floats]) -> Floats:
    """Return the mean over pairs of what is defined, NaN where nothing is."""
    stacked = np.stack(values)
    known = ~np.isnan(stacked)
    total, n = np.where(known, stacked, 0.0).sum(0), known.sum(0)
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), np.nan))


def _no_interval(value: float | None) -> Interval:
    """Return why there is none: of less than two cases, or of what is undefined."""
    if value is None or np.isnan(value):
        return Interval(None, None, "none (nothing rated, or by one of the two all the same)")
    return Interval(None, None, "none (one case)")
