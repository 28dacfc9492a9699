"""Agreement of ratings of actions, 1 to 9 in half points: kappa, classes, differences.

A median of an even number of ratings may lie between two points. Kappa and differences take it as
it is. Its class and harm weight are those of the point above, so that 3.5 is uncertain and 6.5
appropriate (the higher class, as RAND/UCLA panels have it: Fitch et al. 2001).

Kappa: Cohen 1960 and 1968. It is undefined, NaN, where one of the two rates all actions the same:
whatever the other says, the formula then gives 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from medhelm import Floats
from medhelm.plugin import aggregation, intervals, measured
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
_IS_REVERSED = np.abs(np.subtract.outer(_CLASS, _CLASS)) == 2
_class_kappa = measured.kappa(1 - np.eye(len(CLASSES)))


def classes(ratings: Floats) -> aggregation.Ints:
    """Return the places in `CLASSES` of ratings without NaN."""
    return np.asarray(_CLASS[_places(ratings)], dtype=np.int64)


def _places(ratings: Floats) -> aggregation.Ints:
    return np.rint(2 * ratings - 2).astype(np.int64)


def _by_class(table: Floats) -> Floats:
    """Return tables (..., 3, 3) of classes."""
    to_class = np.eye(len(CLASSES))[_CLASS]
    return np.asarray(to_class.T @ table @ to_class)


MEASURES: Mapping[str, measured.Measure] = {
    "kappa_quadratic": measured.kappa(_GAP**2),
    "same_class": measured.share((_CLASS[:, None] == _CLASS).astype(np.float64)),
    "class_kappa": lambda table: _class_kappa(_by_class(table)),
    "difference": measured.share(_POINTS[:, None] - _POINTS),
    "within_1": measured.share((_GAP <= 1).astype(np.float64)),
    "reversed": measured.share(_IS_REVERSED.astype(np.float64)),
    "harm_changed": measured.share((_HARM[:, None] != _HARM).astype(np.float64)),
}
"""By name, of tables of the half points of two raters."""

WITH_INTERVAL = ("kappa_quadratic", "same_class", "difference")


def compare(
    pairs: Sequence[tuple[Floats, Floats]],
    clusters: aggregation.Ints,
    *,
    draws: int,
    seed: int,
    confidence: float,
) -> measured.Measured:
    """Return the agreement of pairs of raters (n,), first with second; of several pairs the mean.

    An action counts in the pairs that have both ratings; NaN is none. `clusters`: their cases.
    """
    both = [np.flatnonzero(~(np.isnan(a) | np.isnan(b))) for a, b in pairs]
    found = measured.measure(
        [
            measured.Pair(_places(a[u]), _places(b[u]), u)
            for (a, b), u in zip(pairs, both, strict=True)
        ],
        clusters,
        len(_POINTS),
        MEASURES,
        with_interval=WITH_INTERVAL,
        draws=draws,
        seed=seed,
        confidence=confidence,
    )
    if len(pairs) > 1 or not found.draws:
        return found
    (a, b), (used,) = pairs[0], both
    same = (classes(a[used]) == classes(b[used])).astype(np.float64)
    codes = np.unique(clusters[used], return_inverse=True)[1].astype(np.int64)
    ends = intervals.score_interval(
        same, codes, found.draws["same_class"], span=(0, 1), is_mean=True, confidence=confidence
    )
    return replace(found, intervals={**found.intervals, "same_class": ends})
