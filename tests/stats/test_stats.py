"""Statistics against hand-worked values, scipy, scikit-learn and the published tables."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score

from medhelm.stats import aggregation as stats
from medhelm.stats import intervals
from medhelm.stats.intervals import Interval
from medhelm.stats.rank_sets import Errors, clearly_better, macro_errors, rank_sets
from medhelm.stats.student_t import t_quantile
from perf.coverage import EVEN, UNEVEN, coverage
from tests.poolings import pooled, pooling

law = settings(max_examples=40, deadline=None)


def values(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(n)


def with_ones(v: np.ndarray) -> np.ndarray:
    return np.stack([v, np.ones(len(v))], axis=1)


# Aggregations


def test_mean_is_the_ratio_of_sums() -> None:
    assert pooled("mean", np.array([[3.0, 4.0], [0.0, 0.0]])) == pytest.approx(
        [0.75, np.nan], nan_ok=True
    )


def test_micro_scores_by_hand() -> None:
    sums = np.array([3.0, 1.0, 2.0])  # tp, fp, fn
    assert pooled("micro_precision", sums) == 0.75
    assert pooled("micro_recall", sums) == 0.6
    assert pooled("micro_f1", sums) == pytest.approx(2 * 3 / (6 + 1 + 2))


@pytest.mark.parametrize("name", ["micro_precision", "micro_recall", "micro_f1", "macro_f1"])
def test_ratio_of_nothing_is_undefined(name: str) -> None:
    assert np.isnan(pooled(name, np.zeros(3)))


def test_predicting_nothing_or_finding_nothing_counts_zero() -> None:
    assert pooled("micro_precision", np.array([0.0, 0.0, 5.0])) == 0
    assert pooled("micro_recall", np.array([0.0, 5.0, 0.0])) == 0


@pytest.mark.slow
@law
@given(st.integers(0, 2**32 - 1))
def test_label_set_scores_agree_with_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, guess = rng.random((2, 12, 4)) < 0.4
    truth[:, 0] = truth[0, :] = guess[0, :] = True  # every label occurs: no ratio of nothing
    counts = np.stack([truth & guess, ~truth & guess, truth & ~guess], axis=-1).astype(float)
    sums = counts.sum(0)
    assert pooled("macro_f1", sums.ravel()) == pytest.approx(
        f1_score(truth, guess, average="macro")
    )
    micro = sums.sum(0)
    assert pooled("micro_f1", micro) == pytest.approx(f1_score(truth, guess, average="micro"))
    assert pooled("micro_precision", micro) == pytest.approx(
        precision_score(truth, guess, average="micro")
    )
    assert pooled("micro_recall", micro) == pytest.approx(
        recall_score(truth, guess, average="micro")
    )


def test_macro_f1_leaves_out_labels_that_never_occur() -> None:
    assert pooled("macro_f1", np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0])) == 0.75


def test_a_part_without_a_value_is_left_out_of_the_mean_of_parts() -> None:
    """Parts of 3 of 4, of nothing, and of 1 of 4: 0.5, and not a third of the sum."""
    sums = np.array([[3.0, 4.0, 0.0, 0.0, 1.0, 4.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    found = pooled("mean_of_parts", sums)
    assert found[0] == 0.5 and math.isnan(found[1])


# Normalisation


def test_jury_mean_is_normalised_from_one_to_five() -> None:
    assert stats.normalise(np.array([1.0, 3.0, 5.0]), 1, 5) == pytest.approx([0, 0.5, 1])


def test_lower_is_better_is_turned_round() -> None:
    assert stats.normalise(np.array([0.0, 25.0]), 0, 25, higher_is_better=False).tolist() == [1, 0]


@law
@given(
    st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.lists(st.floats(0, 1), min_size=1), st.booleans()
)
def test_normalised_values_lie_between_0_and_1(
    low: float, width: float, shares: list[float], is_higher: bool
) -> None:
    inside = np.clip(low + width * np.array(shares), low, low + width)
    found = stats.normalise(inside, low, low + width, is_higher)
    assert ((found >= -1e-12) & (found <= 1 + 1e-12)).all()


@pytest.mark.parametrize("ends", [(0, 0), (1, 0), (0, math.inf), (math.nan, 1)])
def test_a_range_must_be_finite_and_not_empty(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="range"):
        stats.normalise(np.zeros(1), *ends)


# Errors


def test_standard_error_agrees_with_scipy() -> None:
    assert stats.standard_error(values(50)) == pytest.approx(scipy.stats.sem(values(50)))
    assert math.isnan(stats.standard_error(np.ones(1)))


def test_clustered_error_by_hand() -> None:
    # mean 1/2; cluster sums of deviations 1 and -1: sqrt(2) / 4 * sqrt(2 / 1) = 1/2
    v, c = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1])
    assert stats.clustered_error(v, c) == pytest.approx(0.5)
    # plain: sqrt(4 * 1/4 / (4 * 3)) = sqrt(1/12); effect (1/4) / (1/12) = 3
    assert stats.design_effect(v, c) == pytest.approx(3)


def test_clusters_of_one_change_nothing() -> None:
    v = values(40)
    assert stats.clustered_error(v, np.arange(40)) == pytest.approx(stats.standard_error(v))


def test_one_cluster_has_no_error() -> None:
    assert math.isnan(stats.clustered_error(values(5), np.zeros(5, dtype=int)))
    assert math.isnan(stats.design_effect(np.ones(5), np.arange(5)))


# Win rates


SCORES = np.array(
    [
        [0.9, 0.5],  # a
        [0.5, 0.5],  # b
        [0.1, 0.6],  # c
    ]
)


def test_win_rates_by_hand() -> None:
    # a beats b on the first and ties on the second; a and c win one each; b and c likewise
    won, tied = stats.wins_and_ties(SCORES)
    assert won.tolist() == [2, 1, 2] and tied.tolist() == [1, 1, 0]
    assert stats.win_rates(SCORES, "literal") == pytest.approx([0.75, 0.5, 0.5])
    assert stats.win_rates(SCORES, "half") == pytest.approx([0.625, 0.375, 0.5])


def test_win_sd_is_over_rivals_and_divides_by_their_number() -> None:
    found = stats.win_sd(SCORES, "literal")
    assert found[0] == pytest.approx(np.std([1.0, 0.5], ddof=0)) == 0.25


def test_equal_win_rates_are_equal_to_the_last_bit() -> None:
    # 4 of 7 benchmarks against each of two rivals, or 3 and 5: sums of shares differ, counts do not
    rng = np.random.default_rng(1)
    for _ in range(50):
        rates = stats.win_rates(rng.integers(0, 3, (9, 35)).astype(float), "half")
        nearest = np.round(rates * 8 * 35 * 2) / (8 * 35 * 2)
        assert set(rates) == set(nearest)


DEFINITIONS: tuple[Any, ...] = ("half", "literal")
NEAR_TIES = [0.5, *(0.5 + k * stats.TIE for k in (0.4, 0.8, 1.0, 1.2, 1.6, 2.1, -0.7, -1.0)), 0.9]

matrices = st.integers(2, 6).flatmap(
    lambda m: st.integers(1, 5).flatmap(
        lambda b: st.lists(
            st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=b, max_size=b),
            min_size=m,
            max_size=m,
        )
    )
)


@pytest.mark.slow
@law
@given(matrices)
def test_half_win_rates_average_to_exactly_one_half(rows: list[list[float]]) -> None:
    scores = np.array(rows)
    assert np.mean(stats.win_rates(scores, "half")) == pytest.approx(0.5)
    won, tied = stats.wins_and_ties(scores)
    pairs = len(rows) * (len(rows) - 1) // 2
    assert won.sum() + tied.sum() // 2 == pairs * scores.shape[1]


@law
@given(st.lists(st.lists(st.sampled_from(NEAR_TIES), min_size=5, max_size=5), min_size=1))
def test_wins_are_those_of_comparing_every_two(rows: list[list[float]]) -> None:
    """With chains of near ties, of which the ends are no ties: sorting must not join them."""
    scores = np.array(rows)[:, :, None]
    gap = scores[:, :, None, 0] - scores[:, None, :, 0]
    won, tied = stats.wins_and_ties(scores)
    assert won.tolist() == (gap > stats.TIE).sum(-1).tolist()
    assert tied.tolist() == ((abs(gap) <= stats.TIE).sum(-1) - 1).tolist()
    better = scores[:, None, :, 0] > scores[:, :, None, 0] + stats.TIE
    assert stats.ranks(scores[..., 0]).tolist() == (1 + better.sum(-1)).tolist()


@law
@given(matrices, st.randoms(use_true_random=False))
def test_win_rates_do_not_depend_on_order(rows: list[list[float]], rng: object) -> None:
    scores = np.array(rows)
    models = np.random.default_rng(rng.randint(0, 99)).permutation(len(scores))  # type: ignore[attr-defined]
    for definition in DEFINITIONS:
        before = stats.win_rates(scores, definition)
        after = stats.win_rates(scores[models][:, ::-1], definition)
        assert after.tolist() == before[models].tolist()


@law
@given(matrices)
def test_literal_win_rates_are_never_below_half_ones(rows: list[list[float]]) -> None:
    half, literal = (stats.win_rates(np.array(rows), d) for d in DEFINITIONS)
    assert (literal >= half).all()


def test_the_last_bit_of_a_sum_is_no_win() -> None:
    one, two = (0.1 + 0.2) + 0.3, (0.3 + 0.2) + 0.1
    assert one != two
    assert stats.win_rates(np.array([[one], [two]]), "half").tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("gap", "rates"), [(1e-8, [1.0, 0.0]), (5e-10, [0.5, 0.5])])
def test_a_score_that_is_higher_by_more_than_rounding_wins(gap: float, rates: list[float]) -> None:
    """One instance of ten million is 1e-7; sums in another order differ by some 1e-15."""
    scores = np.array([[0.5 + gap], [0.5]])
    assert stats.win_rates(scores, "half").tolist() == rates
    assert stats.ranks(scores[:, 0]).tolist() == ([1, 2] if rates[0] == 1 else [1, 1])


def test_a_missing_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="every cell"):
        stats.win_rates(np.array([[0.5], [np.nan]]), "half")


def test_one_model_has_no_win_rate() -> None:
    one = np.array([[0.5]])
    assert (
        np.isnan(stats.win_rates(one, "half")).all() and np.isnan(stats.win_sd(one, "half")).all()
    )


# Ranks and tie groups


def test_ties_share_a_rank() -> None:
    assert stats.ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2, 1, 2, 4]
    assert stats.ranks(np.array([[1.0, 2.0], [2.0, 1.0]])).tolist() == [[2, 1], [1, 2]]


def pairs_of(models: int, *better: tuple[int, int]) -> np.ndarray:
    found = np.zeros((models, models), dtype=bool)
    for one, two in better:
        found[one, two] = True
    return found


def test_tie_groups_and_rank_sets_by_hand() -> None:
    # from the best down: b, c, a, d. b is clearly better than a and d, c than none, a than d.
    merit = np.array([0.50, 0.90, 0.89, 0.48])
    is_better = pairs_of(4, (1, 0), (1, 3), (0, 3))
    assert stats.tie_groups(merit, is_better).tolist() == [2, 1, 1, 3]
    low, high = rank_sets(is_better)
    assert low.tolist() == [2, 1, 1, 3] and high.tolist() == [3, 2, 4, 4]


def test_equal_values_share_a_group_even_without_spread() -> None:
    centre = np.array([0.5, 0.5, 0.4])
    is_better = clearly_better(centre, np.tile(centre, (100, 1)), 0.95)
    assert stats.tie_groups(centre, is_better).tolist() == [1, 1, 2]


def test_two_models_are_parted_as_by_a_z_test() -> None:
    draws = scipy.stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    both = np.stack([draws, np.zeros_like(draws)], axis=1)  # the difference has SD 1
    for gap, is_clear in ((1.94, False), (1.98, True), (-1.98, False)):
        assert clearly_better(np.array([gap, 0.0]), both, 0.95)[0, 1] == is_clear
    assert clearly_better(np.array([-1.98, 0.0]), both, 0.95)[1, 0]


def test_the_critical_value_of_nine_equal_models_is_tukeys() -> None:
    # independent models of equal variance: the studentised range of 9, over sqrt(2)
    draws = np.random.default_rng(0).normal(size=(40_000, 9))
    wanted = scipy.stats.studentized_range.ppf(0.95, 9, 1e6) / math.sqrt(2)
    values = np.zeros(9)
    for factor, is_clear in ((0.98, False), (1.02, True)):
        values[0] = factor * wanted * math.sqrt(2)  # the SD of a difference is sqrt(2)
        assert clearly_better(values, draws, 0.95)[0].any() == is_clear


@pytest.mark.parametrize(("n", "is_clear"), [(1, False), (2, False), (5, False), (6, True)])
def test_few_instances_that_all_differ_part_as_a_sign_test_would(n: int, is_clear: bool) -> None:
    # all right against all wrong: the bootstrap has no spread; 2 / 2^n is below 0.05 from n = 6 on
    scores = np.array([[1.0], [0.0]])
    draws = np.tile(scores, (200, 1, 1))
    errors = macro_errors(scores, draws, np.array([float(n)]))
    assert clearly_better(scores[:, 0], draws[:, :, 0], 0.95, errors)[0, 1] == is_clear


def test_errors_of_macro_averages_agree_with_the_formula() -> None:
    rng = np.random.default_rng(3)
    values = [rng.random((n, 2)) for n in (40, 90)]
    draws = np.stack([intervals.bootstrap(v, 6000, seed=1) / len(v) for v in values], axis=2)
    scores = np.stack([v.mean(axis=0) for v in values], axis=1)
    found = macro_errors(scores, draws, np.array([40.0, 90.0]))
    squares = [stats.standard_error(v[:, 0] - v[:, 1]) ** 2 for v in values]
    assert found.error[0, 1] == pytest.approx(math.sqrt(sum(squares)) / 2, rel=0.04)
    df = sum(squares) ** 2 / (squares[0] ** 2 / 39 + squares[1] ** 2 / 89)
    assert found.df[0, 1] == pytest.approx(df, rel=0.08)


# Minimum detectable effect


@pytest.mark.parametrize(
    ("n", "points"), [(100, 12.5), (164, 9.8), (525, 5.5), (1000, 4.0), (1638, 3.1), (5000, 1.8)]
)
def test_mde_of_a_discordance_of_one_fifth(n: int, points: float) -> None:
    assert 100 * stats.mde(math.sqrt(0.2 / n)) == pytest.approx(points, abs=0.05)


@pytest.mark.parametrize(
    ("n", "points"), [(100, 19.4), (164, 15.2), (525, 8.5), (1000, 6.1), (1638, 4.8), (5000, 2.7)]
)
def test_mde_of_unpaired_rates_is_larger(n: int, points: float) -> None:
    assert 100 * stats.mde(math.sqrt(2 * 0.6 * 0.4 / n)) == pytest.approx(points, abs=0.06)


def test_mde_is_on_the_scale_of_accuracy_not_of_discordant_pairs() -> None:
    # 1,000 instances, 200 discordant: 4.0 points, where 2.8 / sqrt(200) would say 19.8
    gap = np.zeros(1000)
    gap[:100], gap[100:200] = 1, -1
    assert 100 * stats.mde(stats.standard_error(gap)) == pytest.approx(4.0, abs=0.05)


# Tests


def test_holm_by_hand() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([]) == []


@law
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_p_and_bonferroni(p: list[float]) -> None:
    adjusted = stats.holm(p)
    assert all(a <= q <= min(1, a * len(p)) + 1e-12 for a, q in zip(p, adjusted, strict=True))


@law
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_the_binomial_test(b: int, c: int) -> None:
    expected = scipy.stats.binomtest(b, b + c, 0.5).pvalue if b + c else 1.0
    assert stats.mcnemar(b, c) == pytest.approx(expected)
    assert stats.mcnemar(b, c) == stats.mcnemar(c, b)


def test_permutation_p_agrees_with_an_exact_one() -> None:
    a, b = values(9, 1), values(9, 2)
    gaps = a - b
    exact = np.mean(
        [
            abs(np.dot(signs, gaps)) >= abs(gaps.sum()) - 1e-12
            for signs in itertools.product([1, -1], repeat=9)
        ]
    )
    swaps = intervals.swap_differences(
        with_ones(a), with_ones(b), pooling("mean", 2), permutations=20_000, seed=4
    )
    assert intervals.permutation_p(gaps.mean(), swaps) == pytest.approx(exact, abs=0.012)


def test_swaps_never_give_a_p_of_zero() -> None:
    swaps = intervals.swap_differences(
        with_ones(np.ones(60)), with_ones(np.zeros(60)), pooling("mean", 2), permutations=99, seed=0
    )
    assert intervals.permutation_p(1.0, swaps) == 0.01


# Resampling and intervals


def test_bootstrap_agrees_with_scipy() -> None:
    v = values(400, 7)
    draws = pooled("mean", intervals.bootstrap(with_ones(v), 4000, seed=1))
    theirs = scipy.stats.bootstrap(
        (v,), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(1)
    )
    ours = intervals.percentile(draws, 0.95)
    assert draws.std(ddof=1) == pytest.approx(theirs.standard_error, rel=0.05)
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.003)


def test_bootstrap_draws_whole_clusters() -> None:
    sums = intervals.cluster_sums(
        with_ones(np.array([1.0, 1.0, 0.0, 0.0])), np.array([0, 0, 1, 1]), 2
    )
    assert sums.tolist() == [[2, 2], [0, 2]]
    drawn = intervals.bootstrap(sums, 500, seed=0)
    assert set(drawn[:, 0]) == {0, 2, 4} and set(drawn[:, 1]) == {4}
    # binomial(2, 1/2): half of the draws hold each cluster once
    assert np.mean(drawn[:, 0] == 2) == pytest.approx(0.5, abs=0.07)


def test_clustered_draws_spread_like_the_clustered_error() -> None:
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(80), 5)
    v = (rng.random(400) < rng.beta(1, 1, 80)[codes]).astype(float)
    sums = intervals.cluster_sums(with_ones(v), codes, 80)
    draws = pooled("mean", intervals.bootstrap(sums, 3000, seed=2))
    assert draws.std(ddof=1) == pytest.approx(stats.clustered_error(v, codes), rel=0.06)
    assert stats.clustered_error(v, codes) > 1.3 * stats.standard_error(v)


def test_draws_in_parts_keep_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_CHUNK", 70)
    drawn = intervals.bootstrap(with_ones(values(10)), 25, seed=0)
    assert drawn.shape == (25, 2) and (drawn[:, 1] == 10).all()
    swaps = intervals.swap_differences(
        with_ones(np.ones(10)), with_ones(np.zeros(10)), pooling("mean", 2), permutations=25, seed=0
    )
    assert len(set(swaps)) > 3


def test_seeds_depend_on_names_only() -> None:
    assert intervals.seed_of(0, "headqa") == intervals.seed_of(0, "headqa")
    names = [(0, "headqa"), (1, "headqa"), (0, "medec"), (0, "head", "qa"), (0,)]
    assert len({intervals.seed_of(n, *rest) for n, *rest in names}) == len(names)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (1, 12), (7, 9), (30, 30), (140, 200)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    theirs = scipy.stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert intervals.wilson(k / n, n, 0.95) == pytest.approx((theirs.low, theirs.high))


@law
@given(
    st.one_of(st.integers(1, 60), st.integers(1, 100_000)),
    st.sampled_from([0.6, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.9995]),
)
def test_quantiles_of_student_are_those_of_scipy(df: int, p: float) -> None:
    found = t_quantile(p, df)
    assert found == pytest.approx(scipy.special.stdtrit(df, p), rel=1e-9)
    assert t_quantile(1 - p, df) == pytest.approx(-found, rel=1e-12)


def test_quantiles_of_student_that_books_give() -> None:
    # One degree of freedom is Cauchy's: tan(pi (p - 1/2)). The others from printed tables.
    assert t_quantile(0.5, 3) == 0.0
    assert t_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-13)
    for df, printed in ((2, 4.303), (9, 2.262), (30, 2.042), (120, 1.980), (10**6, 1.960)):
        assert t_quantile(0.975, df) == pytest.approx(printed, abs=5e-4)


def test_effective_clusters_by_hand() -> None:
    assert intervals.effective_clusters(np.full(9, 4)) == pytest.approx(9)
    assert intervals.effective_clusters(np.array([3])) == 1
    # h = 1/2, 1/4, 1/4; q = h^2 / (1 - h) = 1/2, 1/12, 1/12; sum h^2 = 3/8;
    # sum of q_c q_d over c != d = (2/3)^2 - (1/4 + 2/144) = 13/72; 1 / (3/8 + 13/72) = 72/40
    assert intervals.effective_clusters(np.array([4, 2, 2])) == pytest.approx(1 + 72 / 40)


def test_clustered_errors_are_unbiased_for_uneven_clusters() -> None:
    # CR2 has the expected variance of the mean where values are independent: 1 / n
    sizes = np.array([40, 10, 5, 3, 1, 1])
    codes = np.repeat(np.arange(6), sizes)
    rng = np.random.default_rng(2)
    found = [stats.clustered_error(rng.normal(size=60), codes) ** 2 for _ in range(4000)]
    assert np.mean(found) == pytest.approx(1 / 60, rel=0.04)


def test_quantiles_between_whole_degrees_of_freedom() -> None:
    for df, slack in ((1.4, 0.2), (3.5, 4e-3), (17.25, 1e-5)):
        found, wanted = t_quantile(0.975, df), scipy.stats.t.ppf(0.975, df)
        assert wanted <= found <= wanted * (1 + slack)


def test_expanded_percentiles_are_those_of_student() -> None:
    draws = scipy.stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    found = intervals.percentile(draws, 0.95, clusters=8)
    expected = scipy.stats.t.ppf(0.975, 7) * math.sqrt(8 / 7)
    assert found.high == pytest.approx(expected, rel=1e-3)
    assert found.low == pytest.approx(-expected, rel=1e-3)


def span_interval(v: list[float], codes: list[int] | None = None, **more: object) -> Interval:
    array = np.array(v)
    c = np.arange(len(v)) if codes is None else np.array(codes)
    sums = intervals.cluster_sums(with_ones(array), c, int(c.max()) + 1)
    options = {"span": (0.0, 1.0), "is_mean": True, "confidence": 0.95, **more}
    draws = pooled("mean", intervals.bootstrap(sums, 300, seed=0))
    return intervals.score_interval(array, c, draws, **options)  # type: ignore[arg-type]


def test_a_rate_of_one_still_has_an_interval() -> None:
    found = span_interval([1.0] * 50)
    assert found.method == "wilson"
    assert (found.low, found.high) == pytest.approx((0.9287, 1.0), abs=1e-4)  # n / (n + z^2)


def test_a_rate_of_one_in_clusters_counts_clusters() -> None:
    found = span_interval([1.0] * 50, [i // 5 for i in range(50)])
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 9)
    trials = 10 * (z / t) ** 2
    assert found.method == "wilson, clustered" and found.has_few_clusters
    assert found.low == pytest.approx(trials / (trials + z * z))


@pytest.mark.parametrize("end", [1.0, 5.0])
def test_graded_values_at_the_ends_of_their_scale_are_no_rate(end: float) -> None:
    none = Interval(None, None, "none (all draws equal)")
    assert span_interval([end] * 12, span=(1.0, 5.0)) == none
    assert span_interval([end] * 12, [i // 3 for i in range(12)], span=(1.0, 5.0)) == none
    assert span_interval([1.0] * 12, span=(1.0, 5.0)) == none
    mixed = span_interval([1.0, 5.0, 5.0, 5.0, 1.0, 5.0], span=(1.0, 5.0))
    assert mixed.method == "bootstrap"


def test_graded_values_are_bootstrapped() -> None:
    assert span_interval([0.2, 0.9, 0.4]).method == "bootstrap"


@pytest.mark.parametrize(
    ("v", "codes", "why"),
    [
        ([1.0], None, "none (n < 2)"),
        ([1.0, 0.0, 1.0], [0, 0, 0], "none (one cluster)"),
        ([0.5, 0.5, 0.5], None, "none (all draws equal)"),
    ],
)
def test_no_interval_says_why(v: list[float], codes: list[int] | None, why: str) -> None:
    assert span_interval(v, codes) == Interval(None, None, why)


def test_undefined_draws_are_left_out() -> None:
    assert intervals.percentile(np.array([np.nan, 1.0, 2.0]), 0.5).low == 1.25
    assert intervals.percentile(np.array([np.nan]), 0.5).low is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "p", "within", "sizes"),
    [
        ("normal", 0.0, 0.5, UNEVEN[8]),
        ("normal", 0.0, 0.5, UNEVEN[20]),
        ("rate", 0.6, 0.3, UNEVEN[8]),
        ("rate", 0.9, 0.3, EVEN),
    ],
)
def test_intervals_of_few_uneven_clusters_cover(
    kind: str, p: float, within: float, sizes: tuple[int, ...]
) -> None:
    assert coverage(kind, p, within, sizes, 600) >= 0.932  # 0.95 less two standard errors


def test_few_clusters_are_marked_and_few_instances_are_not() -> None:
    twelve = [i / 12 for i in range(12)]
    assert span_interval(twelve, [i // 2 for i in range(12)]).has_few_clusters
    assert not span_interval(twelve).has_few_clusters
    assert not span_interval(twelve * 5, [i // 2 for i in range(60)]).has_few_clusters


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n"), [(0.8, 12), (0.97, 60), (0.6, 40)])
def test_intervals_of_small_rates_cover(p: float, n: int) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        found = span_interval((rng.random(n) < p).astype(float).tolist())
        hits += found.low is not None and found.low <= p <= (found.high or 0)
    assert hits / 400 > 0.92


def test_worst_case_by_hand() -> None:
    assert stats.worst_case(total=60.0, rows=90, missing=10, worst=0.0) == 0.6
    assert stats.worst_case(total=4.0, rows=2, missing=2, worst=1.0) == 1.5
    assert math.isnan(stats.worst_case(0.0, 0, 0, 0.0))


@pytest.mark.parametrize(
    ("n", "wins", "method"),
    [
        (299, 150, "wilson"),
        (300, 150, "bootstrap"),
        (300, 9, "wilson"),
        (300, 291, "wilson"),
        (300, 10, "bootstrap"),
        (300, 290, "bootstrap"),
    ],
)
def test_small_rates_and_rates_near_an_end_get_wilsons_interval(
    n: int, wins: int, method: str
) -> None:
    assert span_interval([1.0] * wins + [0.0] * (n - wins)).method == method


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.1, 0.1, 0.6), (0.9, 0.2, 0.9), (0.4, 0.2, 0.6)]
)
def test_an_interval_is_widened_to_hold_its_value(value: float, low: float, high: float) -> None:
    own = Interval(0.2, 0.6, "bootstrap", has_few_clusters=True)
    assert intervals.holding(own, value) == Interval(low, high, "bootstrap", True)
    none = Interval(None, None, "none")
    assert intervals.holding(none, value) == none


def test_clusters_that_are_more_even_than_chance_are_worth_no_more_than_their_instances() -> None:
    """Each of 40 clusters holds one right and one wrong: the design effect is 0."""
    own, codes = np.array([1.0, 0.0] * 40), np.repeat(np.arange(40), 2)
    assert stats.design_effect(own, codes) < 1e-12
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 39)
    trials = intervals.effective_trials(own, codes, 0.95)
    assert trials == pytest.approx(80 * (z / t) ** 2)


def test_a_swapped_difference_equal_to_the_observed_one_is_as_extreme() -> None:
    """Counts of right answers tie often; without ties the p would be too small."""
    permuted = np.array([0.5, -0.5, 0.5 - 1e-15, 0.4])
    assert intervals.permutation_p(0.5, permuted) == intervals.permutation_p(-0.5, permuted) == 0.8


@pytest.mark.parametrize(("factor", "is_clear"), [(0.99, False), (1.01, True)])
def test_a_pair_without_spread_must_pass_the_t_quantile_at_the_level_of_one_pair(
    factor: float, is_clear: bool
) -> None:
    """Bonferroni: 0.05 over three pairs and two sides, 5 degrees of freedom."""
    gap = factor * 0.1 * scipy.stats.t.ppf(1 - 0.05 / 6, 5)
    values = np.array([gap, 0.0, 0.0])
    errors = Errors(np.full((3, 3), 0.1), np.full((3, 3), 5.0))
    found = clearly_better(values, np.tile(values, (50, 1)), 0.95, errors)
    assert found[0].tolist() == [False, is_clear, is_clear] and not found[1:].any()


def test_the_error_of_a_few_clusters_is_that_of_a_sample() -> None:
    """The bootstrap's variance of a mean divides by C, the unbiased one by C - 1."""
    draws = np.random.default_rng(5).random((400, 2, 1))
    found = macro_errors(np.array([[0.5], [0.5]]), draws, np.array([3.0]))
    variance = np.var(draws[:, 0, 0] - draws[:, 1, 0], ddof=1)
    assert found.error[0, 1] == pytest.approx(math.sqrt(variance * 3 / 2))
    assert found.df[0, 1] == pytest.approx(2.0)
