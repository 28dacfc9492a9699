"""Agreement of decisions that are met or not, corrected shares, orders: by hand, against libraries,
by law, by simulation."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from sklearn import metrics as sklearn_metrics

from medhelm.stats.agreement import powered_mean, t_interval
from medhelm.stats.two_class import (
    confusion,
    corrected_share,
    kappa,
    kendall,
    macro_f1,
    met_f1,
    pearson,
    positive_rates,
    same,
    spearman,
    top_overlap,
    unmet_f1,
)

pytestmark = pytest.mark.slow

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)
orders = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=12)


def counted(rows: list[tuple[bool, bool]]) -> Any:
    a, b = (np.asarray(column, dtype=np.bool_) for column in zip(*rows, strict=True))
    return confusion(a, b).sum(0)


def test_values_by_hand() -> None:
    # 10 decisions: 4 both met, 1 by the second alone, 2 by the first alone, 3 by neither
    counts = np.asarray([4.0, 1.0, 2.0, 3.0])
    assert met_f1(counts) == pytest.approx(8 / 11)
    assert unmet_f1(counts) == pytest.approx(6 / 9)
    assert macro_f1(counts) == pytest.approx((8 / 11 + 2 / 3) / 2)
    assert same(counts) == pytest.approx(0.7)
    assert positive_rates(counts) == (pytest.approx(0.6), pytest.approx(0.5))
    assert kappa(counts) == pytest.approx((0.7 - 0.5) / 0.5)  # chance: .6 * .5 + .4 * .5


def test_a_class_that_nobody_finds_has_no_f1() -> None:
    all_met = np.asarray([5.0, 0.0, 0.0, 0.0])
    assert met_f1(all_met) == 1
    assert math.isnan(float(unmet_f1(all_met)))
    assert math.isnan(float(macro_f1(all_met)))
    assert math.isnan(float(kappa(all_met)))
    # one grader alone finds it: the F1 is 0, which is a value
    assert macro_f1(np.asarray([5.0, 0.0, 1.0, 0.0])) == pytest.approx((10 / 11 + 0) / 2)


@given(pairs)
def test_as_scikit_learn(rows: list[tuple[bool, bool]]) -> None:
    counts = counted(rows)
    a, b = zip(*rows, strict=True)
    if not math.isnan(float(macro_f1(counts))):
        assert macro_f1(counts) == pytest.approx(sklearn_metrics.f1_score(a, b, average="macro"))
    if not math.isnan(float(kappa(counts))):
        assert kappa(counts) == pytest.approx(sklearn_metrics.cohen_kappa_score(a, b))


@given(pairs, st.randoms(use_true_random=False))
def test_laws_of_agreement(rows: list[tuple[bool, bool]], dice: Any) -> None:
    value = float(macro_f1(counted(rows)))
    swapped = float(macro_f1(counted([(b, a) for a, b in rows])))
    turned = float(macro_f1(counted([(not a, not b) for a, b in rows])))
    mixed = list(rows)
    dice.shuffle(mixed)
    for other in (swapped, turned, float(macro_f1(counted(mixed)))):
        assert other == pytest.approx(value, nan_ok=True)
    if not math.isnan(value):
        assert 0 <= value <= 1
        right = [(a, a) for a, _ in rows]
        best = float(macro_f1(counted(right)))
        assert math.isnan(best) or value <= best == 1
        for place, (a, b) in enumerate(rows):  # one decision put right lowers nothing
            if a != b:
                better = float(macro_f1(counted([*rows[:place], (a, a), *rows[place + 1 :]])))
                assert math.isnan(better) or better >= value - 1e-12


@given(orders, st.integers(0, 9))
def test_orders_by_definition_and_as_scipy(rows: list[tuple[int, int]], seed: int) -> None:
    a, b = (np.asarray(column, dtype=np.float64) / 7 for column in zip(*rows, strict=True))
    noisy = a + 1e-13 * np.random.default_rng(seed).normal(size=len(a))  # the rest of a sum
    if len({*a}) == 1 or len({*b}) == 1:
        assert all(map(math.isnan, (spearman(noisy, b), kendall(noisy, b), pearson(a, b))))
        return
    assert spearman(noisy, b) == pytest.approx(scipy_stats.spearmanr(a, b).statistic)
    assert pearson(a, b) == pytest.approx(scipy_stats.pearsonr(a, b).statistic)
    x, y = (np.sign(own[:, None] - own) for own in (a, b))
    tau = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())
    assert kendall(noisy, b) == pytest.approx(tau)


@pytest.mark.parametrize("measure", [spearman, kendall, pearson])
def test_two_items_have_no_correlation(measure: Any) -> None:
    assert math.isnan(measure(np.asarray([1.0, 2.0]), np.asarray([3.0, 4.0])))
    assert measure(np.asarray([1.0, 2.0, 4.0]), np.asarray([3.0, 4.0, 6.0])) == pytest.approx(1)


def test_the_overlap_of_tops() -> None:
    a = np.asarray([5.0, 4.0, 3.0, 2.0, 1.0])
    assert top_overlap(a, a, 3) == 3
    assert top_overlap(a, a[::-1], 3) == 1  # the middle one
    assert math.isnan(top_overlap(a, a, 5))  # all of them are in every top five
    # two tie for the third place and hold half of it each
    tied = np.asarray([5.0, 4.0, 3.0, 3.0, 1.0])
    assert top_overlap(a, tied, 3) == pytest.approx(2.5)
    order = [3, 1, 4, 0, 2]
    assert top_overlap(a[order], tied[order], 3) == pytest.approx(2.5)


# Corrected shares --------------------------------------------------------------------------------


def test_a_corrected_share_by_hand() -> None:
    # of 10 truly met the judge finds 9, of 20 truly unmet it finds 16 unmet: Se .9, Sp .8
    truth = np.asarray([True] * 10 + [False] * 20)
    graded = np.asarray([True] * 9 + [False] + [False] * 16 + [True] * 4)
    judge = np.asarray([True] * 50 + [False] * 50)
    found = corrected_share(judge, np.arange(100), graded, truth, np.arange(100, 130))
    assert found.value == pytest.approx((0.5 + 0.8 - 1) / 0.7)
    # each unit its own cluster: the delta-method error of independent units, times C / (C - 1)
    t = 3 / 7
    plain = math.sqrt((0.25 / 100 + (1 - t) ** 2 * 0.16 / 20 + t**2 * 0.09 / 10) / 0.49)
    assert found.error == pytest.approx(plain * math.sqrt(30 / 29))


@pytest.mark.parametrize(
    ("graded", "why"),
    [
        ([True, False] * 20, "sensitivity + specificity = 1.00"),  # a coin
        ([False, True] * 20, "sensitivity + specificity = 0.00"),  # always wrong
    ],
)
def test_a_judge_near_chance_corrects_nothing(graded: list[bool], why: str) -> None:
    if why.endswith("1.00"):
        truth = np.asarray([True, True, False, False] * 10)
    else:
        truth = np.asarray([True, False] * 20)
    found = corrected_share(
        np.ones(9, dtype=np.bool_), np.arange(9), np.asarray(graded), truth, np.arange(9, 49)
    )
    assert found.value is None and found.method == f"none ({why})"


def test_a_judge_that_few_labels_cannot_tell_from_chance_corrects_nothing() -> None:
    truth = np.asarray([True] * 4 + [False] * 4)
    graded = np.asarray([True, True, True, False] + [False, False, False, True])  # Se + Sp = 1.5
    found = corrected_share(
        np.ones(9, dtype=np.bool_), np.arange(9), graded, truth, np.asarray([9, 10, 11, 12] * 2)
    )
    assert found.value is None and "1.50" in found.method


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Simulate cases with correlated criteria and a strict judge; a third of the cases is labelled."""
    rng = np.random.default_rng(5)
    hits = np.zeros(2)
    n, per_case, truth_share = 60, 10, 0.5
    trials = 600
    naive = 0
    for _ in range(trials):
        odds = rng.beta(2, 2, size=(n, 1))  # cases differ: criteria of one case go together
        truth = rng.random((n, per_case)) < odds
        judge = np.where(truth, rng.random(truth.shape) < 0.75, rng.random(truth.shape) < 0.1)
        clusters = np.repeat(np.arange(n), per_case)
        labelled = clusters < 20
        flat, said = truth.ravel(), judge.ravel()
        rogan = corrected_share(said, clusters, said[labelled], flat[labelled], clusters[labelled])
        human = np.where(labelled, flat.astype(float), np.nan)
        powered = powered_mean(said.astype(float), human, clusters)
        for place, found in enumerate((rogan, powered)):
            ends = t_interval(found, 20, 0.95)
            assert ends.low is not None and ends.high is not None
            hits[place] += ends.low <= truth_share <= ends.high
        p = said.mean()
        naive += abs(p - truth_share) <= 1.96 * math.sqrt(p * (1 - p) / len(said))
    # 600 trials: three standard errors of 95 % are 2.7 points
    assert (hits / trials > 0.923).all() and (hits / trials < 0.985).all(), hits / trials
    assert naive / trials < 0.6  # the judge's own interval leaves out its strictness
