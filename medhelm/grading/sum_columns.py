"""Sums of scores by name: the order of a metric's sums, their column in Parquet, their totals."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from medhelm.errors import PluginError
from medhelm.extract.refusals import looks_like_refusal
from medhelm.grading.grade import MEAN_OF_PARTS, summands
from medhelm.schema.aggregation import Aggregation
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import MetricRef, MetricResult
from medhelm.schema.score import Metric, Outcome, Score
from medhelm.stats.aggregation import ExactSum
from medhelm.store.records import instance_key

if TYPE_CHECKING:
    import pyarrow as pa

_SLACK = 1e-9
"""Rounding outside the range, as a share of its width."""


def aggregation_of(metric: Metric, ref: MetricRef) -> Aggregation:
    """Return the aggregation that a record names: the metric's own, or the mean of parts' means."""
    if ref.aggregation != MEAN_OF_PARTS:
        return metric.aggregation
    from medhelm.stats.aggregation import MEAN_OF_PARTS as OF_PARTS

    return OF_PARTS


class SumOrder:
    """The names of one metric's sums, in the order of its first score."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self.names: tuple[str, ...] = ()

    def row(self, instance: Instance, score: Score) -> list[float]:
        """Return the summands of a score with a value; raises PluginError for other names."""
        own = summands(score)
        self.names = self.names or tuple(own)
        try:
            row = [own[name] for name in self.names]
        except KeyError as e:
            row, lacking = [], f"lacks the sum {e}"
        else:
            lacking = "has sums"
        if len(row) != len(own):
            raise PluginError(
                f"metric {self._metric!r}: the score of instance {instance.id!r} {lacking} that "
                "other scores of the run have otherwise; give every score the same names"
            )
        return row


class SumColumn:
    """The column `sums` of some rows: maps from names to numbers, built without pandas."""

    def __init__(self) -> None:
        self._names = bytearray()
        self._lengths = array("i")

    def add(self, names: Iterable[str]) -> None:
        """Add the names of the next row's sums."""
        texts = [name.encode() for name in names]
        self._names += b"".join(texts)
        self._lengths.extend(map(len, texts))

    def take(self, lists: pa.ListArray) -> pa.MapArray:
        """Return the lists of numbers of all rows added as maps, and begin anew."""
        import pyarrow as pa

        ends = array("i", accumulate(self._lengths, initial=0))
        texts = pa.StringArray.from_buffers(
            len(self._lengths), pa.py_buffer(ends), pa.py_buffer(bytes(self._names))
        )
        self._names, self._lengths = bytearray(), array("i")
        return pa.MapArray.from_arrays(lists.offsets, texts, lists.values)


class Tally:
    """Sums one metric's scores; repeats of an instance are averaged before they count.

    Sums are exact before they are rounded: answers come in another order in every run.
    """

    def __init__(self, metric: Metric, has_repeats: bool) -> None:
        self._metric = metric
        self._order = SumOrder(metric.name)
        self._by_instance: dict[int, list[tuple[float, ...]]] | None = {} if has_repeats else None
        self._sums: list[ExactSum] = []
        self._counted = 0
        self._outcomes: Counter[Outcome] = Counter()
        self._cut = self._declined = 0

    def add(self, episode: Episode, score: Score) -> None:
        """Add the score of one answer."""
        self._outcomes[score.outcome] += 1
        self._cut += score.outcome == "scored" and episode.response.finish == "length"
        if score.outcome == "unparsed":
            self._declined += looks_like_refusal(episode.text)
        if score.value is None:
            return
        self._counted += 1
        row = self._order.row(episode.instance, score)
        if self._by_instance is None:
            self._count(row)
            return
        key = instance_key(episode.instance.id)
        self._by_instance.setdefault(key, []).append(tuple(row))

    def _count(self, row: Sequence[float]) -> None:
        self._sums = self._sums or [ExactSum() for _ in row]
        for total, value in zip(self._sums, row, strict=True):
            total.add(value)

    def result(self, ref: MetricRef) -> MetricResult:
        """Return the metric over the run; raises PluginError where its aggregation fails."""
        return MetricResult(
            metric=ref.name,
            value=self._value(ref),
            counted=self._counted,
            scored=self._outcomes["scored"],
            outcomes=dict(sorted(self._outcomes.items())),
            cut=self._cut,
            refused_in_words=self._declined,
        )

    def _value(self, ref: MetricRef) -> float | None:
        import numpy as np

        from medhelm.stats.aggregation import Pooling

        for repeats in (self._by_instance or {}).values():
            columns = zip(*repeats, strict=True)
            self._count([math.fsum(column) / len(repeats) for column in columns])
        self._by_instance = None
        if not self._sums:
            return None
        sums = np.asarray([total.rounded() for total in self._sums])
        value = float(Pooling(aggregation_of(self._metric, ref), self._order.names)(sums))
        if math.isnan(value):
            return None
        slack = _SLACK * (ref.maximum - ref.minimum)
        if not ref.minimum - slack <= value <= ref.maximum + slack:
            raise PluginError(
                f"metric {ref.name!r}: its aggregation {ref.aggregation!r} gave {value:g}, which is "
                f"not in [{ref.minimum:g}, {ref.maximum:g}]; mend its function or the range"
            )
        return value
