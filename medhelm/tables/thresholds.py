"""The thresholds of a profile with the metrics that they are on, and the rules of verdicts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from medhelm.data.rubrics import load_rubric
from medhelm.errors import UnknownName, UsageError
from medhelm.grading.grade import metric_ref
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import offline_jury
from medhelm.plugins.profiles import Profile, Threshold
from medhelm.plugins.registry import Registry
from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import TIE
from medhelm.tables.study.cells import Cell

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

Decision = Literal["interval", "point"]
"""Basis of a verdict: the whole interval of a score, or the score alone."""

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}

_MOST_CASES = 1_000_000
"""More instances than any benchmark has: a score that needs them is at the threshold."""


@dataclass(frozen=True)
class Requirement:
    """A threshold with the metric that it is on."""

    benchmark: str
    metric: MetricRef
    value: float

    @property
    def needed(self) -> str:
        """The threshold as text formats show it."""
        return f"{'>=' if self.metric.higher_is_better else '<='} {self.value:g}"

    def verdict(self, low: float, high: float) -> Verdict:
        """Return the verdict on an interval."""
        return decide(low, high, self.value, is_minimum=self.metric.higher_is_better)


def resolve(
    profile: Profile, known: Mapping[str, Mapping[str, MetricRef]]
) -> tuple[Requirement, ...]:
    """Return the thresholds of a profile with their metrics, main ones first in `known`.

    Raises UnknownName and UsageError for a name, direction, value or repetition that is wrong.
    """
    found: dict[tuple[str, str], Requirement] = {}
    for place, own in enumerate(profile.thresholds, 1):
        where = f"profile {profile.name}, threshold {place}"
        if own.benchmark not in known:
            hint = f"({where}) `medhelm list benchmarks` shows all; --plugin FILE adds one."
            raise UnknownName("benchmark", own.benchmark, known, hint)
        metrics = known[own.benchmark]
        name = own.metric or next(iter(metrics))
        if name not in metrics:
            hint = f"({where}) {own.benchmark} has {', '.join(metrics)}."
            raise UnknownName("metric", name, metrics, hint)
        required = Requirement(
            own.benchmark, metrics[name], _value(own, metrics[name], f"{where}: {name}")
        )
        if (own.benchmark, name) in found:
            first = 1 + list(found).index((own.benchmark, name))
            raise UsageError(f"{where}: {own.benchmark} x {name} is in threshold {first} too")
        found[own.benchmark, name] = required
    return tuple(found.values())


def _value(own: Threshold, metric: MetricRef, where: str) -> float:
    key, other = ("minimum", "maximum") if metric.higher_is_better else ("maximum", "minimum")
    value: float | None = getattr(own, key)
    if value is None:
        better = "more" if metric.higher_is_better else "less"
        raise UsageError(f"{where}: {better} is better, so give a {key}, not a {other}")
    if not metric.minimum <= value <= metric.maximum:
        raise UsageError(
            f"{where}: {key} {value:g} is outside the metric's range, {metric.minimum:g} to "
            f"{metric.maximum:g}"
        )
    return value


def known_metrics(
    profile: Profile, registry: Registry, cells: Iterable[Cell] = ()
) -> dict[str, dict[str, MetricRef]]:
    """Return the metrics of every benchmark that is installed or has a run, the main one first.

    Of installed benchmarks only those that the profile names have their metrics looked up.
    """
    known: dict[str, dict[str, MetricRef]] = {name: {} for name in registry.benchmarks}
    for cell in cells:
        own = {m.name: m for m in cell.record.grading.metrics}
        known[cell.run.benchmark] = known.get(cell.run.benchmark, {}) | own
    for name in {*profile.benchmarks} & registry.benchmarks.keys():
        refs = {m: metric_ref(registry.metric(m)) for m in registry.benchmarks[name].metrics}
        if JURY in refs:
            jury = offline_jury(load_rubric(registry.benchmarks[name]))
            refs |= {m.name: metric_ref(m) for m in jury if not m.judge}
        known[name] |= {m: ref for m, ref in refs.items() if m not in known[name]}
    return known


def decide(low: float, high: float, threshold: float, *, is_minimum: bool) -> Verdict:
    """Return the verdict on an interval. A threshold at one of its ends is reached."""
    if not is_minimum:
        low, high, threshold = -high, -low, -threshold
    if low >= threshold - TIE:
        return "PASS"
    return "FAIL" if high < threshold - TIE else "INCONCLUSIVE"


def over_all(verdicts: Collection[object]) -> Verdict:
    """Return FAIL if any is, else INCONCLUSIVE if any is or there is none, else PASS."""
    if "FAIL" in verdicts:
        return "FAIL"
    return "INCONCLUSIVE" if "INCONCLUSIVE" in verdicts or not verdicts else "PASS"


def cases_needed(score: float, low: float, high: float, n: int, bar: Requirement) -> int | None:
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
