"""The thresholds of a profile with the metrics that they are on, checked against what there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medhelm.data.rubrics import load_rubric
from medhelm.errors import UnknownName, UsageError
from medhelm.grading.grade import metric_ref
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import offline_jury
from medhelm.plugins.profiles import Profile, Threshold
from medhelm.plugins.registry import Registry
from medhelm.schema.run import MetricRef
from medhelm.tables.study.cells import Cell


@dataclass(frozen=True)
class Bar:
    """A threshold with the metric that it is on."""

    benchmark: str
    metric: MetricRef
    value: float

    @property
    def needed(self) -> str:
        """The threshold as text formats show it."""
        return f"{'>=' if self.metric.higher_is_better else '<='} {self.value:g}"


def resolve(profile: Profile, known: Mapping[str, Mapping[str, MetricRef]]) -> tuple[Bar, ...]:
    """Return the thresholds of a profile with their metrics, main ones first in `known`.

    Raises UnknownName and UsageError for a name, direction, value or repetition that is wrong.
    """
    bars: dict[tuple[str, str], Bar] = {}
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
        bar = Bar(own.benchmark, metrics[name], _value(own, metrics[name], f"{where}: {name}"))
        if (own.benchmark, name) in bars:
            first = 1 + list(bars).index((own.benchmark, name))
            raise UsageError(f"{where}: {own.benchmark} x {name} is in threshold {first} too")
        bars[own.benchmark, name] = bar
    return tuple(bars.values())


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
