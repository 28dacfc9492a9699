"""Check how a plugin's metric makes the value of a run."""

from __future__ import annotations

from collections.abc import Iterable

from medhelm.errors import PluginError
from medhelm.schema.aggregation import EACH, MEAN, Aggregation
from medhelm.schema.score import Metric

CORE = ("mean", "mean_of_parts")
"""Names of the aggregations of the core."""


def check_aggregation(metric: Metric, origin: str, known: Iterable[Metric]) -> None:
    """Raise PluginError where a metric's aggregation cannot be used, or is named as another is."""
    own: object = metric.aggregation
    where = f"metric {metric.name!r} in {origin}"
    if not isinstance(own, Aggregation):
        wanted = (
            "leave it out, the mean is the default"
            if own == CORE[0]
            else "give the value itself, as Aggregation(name=..., sums=(...), of=...) from medhelm"
        )
        raise PluginError(f"{where}: aggregation={own!r} is not an Aggregation; {wanted}")
    kinds = {name.endswith(f"/{EACH}") for name in own.sums}
    if len(set(own.sums)) < len(own.sums) or len(kinds) != 1:
        raise PluginError(
            f"{where}: aggregation {own.name!r} names the sums {', '.join(own.sums) or 'none'}; "
            "name each once, all of them ending in '/*' or none"
        )
    others = {m.aggregation.name: m.aggregation for m in known}
    if own != MEAN and (own.name in CORE or others.get(own.name, own) != own):
        raise PluginError(
            f"{where}: another aggregation is named {own.name!r} too; rename one, since runs keep "
            "the name alone"
        )
