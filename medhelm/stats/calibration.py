"""Calibration: how far the confidence of answers is from how often they are right. Pure functions on arrays."""

from __future__ import annotations

import numpy as np

from medhelm.stats.aggregation import Floats, Ints

BINS = 10
_LEAST = 10
"""Answers of a bin: with fewer, chance alone parts confidence and rate."""


def equal_mass_bins(confidence: Floats) -> Ints:
    """Return the bin of each answer, from 0: as many answers in each as equal confidences allow.

    There are at most `BINS`, fewer where answers are few, and answers of equal confidence are in one.
    """
    most = max(1, min(BINS, len(confidence) // _LEAST))
    _, place, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / max(1, len(confidence))
    return np.unique((middle * most).astype(np.int64)[place], return_inverse=True)[1]


def gap_sums(confidence: Floats, right: Floats, bins: Ints) -> Floats:
    """Return what each answer adds (n, bins + 1): confidence less right to its bin, and 1 to their number."""
    found = np.zeros((len(bins), int(bins.max(initial=-1)) + 2))
    found[np.arange(len(bins)), bins] = confidence - right
    found[:, -1] = 1.0
    return found


def calibration_error(sums: Floats) -> Floats:
    """Return the expected calibration error of sums (..., bins + 1), from 0 to 1.

    It is the mean over answers of how far mean confidence and rate are apart in their bin (Naeini et al.,
    2015), here in bins of equal mass. Chance parts them too, so that it is above 0 for any model.
    """
    return np.asarray(np.abs(sums[..., :-1]).sum(-1) / sums[..., -1], dtype=np.float64)


def errors_by_chance(confidence: Floats, bins: Ints, draws: int, seed: int) -> Floats:
    """Return errors (draws,) of a model that is right exactly as often as it is sure, on as many answers."""
    rng = np.random.default_rng(seed)
    right = ((rng.random(len(bins)) < confidence).astype(np.float64) for _ in range(draws))
    return np.array([calibration_error(gap_sums(confidence, own, bins).sum(0)) for own in right])


def error_interval(
    error: float, resampled: Floats, by_chance: Floats, confidence: float
) -> tuple[float, float]:
    """Return the ends of an error's interval: as far below it as its bootstrap draws reach above.

    Draws of the bootstrap are too large, since chance adds to the error once more, so that their own lower
    end would hide calibrated models. It is 0 where a calibrated one shows as large an error by chance. In
    simulations of 100 to 1,273 answers such 95 % intervals held the error in 92 to 99 % of cases.
    """
    level = (1.0 + confidence) / 2.0
    high = float(np.quantile(resampled, level))
    is_chance = error <= np.quantile(by_chance, level)
    return 0.0 if is_chance else max(0.0, 2.0 * error - high), min(1.0, high)
