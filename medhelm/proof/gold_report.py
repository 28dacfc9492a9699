"""Verdicts on golds and stored runs -> the flagged share, what models score, and their ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from medhelm.proof.gold_quality import Verdicts
from medhelm.stats.aggregation import Floats, Ints, ranks
from medhelm.stats.intervals import effective_trials, wilson
from medhelm.store.records import cluster_key, find_gradings, instance_key, read_record
from medhelm.tables import notes
from medhelm.tables.results import load_results
from medhelm.tables.study.cells import Keys, MetricScores
from medhelm.tables.study.selection import is_ranked
from medhelm.tables.study.study import Panel

CONFIDENCE = 0.95
_LEAST_MODELS = 2


class ModelMeans(msgspec.Struct, frozen=True, kw_only=True):
    """One model's main metric on both kinds of instances; None where there are none.

    Ranks are over the instances that all ranked models share.
    """

    model: str
    flagged: float | None
    flagged_n: int
    accepted: float | None
    accepted_n: int
    rank: int | None = None
    rank_without_flagged: int | None = None


class GoldReport(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's findings in the golds of a benchmark."""

    benchmark: str
    data: str
    judge: str
    golds: int
    without_gold: int
    judged: int
    flagged: int
    share: float | None
    low: float | None
    high: float | None
    """Wilson's interval of the share, of effective trials where instances share a cluster."""
    abstained: dict[str, int]
    flagged_ids: tuple[str, ...]
    metric: str = ""
    models: tuple[ModelMeans, ...] = ()
    compared: int = 0
    """Instances that all ranked models share."""
    compared_flagged: int = 0
    tau: float | None = None
    """Kendall's tau-b between the ranks with and without flagged instances."""
    notes: tuple[str, ...] = ()
    folder: str = ""


def make_report(
    verdicts: Verdicts,
    *,
    benchmark: str,
    data: Literal["sample", "full"],
    judge: str,
    results: Path,
    folder: Path,
) -> GoldReport:
    """Return the report; models are those with a graded run of the benchmark on the same data."""
    share, low, high = _share(verdicts)
    report = GoldReport(
        benchmark=benchmark,
        data=data,
        judge=judge,
        golds=verdicts.golds,
        without_gold=verdicts.without_gold,
        judged=len(verdicts.flagged) + len(verdicts.accepted),
        flagged=len(verdicts.flagged),
        share=share,
        low=low,
        high=high,
        abstained=dict(verdicts.abstained),
        flagged_ids=tuple(verdicts.flagged),
        folder=str(folder),
    )
    if not _has_runs(results, benchmark, data):
        return report
    found = load_results(results, data=data, benchmarks=[benchmark], latest=True)
    study = found.study()
    panel = study.panels[benchmark]
    report = msgspec.structs.replace(
        report, metric=panel.metric.name, notes=tuple(notes.common(study))
    )
    return _with_models(report, panel, _keys(verdicts.flagged), _keys(verdicts.accepted))


def _share(verdicts: Verdicts) -> tuple[float | None, float | None, float | None]:
    marks = [(1.0, c) for c in verdicts.flagged.items()]
    marks += [(0.0, c) for c in verdicts.accepted.items()]
    if not marks:
        return None, None, None
    values = np.array([value for value, _ in marks])
    keys = np.array([cluster_key(*of) for _, of in marks], dtype=np.uint64)
    _, clusters = np.unique(keys, return_inverse=True)
    count = int(clusters.max()) + 1
    share, trials = float(values.mean()), float(len(values))
    if 1 < count < len(values):
        trials = effective_trials(values, clusters, CONFIDENCE)
    elif count < len(values):  # all of one patient: no interval can be given
        return share, None, None
    return share, *wilson(share, trials, CONFIDENCE)


def _has_runs(results: Path, benchmark: str, data: str) -> bool:
    paths = [p for p in find_gradings(results) if p.parents[3].name == benchmark]
    return any(read_record(p).spec.data == data for p in paths)


def _keys(ids: Mapping[str, str | None]) -> Keys:
    return np.unique(np.array([instance_key(i) for i in ids], dtype=np.uint64))


def _with_models(report: GoldReport, panel: Panel, flagged: Keys, accepted: Keys) -> GoldReport:
    """Return the report with every model's means, and ranks where two or more can be ranked."""
    scores = {model: panel.scores(model) for model in sorted(panel.cells)}
    ranked = [
        m for m in scores if is_ranked(panel.cells[m].record.spec.model) and len(scores[m].ids)
    ]
    ids = reduce(np.intersect1d, (scores[m].ids for m in ranked)) if ranked else flagged[:0]
    kept = np.setdiff1d(ids, flagged)
    places: dict[str, tuple[int, int]] = {}
    tau = None
    if len(ranked) >= _LEAST_MODELS and len(kept):
        sign = 1.0 if panel.metric.higher_is_better else -1.0
        before, behind = (
            ranks(np.array([sign * _mean(scores[m], some)[0] for m in ranked]))
            for some in (ids, kept)
        )
        places = {m: (int(before[i]), int(behind[i])) for i, m in enumerate(ranked)}
        tau = _tau(before, behind)
    models = []
    for model, own in scores.items():
        (bad, bad_n), (good, good_n) = _mean(own, flagged), _mean(own, accepted)
        rank, without = places.get(model, (None, None))
        models.append(
            ModelMeans(
                model=model,
                flagged=bad if bad_n else None,
                flagged_n=bad_n,
                accepted=good if good_n else None,
                accepted_n=good_n,
                rank=rank,
                rank_without_flagged=without,
            )
        )
    return msgspec.structs.replace(
        report,
        models=tuple(models),
        compared=len(ids),
        compared_flagged=len(ids) - len(kept),
        tau=tau,
    )


def _mean(scores: MetricScores, wanted: Keys) -> tuple[float, int]:
    """Return the mean over the wanted instances that have a value, and their number."""
    values: Floats = scores.values[np.isin(scores.ids, wanted)]
    return (float(values.mean()) if len(values) else math.nan), len(values)


def _tau(a: Ints, b: Ints) -> float | None:
    from scipy.stats import kendalltau

    tau = float(kendalltau(a, b).statistic)
    return tau if math.isfinite(tau) else None
