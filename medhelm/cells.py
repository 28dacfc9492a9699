"""Cells: the scores of one run as arrays, repeats averaged per instance, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from medhelm.errors import RecordError
from medhelm.schema import MetricRef, RunRecord
from medhelm.selection import GradedRun
from medhelm.stats import Floats, is_fit

if TYPE_CHECKING:
    import pyarrow as pa

Keys = NDArray[np.uint64]

MIN_COVERAGE = 0.99
"""A model whose run covers a smaller share of its instances is not ranked on that benchmark."""

COLUMNS = (
    "instance_key",
    "repeat",
    "cluster_key",
    "metric",
    "value",
    "outcome",
    "stats",
)
"""The columns of scores.parquet that tables read; `metadata` is read for slices only."""

_RANGE_SLACK = 1e-9


@dataclass(frozen=True)
class MetricScores:
    """One metric over one run. Arrays are over the instances with a value, sorted by key."""

    ids: Keys
    """64-bit keys of the instances (`records.instance_key`)."""
    values: Floats
    """Mean over an instance's repeats."""
    stats: Floats
    """Additive statistics (n, k), averaged over repeats like the values."""
    clusters: Keys
    """Keys of their clusters; an instance without one is its own cluster."""
    low: Floats
    """Lowest value among the repeats."""
    high: Floats
    spread: Floats
    """SD over the repeats (ddof 1); 0 where there is one."""
    total: float
    """Sum of the values of all rows."""
    counted: int
    """Rows with a value."""
    outcomes: Mapping[str, int]
    """Rows of each outcome."""

    def among(self, wanted: Keys) -> NDArray[np.bool_]:
        """Return which of the instances are among the wanted ones (sorted, not empty)."""
        if np.array_equal(self.ids, wanted):
            return np.ones(len(wanted), dtype=np.bool_)
        at = np.minimum(np.searchsorted(wanted, self.ids), len(wanted) - 1)
        return np.asarray(wanted[at] == self.ids, dtype=np.bool_)


@dataclass(frozen=True)
class Cell:
    """One model on one benchmark: its record and its scores by metric."""

    run: GradedRun
    scores: Mapping[str, MetricScores]

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record

    def planned(self, metric: str) -> int:
        """Return how many rows the finished run has: instances times repeats."""
        rows = sum(self.scores[metric].outcomes.values())
        return max(self.record.instances * self.record.spec.repeats, rows)

    def coverage(self, metric: str) -> float:
        """Return the share of the planned rows that have a value; 0 where none is planned."""
        planned = self.planned(metric)
        return self.scores[metric].counted / planned if planned else 0.0


def read_cell(run: GradedRun, scores: pa.Table) -> Cell:
    """Return the cell of a grading from its scores; raises RecordError where they are damaged."""
    missing = [c for c in COLUMNS if c not in scores.column_names]
    if missing:
        raise RecordError(f"{run.folder}: scores.parquet has no column {missing[0]!r}")
    import pyarrow.compute as pc

    names = scores.column("metric")
    found = {}
    for metric in run.record.grading.metrics:
        part = scores.filter(pc.equal(names, metric.name))
        try:
            found[metric.name] = _metric_scores(part, metric)
        except ValueError as e:
            raise RecordError(f"{run.folder}: scores.parquet, {metric.name}: {e}") from None
    return Cell(run, found)


def _metric_scores(part: pa.Table, metric: MetricRef) -> MetricScores:
    ids, repeats = _array(part, "instance_key"), _array(part, "repeat")
    _, places = np.unique(ids, return_inverse=True)
    # Sorted, so that sums of floats do not depend on the order in which answers arrived.
    order = np.lexsort((repeats, places))
    is_next = (np.diff(places[order]) != 0) | (np.diff(repeats[order]) != 0)
    if not is_next.all():
        raise ValueError("an instance and repeat stands there twice")
    value = np.asarray(_array(part, "value"), dtype=np.float64)
    order = order[~np.isnan(value[order])]
    value = value[order]
    slack = _RANGE_SLACK * (metric.maximum - metric.minimum)
    if not ((value >= metric.minimum - slack) & (value <= metric.maximum + slack)).all():
        raise ValueError(f"a value outside {metric.minimum:g} to {metric.maximum:g}")
    stats = _stats(part.column("stats").combine_chunks().take(_places(order)), len(value))
    if len(value) and not is_fit(metric.aggregation, stats.shape[1]):
        raise ValueError(f"{stats.shape[1]} statistics, which {metric.aggregation!r} cannot take")
    _, first, item = np.unique(places[order], return_index=True, return_inverse=True)
    unique = ids[order][first]
    return MetricScores(
        ids=unique,
        clusters=_array(part, "cluster_key")[order][first],
        **_over_repeats(value, item, len(unique)),
        stats=np.stack([_means(column, item, len(unique)) for column in stats.T], axis=1),
        total=float(value.sum()),
        counted=len(value),
        outcomes=_outcomes(part),
    )


def _means(column: Floats, item: NDArray[np.int64], count: int) -> Floats:
    """Return the mean of a column for each of `count` items."""
    of = np.bincount(item, minlength=count)
    return np.asarray(np.bincount(item, weights=column, minlength=count) / of, dtype=np.float64)


def _over_repeats(value: Floats, item: NDArray[np.int64], count: int) -> dict[str, Floats]:
    """Return mean, ends and SD of each item's values, under the names of `MetricScores`."""
    values = _means(value, item, count)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, item, value)
    np.maximum.at(high, item, value)
    squares = np.bincount(item, weights=(value - values[item]) ** 2, minlength=count)
    spread = np.sqrt(squares / np.maximum(np.bincount(item, minlength=count) - 1, 1))
    return {"values": values, "low": low, "high": high, "spread": spread}


def _outcomes(part: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    found = pc.value_counts(part.column("outcome"))
    return {str(pair["values"]): int(pair["counts"]) for pair in found.to_pylist()}


def _array(part: pa.Table, column: str) -> NDArray[Any]:
    found: NDArray[Any] = part.column(column).to_numpy()
    return found


def _places(order: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return pa.array(order)


def _stats(column: Any, rows: int) -> Floats:
    """Return the lists of a column as (rows, k); raises ValueError where their lengths differ."""
    import pyarrow.compute as pc

    if not rows:
        return np.empty((0, 1))
    lengths = np.unique(pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False))
    if len(lengths) != 1 or lengths[0] < 1:
        raise ValueError("rows with a value have no statistics, or of different length")
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(flat).all():
        raise ValueError("statistics that are not finite")
    return flat.reshape(rows, int(lengths[0]))


def read_metadata(scores: pa.Table) -> dict[int, dict[str, str]]:
    """Return the metadata of each instance by its key; raises ValueError where a row's is not an object."""
    decode = msgspec.json.Decoder(dict[str, str]).decode
    ids, texts = _array(scores, "instance_key"), _array(scores, "metadata")
    found: dict[int, dict[str, str]] = {}
    for instance, text in zip(ids.tolist(), texts, strict=True):
        if instance not in found:
            try:
                found[instance] = decode(text) if text else {}
            except msgspec.DecodeError:
                raise ValueError("metadata that is not an object of strings") from None
    return found
