"""The tables `corrected` and `shares`: the jury's scores of whole runs, corrected by the answers
that clinicians rated.
"""

from __future__ import annotations

import numpy as np

from medhelm.errors import UsageError
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats
from medhelm.tables.clinicians.agreement import (
    cluster_codes,
    common_notes,
    jury_name,
    rated_settings,
)
from medhelm.tables.clinicians.agreement_columns import CORRECTED, SHARES
from medhelm.tables.clinicians.rated_answers import Rated, RunScores
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table

_RANDOM = (
    "Right where the rated answers are a random sample of all, as a sheet of --template is within "
    "thirds of the jury's scores."
)

_LAYOUT = Layout(main=("corrected",))


def corrected_table(rated: Rated, settings: Settings | None = None) -> Table:
    """Return the jury's mean of each rated run, corrected by the answers that clinicians rated."""
    confidence = (settings or Settings()).confidence
    return make_table(
        "corrected",
        f"Scores corrected by clinicians' ratings, jury {jury_name(rated)}",
        CORRECTED,
        [_corrected(rated, own, confidence) for own in rated.runs],
        [
            *common_notes(rated),
            "Corrected: the jury's mean over all answers plus the mean gap of clinicians and jury "
            f"on the rated ones (prediction-powered), with its {confidence:.0%} t interval over "
            "clusters.",
            _RANDOM,
        ],
        rated_settings(rated) | {"confidence": confidence},
        ("benchmark",),
        layout=_LAYOUT,
    )


def shares_table(rated: Rated, threshold: float, settings: Settings | None = None) -> Table:
    """Return the share of each rated run's answers with at least a score, after Rogan and Gladen."""
    if not any(low < threshold <= high for low, high in rated.scales.values()):
        raise UsageError(
            f"--threshold {threshold:g} parts no answers: it must lie above the lowest score, and "
            "not above the highest"
        )
    confidence = (settings or Settings()).confidence
    return make_table(
        "shares",
        f"Share of answers of {threshold:g} or more, jury {jury_name(rated)}",
        SHARES,
        [_share(rated, own, threshold, confidence) for own in rated.runs],
        [
            *common_notes(rated),
            f"Corrected after Rogan and Gladen, with {confidence:.0%} intervals. Sensitivity and "
            "specificity are those of the jury on all rated answers of the benchmark, taken as "
            "equal for its models; answers are taken as independent.",
            _RANDOM,
        ],
        rated_settings(rated) | {"confidence": confidence, "threshold": threshold},
        ("benchmark",),
        layout=_LAYOUT,
    )


def _labels(rated: Rated, own: RunScores) -> Floats:
    """Return the clinicians' mean of each answer of a run; NaN where it is not rated."""
    found = np.full(len(own.places), np.nan)
    for answer, value in zip(rated.answers, rated.human(), strict=True):
        if answer[:2] == (own.run.benchmark, own.run.model):
            found[own.place(answer)] = value
    return found


def _head(rated: Rated, own: RunScores) -> Row:
    return {
        "benchmark": own.run.benchmark,
        "model": own.run.model,
        "is_stand_in": not rated.jury.judges,
        "n": int((~np.isnan(own.values[JURY])).sum()),
        "answers": len(own.places),
    }


def _corrected(rated: Rated, own: RunScores, confidence: float) -> Row:
    there = ~np.isnan(own.values[JURY])
    judge, human = own.values[JURY][there], _labels(rated, own)[there]
    clusters = cluster_codes(own.clusters[there])
    labelled = ~np.isnan(human)
    held = len(np.unique(clusters[labelled]))
    row: Row = {
        **_head(rated, own),
        "labelled": int(labelled.sum()),
        "clusters": held,
    }
    if not labelled.any():
        return row | {"method": "none (no label)"}
    found = agreement.powered_mean(judge, human, clusters)
    ends = agreement.t_interval(found, held, confidence)
    low, high = rated.scales[own.run.benchmark]
    return row | {
        "jury": float(judge.mean()),
        "clinicians": float(human[labelled].mean()),
        "corrected": found.value,
        "low": None if ends.low is None else max(ends.low, low),
        "high": None if ends.high is None else min(ends.high, high),
        "method": ends.method,
    }


def _share(rated: Rated, own: RunScores, threshold: float, confidence: float) -> Row:
    """Return the share of good answers; sensitivity and specificity are of the whole benchmark."""
    judge = own.values[JURY][~np.isnan(own.values[JURY])]
    rows = (rated.benchmarks == own.run.benchmark) & ~np.isnan(rated.measures[JURY])
    called, good = rated.measures[JURY][rows] >= threshold, rated.human()[rows] >= threshold
    row: Row = {**_head(rated, own), "labelled": len(good)}
    if not len(judge):
        return row | {"method": "none (no score)"}
    share = float((judge >= threshold).mean())
    row["share"] = share
    if not good.any() or good.all():
        return row | {"method": "none (no rated answer is good, or all are)"}
    sensitivity, specificity = float(called[good].mean()), float((~called[~good]).mean())
    found = agreement.corrected_rate(
        share, len(judge), sensitivity, int(good.sum()), specificity, int((~good).sum())
    )
    ends = agreement.normal_interval(found, confidence)
    return row | {
        "corrected": found.value,
        "low": ends.low,
        "high": ends.high,
        "method": ends.method,
        "sensitivity": sensitivity,
        "specificity": specificity,
    }
