"""The threshold k from physicians' answers: the mean of their hits, rounded half up.

The hits are an independent group's decisions, never those of the automatic grader: a threshold that
the grader set itself would be a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles

from medhelm import DataError
from medhelm_benchmarks.clinconsensus.cases import CRITERIA


@dataclass(frozen=True)
class Calibration:
    """Holds the hits that physicians' answers reach, summarised, and the threshold k."""

    cases: int
    hits: int
    criteria: int
    mean: float
    median: float
    low: float
    """First quartile, interpolated between neighbours."""
    high: float
    k: int

    @property
    def rate(self) -> float:
        """Return the share of all decisions that are met."""
        return self.hits / (self.cases * self.criteria)


def calibrate(hits: Sequence[int], criteria: int = CRITERIA) -> Calibration:
    """Return the threshold and what it rests on; raises DataError for hits that cannot be."""
    if len(hits) < 2:
        raise DataError("a threshold needs the hits of at least two answers")
    if bad := [h for h in hits if not 0 <= h <= criteria]:
        raise DataError(f"{bad[0]} hits of {criteria} criteria cannot be")
    low, median, high = quantiles(hits, n=4, method="inclusive")
    total, cases = sum(hits), len(hits)
    # in whole numbers: 10.5 of a rounded mean would depend on its last bit
    k = (2 * total + cases) // (2 * cases)
    return Calibration(
        cases=cases,
        hits=total,
        criteria=criteria,
        mean=fmean(hits),
        median=median,
        low=low,
        high=high,
        k=max(1, k),
    )
