"""Strategies of one clinician compared on the same cases: paired differences with their intervals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from medhelm import Aggregation
from medhelm.stats.aggregation import Pooling, holm
from medhelm.stats.intervals import (
    PERMUTATIONS,
    bootstrap,
    cluster_sums,
    clustered_percentile,
    permutation_p,
    seed_of,
    swap_differences,
)
from medhelm.tables.format.table import Row, Settings
from medhelm.tables.study.study import Panel

NONE = "none"
"""The strategy of a clinician that answers by itself."""


def paired_strategies(panel: Panel, reading: Aggregation, settings: Settings) -> list[Row]:
    """Return a row for each pair of strategies of one model, on the cases that both have a score of.

    The difference is that of a reading, the first strategy less the second. Its interval is of a
    bootstrap over source articles, its p of swaps of the two within articles, corrected by Holm over
    the rows.
    """
    rows = [row for pair in _pairs(panel) for row in _row(panel, reading, settings, *pair)]
    for row, p in zip(rows, holm([float(str(row["p_holm"])) for row in rows]), strict=True):
        row["p_holm"] = p
    return rows


def _pairs(panel: Panel) -> Iterator[tuple[str, str]]:
    """Yield the pairs of models that are one model with different strategies, the plain one last."""
    by_model: dict[str, list[str]] = {}
    for name, cell in panel.cells.items():
        by_model.setdefault(_plain(name, cell.record.spec.model.strategy), []).append(name)
    for plain, names in sorted(by_model.items()):
        names.sort(key=lambda name: (name == plain, name))
        yield from combinations(names, 2)


def _plain(name: str, strategy: str) -> str:
    return name.removesuffix(f"+{strategy}") if strategy else name


def _row(
    panel: Panel, reading: Aggregation, settings: Settings, one: str, other: str
) -> Iterator[Row]:
    scores = [panel.scores(name) for name in (one, other)]
    ids = np.intersect1d(scores[0].ids, scores[1].ids)
    if not len(ids):
        return
    at = [own.among(ids) for own in scores]
    keys, codes = np.unique(scores[0].clusters[at[0]], return_inverse=True)
    sums = [
        cluster_sums(own.pooling.columns(own.sums, reading.sums)[there], codes, len(keys))
        for own, there in zip(scores, at, strict=True)
    ]
    value, width = Pooling(reading, reading.sums), len(reading.sums)
    specs = [panel.cells[name].record.spec.model for name in (one, other)]
    plain = _plain(one, specs[0].strategy)
    seed = seed_of(settings.bootstrap_seed, plain, one, other)
    first, second = (float(value(part.sum(axis=0)[None])[0]) for part in sums)
    drawn = bootstrap(np.hstack(sums), settings.draws, seed)
    gaps = value(drawn[:, :width]) - value(drawn[:, width:])
    swapped = swap_differences(sums[0], sums[1], value, permutations=PERMUTATIONS, seed=seed)
    yield {
        "level": "strategy",
        "model": plain,
        "group": " less ".join(spec.strategy or NONE for spec in specs),
        "n": len(ids),
        "clusters": len(keys),
        "score_one": first,
        "score_other": second,
        "difference": first - second,
        "p_holm": permutation_p(first - second, swapped),
    } | _ends(gaps, settings, np.bincount(codes))


def _ends(gaps: np.ndarray, settings: Settings, sizes: np.ndarray) -> Row:
    if len(sizes) < 2:
        return {}
    found = clustered_percentile(gaps, settings.confidence, sizes)
    return {"difference_low": found.low, "difference_high": found.high}
