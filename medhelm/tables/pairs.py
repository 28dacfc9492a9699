"""Every two ranked models on the common benchmarks, and the ranks of each in the draws."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from medhelm import stats
from medhelm.intervals import (
    PERMUTATIONS,
    cluster_sums,
    percentile,
    permutation_p,
    seed_of,
    swaps_of_pairs,
)
from medhelm.stats import Floats
from medhelm.tables import notes
from medhelm.tables.columns import PAIRS, RANKS
from medhelm.tables.compare import pair
from medhelm.tables.study import Study, placed_stats
from medhelm.tables.table import Row, Table, make_table


def pairs(study: Study) -> Table:
    """Return one row per two ranked models: the paired difference of their macro-averages.

    It is the overall row of `compare` where the runs of all models have the same instances; here
    every pair is on the instances that all share. Holm's family is the pairs.
    """
    ranking = study.ranking
    rows = _rows(study) if ranking.is_defined else []
    for row, p in zip(rows, stats.holm([float(str(r["p"])) for r in rows]), strict=True):
        row["p_holm"] = p
    said = [notes.pooled_intervals(study)] if rows else ["Fewer than two models are ranked."]
    return make_table(
        "pairs",
        "Paired differences of macro-averages, A less B",
        PAIRS,
        rows,
        [*notes.common(study), *notes.ranking(study), *said],
        notes.settings(study) | {"permutations": PERMUTATIONS},
    )


def _rows(study: Study) -> list[Row]:
    ranking = study.ranking
    benchmarks, macro = ranking.benchmarks, ranking.scores.mean(axis=1)
    couples = list(combinations(range(len(ranking.models)), 2))
    rows: list[Row] = [
        {
            "model_a": ranking.models[a],
            "model_b": ranking.models[b],
            "n_benchmarks": len(benchmarks),
            "difference": macro[a] - macro[b],
        }
        for a, b in couples
    ]
    if len(benchmarks) == 1:  # then its own interval and p, so that no difference has two of them
        cells, panel = study.cells[benchmarks[0]], study.panels[benchmarks[0]]
        for row, (a, b) in zip(rows, couples, strict=True):
            one, two = cells[ranking.models[a]], cells[ranking.models[b]]
            found = pair(one, two, panel.metric, study.settings, benchmarks[0])
            assert found is not None  # common benchmarks have instances in common
            row |= {"low": found.interval.low, "high": found.interval.high, "p": found.p}
        return rows
    swaps = np.mean([_swaps(study, b, couples) for b in benchmarks], axis=0)
    draws = ranking.draws.mean(axis=2)
    for row, (a, b), own in zip(rows, couples, swaps.T, strict=True):
        ends = percentile(draws[:, a] - draws[:, b], study.settings.confidence)
        row |= {"low": ends.low, "high": ends.high, "p": permutation_p(macro[a] - macro[b], own)}
    return rows


def _swaps(study: Study, benchmark: str, couples: list[tuple[int, int]]) -> Floats:
    """Return normalised differences (permutations, pairs) under random swaps of clusters."""
    panel = study.panels[benchmark]
    sums = [cluster_sums(*found) for found in placed_stats(panel, study.ranking.models)]
    metric = panel.metric
    swaps = swaps_of_pairs(
        sums,
        couples,
        metric.aggregation,
        permutations=PERMUTATIONS,
        seed=seed_of(study.settings.bootstrap_seed, benchmark, "swaps"),
    )
    return swaps / ((metric.maximum - metric.minimum) * (1 if metric.higher_is_better else -1))


def ranks(study: Study) -> Table:
    """Return one row per ranked model and rank: the share of draws in which it has that rank."""
    ranking = study.ranking
    rows: list[Row] = []
    if ranking.is_defined:
        drawn = stats.ranks(ranking.merit_draws)
        for m, model in enumerate(ranking.models):
            for rank in range(1, len(ranking.models) + 1):
                share = float((drawn[:, m] == rank).mean())
                rows.append({"model": model, "rank": rank, "share": share})
    return make_table(
        "ranks",
        "Where each model stands when instances are resampled",
        RANKS,
        rows,
        [
            *notes.common(study),
            *notes.ranking(study),
            "Shares of the draws are no confidence set, and too narrow at near ties: rank_low and "
            "rank_high of the table overall say which ranks a model may have.",
        ],
        notes.settings(study),
        group=("model",),
    )
