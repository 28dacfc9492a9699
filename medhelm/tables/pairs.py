"""Every two ranked models on the common benchmarks, and the ranks of each in the draws."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.intervals import PERMUTATIONS, percentile_ends
from medhelm.tables import notes
from medhelm.tables.compare import pair
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table, Value
from medhelm.tables.notes import study_table
from medhelm.tables.study.pair_tests import permutation_ps
from medhelm.tables.study.study import Study

PAIRS = form(__file__, "pairs")
RANKS = form(__file__, "ranks")


def pairs(study: Study) -> Table:
    """Return one row per two ranked models: the paired difference of their macro-averages.

    It is the overall row of `compare` where the runs of all models have the same instances; here
    every pair is on the instances that all share. Holm's family is the pairs.
    """
    rows = _rows(study) if study.ranking.is_defined else []
    is_there = study.ranking.is_defined
    said = [notes.pooled_intervals(study)] if is_there else ["Fewer than two models are ranked."]
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
