"""Statistics against hand-worked values, scipy, scikit-learn and the published tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score

from medhelm import intervals, stats
from medhelm.intervals import Interval

law = settings(max_examples=40, deadline=None)


def values(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(n)


def with_ones(v: np.ndarray) -> np.ndarray:
    return np.stack([v, np.ones(len(v))], axis=1)


# Aggregations


def test_mean_is_the_ratio_of_sums() -> None:
    assert stats.mean(np.array([[3.0, 4.0], [0.0, 0.0]])) == pytest.approx(
        [0.75, np.nan], nan_ok=True
    )


def test_micro_scores_by_hand() -> None:
    sums = np.array([3.0, 1.0, 2.0])  # tp, fp, fn
    assert stats.micro_precision(sums) == 0.75
    assert stats.micro_recall(sums) == 0.6
    assert stats.micro_f1(sums) == pytest.approx(2 * 3 / (6 + 1 + 2))


@pytest.mark.parametrize("name", ["micro_precision", "micro_recall", "micro_f1", "macro_f1"])
def test_ratio_of_nothing_is_undefined(name: str) -> None:
    assert np.isnan(stats.AGGREGATIONS[name](np.zeros(3)))


def test_predicting_nothing_or_finding_nothing_counts_zero() -> None:
    assert stats.micro_precision(np.array([0.0, 0.0, 5.0])) == 0
    assert stats.micro_recall(np.array([0.0, 5.0, 0.0])) == 0


@pytest.mark.slow
@law
@given(st.integers(0, 2**32 - 1))
def test_label_set_scores_agree_with_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, guess = rng.random((2, 12, 4)) < 0.4
    truth[:, 0] = truth[0, :] = guess[0, :] = True  # every label occurs: no ratio of nothing
    counts = np.stack([truth & guess, ~truth & guess, truth & ~guess], axis=-1).astype(float)
    sums = counts.sum(0)
    assert stats.macro_f1(sums.ravel()) == pytest.approx(f1_score(truth, guess, average="macro"))
    micro = sums.sum(0)
    assert stats.micro_f1(micro) == pytest.approx(f1_score(truth, guess, average="micro"))
    assert stats.micro_precision(micro) == pytest.approx(
        precision_score(truth, guess, average="micro")
    )
    assert stats.micro_recall(micro) == pytest.approx(recall_score(truth, guess, average="micro"))


def test_macro_f1_leaves_out_labels_that_never_occur() -> None:
    assert stats.macro_f1(np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0])) == 0.75


@pytest.mark.parametrize("name", stats.AGGREGATIONS)
def test_aggregations_broadcast_over_draws(name: str) -> None:
    k = {"mean": 2, "ratio": 2, "mean_of_parts": 6, "macro_f1": 6, "noharm_overall": 6}.get(name, 3)
    sums = np.random.default_rng(3).integers(1, 9, size=(5, 7, k)).astype(float)
    whole = stats.AGGREGATIONS[name](sums)
    assert whole.shape == (5, 7)
    assert whole[2, 3] == stats.AGGREGATIONS[name](sums[2, 3])


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
    paper, half = (stats.win_shares(SCORES, d) for d in ("paper", "half"))
    assert paper[0, 1] == 1.0 and paper[1, 0] == 0.5 and paper[0, 2] == 0.5
    assert half[0, 1] == 0.75 and half[1, 0] == 0.25
    assert stats.win_rates(paper) == pytest.approx([0.75, 0.5, 0.5])
    assert stats.win_rates(half) == pytest.approx([0.625, 0.375, 0.5])


def test_win_sd_is_over_rivals_and_divides_by_their_number() -> None:
    shares = stats.win_shares(SCORES, "paper")
    assert stats.win_sd(shares)[0] == pytest.approx(np.std([1.0, 0.5], ddof=0)) == 0.25


def test_published_win_rates_average_to_one_half() -> None:
    # Table 1 of the paper; the mean of win rates is 1/2 but for ties and rounding, by either
    # definition, which it would not be were a win counted otherwise
    table = [0.66, 0.64, 0.64, 0.63, 0.57, 0.42, 0.39, 0.30, 0.24]
    assert np.mean(table) == pytest.approx(0.5, abs=0.005)


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
    shares = stats.win_shares(np.array(rows), "half")
    assert np.mean(stats.win_rates(shares)) == pytest.approx(0.5)
    off = ~np.eye(len(rows), dtype=bool)
    assert (shares + shares.T)[off] == pytest.approx(1)


@law
@given(matrices, st.randoms(use_true_random=False))
def test_win_rates_do_not_depend_on_order(rows: list[list[float]], rng: object) -> None:
    scores = np.array(rows)
    models = np.random.default_rng(rng.randint(0, 99)).permutation(len(scores))  # type: ignore[attr-defined]
    for definition in ("paper", "half"):
        before = stats.win_rates(stats.win_shares(scores, definition))
        after = stats.win_rates(stats.win_shares(scores[models][:, ::-1], definition))
        assert after == pytest.approx(before[models])


@law
@given(matrices)
def test_paper_win_rates_are_never_below_half_ones(rows: list[list[float]]) -> None:
    paper, half = (stats.win_rates(stats.win_shares(np.array(rows), d)) for d in ("paper", "half"))
    assert (paper >= half - 1e-12).all()


def test_the_last_bit_of_a_sum_is_no_win() -> None:
    one, two = sum([0.1, 0.2, 0.3]), sum([0.3, 0.2, 0.1])
    assert one != two
    assert stats.win_shares(np.array([[one], [two]]), "half")[0, 1] == 0.5


def test_a_missing_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="every cell"):
        stats.win_shares(np.array([[0.5], [np.nan]]), "paper")


def test_one_model_has_no_win_rate() -> None:
    shares = stats.win_shares(np.array([[0.5]]), "paper")
    assert np.isnan(stats.win_rates(shares)).all() and np.isnan(stats.win_sd(shares)).all()


# Ranks and tie groups


def test_ties_share_a_rank() -> None:
    assert stats.ranks(np.array([0.5, 0.9, 0.5, 0.1])).tolist() == [2, 1, 2, 4]
    assert stats.ranks(np.array([[1.0, 2.0], [2.0, 1.0]])).tolist() == [[2, 1], [1, 2]]


def test_tie_groups_open_where_the_difference_to_the_groups_best_is_clear() -> None:
    rng = np.random.default_rng(0)
    centre = np.array([0.50, 0.90, 0.89, 0.48])
    draws = centre + rng.normal(0, 0.02, size=(2000, 4))
    assert stats.tie_groups(centre, draws, 0.95).tolist() == [2, 1, 1, 2]


def test_equal_values_share_a_group_even_without_spread() -> None:
    centre = np.array([0.5, 0.5, 0.4])
    draws = np.tile(centre, (100, 1))
    assert stats.tie_groups(centre, draws, 0.95).tolist() == [1, 1, 2]


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
        with_ones(a), with_ones(b), "mean", permutations=20_000, seed=4
    )
    assert intervals.permutation_p(gaps.mean(), swaps) == pytest.approx(exact, abs=0.012)


def test_swaps_never_give_a_p_of_zero() -> None:
    swaps = intervals.swap_differences(
        with_ones(np.ones(60)), with_ones(np.zeros(60)), "mean", permutations=99, seed=0
    )
    assert intervals.permutation_p(1.0, swaps) == 0.01


# Resampling and intervals


def test_bootstrap_agrees_with_scipy() -> None:
    v = values(400, 7)
    draws = stats.mean(intervals.bootstrap(with_ones(v), 4000, seed=1))
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
    draws = stats.mean(intervals.bootstrap(sums, 3000, seed=2))
    assert draws.std(ddof=1) == pytest.approx(stats.clustered_error(v, codes), rel=0.06)
    assert stats.clustered_error(v, codes) > 1.3 * stats.standard_error(v)


def test_draws_in_parts_keep_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "_CHUNK", 70)
    drawn = intervals.bootstrap(with_ones(values(10)), 25, seed=0)
    assert drawn.shape == (25, 2) and (drawn[:, 1] == 10).all()
    swaps = intervals.swap_differences(
        with_ones(np.ones(10)), with_ones(np.zeros(10)), "mean", permutations=25, seed=0
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
    found = intervals.t_quantile(p, df)
    assert found == pytest.approx(scipy.special.stdtrit(df, p), rel=1e-9)
    assert intervals.t_quantile(1 - p, df) == pytest.approx(-found, rel=1e-12)


def test_quantiles_of_student_that_books_give() -> None:
    # One degree of freedom is Cauchy's: tan(pi (p - 1/2)). The others from printed tables.
    assert intervals.t_quantile(0.5, 3) == 0.0
    assert intervals.t_quantile(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475), rel=1e-13)
    for df, printed in ((2, 4.303), (9, 2.262), (30, 2.042), (120, 1.980), (10**6, 1.960)):
        assert intervals.t_quantile(0.975, df) == pytest.approx(printed, abs=5e-4)


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
    draws = stats.mean(intervals.bootstrap(sums, 300, seed=0))
    return intervals.score_interval(array, c, draws, **options)  # type: ignore[arg-type]


def test_a_rate_of_one_still_has_an_interval() -> None:
    found = span_interval([1.0] * 50)
    assert found.method == "wilson"
    assert (found.low, found.high) == pytest.approx((0.9287, 1.0), abs=1e-4)  # n / (n + z^2)


def test_a_rate_of_one_in_clusters_counts_clusters() -> None:
    found = span_interval([1.0] * 50, [i // 5 for i in range(50)])
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 9)
    trials = 10 * (z / t) ** 2
    assert found.method == "wilson, clustered"
    assert found.low == pytest.approx(trials / (trials + z * z))


@pytest.mark.parametrize("end", [1.0, 5.0])
def test_graded_values_at_the_ends_of_their_scale_are_no_rate(end: float) -> None:
    none = Interval(None, None, "none (all draws equal)")
    assert span_interval([end] * 12, span=(1.0, 5.0)) == none
    assert span_interval([end] * 12, [i // 3 for i in range(12)], span=(1.0, 5.0)) == none
    assert span_interval([1.0] * 12, span=(1.0, 5.0)) == none
    mixed = span_interval([1.0, 5.0, 5.0, 5.0, 1.0, 5.0], span=(1.0, 5.0))
    assert mixed.method == "bootstrap"


def test_large_rates_in_the_middle_and_graded_values_are_bootstrapped() -> None:
    assert span_interval([1.0, 0.0] * 200).method == "bootstrap"
    assert span_interval([0.2, 0.9, 0.4]).method == "bootstrap"
    assert span_interval([1.0] * 395 + [0.0] * 5).method == "wilson"


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
