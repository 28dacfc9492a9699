"""Find the function behind the aggregation that a record names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from medhelm.errors import RecordError, closest
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.aggregation import MEAN, Aggregation
from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import MEAN_OF_PARTS

_CORE = {own.name: own for own in (MEAN, MEAN_OF_PARTS)}


class Aggregations:
    """The aggregations of the core and of the metrics that plugins bring, by name.

    Plugins are read only where a record names one that is not the core's.
    """

    def __init__(self, registry: Registry | None = None) -> None:
        self._registry = registry

    @cached_property
    def _of_plugins(self) -> Mapping[str, Aggregation]:
        registry = self._registry or load_registry()
        return {m.aggregation.name: m.aggregation for m in registry.metrics.values()}

    def fault(self, metric: MetricRef) -> str:
        """Return why a metric of a record cannot be aggregated; empty where it can."""
        name = metric.aggregation
        if name in _CORE or name in self._of_plugins:
            return ""
        near = closest(name, {*_CORE, *self._of_plugins}, 1)
        nearest = f" (nearest: {near[0]!r})" if near else ""
        return (
            f"aggregates {metric.name} by {name!r}, unknown to this medhelm{nearest}; name the file "
            "of its metric with --plugin FILE"
        )

    def of(self, metric: MetricRef) -> Aggregation:
        """Return the aggregation of a metric of a record; raises RecordError."""
        if fault := self.fault(metric):
            raise RecordError(f"a record {fault}")
        return _CORE.get(metric.aggregation) or self._of_plugins[metric.aggregation]

    def origin(self, metric: MetricRef) -> Path:
        """Return the file of the class of a metric whose aggregation a plugin brings."""
        registry = self._registry or load_registry()
        own = (m for m in registry.metrics.values() if m.aggregation.name == metric.aggregation)
        return Path(inspect.getfile(type(next(own))))
