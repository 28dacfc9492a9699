"""Statistics on numbers: pure functions, each with its formula and its source.

Notation: instances i = 1..n with values s_i, clusters c = 1..C, models m, benchmarks b.
What is undefined (a ratio of nothing, an error from one value) is NaN here and missing in tables.
Resampling and intervals are in `intervals`.

Sources: the MedHELM paper (arXiv 2505.23802) for win rate, macro-average and MDE; Miller
(arXiv 2411.00640) for standard errors; the authors' table script fixes what the paper leaves
open: the SD of the win share over rivals divides by their number (ddof 0), the SD of the scores
over benchmarks by their number less one (ddof 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WinDefinition = Literal["paper", "half"]
"""Whether a tie is a win for both (the paper's words) or half a win."""

TIE = 1e-9
"""Normalised scores closer than this are equal: sums of the same values in another order
differ in their last bits, and that is no win."""

WIN_SD_DDOF = 0
MACRO_SD_DDOF = 1
MDE_SD_DDOF = 1

ALPHA = 0.05
BETA = 0.20


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(whole != 0, part / whole, np.nan), dtype=np.float64)


def mean(sums: Floats) -> Floats:
    """Return s0 / s1 of (sum of values, number of values)."""
    return _ratio(sums[..., 0], sums[..., 1])


def _counts(sums: Floats) -> tuple[Floats, Floats, Floats]:
    return sums[..., 0], sums[..., 1], sums[..., 2]


def micro_precision(sums: Floats) -> Floats:
    """Return tp / (tp + fp) of (tp, fp, fn): 0 where nothing was predicted though something was
    to be found, NaN where there was neither."""
    tp, fp, fn = _counts(sums)
    return np.where((tp + fp == 0) & (fn > 0), 0.0, _ratio(tp, tp + fp))


def micro_recall(sums: Floats) -> Floats:
    """Return tp / (tp + fn) of (tp, fp, fn): 0 where nothing was to be found though something
    was predicted, NaN where there was neither."""
    tp, fp, fn = _counts(sums)
    return np.where((tp + fn == 0) & (fp > 0), 0.0, _ratio(tp, tp + fn))


def micro_f1(sums: Floats) -> Floats:
    """Return 2 tp / (2 tp + fp + fn) of (tp, fp, fn); NaN where all are 0."""
    tp, fp, fn = _counts(sums)
    return _ratio(2 * tp, 2 * tp + fp + fn)


def macro_f1(sums: Floats) -> Floats:
    """Return the mean F1 over labels of L triples (tp, fp, fn); a label that is neither among
    the golds nor predicted is left out, as in scikit-learn. NaN where no label is left."""
    triples = np.reshape(sums, (*sums.shape[:-1], sums.shape[-1] // 3, 3))
    f1 = micro_f1(triples)
    seen = ~np.isnan(f1)
    return _ratio(np.where(seen, f1, 0.0).sum(-1), seen.sum(-1).astype(np.float64))


def mean_of_parts(sums: Floats) -> Floats:
    """Return the unweighted mean over parts of P pairs (sum of values, number of values); a part
    without a value is left out. NaN where no part is left."""
    pairs = np.reshape(sums, (*sums.shape[:-1], sums.shape[-1] // 2, 2))
    means = mean(pairs)
    seen = ~np.isnan(means)
    return _ratio(np.where(seen, means, 0.0).sum(-1), seen.sum(-1).astype(np.float64))


def noharm_overall(sums: Floats) -> Floats:
    """Return the harmonic mean of Safety s0 / s1, Completeness s2 / s3 and Restraint s4 / s5: 0 where
    one of them is 0, NaN where one is undefined and none is 0. (NOHARM, from unrounded values)"""
    parts = np.stack([_ratio(sums[..., i], sums[..., i + 1]) for i in (0, 2, 4)])
    with np.errstate(divide="ignore"):
        mean_ = 3 / (1 / parts).sum(0)
    return np.asarray(np.where((parts == 0).any(0), 0.0, mean_), dtype=np.float64)


AGGREGATIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "mean": mean,
    "mean_of_parts": mean_of_parts,
    "ratio": mean,
    "noharm_overall": noharm_overall,
    "noharm_harm": mean,
    "micro_precision": micro_precision,
    "micro_recall": micro_recall,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
}
"""How the sums (..., k) of the statistics of instances make the value (...) of a run."""


def is_fit(aggregation: str, width: int) -> bool:
    """Return whether an aggregation is known and takes that many statistics per instance."""
    if aggregation == "macro_f1":
        return width > 0 and width % 3 == 0
    if aggregation == "mean_of_parts":
        return width > 0 and width % 2 == 0
    if aggregation == "noharm_harm":
        return width >= 2
    widths = {"mean": 2, "ratio": 2, "noharm_overall": 6}
    return aggregation in AGGREGATIONS and width == widths.get(aggregation, 3)


def normalise(
    values: Floats, minimum: float, maximum: float, higher_is_better: bool = True
) -> Floats:
    """Return (x - min) / (max - min), turned round where lower is better: 0 worst, 1 best."""
    if not (math.isfinite(minimum) and math.isfinite(maximum) and minimum < maximum):
        raise ValueError(f"a metric's range must be finite and not empty: {minimum} to {maximum}")
    share = (np.asarray(values, dtype=np.float64) - minimum) / (maximum - minimum)
    return share if higher_is_better else 1.0 - share


def standard_error(values: Floats) -> float:
    """Return sqrt(sum (s_i - m)^2 / (n (n - 1))); NaN for n < 2. (Miller 2024, section 2.1)"""
    n = len(values)
    if n < 2:
        return math.nan
    return float(np.sqrt(np.sum((values - values.mean()) ** 2) / (n * (n - 1))))


def clustered_error(values: Floats, clusters: Ints) -> float:
    """Return (1/n) sqrt(sum_c (sum_{i in c} (s_i - m))^2) sqrt(C / (C - 1)); NaN for C < 2.

    `clusters` holds a code >= 0 for each value. With clusters of one it is `standard_error`.
    (Miller 2024, section 2.2, with the factor for few clusters.)
    """
    sums = np.bincount(clusters, weights=values - values.mean()) if len(values) else np.empty(0)
    c = int(np.count_nonzero(np.bincount(clusters))) if len(values) else 0
    if c < 2:
        return math.nan
    return float(np.sqrt(np.sum(sums**2)) / len(values) * math.sqrt(c / (c - 1)))


def design_effect(values: Floats, clusters: Ints) -> float:
    """Return (clustered error / standard error)^2; NaN where all values are equal or C < 2."""
    plain = standard_error(values)
    return (clustered_error(values, clusters) / plain) ** 2 if plain > 0 else math.nan


def win_shares(scores: Floats, definition: WinDefinition) -> Floats:
    """Return, for scores (..., M, B), the share (..., M, M) of benchmarks that row wins over column.

    `paper`: a win where the score is at least the rival's, so that a tie is a win for both.
    `half`: a tie counts one half. Scores are compared unrounded, see `TIE`. The diagonal is NaN.
    """
    if np.isnan(scores).any():
        raise ValueError("win rates need a score in every cell: choose the common benchmarks first")
    models, benchmarks = scores.shape[-2:]
    tie = 1.0 if definition == "paper" else 0.5
    wins = np.zeros((*scores.shape[:-1], models))
    for b in range(benchmarks):
        gap = scores[..., :, None, b] - scores[..., None, :, b]
        wins += np.where(gap > TIE, 1.0, np.where(gap < -TIE, 0.0, tie))
    shares = _ratio(wins, np.full_like(wins, benchmarks))
    shares[..., np.arange(models), np.arange(models)] = np.nan
    return shares


def win_rates(shares: Floats) -> Floats:
    """Return the mean (..., M) of shares (..., M, M) over rivals; NaN where there is none."""
    models = shares.shape[-1]
    total = np.where(np.isnan(shares), 0.0, shares).sum(-1)
    return _ratio(total, np.full_like(total, models - 1))


def win_sd(shares: Floats) -> Floats:
    """Return the SD (M,) over rivals of shares (M, M), ddof 0; NaN where there is no rival."""
    models = shares.shape[-1]
    if models < 2:
        return np.full(models, np.nan)
    rivals = shares[~np.eye(models, dtype=bool)].reshape(models, models - 1)
    return np.asarray(rivals.std(axis=-1, ddof=WIN_SD_DDOF), dtype=np.float64)


def sample_sd(values: Floats, ddof: int) -> float:
    """Return the SD of the values; NaN where there are not more than `ddof`."""
    return float(np.std(values, ddof=ddof)) if len(values) > ddof else math.nan


def ranks(values: Floats) -> Ints:
    """Return 1 + the number of strictly better entries along the last axis; ties share a rank."""
    better = values[..., None, :] > values[..., :, None] + TIE
    return np.asarray(1 + better.sum(-1), dtype=np.int64)


def tie_groups(values: Floats, draws: Floats, confidence: float) -> Ints:
    """Return the group (M,), from 1, of each model that cannot be told from the group's best.

    Going down from the best value, a model joins the open group unless the percentile interval of
    its paired difference to the group's first (draws (D, M)) lies wholly above 0; then it opens
    the next group. Equal values always share a group.
    """
    groups = np.zeros(len(values), dtype=np.int64)
    first = -1
    for m in np.argsort(-values, kind="stable"):
        apart = first >= 0 and values[first] - values[m] > TIE
        if apart:
            apart = float(np.quantile(draws[:, first] - draws[:, m], (1 - confidence) / 2)) > TIE
        if first < 0 or apart:
            groups[m] = (groups[first] if first >= 0 else 0) + 1
            first = int(m)
        else:
            groups[m] = groups[first]
    return groups


def mde(error: float | Floats, alpha: float = ALPHA, beta: float = BETA) -> Floats:
    """Return (z[1 - alpha/2] + z[1 - beta]) * the standard error of a paired difference.

    2.80 times it at alpha 0.05 two-sided and power 0.80; with independent instances the error is
    sd(differences) / sqrt(n). (MedHELM paper, appendix E.)
    """
    z = NormalDist().inv_cdf
    return np.asarray((z(1 - alpha / 2) + z(1 - beta)) * np.asarray(error), dtype=np.float64)


def holm(p: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's step-down method for one family. (Holm 1979)"""
    m = len(p)
    adjusted = [0.0] * m
    running = 0.0
    for place, i in enumerate(sorted(range(m), key=lambda j: p[j])):
        running = max(running, min(1.0, (m - place) * p[i]))
        adjusted[i] = running
    return adjusted


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p of the discordant counts, binomial with p = 1/2. (McNemar 1947)"""
    from scipy.special import bdtr

    n = only_a + only_b
    return min(1.0, 2.0 * float(bdtr(min(only_a, only_b), n, 0.5))) if n else 1.0


def worst_case(total: float, rows: int, missing: int, worst: float) -> float:
    """Return (sum of values + missing * worst) / all: the mean if every missing one were worst."""
    return (total + missing * worst) / (rows + missing) if rows + missing else math.nan
