"""Every two ranked models on the common benchmarks, and the ranks of each in the draws.

A permutation swaps whole clusters of two models, on each benchmark with the swaps that every pair
has there. Memory grows with the models: permutations are taken some at a time, and pairs by their
first model. Where a score is a mean of equally many instances, a swapped difference is one number
of the first model less one of the second, whatever the number of benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from medhelm.schema.aggregation import MEAN
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import TIE, Floats, Ints, Pooling, on_all_cores
from medhelm.stats.intervals import PERMUTATIONS, cluster_sums, percentile_ends, seed_of, swaps
from medhelm.tables import notes
from medhelm.tables.compare import pair
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table, Value
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import shared_pooling
from medhelm.tables.study.study import Study, placed_sums

PAIRS = form(__file__, "pairs")
RANKS = form(__file__, "ranks")


def pairs(study: Study) -> Table:
    """Return one row per two ranked models: the paired difference of their macro-averages.

    It is the overall row of `compare` where the runs of all models have the same instances; here
    every pair is on the instances that all share. Holm's family is the pairs.
    """
    rows = _rows(study) if study.ranking.is_defined else []
    is_there = study.ranking.is_defined
    said = notes.pooled_intervals(study) if is_there else PAIRS.say(none=True)
    more: dict[str, Value] = {"permutations": PERMUTATIONS}
    return study_table(study, PAIRS, rows, said, is_ranking=True, more=more)


def _rows(study: Study) -> Iterator[Row]:
    """Yield the rows in the order of the models: there are half as many as models squared."""
    ranking = study.ranking
    macro = ranking.scores.mean(axis=1)
    difference = np.concatenate([macro[m] - macro[m + 1 :] for m in range(len(macro))])
    if len(ranking.benchmarks) == 1:  # then its own interval and p, so that no difference has two
        ends, p = _of_one(study, ranking.benchmarks[0])
    else:
        ends, p = _ends(study), permutation_ps(study, difference)
    numbers = zip(difference, ends, p, stats.holm(p.tolist()), strict=True)
    couples = combinations(ranking.models, 2)
    for (a, b), (gap, (low, high), own, adjusted) in zip(couples, numbers, strict=True):
        yield {
            "model_a": a,
            "model_b": b,
            "n_benchmarks": len(ranking.benchmarks),
            "difference": gap,
            "low": low,
            "high": high,
            "p": own,
            "p_holm": adjusted,
        }


def _of_one(study: Study, benchmark: str) -> tuple[Floats, Floats]:
    """Return ends (P, 2), NaN where there is none, and p (P,) of the pairs on a single benchmark."""
    cells, panel = study.cells[benchmark], study.panels[benchmark]
    found = []
    for a, b in combinations(study.ranking.models, 2):
        own = pair(cells[a], cells[b], panel.metric, study.settings, benchmark)
        assert own is not None  # common benchmarks have instances in common
        found.append((own.interval.low, own.interval.high, own.p))
    values = np.array(found, dtype=np.float64)
    return values[:, :2], values[:, 2]


def _ends(study: Study) -> Floats:
    """Return the ends (P, 2) of the percentile intervals of macro-averages' paired differences."""
    by_model = np.ascontiguousarray(study.ranking.draws.mean(axis=2).T)

    def block(couple: tuple[Ints, Ints]) -> Floats:
        gaps = by_model[couple[0]] - by_model[couple[1]]
        return percentile_ends(gaps, study.settings.confidence)

    return np.concatenate(stats.on_all_cores(block, stats.pair_blocks(*by_model.shape)))


def ranks(study: Study) -> Table:
    """Return one row per ranked model and rank: the share of draws in which it has that rank."""
    rows = _shares(study) if study.ranking.is_defined else []
    return study_table(study, RANKS, rows, is_ranking=True)


def _shares(study: Study) -> Iterator[Row]:
    ranking = study.ranking
    drawn = stats.ranks(ranking.merit_draws)
    for m, model in enumerate(ranking.models):
        counts = np.bincount(drawn[:, m], minlength=len(ranking.models) + 1)
        for rank, own in enumerate(counts[1:].tolist(), start=1):
            yield {"model": model, "rank": rank, "share": own / len(drawn)}


_NUMBERS = 200_000
"""Swapped differences held for one first model."""
_SENT = 3_000_000
"""Swapped differences of all pairs from which on other machines help."""


@dataclass(frozen=True)
class _SwappedBenchmark:
    """The ranked models' sums on one benchmark."""

    sums: Floats
    """Of the clusters (C, k, M)."""
    pooling: Pooling
    span: float
    """Range of the metric, negative where lower is better."""
    seed: int

    @property
    def is_linear(self) -> bool:
        """Return whether the score is a mean over what is the same in all models."""
        return self.pooling.aggregation == MEAN and bool(
            (self.sums[:, 1] == self.sums[:, 1, :1]).all()
        )

    def given(self, step: int) -> Iterator[Floats]:
        """Yield the sums (k, M, step) of the clusters that are swapped, `step` permutations a time."""
        clusters, k, models = self.sums.shape
        joined = self.sums.reshape(clusters, -1)
        for flips in _in_steps(swaps(clusters, PERMUTATIONS, self.seed), step):
            yield np.ascontiguousarray((flips @ joined).T).reshape(k, models, -1)

    def scores(self, sums: Floats) -> Floats:
        """Return the scores of sums (k, ...), in widths of the range; lower ones are better."""
        return self.pooling(np.moveaxis(sums, 0, -1)) / self.span


def _in_steps(parts: Iterator[Floats], step: int) -> Iterator[Floats]:
    """Yield the rows of arrays that follow each other, `step` rows at a time."""
    held: list[Floats] = []
    for part in parts:
        held.append(part)
        while sum(map(len, held)) >= step:
            rows = np.concatenate(held) if len(held) > 1 else held[0]
            yield rows[:step]
            held = [rows[step:]]
    if sum(map(len, held)):
        yield np.concatenate(held)


def permutation_ps(study: Study, observed: Floats) -> Floats:
    """Return the two-sided p (P,) of the observed differences (P,) of all pairs, in order."""
    ranking = study.ranking
    models, count = len(ranking.models), len(ranking.benchmarks)
    step = min(1000, max(32, _NUMBERS // models))
    alone = np.zeros((models, PERMUTATIONS))
    pooled = []
    for name in ranking.benchmarks:
        own = _benchmark(study, name)
        if not own.is_linear:
            pooled.append(own)
            continue
        whole = own.sums.sum(axis=0)
        for at, given in zip(_places(step), own.given(step), strict=True):
            alone[:, at] += (whole[0, :, None] - 2 * given[0]) / whole[1, 0] / own.span
    extreme = np.zeros(len(observed), dtype=np.int64)
    for at, *given in zip(_places(step), *(b.given(step) for b in pooled), strict=True):
        chunk = _Swapped(alone[:, at], pooled, given, np.abs(observed) * count - count * TIE)
        is_large = len(observed) * step > _SENT
        extreme += np.concatenate(on_all_cores(chunk.extreme, range(models - 1), is_large))
    return np.asarray((1 + extreme) / (1 + PERMUTATIONS))


def _places(step: int) -> Iterator[slice]:
    return (slice(i, min(i + step, PERMUTATIONS)) for i in range(0, PERMUTATIONS, step))


def _benchmark(study: Study, name: str) -> _SwappedBenchmark:
    panel = study.panels[name]
    placed = placed_sums(panel, study.ranking.models)
    metric = panel.metric
    return _SwappedBenchmark(
        sums=np.stack([cluster_sums(*found) for found in placed], axis=2),
        pooling=shared_pooling([panel.scores(m) for m in study.ranking.models], name),
        span=(metric.maximum - metric.minimum) * (1 if metric.higher_is_better else -1),
        seed=seed_of(study.settings.bootstrap_seed, name, "swaps"),
    )


class _Swapped:
    """Some permutations of all benchmarks."""

    def __init__(
        self, alone: Floats, pooled: list[_SwappedBenchmark], given: list[Floats], least: Floats
    ) -> None:
        self._alone, self._least = alone, least
        self._pooled = [
            (b, b.sums.sum(axis=0)[:, :, None] - g, g) for b, g in zip(pooled, given, strict=True)
        ]

    def extreme(self, first: int) -> Ints:
        """Return how many differences of a model and each later one are at least as extreme."""
        models, later = len(self._alone), slice(first + 1, None)
        gap = self._alone[first] - self._alone[later]
        for benchmark, kept, given in self._pooled:
            gap += benchmark.scores(kept[:, first, None] + given[:, later])
            gap -= benchmark.scores(kept[:, later] + given[:, first, None])
        start = first * (2 * models - first - 1) // 2
        least = self._least[start : start + len(gap), None]
        return np.asarray(np.count_nonzero(np.abs(gap, out=gap) >= least, axis=1))
