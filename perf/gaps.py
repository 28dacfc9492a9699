"""Measures by simulation how often the intervals of all gaps of a model hold the true gaps at once.

    python perf/gaps.py [--fields 1000]

Values are right and wrong, alone or in clusters of five within a group, or graded (beta-distributed). Groups have
up to 400 instances and as few as 25; the intervals are those of the table `gaps`, against all other groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from measuring import parser

from medhelm.stats.aggregation import clustered_error
from medhelm.stats.intervals import difference, score_limits

SIZES = {4: (400, 150, 60, 25), 12: (400, 200, 150, 100, 80, 60, 50, 40, 30, 30, 25, 25)}
CASES = (
    *(("rate", p, each, groups) for p in (0.6, 0.9, 0.97) for each in (1, 5) for groups in SIZES),
    *(("graded", 0.8, 1, groups) for groups in SIZES),
)


def coverage(kind: str, mean: float, each: int, sizes: Sequence[int], fields: int) -> float:
    """Return the share of simulated data sets in which every gap's interval holds the true gap, which is 0."""
    rng, hits = np.random.default_rng(8), 0
    level = 1 - 0.05 / len(sizes)
    group = np.repeat(np.arange(len(sizes)), [s // each * each for s in sizes])
    codes = np.arange(len(group)) // each
    for _ in range(fields):
        if kind == "rate":
            own = rng.beta(mean * 4, (1 - mean) * 4, codes[-1] + 1)[codes] if each > 1 else mean
            values = (rng.random(len(group)) < own).astype(np.float64)
        else:
            values = np.round(rng.beta(4 * mean, 4 * (1 - mean), len(group)) * 4) / 4
        is_held = True
        for g in range(len(sizes)):
            sides = []
            for mask in (group == g, group != g):
                found, at = values[mask], np.unique(codes[mask], return_inverse=True)[1]
                error = clustered_error(found, at)
                rate = found if kind == "rate" else None
                score = float(found.mean())
                sides.append((score, *score_limits(score, rate, at, error, level)))
            ends = difference(sides[0], sides[1], 0.0)
            is_held &= ends.low is not None and ends.low <= 0.0 <= (ends.high or 0.0)
        hits += is_held
    return hits / fields


def main() -> None:
    """Print one line for each case."""
    fields = parser(__doc__, fields=1000).parse_args().fields
    for kind, mean, each, groups in CASES:
        held = coverage(kind, mean, each, SIZES[groups], fields)
        print(f"{kind} {mean} in clusters of {each}, {groups} groups: all gaps held {held:.1%}")


if __name__ == "__main__":
    main()
