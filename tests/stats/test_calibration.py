"""Calibration: bins, their error and its interval, against values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from medhelm.stats.calibration import (
    BINS,
    calibration_error,
    equal_mass_bins,
    error_interval,
    errors_by_chance,
    gap_sums,
)
from medhelm.stats.intervals import bootstrap


def test_bins_hold_as_many_answers_each_and_equal_confidences_stay_together() -> None:
    spread = np.linspace(0.3, 0.9, 200)
    assert np.bincount(equal_mass_bins(spread)).tolist() == [20] * BINS
    assert equal_mass_bins(np.linspace(0, 1, 35)).max() + 1 == 3, "ten answers to a bin"
    tied = np.array([0.9] * 150 + [0.5] * 25 + [0.7] * 25)
    bins = equal_mass_bins(tied)
    assert {tuple(set(bins[tied == value])) for value in (0.5, 0.7, 0.9)} == {(0,), (1,), (2,)}
    assert equal_mass_bins(np.full(5, 0.5)).tolist() == [0] * 5
    shuffled = np.random.default_rng(0).permutation(spread)
    assert (equal_mass_bins(shuffled)[np.argsort(shuffled)] == equal_mass_bins(spread)).all()


def test_the_error_is_the_mean_distance_in_the_bins() -> None:
    confidence = np.array([0.6] * 10 + [0.9] * 10)
    right = np.array([1.0] * 4 + [0.0] * 6 + [1.0] * 10)
    bins = equal_mass_bins(confidence)
    error = calibration_error(gap_sums(confidence, right, bins).sum(0))
    assert error == pytest.approx((abs(0.6 - 0.4) + abs(0.9 - 1.0)) / 2)


@pytest.mark.slow
def test_intervals_hold_the_error_of_calibrated_and_of_overconfident_models() -> None:
    rng = np.random.default_rng(1)
    held = {1.0: 0, 0.5: 0}
    for slope in held:
        for trial in range(40):
            confidence = 0.25 + 0.75 * rng.beta(3, 3, size=300)
            truth = 0.25 + slope * (confidence - 0.25)
            right = (rng.random(300) < truth).astype(float)
            bins = equal_mass_bins(confidence)
            expected = calibration_error(gap_sums(confidence, truth, bins).sum(0))
            sums = gap_sums(confidence, right, bins)
            error = float(calibration_error(sums.sum(0)))
            chance = errors_by_chance(confidence, bins, 200, trial)
            draws = calibration_error(bootstrap(sums, 200, trial))
            low, high = error_interval(error, draws, chance, 0.95)
            held[slope] += low <= expected + 1e-9 and expected <= high
            assert low <= error <= high
    assert min(held.values()) >= 35
