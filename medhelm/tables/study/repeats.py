"""Cells whose repeats become one value of an instance by another rule than their mean.

A metric has values only if it is a mean over instances, and an instance only if each of its repeats
has one: a repeat that failed, or was not asked, is not guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from medhelm.errors import UsageError
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.schema.aggregation import MEAN
from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import MEAN_OF_PARTS, TIE, Floats
from medhelm.stats.reductions import Reduction
from medhelm.tables.study.cells import Answers, Cell, MetricScores
from medhelm.tables.study.selection import GradedRun, same_of_all

_FIX = "run both with the same repeats=N, or choose models with --model"


def refuse_reduction(runs: Sequence[GradedRun], reduction: Reduction) -> None:
    """Raise UsageError where the repeats of runs cannot be reduced so, or not compared then."""
    if not reduction.k and all(run.record.spec.repeats == 1 for run in runs):
        raise UsageError(
            f"reduce={reduction.name}: every question was asked once; `medhelm run ... repeats=8` "
            "asks more often"
        )
    by_benchmark = defaultdict(list)
    for run in runs:
        by_benchmark[run.benchmark].append(run)
        if (repeats := run.record.spec.repeats) < reduction.k:
            raise UsageError(
                f"reduce={reduction.name} needs {reduction.k} repeats, and {run.benchmark} x "
                f"{run.model} ({run.folder}) has {repeats}; take a smaller K, or choose runs"
            )
    for column in by_benchmark.values() if not reduction.k else ():
        same_of_all(column, lambda run: [(("repeats",), str(run.record.spec.repeats), _FIX)])


def reduced_cells(cells: Sequence[Cell], reduction: Reduction) -> list[Cell]:
    """Return cells, which have kept their answers, with one value of an instance by a reduction.

    A metric has values of all models of a benchmark or of none.
    """
    without = {
        (cell.run.benchmark, metric.name): why
        for cell in cells
        for metric in cell.record.grading.metrics
        if (why := _why_without(cell, metric, reduction))
    }
    return [
        replace(
            cell,
            scores={
                metric.name: _reduced(
                    cell, metric, reduction, without.get((cell.run.benchmark, metric.name), "")
                )
                for metric in cell.record.grading.metrics
            },
        )
        for cell in cells
    ]


def _why_without(cell: Cell, metric: MetricRef, reduction: Reduction) -> str:
    """Return why a metric has no value under a reduction; empty where it has."""
    own, answers = cell.scores[metric.name], _answers(cell.scores[metric.name])
    sums, counts = answers.sums, _counts(own, answers)
    if counts is None or not np.allclose(_of_values(own, answers.values, counts), sums, atol=TIE):
        return "it is not a mean over instances"
    if reduction.k and not np.isin(answers.values, (0.0, 1.0)).all():
        return "its values are not 0 and 1 only"
    is_judged = metric.name.startswith(JURY) or cell.record.grading.is_graded(metric.name)
    is_read = ~answers.floored
    if reduction.name == "majority" and (is_judged or is_read.any() > answers.votes[is_read].any()):
        return "no answer is read that has votes"
    return ""


def _reduced(cell: Cell, metric: MetricRef, reduction: Reduction, why: str) -> MetricScores:
    own, repeats = cell.scores[metric.name], cell.record.spec.repeats
    answers = _answers(own)
    sizes = np.diff(np.searchsorted(answers.ids, own.ids), append=len(answers.ids))
    is_whole: NDArray[np.bool_] = (sizes == repeats) & (not why)
    at = np.repeat(is_whole, sizes)
    shape = (-1, repeats)
    values = reduction.values(
        answers.values[at].reshape(shape),
        answers.votes[at].reshape(shape),
        ~answers.floored[at].reshape(shape),
        metric.higher_is_better,
    )
    sums, counts = own.sums[is_whole], _counts(own, answers)
    return replace(
        own,
        **{n: getattr(own, n)[is_whole] for n in ("ids", "clusters", "low", "high", "spread")},
        values=values,
        sums=sums if counts is None else _of_values(own, values, counts[at][::repeats]),
        floored=own.floored[is_whole],
        total=float(values.sum()) * repeats,
        counted=len(values) * repeats,
        answers=None,
        without=why,
    )


def _answers(scores: MetricScores) -> Answers:
    assert scores.answers is not None  # they were read with the cell
    return scores.answers


def _counts(own: MetricScores, answers: Answers) -> Floats | None:
    """Return the count (n, k) that belongs to each sum; None where a row counts other than once."""
    names = own.pooling.names
    if own.pooling.aggregation not in (MEAN, MEAN_OF_PARTS):
        return None
    counts = answers.sums[:, [names.index(re.sub("^sum", "count", name)) for name in names]]
    return counts if (counts.sum(axis=1) == 2).all() else None


def _of_values(own: MetricScores, values: Floats, counts: Floats) -> Floats:
    """Return the sums of a mean, or of parts' means, with these values."""
    is_sum = np.array([name.startswith("sum") for name in own.pooling.names])
    return np.asarray(np.where(is_sum, values[:, None] * counts, counts))
