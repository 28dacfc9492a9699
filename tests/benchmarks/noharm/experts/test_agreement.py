"""Agreement on actions: medians, kappa, classes, differences, against hand and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from medhelm.stats.aggregation import Floats
from medhelm.stats.measured import Measured
from medhelm_benchmarks.noharm.experts.agreement import (
    CLASSES,
    classes,
    compare,
    harm_weight,
)
from tests.cases import cases

NAN = math.nan
HALVES = st.integers(2, 18).map(lambda n: n / 2)
TWO = st.lists(st.tuples(HALVES, HALVES), min_size=2, max_size=30).map(np.asarray)


def of(a: Floats | list[float], b: Floats | list[float], clusters: object = None) -> Measured:
    one, other = (np.asarray(x, dtype=np.float64) for x in (a, b))
    codes = np.arange(len(one)) if clusters is None else np.asarray(clusters)
    return compare([(one, other)], codes, draws=200, seed=1, confidence=0.95)


@pytest.mark.parametrize(
    ("rating", "of_class", "weight"), cases(__file__, "halves_go_up_for_class_and_weight")
)
def test_halves_go_up_for_class_and_weight(rating: float, of_class: str, weight: int) -> None:
    assert CLASSES[classes(np.asarray([rating]))[0]] == of_class
    assert harm_weight(rating) == weight


# Kappa and the rest -------------------------------------------------------------------------------


def test_kappa_of_classes_by_hand() -> None:
    """Table 4 1 0 / 1 1 1 / 0 0 2: agreement 0.7, by chance (25 + 6 + 6) / 100."""
    cells = [(8, 8)] * 4 + [(7, 5), (4, 9), (6, 5), (5, 2), (1, 1), (3, 2)]
    a, b = np.asarray(cells, dtype=np.float64).T
    found = of(a, b).values
    assert found["class_kappa"] == pytest.approx((0.7 - 0.37) / 0.63)
    assert found["same_class"] == pytest.approx(0.7)


def test_the_same_weight_of_the_other_error_is_a_change() -> None:
    found = of([7, 9], [3, 1]).values
    assert found["harm_changed"] == 1
    assert found["reversed"] == 1


@pytest.mark.slow
@given(TWO)
def test_kappas_are_those_of_scikit_learn(ratings: Floats) -> None:
    a, b = ratings.T
    assume(len(set(a)) > 1 and len(set(b)) > 1)
    found = of(a, b).values
    expected = cohen_kappa_score(
        (2 * a).astype(int), (2 * b).astype(int), weights="quadratic", labels=range(2, 19)
    )
    assert found["kappa_quadratic"] == pytest.approx(expected, abs=1e-12)
    if min(len(set(classes(x))) for x in (a, b)) > 1:
        expected = cohen_kappa_score(classes(a), classes(b), labels=[0, 1, 2])
        assert found["class_kappa"] == pytest.approx(expected, abs=1e-12)
    else:
        assert np.isnan(found["class_kappa"])


@pytest.mark.slow
@given(TWO)
def test_swapped_raters_agree_as_much(ratings: Floats) -> None:
    a, b = ratings.T
    one, other = of(a, b).values, of(b, a).values
    assert other["difference"] == -one["difference"]
    for name in set(one) - {"difference"}:
        assert other[name] == pytest.approx(one[name], nan_ok=True), name


@pytest.mark.parametrize(("a", "b"), [([7, 7, 7], [1, 5, 9]), ([1, 5, 9], [7, 7, 7]), ([4], [4])])
def test_constant_ratings_have_no_kappa_and_say_why(a: list[float], b: list[float]) -> None:
    found = of(a, b)
    for name in ("kappa_quadratic", "class_kappa"):
        assert np.isnan(found.values[name])
    assert found.intervals["kappa_quadratic"].low is None
    assert "all the same" in found.intervals["kappa_quadratic"].method
    assert found.undefined["kappa_quadratic"] == 1
    assert not np.isnan(found.values["difference"])


def test_only_actions_that_both_rated_count() -> None:
    found = of([9, NAN, 8, 2, 5], [8, 3, 8, 3, 7], [0, 0, 1, 1, 1])
    assert (found.n, found.clusters) == (4, 2)
    assert found.values == of([9, 8, 2, 5], [8, 8, 3, 7]).values
    nothing = of([NAN, NAN], [1, 2])
    assert (nothing.n, nothing.clusters) == (0, 0)
    assert all(np.isnan(v) for v in nothing.values.values())


def test_of_several_pairs_the_mean_of_those_that_are_defined() -> None:
    a, b, same = (np.asarray(x, dtype=float) for x in ([9, 8, 2, 5], [8, 8, 3, 7], [6, 6, 6, 6]))
    clusters = np.arange(4)
    found = compare([(a, b), (a, a), (a, same)], clusters, draws=50, seed=1, confidence=0.95)
    assert found.values["kappa_quadratic"] == pytest.approx((0.875 + 1) / 2)
    assert found.undefined["kappa_quadratic"] == 1
    assert found.values["within_1"] == pytest.approx((0.75 + 1 + 0.25) / 3)


# Intervals ----------------------------------------------------------------------------------------


def simulated(cases: int, per_case: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(cases), per_case)
    shift = np.repeat(rng.integers(-2, 3, cases), per_case)
    b = rng.integers(1, 10, cases * per_case).astype(float)
    return np.clip(b + shift, 1, 9), b, clusters


def test_whole_cases_are_drawn() -> None:
    """Every action twice tells nothing new where cases are drawn; one by one it seems to."""
    a, b, clusters = simulated(12, 10)
    once, twice = of(a, b, clusters), of(np.tile(a, 2), np.tile(b, 2), np.tile(clusters, 2))
    for name in ("kappa_quadratic", "difference"):
        assert once.intervals[name] == twice.intervals[name]
        assert once.values[name] == pytest.approx(twice.values[name])
    alone = of(a, b).intervals["difference"]
    whole = once.intervals["difference"]
    assert whole.low is not None and whole.high is not None
    assert alone.low is not None and alone.high is not None
    assert whole.low < alone.low < once.values["difference"] < alone.high < whole.high


def test_the_interval_of_a_difference_is_that_of_means_of_cases() -> None:
    """With equal cases the mean over actions is that over cases: (mean -+ z SE), roughly."""
    a, b, clusters = simulated(200, 5)
    found = compare([(a, b)], clusters, draws=4000, seed=1, confidence=0.95)
    means = (a - b).reshape(200, 5).mean(axis=1)
    half = 1.96 * means.std(ddof=1) / math.sqrt(200)
    ends = found.intervals["difference"]
    assert ends.low == pytest.approx(means.mean() - half, abs=0.15 * half)
    assert ends.high == pytest.approx(means.mean() + half, abs=0.15 * half)
