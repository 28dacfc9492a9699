"""Quantiles of Student's t."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from medhelm.stats.aggregation import Floats

_MOST_STEPS = 200
"""Newton's steps to a quantile: 5 or 6 as a rule, one for each doubling in the tails of df 1."""


def t_quantile(p: float, df: float) -> float:
    """Return the p quantile of Student's t; between whole df linear in 1 / df, which is not less."""
    return float(t_quantiles(p, np.array([df]))[0])


def t_quantiles(p: float, df: Floats) -> Floats:
    """Return the p quantile of Student's t for each number (n,) of degrees of freedom."""
    low, place = np.unique(np.floor(df), return_inverse=True)
    below = np.array([_whole_t_quantile(p, int(d)) for d in low])[place]
    above = np.array([_whole_t_quantile(p, int(d) + 1) for d in low])[place]
    whole = low[place]
    share = (1 / whole - 1 / df) / (1 / whole - 1 / (whole + 1))
    return np.asarray((1 - share) * below + share * above, dtype=np.float64)


@cache
def _whole_t_quantile(p: float, df: int) -> float:
    """Return the p quantile of Student's t with a whole number of degrees of freedom.

    Newton's steps on the finite series of its distribution (Abramowitz and Stegun 26.7.3, 26.7.4)
    from the normal quantile: it lies nearer to 0, so that no step passes the root. Every interval
    needs this one function, and importing scipy's takes longer than most tables.
    """
    if p < 0.5:
        return -_whole_t_quantile(1 - p, df)
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
