"""The tables `corrected` and `shares`: the jury's scores of whole runs, corrected by the answers
that clinicians rated.
"""

from __future__ import annotations

import numpy as np

from medhelm.errors import UsageError
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats
from medhelm.stats.two_class import corrected_share
from medhelm.tables.clinicians.agreement import (
    cluster_codes,
    common_notes,
    jury_name,
    rated_settings,
)
from medhelm.tables.clinicians.rated_answers import Rated, RunScores
from medhelm.tables.format.column_kinds import count, number, text, yes
from medhelm.tables.format.table import Column, Layout, Row, Settings, Table, make_table

_RANDOM = (
    "Right where the rated answers are a random sample of all, as a sheet of --template is within "
    "thirds of the jury's scores."
)
_LAYOUT = Layout(main=("corrected",))


def _columns(unit: str, labelled: str, how: str, *more: Column) -> tuple[Column, ...]:
    return (
        text("benchmark", "name of the benchmark", "benchmark"),
        text("model", "name of the model", "model"),
        yes("is_stand_in", "whether the scores are of the offline graders"),
        count("n", "answers with a score of the jury", "n", of="answers"),
        count("answers", "graded answers; those without a score are in no number here"),
        count("labelled", labelled, "rated"),
        count("clusters", "patients, notes or dialogues among the rated"),
        *more,
        number("corrected", how, unit, "corrected", ("low", "high")),
        number("low", "lower end of its interval", unit),
        number("high", "upper end of its interval", unit),
        text("method", "how the correction was made, or why there is none"),
    )


CORRECTED = _columns(
    "metric",
    "those of n that clinicians rated",
    "mean of the jury over all + mean of clinicians - jury over the rated",
    number("jury", "mean of the jury over all n", "metric", "jury"),
    number("clinicians", "clinicians' mean over the rated", "metric", "clinicians"),
)
SHARES = _columns(
    "share",
    "answers of all models of the benchmark that clinicians rated",
    "that share after Rogan and Gladen",
    number("share", "share of all n that the jury calls good", "share", "good"),
    number(
        "sensitivity", "share that the jury calls good of the rated good to clinicians", "share"
    ),
    number(
        "specificity", "share that it does not call good of the rated not good to them", "share"
    ),
)


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
            f"threshold={threshold:g} parts no answers: it must lie above the lowest score, and "
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
            f"Corrected after Rogan and Gladen, with {confidence:.0%} t intervals over clusters. "
            "Sensitivity and specificity are those of the jury on all rated answers of the "
            "benchmark, taken as equal for its models.",
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
    row = _head(rated, own) | {"labelled": int(labelled.sum()), "clusters": held}
    if not labelled.any():
        return row | {"method": "none (no label)"}
    found = agreement.powered_mean(judge, human, clusters)
    row |= {"jury": float(judge.mean()), "clinicians": float(human[labelled].mean())}
    return row | _ends(found, held, confidence, rated.scales[own.run.benchmark])


def _ends(
    found: agreement.Corrected, clusters: int, confidence: float, scale: tuple[float, float]
) -> Row:
    ends = agreement.t_interval(found, clusters, confidence)
    return {
        "corrected": found.value,
        "low": None if ends.low is None else max(ends.low, scale[0]),
        "high": None if ends.high is None else min(ends.high, scale[1]),
        "method": ends.method,
    }


def _share(rated: Rated, own: RunScores, threshold: float, confidence: float) -> Row:
    """Return the share of good answers; sensitivity and specificity are of the whole benchmark."""
    there = ~np.isnan(own.values[JURY])
    judge = own.values[JURY][there] >= threshold
    rows = (rated.benchmarks == own.run.benchmark) & ~np.isnan(rated.measures[JURY])
    called, good = rated.measures[JURY][rows] >= threshold, rated.human()[rows] >= threshold
    runs = {(r.run.benchmark, r.run.model): r for r in rated.runs}
    answers = [a for a, is_used in zip(rated.answers, rows, strict=True) if is_used]
    keys = np.asarray([(r := runs[a[:2]]).clusters[r.place(a)] for a in answers], dtype=np.uint64)
    codes = cluster_codes(np.concatenate([own.clusters[there], keys]))
    held = len(np.unique(keys))
    row = _head(rated, own) | {"labelled": len(good), "clusters": held}
    if not len(judge):
        return row | {"method": "none (no score)"}
    row["share"] = float(judge.mean())
    if not good.any() or good.all():
        return row | {"method": "none (no rated answer is good, or all are)"}
    found = corrected_share(judge, codes[: len(judge)], called, good, codes[len(judge) :])
    row |= {"sensitivity": called[good].mean(), "specificity": (~called[~good]).mean()}
    return row | _ends(found, held, confidence, (0, 1))
