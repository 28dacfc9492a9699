"""`medhelm rubric calibrate FILE`: the threshold k from physicians' answers, the mean of their hits.

The hits are an independent group's decisions, never those of the automatic grader: a threshold that
the grader set itself would be a circle.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, quantiles

from medhelm import DataError
from medhelm.plugin import options
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


def run(args: argparse.Namespace) -> int:
    """Print the threshold and return the exit code."""
    from medhelm import DataError
    from medhelm.plugin import readers

    if not args.file.is_file():
        raise DataError(f"{args.file}: there is no such file")
    hits: list[int] = []
    for number, row in readers.read_file(args.file):
        where = f"{args.file.name}, row {number}"
        if str(row.get("graded_by", "")) != "physicians":
            raise DataError(
                f"{where}: graded_by is not 'physicians'; a threshold is never set by the automatic "
                "grader"
            )
        text = str(row.get("hits", ""))
        if not text.isascii() or not text.isdigit():
            raise DataError(f"{where}: hits is not a whole number")
        hits.append(int(text))
    found = calibrate(hits, args.criteria)
    if args.format == "json":
        options.print_json("rubric_calibration", asdict(found) | {"rate": found.rate})
        return 0
    print(
        f"{found.cases} answers of physicians meet {found.hits:,} of "
        f"{found.cases * found.criteria:,} criteria ({found.rate:.2%}); mean {found.mean:.2f}, "
        f"median {found.median:g}, quartiles {found.low:g} to {found.high:g} of {found.criteria}."
    )
    print(f"k = {found.k} (the mean, rounded half up)")
    return 0
