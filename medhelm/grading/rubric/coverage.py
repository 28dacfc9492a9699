"""The arithmetic of coverage: hits, thresholded coverage, and how a threshold is chosen.

CACS@k (Zheng et al., arXiv 2603.02097) of hits s out of N criteria, in two equal forms:

    100 / (N - k + 1) * sum of P(s >= t) over t = k..N
    100 / (|D| (N - k + 1)) * sum of max(0, s - k + 1) over cases
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from medhelm.errors import DataError
from medhelm.schema.data import Instance

THRESHOLD = "threshold"
"""Key of `Instance.answer_key`: "10/30", the hits that a case needs of how many criteria."""
SCALING = "threshold_scaling"
"""Key of `Instance.answer_key`: the rule for a case with another number of criteria."""
PROPORTIONAL = "proportional"
"""The rule by which k grows with N: k * n / N, rounded half up, at least 1."""


def above(hits: int, k: int) -> int:
    """Return the credit of one case: its hits from the k-th on, k itself included."""
    return max(0, hits - k + 1)


def coverage(hits: Sequence[int], k: int, n: int) -> float:
    """Return CACS@k by cases, 0 to 100."""
    return 100 * sum(above(s, k) for s in hits) / (len(hits) * (n - k + 1))


def threshold_of(instance: Instance) -> int | None:
    """Return k of a case; None where the benchmark sets no threshold.

    Raises DataError where the case has another number of criteria than the threshold is of, and no
    rule is named that scales it.
    """
    if not (text := instance.answer_key.get(THRESHOLD, "")):
        return None
    where = f"instance {instance.id!r}"
    first, _, second = text.partition("/")
    if not (first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second)):
        raise DataError(f"{where}: the threshold {text!r} is not k/N, as 10/30")
    k, of, n = int(first), int(second), len(instance.criteria)
    if n == of:
        return k
    if instance.answer_key.get(SCALING) != PROPORTIONAL:
        raise DataError(
            f"{where} has {n} criteria, its threshold is {k} of {of}: give it {of}, or name how the "
            f'threshold scales (answer_key {SCALING}="{PROPORTIONAL}")'
        )
    return max(1, math.floor(k * n / of + 0.5))
