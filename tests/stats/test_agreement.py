"""Agreement: published tables, identities, other libraries, and laws."""

import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr
from sklearn.metrics import cohen_kappa_score

from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats, clustered_error, standard_error
from medhelm.stats.agreement import Corrected
from medhelm.stats.intervals import Interval

NO = math.nan

SHROUT_FLEISS = np.asarray(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]],
    dtype=np.float64,
)
"""Table 2 of Shrout and Fleiss 1979: six targets, four judges."""

KRIPPENDORFF = np.asarray(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
        [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
    ]
).T
"""Example C of Krippendorff 2011: four observers, twelve units, some not observed."""


def close(a: float, b: float, places: int = 12) -> bool:
    return math.isclose(a, b, rel_tol=0, abs_tol=10**-places)


# The intraclass correlation ----------------------------------------------------------------------


def test_icc_of_shrout_and_fleiss() -> None:
    # Their table 3: between targets 11.24, between judges 32.49, residual 1.02.
    found = agreement.icc3k(SHROUT_FLEISS)
    assert close(found.value, 1 - 1.019444444 / 11.241666667, 8)
    assert round(found.value, 2) == 0.91
    one, mean = agreement.icc2(SHROUT_FLEISS)
    assert (round(one, 2), round(mean, 2)) == (0.29, 0.62)


def test_intervals_of_the_icc_are_those_of_the_f_distribution() -> None:
    # F(5, 15) = 11.03; its 97.5 % point is 3.576, that of F(15, 5) is 6.428.
    found = agreement.icc3k(SHROUT_FLEISS)
    assert close(found.low, 1 - 3.5764 / 11.0272, 4)
    assert close(found.high, 1 - 1 / (11.0272 * 6.4277), 4)


def test_intervals_are_not_clipped_at_zero() -> None:
    ratings = np.asarray([[1, 2], [2, 4], [3, 1], [4, 4], [5, 2], [2, 3]], dtype=np.float64)
    found = agreement.icc3k(ratings)
    assert found.low < 0 < found.high
    assert found.low < found.value < found.high


PAPER = [
    (56, 0.474, 0.10, 0.69),
    (56, 0.361, 0.00, 0.63),
    (56, 0.441, 0.05, 0.67),
    (31, 0.305, 0.00, 0.67),
    (31, 0.445, 0.00, 0.73),
    (31, 0.250, 0.00, 0.64),
    (25, 0.625, 0.15, 0.83),
    (25, 0.343, 0.00, 0.71),
    (25, 0.668, 0.25, 0.85),
]
"""Table 2 of the MedHELM paper: instances, ICC(3,k), and its interval, which is clipped at 0."""


@pytest.mark.parametrize(("n", "icc", "low", "high"), PAPER)
def test_the_intervals_of_the_paper(n: int, icc: float, low: float, high: float) -> None:
    r = icc / (2 - icc)
    a, b = agreement.z_scores(np.random.default_rng(0).normal(size=(n, 2))).T
    apart = agreement.z_scores((b - a * (a @ b) / (a @ a))[:, None])[:, 0]
    found = agreement.icc3k(np.stack([a, r * a + math.sqrt(1 - r * r) * apart], axis=1))
    assert close(found.value, icc, 9)
    assert abs(max(0.0, found.low) - low) < 0.0055
    assert abs(found.high - high) < 0.0055


@pytest.mark.parametrize(
    ("low", "high", "is_kept"),
    [(-26.96, 0.99, False), (0.201, 0.945, True), (-0.44, 0.67, True), (-math.inf, 0.95, False)],
)
def test_an_interval_from_contradiction_to_near_identity_is_none(
    low: float, high: float, is_kept: bool
) -> None:
    found = agreement.informative(Interval(low, high, "F"))
    assert (found.low, found.high) == ((low, high) if is_kept else (None, None))
    assert found.method == ("F" if is_kept else f"none ({low:.2f} to {high:.2f} says nothing)")


def test_coverage_of_the_f_interval() -> None:
    # units with variance 1, errors with variance 1, two raters: ICC(3,k) = 2 / (2 + 1) = 2/3
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        truth = rng.normal(size=(25, 1))
        found = agreement.icc3k(truth + rng.normal(size=(25, 2)) + np.asarray([0.0, 3.0]))
        hits += found.low <= 2 / 3 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_units_with_a_missing_rating_are_left_out() -> None:
    more = np.vstack([SHROUT_FLEISS, [[1, NO, 9, 9]]])
    assert agreement.icc3k(more) == agreement.icc3k(SHROUT_FLEISS)
    assert agreement.icc2(more) == agreement.icc2(SHROUT_FLEISS)


@pytest.mark.parametrize("ratings", [np.ones((5, 2)), np.ones((1, 2)), np.full((4, 2), NO)])
def test_icc_of_nothing_is_undefined(ratings: Floats) -> None:
    assert all(map(math.isnan, (agreement.icc3k(ratings).value, *agreement.icc2(ratings))))


def test_perfect_raters_agree_perfectly() -> None:
    same = np.repeat(np.asarray([[1.0], [2.0], [4.0]]), 3, axis=1)
    assert agreement.icc3k(same).value == 1
    assert agreement.icc2(same) == (1, 1)
    # consistency forgives a shift, absolute agreement does not
    shifted = same + np.asarray([0.0, 1.0, 2.0])
    assert close(agreement.icc3k(shifted).value, 1)
    assert agreement.icc2(shifted)[0] < 0.8


ratings_of_two = arrays(
    np.float64, st.tuples(st.integers(4, 12), st.just(2)), elements=st.integers(1, 5)
)


@pytest.mark.slow
@given(ratings_of_two)
def test_icc3k_of_two_z_scored_raters_is_2r_over_1_plus_r(ratings: Floats) -> None:
    assume((ratings.std(axis=0) > 0).all())
    r = float(np.asarray(np.corrcoef(ratings.T))[0, 1])
    assume(r > -0.99)
    z = agreement.z_scores(ratings)
    assert close(agreement.icc3k(z).value, 2 * r / (1 + r), 6)
    weights = agreement.once(len(ratings))
    assert close(float(agreement.correlation(*ratings.T, weights)[0]), r, 9)  # type: ignore[call-arg]
    assert close(float(agreement.two_rater_icc(np.asarray(r))), agreement.icc3k(z).value, 6)


# z-scores and the consensus ----------------------------------------------------------------------


def test_z_scores_by_hand() -> None:
    ratings = np.asarray([[1, 4, 3], [3, NO, 3], [5, 5, NO], [NO, 3, NO]])
    # rater 1: mean 3, SD 2; rater 2: mean 4, SD 1; rater 3 says the same of all
    expected = [[-1, 0, NO], [0, NO, NO], [1, 1, NO], [NO, -1, NO]]
    np.testing.assert_allclose(agreement.z_scores(ratings), expected, atol=1e-12)
    found = agreement.consensus(ratings, agreement.once(4))
    np.testing.assert_allclose(found, [[-0.5, 0, 1, -1]], atol=1e-12)


def test_a_rater_of_one_unit_has_no_z_score() -> None:
    assert np.isnan(agreement.z_scores(np.asarray([[4.0], [NO]]))).all()


ratings_with_gaps = arrays(
    np.float64,
    st.tuples(st.integers(4, 10), st.integers(1, 5)),
    elements=st.one_of(st.integers(1, 5).map(float), st.just(NO)),
)


@pytest.mark.slow
@given(ratings_with_gaps, st.data())
def test_shift_and_scale_of_a_rater_change_no_z_score(ratings: Floats, data: st.DataObject) -> None:
    k = ratings.shape[1]
    shift = data.draw(arrays(np.float64, k, elements=st.floats(-50, 50)))
    scale = data.draw(arrays(np.float64, k, elements=st.floats(0.1, 50)))
    np.testing.assert_allclose(
        agreement.z_scores(ratings * scale + shift), agreement.z_scores(ratings), atol=1e-6
    )


@pytest.mark.slow
@given(ratings_with_gaps, st.randoms(use_true_random=False))
def test_order_of_units_and_raters_changes_nothing(ratings: Floats, rng: random.Random) -> None:
    units, raters = list(range(len(ratings))), list(range(ratings.shape[1]))
    rng.shuffle(units)
    rng.shuffle(raters)
    other = ratings[units][:, raters]
    weights = agreement.once(len(ratings))
    np.testing.assert_allclose(
        agreement.consensus(other, weights),
        agreement.consensus(ratings, weights)[:, units],
        atol=1e-12,
    )
    for level in ("nominal", "ordinal", "interval"):
        a, b = (agreement.krippendorff_alpha(x, level) for x in (other, ratings))
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.slow
@given(ratings_with_gaps, st.integers(0, 5))
def test_a_draw_is_the_same_as_the_units_written_out(ratings: Floats, seed: int) -> None:
    n = len(ratings)
    weights = agreement.resampled(np.arange(n), 3, seed)
    assert (weights.sum(axis=1) == n).all()
    found = agreement.consensus(ratings, weights)
    other = np.arange(n, dtype=np.float64)
    r = agreement.correlation(found, other, weights)
    pairs = list(combinations(range(ratings.shape[1]), 2))
    iccs = agreement.pair_iccs(ratings, pairs, weights)
    for d, own in enumerate(weights):
        rows = np.repeat(np.arange(n), own.astype(int))
        with np.errstate(invalid="ignore"):
            z = agreement.z_scores(ratings[rows])
            votes = (~np.isnan(z)).sum(axis=1)
            plain = np.where(votes > 0, np.nansum(z, axis=1) / np.maximum(votes, 1), NO)
        np.testing.assert_allclose(found[d][rows], plain, atol=1e-9)
        there = ~np.isnan(plain)
        if len(set(rows[there])) >= agreement.LEAST and np.ptp(plain[there]) > 1e-6:
            assert close(r[d], pearsonr(plain[there], other[rows][there]).statistic, 6)
        else:
            assert math.isnan(r[d]) or np.ptp(plain[there]) <= 1e-6
        for p, (i, j) in enumerate(pairs):
            two = ratings[rows][:, [i, j]]
            z2 = agreement.z_scores(two[~np.isnan(two).any(axis=1)])
            if not math.isnan(iccs[d, p]) and iccs[d, p] > -1e3:
                np.testing.assert_allclose(agreement.icc3k(z2).value, iccs[d, p], atol=1e-6)


def test_whole_clusters_are_drawn() -> None:
    weights = agreement.resampled(np.asarray([0, 0, 1, 2, 2, 2]), 50, 1)
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 3] == weights[:, 5]).all()
    assert (weights[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert (
        agreement.resampled(np.arange(4), 5, 7) == agreement.resampled(np.arange(4), 5, 7)
    ).all()


def test_correlation_needs_three_units_and_spread() -> None:
    def r(a: list[float], b: list[float]) -> float:
        weights = agreement.once(len(a))
        return float(agreement.correlation(np.asarray(a), np.asarray(b), weights)[0])

    assert math.isnan(r([1, 2, NO], [2, 1, 5]))
    assert math.isnan(r([1, 2, 3], [4.1, 4.1, 4.1]))
    assert close(r([1, 2, 3, NO], [6, 4, 2, 9]), -1)
    assert agreement.two_rater_icc(np.asarray(-1.0)) == -math.inf
    assert agreement.two_rater_icc(np.asarray(-1 + 1e-15)) == -math.inf
    # of three drawn units two may be the same: then r is not defined either
    draws = agreement.correlation(
        np.asarray([1.0, 2, 3]), np.asarray([1.0, 3, 2]), np.asarray([[2.0, 1, 0], [1, 1, 1]])
    )
    assert math.isnan(draws[0])
    assert close(draws[1], 0.5)


def test_the_interval_of_an_icc_is_that_of_r_transformed() -> None:
    draws = np.linspace(-0.2, 0.8, 1001)
    found = agreement.two_rater_interval(draws, 0.9, 10_000)
    assert found.low is not None and found.high is not None
    assert close(found.low, 2 * -0.15 / 0.85, 2)
    assert close(found.high, 2 * 0.75 / 1.75, 2)
    assert agreement.two_rater_interval(draws, 0.9, 1).method == "none (one cluster)"


def test_pairs_of_raters_by_common_units() -> None:
    ratings = np.asarray([[1, 2, NO], [2, 3, 1], [3, NO, 4], [4, 5, NO]])
    assert agreement.common_pairs(ratings, 2) == [(0, 1), (0, 2)]
    assert agreement.common_pairs(ratings, 3) == [(0, 1)]
    found = agreement.pair_iccs(ratings, [(0, 1), (0, 2)], agreement.once(4))
    # the common units of the first two are 1 2, 2 3, 4 5: a shift; of 0 and 2 there are two only
    assert close(found[0, 0], 1)
    assert math.isnan(found[0, 1])


# Krippendorff's alpha ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_of_krippendorff(level: agreement.Level, expected: float) -> None:
    assert close(agreement.krippendorff_alpha(KRIPPENDORFF, level), expected, 3)


def test_alpha_of_two_observers_by_hand() -> None:
    # Example A of the same paper: ten units, two observers, binary. 14 of the 20 values are 0;
    # the four units of unequal values give 8 unequal pairs of 20; 2 * 14 * 6 / 19 are expected.
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    ratings = np.asarray([a, b], dtype=np.float64).T
    expected = 1 - (2 * 4) / (2 * 14 * 6 / 19)
    assert round(expected, 3) == 0.095
    for level in ("nominal", "ordinal", "interval"):
        assert close(agreement.krippendorff_alpha(ratings, level), expected, 9)


def test_alpha_without_pairs_or_without_spread_is_undefined() -> None:
    assert math.isnan(agreement.krippendorff_alpha(np.asarray([[1, NO], [NO, 2]]), "interval"))
    assert math.isnan(agreement.krippendorff_alpha(np.full((4, 2), 3.0), "ordinal"))
    single = np.vstack([KRIPPENDORFF, [[5, NO, NO, NO]]])
    assert close(agreement.krippendorff_alpha(single, "nominal"), 0.743, 3)


# Kappa, error, votes -----------------------------------------------------------------------------


@pytest.mark.slow
@given(ratings_of_two)
def test_kappa_is_that_of_scikit_learn(ratings: Floats) -> None:
    assume(len(np.unique(ratings)) > 1)
    a, b = ratings.T
    other = cohen_kappa_score(a.astype(int), b.astype(int), weights="quadratic", labels=range(1, 6))
    found = agreement.kappa_of_ratings(a, b, range(1, 6))
    assert close(found, float(other), 9)


def test_kappa_leaves_out_missing_ratings_and_refuses_others() -> None:
    a, b = np.asarray([1, 2, 5, NO, 3.0]), np.asarray([1, 2, 4, 2, NO])
    short = agreement.kappa_of_ratings(a[:3], b[:3], range(1, 6))
    assert agreement.kappa_of_ratings(a, b, range(1, 6)) == short
    assert math.isnan(agreement.kappa_of_ratings(a[3:], b[3:], range(1, 6)))
    assert math.isnan(agreement.kappa_of_ratings(a[:1], b[:1], range(1, 6)))
    with pytest.raises(ValueError, match="not on the scale"):
        agreement.kappa_of_ratings(a + 0.5, b, range(1, 6))


def test_mean_absolute_error() -> None:
    a, b = np.asarray([1, 2, NO, 4]), np.asarray([2, 4, 1, NO])
    assert agreement.mean_absolute_error(a, b) == 1.5
    assert math.isnan(agreement.mean_absolute_error(a[2:], b[2:]))


@pytest.mark.parametrize(("r", "votes"), [(0.0, 3.0), (0.3, 1.875), (0.5, 1.5), (0.7, 1.25)])
def test_effective_votes(r: float, votes: float) -> None:
    assert close(agreement.effective_votes(3, r), votes)
    assert agreement.effective_votes(3, 1.0) == 1
    assert math.isnan(agreement.effective_votes(3, -0.5))


def test_errors_of_judges_correlate_by_what_they_share() -> None:
    truth = np.asarray([1.0, 5, 2, 4, 3])
    shared = np.asarray([1.0, -1, 0, 1, -1])
    # errors of one and two are the same; of the third the opposite
    judges = np.stack([truth + shared, truth + 1 + shared, truth - shared], axis=1)
    assert close(agreement.mean_correlation(judges[:, :2] - truth[:, None]), 1)
    assert close(agreement.mean_correlation(judges - truth[:, None]), (1 - 1 - 1) / 3)
    assert math.isnan(agreement.mean_correlation(0 * truth[:, None] + [0, 1]))


# Corrected scores --------------------------------------------------------------------------------


def test_powered_mean_by_hand() -> None:
    judge = np.asarray([4.0, 5, 3, 4, 4, 2])
    human = np.asarray([3.0, 5, NO, NO, NO, 1])
    # mean of the judge 22/6; humans less judge -1, 0, -1: mean -2/3
    found = agreement.powered_mean(judge, human, np.arange(6))
    assert found.value is not None and close(found.value, 22 / 6 - 2 / 3)
    adds = (judge - 22 / 6) / 6
    adds[[0, 1, 5]] += np.asarray([-1 / 3, 2 / 3, -1 / 3]) / 3
    assert found.error is not None and close(found.error, math.sqrt(np.sum(adds**2) * 3 / 2))


def test_powered_mean_of_all_labels_is_the_human_mean() -> None:
    judge = np.asarray([4.0, 5, 3, 4, 4, 2])
    human = np.asarray([3.0, 5, 2, 4, 1, 1])
    found = agreement.powered_mean(judge, human, np.arange(6))
    assert found.value is not None and close(found.value, human.mean())
    assert found.error is not None and close(found.error, standard_error(human))
    clusters = np.asarray([0, 0, 1, 1, 2, 2])
    clustered = agreement.powered_mean(judge, human, clusters)
    assert clustered.error is not None
    assert close(clustered.error, clustered_error(human, clusters))


def test_powered_mean_of_many_unlabelled_adds_the_two_variances() -> None:
    rng = np.random.default_rng(5)
    judge = rng.normal(3, 1, 4000)
    human = np.full(4000, NO)
    human[:50] = judge[:50] + rng.normal(0.4, 0.5, 50)
    found = agreement.powered_mean(judge, human, np.arange(4000))
    both = standard_error(judge) ** 2 + standard_error((human - judge)[:50]) ** 2
    assert found.error is not None and abs(found.error / math.sqrt(both) - 1) < 0.02


def test_powered_mean_covers_the_truth() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        truth = rng.normal(3, 1, 200)
        judge = 0.7 * truth + 1.5 + rng.normal(0, 0.5, 200)
        human = np.where(np.arange(200) < 40, truth, NO)
        found = agreement.powered_mean(judge, human, np.arange(200))
        ends = agreement.t_interval(found, 40, 0.95)
        assert ends.low is not None and ends.high is not None
        hits += ends.low <= 3 <= ends.high
    assert 0.92 <= hits / 400 <= 0.98


def test_what_does_not_vary_has_no_interval() -> None:
    found = agreement.powered_mean(
        np.full(6, 5.0), np.asarray([4.0, 4, 4, NO, NO, NO]), np.arange(6)
    )
    assert (found.value, found.error) == (4.0, 0.0)
    ends = agreement.t_interval(found, 3, 0.95)
    assert (ends.low, ends.high) == (None, None)
    assert ends.method == "prediction-powered, no interval (no spread)"


def test_powered_mean_without_labels_is_none() -> None:
    none = agreement.powered_mean(np.ones(3), np.full(3, NO), np.arange(3))
    assert none == Corrected(None, None, "none (no label)")
    one = agreement.powered_mean(np.ones(3), np.asarray([2, 2, NO]), np.asarray([0, 0, 1]))
    assert (one.value, one.error) == (2.0, None)
    assert agreement.t_interval(one, 1, 0.95).method == "none (one labelled cluster)"


def test_ratings_that_differ_by_rounding_alone_have_no_icc() -> None:
    third = np.full((8, 3), 10 / 3) * (1 + np.random.default_rng(0).uniform(-1, 1, (8, 3)) * 1e-15)
    assert third.std() > 0
    assert all(map(math.isnan, agreement.icc2(third)))
    assert math.isnan(agreement.icc3k(third).value)
