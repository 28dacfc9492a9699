"""Tables of how sure models are of their options: calibration, and the bins that its figures are drawn of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medhelm.grading.answer_form import BRIER, BY_LENGTH, CONFIDENCE
from medhelm.stats import calibration as stats
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.aggregation import normalise as on_unit_scale
from medhelm.stats.intervals import bootstrap, cluster_sums, seed_of
from medhelm.tables.format.column_kinds import count, measured, number, share, text
from medhelm.tables.format.table import Row, Settings, Table
from medhelm.tables.multiple_choice.robustness import rate
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Cell, Keys
from medhelm.tables.study.study import Study

_THRESHOLDS = (50, 80, 95)
"""Percent of confidence below which a model might abstain."""
_NAMES = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("model", "name of the model, with its asking", "model"),
)
CALIBRATION = (
    *_NAMES,
    count("n", "answers whose options all have a probability", "n"),
    *measured("score", "the benchmark's main metric", "metric", "score", 3, is_main=True),
    *measured(
        "acc_norm",
        "share right of the options that are likeliest by log-probability a character",
        "share",
        "acc_norm",
        3,
        prefix="acc_norm",
    ),
    *measured(
        "brier",
        "squared error of the probabilities, over all options: 0 best, 2 worst",
        heading="Brier",
        digits=3,
        prefix="brier",
    ),
    *measured(
        "ece",
        f"expected calibration error: mean distance of confidence and share right in up to {stats.BINS}"
        " bins of equal mass",
        "share",
        "ECE",
        3,
        prefix="ece",
        how="clusters resampled whole; from 0 where chance explains it",
    ),
    number(
        "ece_by_chance",
        "mean ECE of a calibrated model on as many answers",
        "share",
        "by chance",
        digits=3,
    ),
    number("confidence", "mean probability of the chosen option", "share", "sure", digits=3),
    *(
        column
        for level in _THRESHOLDS
        for column in (
            share(f"coverage_{level}", f"answers at least {level} % sure", f"≥{level} %"),
            number(
                f"score_{level}", "score of these answers, normalised", "share", "right", digits=3
            ),
        )
    ),
)
RELIABILITY = (
    *_NAMES,
    count("bin", "place of the bin, from the least sure", "bin"),
    count("n", "answers in it", "n"),
    number("confidence", "mean probability of the chosen option", "share", "sure", digits=3),
    *measured(
        "right",
        "share right, of other metrics the normalised score",
        "share",
        "right",
        3,
        is_main=True,
        how="clusters resampled whole",
    ),
    share("coverage", "answers that are left where all less sure ones are withheld", "coverage"),
    number("kept", "share right of those", "share", "of these right", digits=3),
)
_NONE = "No run asked for log-probabilities; `medhelm run ... form=logprobs` does."
_ABOUT = (
    "Over answers whose options all have a probability, each the option's share of all options' probability. "
    "Text that a model writes is not looked at."
)


def confidence_pairs(cell: Cell) -> tuple[Floats, Floats, Keys]:
    """Return how sure a run's answers are, their normalised scores (1: right), and their instances' clusters.

    They are of the instances whose options all have a probability, in the order of their keys. Empty where
    the run asked for none.
    """
    sure, main = cell.scores.get(CONFIDENCE), cell.record.grading.metrics[0]
    if sure is None:
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.uint64)
    own = cell.scores[main.name]
    _, at, of = np.intersect1d(sure.ids, own.ids, assume_unique=True, return_indices=True)
    scale = main.minimum, main.maximum, main.higher_is_better
    return sure.values[at], on_unit_scale(own.values[of], *scale), sure.clusters[at]


def calibration(study: Study) -> Table:
    """Return one row per benchmark and model that was asked for log-probabilities."""
    rows = [_row(study, *place) for place in _rated(study)]
    notes = [
        _ABOUT,
        "ECE is above 0 by chance alone: compare it with the column beside it.",
        *([] if rows else [_NONE]),
    ]
    title = "Calibration of the options' probabilities"
    return study_table(study, "calibration", title, CALIBRATION, rows, notes, group=("benchmark",))


def reliability(study: Study) -> Table:
    """Return the bins of each benchmark and model, for a reliability plot and an abstention curve."""
    rows = [row for place in _rated(study) for row in _bins(study.settings, *place)]
    notes = [_ABOUT, *([] if rows else [_NONE])]
    title = "Confidence and share right, by bins of equal mass"
    group = ("benchmark", "model")
    return study_table(study, "reliability", title, RELIABILITY, rows, notes, group=group)


def _rated(study: Study) -> Iterator[tuple[str, str, Cell]]:
    for benchmark, cells in study.cells.items():
        for model, cell in cells.items():
            if CONFIDENCE in cell.scores and cell.scores[CONFIDENCE].counted:
                yield benchmark, model, cell


def _row(study: Study, benchmark: str, model: str, cell: Cell) -> Row:
    settings = study.settings
    sure, right, clusters = confidence_pairs(cell)
    row: Row = {"benchmark": benchmark, "model": model, "n": len(sure)}
    row |= study.estimates(benchmark)[model].row()
    for metric, name in ((BY_LENGTH, "acc_norm"), (BRIER, "brier")):
        own = study.estimates(benchmark, metric)[model]
        row |= {name: own.score, **own.interval.ends(name)}
    row |= _error(settings, sure, right, clusters, benchmark, model)
    row["confidence"] = float(sure.mean())
    for level in _THRESHOLDS:
        is_kept = sure >= level / 100
        row[f"coverage_{level}"] = float(is_kept.mean())
        row[f"score_{level}"] = float(right[is_kept].mean()) if is_kept.any() else None
    return row


def _error(
    settings: Settings, sure: Floats, right: Floats, clusters: Keys, *names: str
) -> dict[str, float | None]:
    """Return the calibration error with its interval, and what chance alone would give."""
    bins = stats.equal_mass_bins(sure)
    keys, codes = np.unique(clusters, return_inverse=True)
    sums = cluster_sums(stats.gap_sums(sure, right, bins), codes, len(keys))
    error = float(stats.calibration_error(sums.sum(0)))
    seed = seed_of(settings.bootstrap_seed, *names, "calibration")
    by_chance = stats.errors_by_chance(sure, bins, settings.draws, seed)
    low = high = None
    if len(keys) > 1:
        draws = stats.calibration_error(bootstrap(sums, settings.draws, seed))
        low, high = stats.error_interval(error, draws, by_chance, settings.confidence)
    return {
        "ece": error,
        "ece_low": low,
        "ece_high": high,
        "ece_by_chance": float(by_chance.mean()),
    }


def _bins(settings: Settings, benchmark: str, model: str, cell: Cell) -> Iterator[Row]:
    sure, right, clusters = confidence_pairs(cell)
    bins: Ints = stats.equal_mass_bins(sure)
    for place in range(int(bins.max()) + 1):
        own, kept = bins == place, bins >= place
        names = (benchmark, model, str(place), "reliability")
        score, ends = rate(right[own], clusters[own], settings, *names)
        yield {
            "benchmark": benchmark,
            "model": model,
            "bin": place + 1,
            "n": int(own.sum()),
            "confidence": float(sure[own].mean()),
            "right": score,
            **ends.ends(),
            "coverage": float(kept.mean()),
            "kept": float(right[kept].mean()),
        }
