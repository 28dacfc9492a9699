"""The graders of a benchmark's metrics -> the terms that are recorded, and metrics bound to verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm.config import chosen_settings
from medhelm.errors import PluginError, UnknownName
from medhelm.grading.graders.grader import GradedMetric, Grader, Panel
from medhelm.schema.data import Benchmark
from medhelm.schema.run import GraderTerms, JurySpec
from medhelm.schema.score import Metric


def graders_of(metrics: Iterable[Metric]) -> dict[str, Grader]:
    """Return the graders that metrics need, by name; raises PluginError where two share a name."""
    found: dict[str, Grader] = {}
    for metric in metrics:
        if isinstance(metric, GradedMetric):
            own = metric.grader
            if found.setdefault(own.name, own) != own:
                raise PluginError(
                    f"metric {metric.name!r}: another grader is named {own.name!r}, too; rename one"
                )
    return dict(sorted(found.items()))


def with_judges(metrics: Sequence[Metric], jury: JurySpec | None) -> tuple[Metric, ...]:
    """Return the metrics, and behind them the main one by each of several judges alone, if it is graded."""
    names = [judge.name for judge in jury.judges] if jury is not None else []
    main = next(iter(metrics), None)
    if len(names) < 2 or not isinstance(main, GradedMetric):
        return tuple(metrics)
    return (*metrics, *(replace(main, name=f"{main.name}[{j}]", judge=j) for j in names))


def grader_terms(
    benchmark: Benchmark, metrics: Iterable[Metric], jury: JurySpec, chosen: Mapping[str, Any]
) -> tuple[GraderTerms, ...]:
    """Return what is recorded of the graders that metrics of a benchmark need."""
    graded = [m for m in metrics if isinstance(m, GradedMetric)]
    return tuple(
        GraderTerms(
            grader=grader.name,
            version=", ".join(filter(None, (grader.version, grader.rules(benchmark)))),
            jury=jury,
            settings=_chosen(chosen, grader),
            metrics=tuple(m.name for m in graded if m.grader == grader),
        )
        for grader in graders_of(graded).values()
    )


def _chosen(given: Mapping[str, Any], grader: Grader) -> dict[str, Any]:
    chosen = chosen_settings(given, grader.settings, "grader")
    for name, value in chosen.items():
        if value not in (known := grader.choices.get(name, (value,))):
            raise UnknownName(f"value of grader.{name}", str(value), known)
    for name in grader.files:
        if name in chosen:
            key = f"{name}_sha256"
            chosen[key] = _sha256(Path(chosen[name])) or given.get(key, "")
    return chosen


def _sha256(path: Path) -> str:
    """Return the hash of a file; empty where it is gone, as it may be once it was used."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def bind(metrics: Iterable[Metric], panels: Mapping[str, Panel], quorum: int) -> list[Metric]:
    """Return metrics with the verdicts of their graders' panels; any other metric as it is."""
    return [
        replace(metric, panel=panels[metric.grader.name], quorum=1 if metric.judge else quorum)
        if isinstance(metric, GradedMetric) and metric.grader.name in panels
        else metric
        for metric in metrics
    ]
