"""Statistics on numbers: pure functions, each with its formula and its source.

Notation: instances i = 1..n with values s_i, clusters c = 1..C, models m, benchmarks b.
What is undefined (a ratio of nothing, an error from one value) is NaN here and missing in tables.
Resampling and intervals are in `intervals`.

Sources: the MedHELM paper (arXiv 2505.23802) for win rate, macro-average and MDE; Miller
(arXiv 2411.00640) for standard errors. The authors' table script fixes what the paper leaves
open: the SD of the win share over rivals divides by their number (ddof 0), the SD of the scores
over benchmarks by their number less one (ddof 1).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from medhelm.errors import PluginError
from medhelm.processes.workers import workers_for
from medhelm.schema.aggregation import EACH, Aggregation, ShareExtremes, Sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_T = TypeVar("_T")
_S = TypeVar("_S")

WinDefinition = Literal["half", "literal"]
"""Weight of a tie: half a win, as in the paper's table 1, or a win for both (its text)."""

TIE = 1e-9
"""Normalised scores closer than this are equal: sums of the same values in another order
differ in their last bits, and that is not a win."""

WIN_SD_DDOF = 0
MACRO_SD_DDOF = 1
MDE_SD_DDOF = {"range": 1, "paper": 0}
"""By the scale of the differences."""

ALPHA = 0.05
BETA = 0.20


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where the whole is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(whole != 0, part / whole, np.nan), dtype=np.float64)


def mean_of_parts(sums: Sums) -> Floats:
    """Return the unweighted mean over parts of `sum/PART` / `count/PART`; a part without a value
    is left out. NaN where no part is left."""
    return mean_of_defined(ratio(by_label(sums, "sum/*"), by_label(sums, "count/*")))


def by_label(sums: Sums, name: str) -> Floats:
    """Return the sums (..., L) of all labels under a name that ends in `/*`, labels in the order
    of the names."""
    head = name.removesuffix(EACH)
    return np.stack([own for label, own in sums.items() if label.startswith(head)], axis=-1)


def mean_of_defined(values: Floats) -> Floats:
    """Return the mean (...) of those of the values (..., L) that are not NaN; NaN where all are."""
    seen = ~np.isnan(values)
    return ratio(np.where(seen, values, 0.0).sum(-1), seen.sum(-1).astype(np.float64))


MEAN_OF_PARTS = Aggregation(
    name="mean_of_parts",
    sums=("sum/*", "count/*"),
    of=mean_of_parts,
    extremes=ShareExtremes((("sum/*", "count/*"),)),
)
"""The mean of a metric over a benchmark of several parts."""


@dataclass(frozen=True)
class Pooling:
    """An aggregation over arrays (..., k) whose columns are sums of these names."""

    aggregation: Aggregation
    names: tuple[str, ...]

    def __call__(self, sums: Floats) -> Floats:
        """Return the values (...) of sums (..., k); NaN where one is undefined.

        Raises PluginError where the aggregation's function fails.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            try:
                found = np.asarray(self.aggregation.of(self.by_name(sums)), dtype=np.float64)
            except Exception as e:  # the boundary to plugins
                named = f" {e}" if isinstance(e, KeyError) else ""
                raise self._fault(f"raised {type(e).__name__}{named}") from None
        if found.shape != sums.shape[:-1]:
            raise self._fault(f"returned the shape {found.shape} of sums {sums.shape[:-1]}")
        return np.asarray(np.where(np.isfinite(found), found, np.nan), dtype=np.float64)

    def by_name(self, sums: Floats) -> dict[str, Floats]:
        """Return the columns (...) of sums (..., k) by name."""
        return {name: np.asarray(sums[..., i]) for i, name in enumerate(self.names)}

    def columns(self, sums: Floats, names: Sequence[str]) -> Floats:
        """Return some columns (..., some) of sums (..., k), in the order of their names."""
        return sums[..., [self.names.index(name) for name in names]]

    def extremes(
        self, sums: Floats, minimum: float, maximum: float
    ) -> tuple[Floats, Floats] | None:
        """Return the sums (k,) of the worst and of the best cluster that there can be, as large as
        the largest of `sums` (C, k); None where one instance has no bound.

        Raises PluginError where the aggregation's function fails.
        """
        if self.aggregation.extremes is None:
            return None
        try:
            low, high = self.aggregation.extremes(self.by_name(sums), minimum, maximum)
        except Exception as e:  # the boundary to plugins
            raise self._fault(f"has extremes that raised {type(e).__name__}") from None
        try:
            ends = [np.array([float(end[name]) for name in self.names]) for end in (low, high)]
        except KeyError as e:
            raise self._fault(f"gave extremes without the sum {e}") from None
        return ends[0], ends[1]

    def _fault(self, what: str) -> PluginError:
        known = ", ".join(self.aggregation.sums)
        return PluginError(
            f"aggregation {self.aggregation.name!r} {what}; its sums are: {known}; mend its function"
        )


def normalise(
    values: Floats, minimum: float, maximum: float, higher_is_better: bool = True
) -> Floats:
    """Return (x - min) / (max - min), turned round where lower is better: 0 worst, 1 best."""
    if not (math.isfinite(minimum) and math.isfinite(maximum) and minimum < maximum):
        raise ValueError(f"a metric's range must be finite and not empty: {minimum} to {maximum}")
    share = (np.asarray(values, dtype=np.float64) - minimum) / (maximum - minimum)
    return share if higher_is_better else 1.0 - share


def standard_errors(values: Floats) -> Floats:
    """Return sqrt(sum (s_i - m)^2 / (n (n - 1))) of each row of values (R, n); NaN for n < 2.

    (Miller 2024, section 2.1)
    """
    n = values.shape[1]
    if n < 2:
        return np.full(len(values), np.nan)
    squares = np.sum((values - values.mean(axis=1, keepdims=True)) ** 2, axis=1)
    return np.asarray(np.sqrt(squares / (n * (n - 1))), dtype=np.float64)


def standard_error(values: Floats) -> float:
    """Return the standard error of one mean, see `standard_errors`."""
    return float(standard_errors(values[None])[0])


def clustered_errors(values: Floats, clusters: Ints) -> Floats:
    """Return (1/n) sqrt(sum_c (sum_{i in c} (s_i - m))^2 / (1 - n_c / n)) of each row of values
    (R, n); NaN for C < 2.

    `clusters` holds a code >= 0 for each value. With clusters of one it is `standard_error`, with
    equal ones the usual error times sqrt(C / (C - 1)). (Miller 2024, section 2.2, with the
    correction CR2 for few and uneven clusters: Bell and McCaffrey, Survey Methodology 28, 2002.)
    """
    sizes = np.bincount(clusters)
    rows, n = values.shape
    if np.count_nonzero(sizes) < 2:
        return np.full(rows, np.nan)
    centred = values - values.mean(axis=1, keepdims=True)
    cells = np.arange(rows)[:, None] * len(sizes) + clusters
    sums = np.bincount(cells.ravel(), weights=centred.ravel(), minlength=rows * len(sizes))
    squares = sums.reshape(rows, len(sizes)) ** 2 / (1 - sizes / n)
    return np.asarray(np.sqrt(np.sum(squares, axis=1)) / n, dtype=np.float64)


def clustered_error(values: Floats, clusters: Ints) -> float:
    """Return the clustered error of one mean, see `clustered_errors`."""
    return float(clustered_errors(values[None], clusters)[0])


def design_effect(values: Floats, clusters: Ints) -> float:
    """Return (clustered error / standard error)^2; NaN where all values are equal or C < 2."""
    plain = standard_error(values)
    return (clustered_error(values, clusters) / plain) ** 2 if plain > 0 else math.nan


def wins_and_ties(scores: Floats) -> tuple[Ints, Ints]:
    """Return how many rivals (..., M), over all benchmarks, each model beats and ties with.

    Of scores (..., M, B), compared unrounded, see `TIE`. By sorting, so that memory grows with the
    number of models and not with its square.
    """
    if np.isnan(scores).any():
        raise ValueError("win rates need a score in every cell: choose the common benchmarks first")
    models, benchmarks = scores.shape[-2:]
    won = np.zeros((scores.size // max(1, models * benchmarks), models), dtype=np.int64)
    tied = np.zeros_like(won)
    for b in range(benchmarks):
        own = np.reshape(scores[..., b], won.shape)
        order = np.argsort(own, axis=1)
        ordered = np.take_along_axis(own, order, axis=1)
        below = _clearly_below(ordered)
        above = _clearly_below(-ordered[:, ::-1])[:, ::-1]
        place = np.argsort(order, axis=1)
        won += np.take_along_axis(below, place, axis=1)
        tied += np.take_along_axis(models - 1 - below - above, place, axis=1)
    return won.reshape(scores.shape[:-1]), tied.reshape(scores.shape[:-1])


def _clearly_below(ordered: Floats) -> Ints:
    """Return how many entries of its ascending row lie below each entry by more than `TIE`."""
    places = np.arange(ordered.shape[1])
    starts = np.where(np.diff(ordered, axis=1, prepend=-np.inf) > TIE, places, 0)
    below = np.maximum.accumulate(starts, axis=1)  # all before a run of neighbours within `TIE`
    # The ends of a run of many can be further apart than its neighbours are.
    while (more := ordered - np.take_along_axis(ordered, below, axis=1) > TIE).any():
        below += more
    return np.asarray(below, dtype=np.int64)


def win_rates(scores: Floats, definition: WinDefinition) -> Floats:
    """Return the share (..., M) of rivals and benchmarks won; NaN where there is no rival.

    `half`: a tie counts one half. `literal`: a win where the score is at least the rival's, so
    that a tie is a win for both. Sums of wins are exact, so that equal win rates are equal to the
    last bit.
    """
    return rate_of_wins(*wins_and_ties(scores), scores.shape[-1], definition)


def rate_of_wins(won: Ints, tied: Ints, benchmarks: int, definition: WinDefinition) -> Floats:
    """Return the win rates (..., M) of what `wins_and_ties` counts on so many benchmarks."""
    total = won + (0.5 if definition == "half" else 1.0) * tied
    return ratio(total, np.full_like(total, (total.shape[-1] - 1) * benchmarks))


def win_sd(scores: Floats, definition: WinDefinition) -> Floats:
    """Return the SD (M,) over rivals of the share of benchmarks won, ddof 0; NaN without a rival."""
    models, benchmarks = scores.shape
    if models < 2:
        return np.full(models, np.nan)
    tie, found = 0.5 if definition == "half" else 1.0, np.empty(models)
    for m in range(models):
        gap = scores[m] - np.delete(scores, m, axis=0)
        won = np.where(gap > TIE, 1.0, np.where(gap < -TIE, 0.0, tie)).sum(axis=1)
        found[m] = (won / benchmarks).std(ddof=WIN_SD_DDOF)
    return found


def sample_sds(values: Floats, ddof: int) -> Floats:
    """Return the SD of what is known in each row of values (R, n), see `sample_sd`."""
    if values.shape[1] > ddof and not np.isnan(values).any():
        return np.asarray(values.std(axis=1, ddof=ddof), dtype=np.float64)
    return np.array([sample_sd(row[~np.isnan(row)], ddof) for row in values])


def sample_sd(values: Floats, ddof: int) -> float:
    """Return the SD of the values; NaN where there are not more than `ddof`."""
    return float(np.std(values, ddof=ddof)) if len(values) > ddof else math.nan


def ranks(values: Floats) -> Ints:
    """Return 1 + the number of strictly better entries along the last axis, none of them NaN;
    ties share a rank."""
    found = np.empty(values.shape, dtype=np.int64)
    for place in np.ndindex(values.shape[:-1]):
        row = values[place]
        found[place] = 1 + len(row) - np.searchsorted(np.sort(row), row + TIE, side="right")
    return found


def pair_blocks(models: int, width: int, most: int = 100_000) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs of models, first and second, in order, in blocks of at most `most` numbers
    where each pair has `width` of them: some 0.8 MB, which stays in a core's cache."""
    first, second = np.triu_indices(models, 1)
    step = max(1, most // max(1, width))
    for start in range(0, len(first), step):
        yield first[start : start + step], second[start : start + step]


def on_all_cores(work: Callable[[_T], _S], items: Iterable[_T], is_sent: bool = False) -> list[_S]:
    """Return what `work` gives for each item, in order; numpy's work runs side by side in threads.

    `is_sent`: by Ray where the command names it: seconds of work that rounds the same on all machines (no products).
    """
    workers = workers_for()
    if workers.is_ray and is_sent:
        every = items = [*items]
        size = max(1, len(every) // (8 * workers.count))
        pool = workers.pool(workers.count, partial, map, work)
        with pool, suppress(BrokenExecutor):
            parts = [pool.submit(_each, every[k : k + size]) for k in range(0, len(every), size)]
            return [value for part in parts for value in part.result()]
    with ThreadPoolExecutor((not workers.is_ray and workers.count) or os.cpu_count()) as threads:
        return list(threads.map(work, items))


def _each(mapped: Callable[[list[_T]], Iterable[_S]], items: list[_T]) -> list[_S]:
    return list(mapped(items))


def tie_groups(values: Floats, is_better: NDArray[np.bool_]) -> Ints:
    """Return the group (M,), from 1, of each model.

    Going down from the best value, a model joins the open group unless the group's first is
    clearly better (row better than column); then it opens the next group.
    """
    groups = np.zeros(len(values), dtype=np.int64)
    first = -1
    for m in np.argsort(-values, kind="stable"):
        if first < 0 or is_better[first, m]:
            groups[m] = (groups[first] if first >= 0 else 0) + 1
            first = int(m)
        else:
            groups[m] = groups[first]
    return groups


PAPER_MDE_FACTOR = 2.80
"""The paper's authors multiply by this: z[0.975] + z[0.80] = 2.8016, rounded."""


def mde(error: float | Floats) -> Floats:
    """Return (z[1 - alpha/2] + z[1 - beta]) * the standard error of a paired difference.

    2.80 times it at alpha 0.05 two-sided and power 0.80. With independent instances the error is
    sd(differences) / sqrt(n). (MedHELM paper, appendix E.)
    """
    z = NormalDist().inv_cdf
    return np.asarray((z(1 - ALPHA / 2) + z(1 - BETA)) * np.asarray(error), dtype=np.float64)


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


_PLACES = 1074
"""Binary places behind the point of the smallest float: every float is a whole number of these."""


class ExactSum:
    """A sum of finite floats that is rounded once, when it is read."""

    def __init__(self) -> None:
        self._units = 0

    def add(self, value: float) -> None:
        """Add a value exactly."""
        above, below = value.as_integer_ratio()
        self._units += above << (_PLACES + 1 - below.bit_length())

    def rounded(self) -> float:
        """Return the float that is nearest to the sum; infinity beyond the largest one."""
        try:
            return self._units / (1 << _PLACES)
        except OverflowError:
            return math.inf if self._units > 0 else -math.inf
