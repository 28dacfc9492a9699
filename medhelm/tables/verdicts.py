"""The rules of verdicts: pure functions of an interval, a threshold and other verdicts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Literal

from medhelm.stats.aggregation import TIE
from medhelm.tables.thresholds import Bar

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

Decision = Literal["interval", "point"]
"""Names the basis of a verdict: the whole interval of a score, or the score alone."""

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}

_MOST_CASES = 1_000_000
"""More instances than any benchmark has: a score that needs them is at the threshold."""


def decide(low: float, high: float, threshold: float, *, is_minimum: bool) -> Verdict:
    """Return the verdict on an interval. A threshold at one of its ends is reached."""
    if not is_minimum:
        low, high, threshold = -high, -low, -threshold
    if low >= threshold - TIE:
        return "PASS"
    return "FAIL" if high < threshold - TIE else "INCONCLUSIVE"


def over_all(verdicts: Collection[Verdict]) -> Verdict:
    """Return FAIL if any is, else INCONCLUSIVE if any is or there is none, else PASS."""
    if "FAIL" in verdicts:
        return "FAIL"
    return "INCONCLUSIVE" if "INCONCLUSIVE" in verdicts or not verdicts else "PASS"


def cases_needed(score: float, low: float, high: float, n: int, bar: Bar) -> int | None:
    """Return about how many instances would give a verdict if the score stayed where it is.

    The half-width shrinks with 1 / sqrt(n), of a rate of 0 or 1 with 1 / n. It must become the
    distance of score and threshold. None where that is nothing, or no benchmark is so large.
    """
    gap = abs(score - bar.value)
    half = score - low if score > bar.value else high - score
    if gap <= TIE or half <= 0:
        return None
    is_at_end = not bar.metric.minimum < score < bar.metric.maximum
    needed = n * (half / gap) ** (1 if is_at_end else 2)
    return math.ceil(needed - TIE) if needed <= _MOST_CASES else None


def rule_in_words(confidence: float, decision: Decision, seeds: int) -> str:
    """Return the rule in force, in words."""
    if decision == "point":
        return (
            "PASS: the score is at or beyond the threshold. FAIL: it is short of it. INCONCLUSIVE: "
            "there is no score that says anything."
        )
    return (
        f"PASS: the whole {confidence:.0%} interval is at or beyond the threshold. FAIL: "
        f"all of it is short, for {seeds} seeds of a bootstrap. INCONCLUSIVE: the threshold lies in "
        "it, or nothing can be said."
    )
