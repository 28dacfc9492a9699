"""Agreement of decisions that are met or not met, and rates corrected by it: functions on arrays.

Two graders' decisions are counted as (..., 4): both met, met by the second alone, met by the first
alone, met by neither. The first is the reference. What is undefined is NaN.

Sources: HealthBench (arXiv 2505.08775) for the macro F1 of rubric decisions; Cohen 1960 for kappa;
Rogan and Gladen 1978 for the corrected rate, its variance linearised and summed by cluster.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from medhelm.stats.aggregation import TIE, Floats, Ints, ratio
from medhelm.stats.agreement import (
    LEAST,
    LEAST_ABOVE_CHANCE,
    Corrected,
    correlation,
    once,
    weighted_kappa,
)

Bools = NDArray[np.bool_]

_SURELY_ABOVE_CHANCE = 0.975
"""A judge corrects nothing where the one-sided interval of this level of Se + Sp - 1 holds 0."""


def confusion(reference: Bools, grader: Bools) -> Floats:
    """Return (n, 4): for each decision a one in the column of what the two of them decide."""
    columns = (reference & grader, ~reference & grader, reference & ~grader, ~reference & ~grader)
    return np.stack(columns, axis=-1).astype(np.float64)


def met_f1(counts: Floats) -> Floats:
    """Return the F1 of the class met; NaN where neither grader finds anything met."""
    both, second, first, _ = np.moveaxis(counts, -1, 0)
    return ratio(2 * both, 2 * both + second + first)


def unmet_f1(counts: Floats) -> Floats:
    """Return the F1 of the class not met; NaN where neither grader finds anything unmet."""
    return met_f1(counts[..., ::-1])


def macro_f1(counts: Floats) -> Floats:
    """Return the mean of the two F1; NaN where either is 0 / 0."""
    return np.asarray((met_f1(counts) + unmet_f1(counts)) / 2)


def kappa(counts: Floats) -> Floats:
    """Return Cohen's kappa; NaN where chance alone gives no disagreement."""
    both, second, first, neither = np.moveaxis(counts, -1, 0)
    table = np.stack([np.stack([both, first], -1), np.stack([second, neither], -1)], -2)
    return weighted_kappa(table, 1 - np.eye(2))


def same(counts: Floats) -> Floats:
    """Return the share of decisions on which the two graders agree."""
    return ratio(counts[..., 0] + counts[..., 3], counts.sum(-1))


def positive_rates(counts: Floats) -> tuple[Floats, Floats]:
    """Return the share of decisions that the first and that the second grader finds met."""
    total = counts.sum(-1)
    return ratio(counts[..., 0] + counts[..., 2], total), ratio(counts[..., :2].sum(-1), total)


def corrected_share(
    judge: Bools, clusters: Ints, graded: Bools, truth: Bools, labelled_clusters: Ints
) -> Corrected:
    """Return the share of `judge` that is truly met, by Rogan and Gladen, with its clustered error.

    `judge` (n,) are all decisions of a judge; `graded` and `truth` (m,) those with a label, by the
    judge and by people. Both have their clusters as codes of one list, so that a cluster in both
    parts counts for both. t = (p + Sp - 1) / (Se + Sp - 1); its error is that of the sum of what
    each cluster adds to p, Se and Sp, linearised at t. Refused where the judge is near chance.
    """
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if min(len(judge), positives, negatives) < 1:
        return Corrected(None, None, "none (no labelled positive or no labelled negative)")
    p, sensitivity = float(judge.mean()), float(graded[truth].mean())
    specificity = float((~graded[~truth]).mean())
    above = sensitivity + specificity - 1
    of_met = np.where(truth, graded - sensitivity, 0.0) / positives
    of_unmet = np.where(~truth, ~graded - specificity, 0.0) / negatives
    count = 1 + int(max(clusters.max(), labelled_clusters.max()))
    held = len(np.unique(labelled_clusters))
    if held < 2:
        return Corrected(None, None, "none (one labelled cluster)")
    spread = held / (held - 1)
    sums = np.bincount(labelled_clusters, weights=of_met + of_unmet, minlength=count)
    doubt = NormalDist().inv_cdf(_SURELY_ABOVE_CHANCE) * math.sqrt(spread * float(sums @ sums))
    if above < LEAST_ABOVE_CHANCE or above - doubt <= 0:
        return Corrected(None, None, f"none (sensitivity + specificity = {above + 1:.2f})")
    t = (p + specificity - 1) / above
    sums = np.bincount(clusters, weights=(judge - p) / len(judge), minlength=count)
    weights = (1 - t) * of_unmet - t * of_met
    sums += np.bincount(labelled_clusters, weights=weights, minlength=count)
    error = math.sqrt(spread * float(sums @ sums)) / above
    return Corrected(min(1.0, max(0.0, t)), error, "rogan-gladen")


# Two orders of the same items -------------------------------------------------------------------


def pearson(a: Floats, b: Floats) -> float:
    """Return the correlation; NaN below three items, or where one has no spread."""
    return float(correlation(a, b, once(len(a)))[0])


def mid_ranks(values: Floats) -> Floats:
    """Return ranks from 1, the lowest first; values that are equal to 9 digits share the mean of theirs."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(np.round(values, 9)), dtype=np.float64)


def spearman(a: Floats, b: Floats) -> float:
    """Return the correlation of ranks; NaN below three items, or where one has no spread."""
    from scipy.stats import spearmanr

    x, y = mid_ranks(a), mid_ranks(b)
    return float(spearmanr(x, y).statistic) if _can_be_ordered(x, y) else math.nan


def _can_be_ordered(a: Floats, b: Floats) -> bool:
    return len(a) >= LEAST and bool(np.ptp(a)) and bool(np.ptp(b))


def partial_spearman(a: Floats, b: Floats, given: Floats) -> float:
    """Return the correlation of the ranks of two given those of a third, the plain one where that has
    no spread; NaN where one of the two has none, or none that the third leaves."""
    if len(a) < LEAST or np.ptp(given) <= TIE:
        return spearman(a, b)
    plain, one, other = spearman(a, b), spearman(a, given), spearman(b, given)
    left = (1 - one * one) * (1 - other * other)
    return (plain - one * other) / math.sqrt(left) if left > TIE else math.nan


def kendall(a: Floats, b: Floats) -> float:
    """Return tau-b; NaN below three items, or where all items of one are equal."""
    from scipy.stats import kendalltau

    x, y = mid_ranks(a), mid_ranks(b)
    return float(kendalltau(x, y).statistic) if _can_be_ordered(x, y) else math.nan


def top_overlap(a: Floats, b: Floats, k: int) -> float:
    """Return how many of the k highest two orders share; NaN where there are no more than k items.

    Items that tie for the last places hold equal parts of them, so that no order of the input
    counts: what two orders share of an item is the smaller part.
    """
    if len(a) <= k:
        return math.nan
    return float(np.minimum(_parts_of_top(a, k), _parts_of_top(b, k)).sum())


def _parts_of_top(values: Floats, k: int) -> Floats:
    border = np.sort(values)[-k]
    above, tied = values > border + TIE, np.abs(values - border) <= TIE
    return np.asarray(above + tied * ((k - above.sum()) / tied.sum()))
