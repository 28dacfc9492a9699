"""Aggregations by name, over sums in the order in which they are declared."""

from __future__ import annotations

from functools import cache

import msgspec

from medhelm.plugins.registry import load_registry
from medhelm.schema.aggregation import Aggregation
from medhelm.stats.aggregation import Floats, Pooling
from medhelm.tables.study.aggregations import Aggregations
from tests.build_runs import EXACT, sum_names


@cache
def aggregation(name: str) -> Aggregation:
    """Return the aggregation of a built-in metric."""
    known = Aggregations(load_registry())
    return known.of(msgspec.structs.replace(EXACT, aggregation=name))


def pooling(name: str, width: int) -> Pooling:
    """Return an aggregation of so many sums; labels are 1, 2, ..."""
    return Pooling(aggregation(name), sum_names(aggregation(name), width))


def pooled(name: str, sums: Floats) -> Floats:
    """Return the values (...) of sums (..., k)."""
    return pooling(name, sums.shape[-1])(sums)
