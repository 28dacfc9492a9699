"""Measures by simulation how often 95 % intervals of clustered scores hold the true mean.

    python perf/coverage.py [--fields 2000]

Values are normal or log-normal with half of their variance between clusters, or right and wrong
with rates that are beta-distributed over clusters; the intervals are those of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.intervals import bootstrap, cluster_sums, score_interval
from medhelm.tables.study.cells import OF_VALUES

DRAWS = 400
EVEN = (5,) * 9
UNEVEN = {8: tuple(40 // c for c in range(1, 9)), 20: tuple(40 // c for c in range(1, 21))}
CASES: tuple[tuple[str, float, float, Sequence[int]], ...] = (
    *((kind, 0.0, 0.5, UNEVEN[c]) for kind in ("normal", "log-normal") for c in UNEVEN),
    *(("rate", p, 0.3, UNEVEN[c]) for p in (0.6, 0.9) for c in UNEVEN),
    *(("rate", 0.9, share, (size,) * 9) for size in (5, 10) for share in (0.1, 0.3)),
)
"""(kind, mean of a rate, correlation within a cluster, sizes of the clusters)."""


def values(
    kind: str, p: float, within: float, codes: Ints, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Return values of instances in clusters, and the true mean."""
    clusters = int(codes.max()) + 1
    if kind == "rate":
        scale = (1 - within) / within
        own = rng.beta(p * scale, (1 - p) * scale, clusters)
        return (rng.random(len(codes)) < own[codes]).astype(np.float64), p
    noise = np.sqrt(within) * rng.normal(size=clusters)[codes]
    noise += np.sqrt(1 - within) * rng.normal(size=len(codes))
    return (noise, 0.0) if kind == "normal" else (np.exp(noise), float(np.exp(0.5)))


def coverage(kind: str, p: float, within: float, sizes: Sequence[int], fields: int) -> float:
    """Return the share of simulated data sets whose interval holds the true mean."""
    rng = np.random.default_rng(8)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    span = (0.0, 1.0) if kind == "rate" else (-1e9, 1e9)
    hits = 0
    for turn in range(fields):
        found, true = values(kind, p, within, codes, rng)
        sums = cluster_sums(np.stack([found, np.ones(len(codes))], axis=1), codes, len(sizes))
        draws = OF_VALUES(bootstrap(sums, DRAWS, turn))
        ends = score_interval(found, codes, draws, span=span, is_mean=True, confidence=0.95)
        hits += ends.low is not None and ends.low <= true <= (ends.high or 0.0)
    return hits / fields


def main() -> None:
    """Print one line for each case."""
    from measuring import parser  # a test imports this module from elsewhere

    fields = parser(__doc__, fields=2000).parse_args().fields
    print(f"{fields} data sets; the simulation's standard error is about 0.005 at 2,000")
    for kind, p, within, sizes in CASES:
        what = f"{kind} {p:g}" if kind == "rate" else kind
        shape = "of one size" if len(set(sizes)) == 1 else "uneven"
        held = coverage(kind, p, within, sizes, fields)
        print(
            f"{what:11} within {within:.1f}  {len(sizes):2} clusters {shape:11} "
            f"{sum(sizes):3} instances  held {held:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
