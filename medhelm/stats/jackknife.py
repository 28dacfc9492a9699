"""Intervals of statistics that are not sums, such as the agreement of judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from medhelm.stats.aggregation import TIE, Ints
from medhelm.stats.intervals import Interval
from medhelm.stats.student_t import t_quantile

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
