"""Cells: the scores of one run as arrays, repeats averaged per instance, and what happened to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from medhelm.errors import RecordError, UsageError
from medhelm.models.identity import families_of
from medhelm.schema.aggregation import EACH, MEAN, Aggregation
from medhelm.schema.data import MADE_BY
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import MetricRef, MetricResult, RunRecord
from medhelm.schema.score import FLOORED
from medhelm.stats.aggregation import MEAN_OF_PARTS, Floats, Ints, Pooling
from medhelm.store.records import bare_name, is_same_model
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.arrow import codes, maps, numbers, read_scores
from medhelm.tables.study.selection import GradedRun

if TYPE_CHECKING:
    import pyarrow as pa

Keys = NDArray[np.uint64]

MIN_COVERAGE = 0.99
"""A model whose run covers a smaller share of its instances is not ranked on that benchmark."""

MIN_READ = 0.95
"""Nor one of whose responses a smaller share was read, on a metric that has no floor for the rest."""

COLUMNS = (
    "instance_key",
    "repeat",
    "cluster_key",
    "metric",
    "value",
    "outcome",
    "sums",
)
"""The columns of scores.parquet that tables read; `metadata` is read for slices only."""

ANSWER = "extracted"
"""The column that is read besides where repeats vote."""
METADATA_COLUMNS = ("instance_key", "metadata")
CHOSEN_COLUMNS = ("instance_key", "repeat", "metric", "outcome", "extracted")

_PLAIN = {
    "instance_key": np.uint64,
    "repeat": np.int32,
    "cluster_key": np.uint64,
    "value": np.float64,
}
_RANGE_SLACK = 1e-9
OF_VALUES = Pooling(MEAN, MEAN.sums)
"""The mean of values, each of which counts once."""


@dataclass(frozen=True)
class Answers:
    """The rows of a metric that have a value, sorted by instance and repeat."""

    ids: Keys
    repeats: NDArray[np.int32]
    clusters: Keys
    values: Floats
    sums: Floats
    floored: NDArray[np.bool_]
    votes: Ints
    """Codes of what was read, 0 where it has no text; all 0 where that column was not read."""

    @classmethod
    def none(cls) -> Answers:
        """Return no rows."""
        keys, reals = np.empty(0, np.uint64), np.empty(0)
        places = np.empty(0, np.int32), np.empty(0, np.int64)
        return cls(keys, places[0], keys, reals, np.empty((0, 1)), np.empty(0, np.bool_), places[1])


@dataclass(frozen=True)
class MetricScores:
    """One metric over one run. Arrays are over the instances with a value, sorted by key."""

    ids: Keys
    """64-bit keys of the instances (`records.instance_key`)."""
    values: Floats
    """Of an instance: the mean over its repeats, or what another reduction makes of them."""
    sums: Floats
    """Each instance's summands (n, k), reduced over repeats like the values."""
    clusters: Keys
    """Keys of their clusters. An instance without one is its own cluster. `ids` itself where
    all are."""
    low: Floats
    """Lowest value among the repeats."""
    high: Floats
    spread: Floats
    """SD over the repeats (ddof 1); 0 where there is one."""
    floored: NDArray[np.bool_]
    """Instances of which a repeat counts with the metric's floor, since no answer could be read."""
    total: float
    """Sum of the values of all rows."""
    counted: int
    """Rows with a value."""
    outcomes: Mapping[str, int]
    """Rows of each outcome."""
    pooling: Pooling = OF_VALUES
    """Names of the sums, and the rule that makes a value of them."""
    answers: Answers | None = None
    """Scores by a jury, or by one judge, of each answer. None for other metrics."""
    without: str = ""
    """The reason for which the chosen reduction gives no instance a value; empty where it gives some."""

    @property
    def columns(self) -> dict[str, Floats]:
        """The summands of the instances by name."""
        return self.pooling.by_name(self.sums)

    def totals(self, wanted: Keys) -> dict[str, float]:
        """Return the sums over the wanted instances by name; over all of its own where none is wanted."""
        at = self.among(wanted) if len(wanted) else slice(None)
        return {name: float(column[at].sum()) for name, column in self.columns.items()}

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

    def made_itself(self, metadata: Metadata) -> tuple[int, str]:
        """Return how many of a run's instances its model wrote or rated, and the note on it."""
        spec, tags = self.record.spec.model, metadata(self)
        made = [tag[MADE_BY].split(", ") for tag in tags.values() if MADE_BY in tag]
        n = sum(any(is_same_model(spec, name) for name in names) for names in made)
        if not n:
            return 0, ""
        return n, (
            f"{spec.name} wrote or rated {n:,} of the {len(tags):,} cases of {self.run.benchmark} "
            "itself: its scores on them may be too high."
        )

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.run.record

    @property
    def _judges(self) -> tuple[ModelSpec, ...]:
        raters = self.record.grading.raters
        return raters.judges if raters else ()

    @property
    def own_judges(self) -> tuple[str, ...]:
        """Names of the judges that are the model itself, by name or by what is asked where."""
        model = self.record.spec.model
        return tuple(j.name for j in self._judges if j.name == model.name or _is_same(j, model))

    @property
    def family_judges(self) -> tuple[str, ...]:
        """Names of the judges of the model's family, itself among them."""
        own, families = self.own_judges, families_of(self.record.spec.model)
        return tuple(j.name for j in self._judges if j.name in own or families & families_of(j))

    def planned(self, metric: str) -> int:
        """Return how many rows the finished run has: instances times repeats.

        Without those whose gold is uninformative: no model can get a score for them.
        """
        outcomes = self.scores[metric].outcomes
        rows = max(self.record.instances * self.record.spec.repeats, sum(outcomes.values()))
        return rows - outcomes.get("uninformative", 0)

    def coverage(self, metric: str) -> float:
        """Return the share of the planned rows that have a value; 0 where none is planned."""
        planned = self.planned(metric)
        return self.scores[metric].counted / planned if planned else 0.0

    def unread(self, metric: str) -> int:
        """Return how many responses have no value because nothing could be read in them."""
        if any(m.name == metric and m.floor is not None for m in self.record.grading.metrics):
            return 0
        return sum(n for o, n in self.scores[metric].outcomes.items() if o in FLOORED)

    def shortfall(self, metric: str) -> str:
        """Return why too little has a value for the model to be ranked; empty where enough has."""
        counted, unread = self.scores[metric].counted, self.unread(metric)
        planned = self.planned(metric)
        coverage = (counted + unread) / planned if planned else 0.0
        if coverage < MIN_COVERAGE:
            return f"coverage {coverage:.1%}"
        read = counted / (counted + unread)
        return f"read {read:.1%}" if read < MIN_READ else ""

    def result(self, metric: str) -> MetricResult:
        """Return what the record holds of a metric."""
        return next(r for r in self.record.results if r.metric == metric)

    def ended_at_budget(self, metric: str) -> int:
        """Return how many responses the output budget ended."""
        own = self.result(metric)
        return own.outcomes.get("truncated", 0) + (own.cut or 0)

    def parts(self, metric: str) -> tuple[int, int]:
        """Return of how many parts a score is the mean of their means, and how many there are."""
        pooling, sums = self.scores[metric].pooling, self.scores[metric].sums
        if pooling.aggregation != MEAN_OF_PARTS or not len(sums):
            return 0, 0
        counts = [name for name in pooling.names if name.startswith("count/")]
        return int(pooling.columns(sums, counts).any(axis=0).sum()), len(counts)


Metadata = Callable[[Cell], Mapping[int, Mapping[str, str]]]
"""Reads the metadata of a cell's instances by id."""


def by_judge(metrics: Collection[str]) -> dict[str, str]:
    """Return the metrics that are one judge's alone, `NAME[JUDGE]`, each with that of all judges."""
    return {
        m: whole for m in metrics if m[-1:] == "]" and (whole := m.partition("[")[0]) in metrics
    }


def shared_pooling(scores: Sequence[MetricScores], benchmark: str) -> Pooling:
    """Return the pooling of several models' scores; raises UsageError where their sums differ."""
    first = scores[0].pooling
    if any(s.pooling != first for s in scores):
        raise UsageError(
            f"{benchmark}: the gradings hold different sums of {first.aggregation.name!r}; "
            "`medhelm score` grades the stored responses alike"
        )
    return first


def _is_same(a: ModelSpec, b: ModelSpec) -> bool:
    """Return whether two settings ask one model: at one place, or hosted by whomever."""
    if not a.model or bare_name(a.model) != bare_name(b.model):
        return False
    is_hosted = "local" not in (a.endpoint_class, b.endpoint_class)
    is_one = (a.provider, a.model) == (b.provider, b.model)
    return is_hosted or (is_one and not {*a.addresses}.isdisjoint(b.addresses))


def read_cell(run: GradedRun, aggregations: Aggregations, *, keeps_answers: bool = False) -> Cell:
    """Return the cell of a grading, its scores read in batches.

    `keeps_answers`: not only of metrics that are there for each judge alone, too. Raises RecordError where the scores are damaged.
    """
    columns = (*COLUMNS, ANSWER) if keeps_answers else COLUMNS
    grading = run.record.grading
    alone = by_judge({m.name for m in grading.metrics})
    judged = {*alone, *alone.values()}
    rows = {
        m.name: _Rows(aggregations.of(m), keeps_answers or m.name in judged)
        for m in grading.metrics
    }
    try:
        for batch in read_scores(run, columns):
            place, names = codes(batch.column("metric"))
            for metric, own in rows.items():
                if metric in names:
                    own.add(batch, place == names.index(metric))
        found = {m.name: rows.pop(m.name).scores(m) for m in run.record.grading.metrics}
    except ValueError as e:
        raise RecordError(f"{run.folder}: scores.parquet: {e}") from None
    return Cell(run, found)


class _Rows:
    """The rows of one metric, gathered from batches as plain arrays."""

    def __init__(self, aggregation: Aggregation, keeps_answers: bool) -> None:
        self._aggregation, self._keeps_answers = aggregation, keeps_answers
        self._votes, self._texts = bytearray(), {"": 0}
        # bytes grow in place, while a list of arrays would lie beside their concatenation
        self._columns = {c: bytearray() for c in _PLAIN}
        self._sums = bytearray()
        self._names: tuple[str, ...] = ()
        self._floored = bytearray()
        self._outcomes: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch, is_own: NDArray[np.bool_]) -> None:
        for name, grown in self._columns.items():
            column = numbers(batch.column(name))
            if name != "value" and column.dtype.kind == "f":
                raise ValueError(f"{name} is not a whole number in every row")
            grown += column[is_own].astype(_PLAIN[name], copy=False).data
        is_there = ~np.isnan(numbers(batch.column("value")))
        self._add_sums(batch, is_own & is_there)
        place, names = codes(batch.column("outcome"))
        own = place[is_own]
        self._floored += np.array([*(n in FLOORED for n in names), False])[own].data
        counts = np.bincount(own + 1, minlength=len(names) + 1)
        if counts[0]:
            raise ValueError("a row without an outcome")
        self._outcomes.update({n: int(k) for n, k in zip(names, counts[1:], strict=True) if k})
        if ANSWER in batch.schema.names:
            texts = compress(batch.column(ANSWER).to_pylist(), is_own)
            said = (" ".join((text or "").casefold().split()) for text in texts)
            votes = [self._texts.setdefault(text, len(self._texts)) for text in said]
            self._votes += np.array(votes, dtype=np.int64).data

    def _add_sums(self, batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> None:
        if not rows.any():
            return
        if self._aggregation == MEAN:  # a value is its own sum, so that none is stored
            values = numbers(batch.column("value"))[rows]
            sums, names = np.stack([values, np.ones(len(values))], axis=1), MEAN.sums
        else:
            names, sums = maps(batch.column("sums"), rows)
            if not self._aggregation.is_full(names):
                raise ValueError(f"sums that {self._aggregation.name!r} cannot take: {names[:5]}")
        if self._names and self._names != names:
            raise ValueError("rows with sums of different names")
        self._names = names
        self._sums += sums.data

    def scores(self, metric: MetricRef) -> MetricScores:
        key, repeat, cluster, value = (self._take(name) for name in _PLAIN)
        # Sorted, so that sums of floats do not depend on the order in which answers arrived.
        order = np.lexsort((repeat, key))
        floored = np.frombuffer(self._floored, np.bool_)[order]
        key, repeat = key[order], repeat[order]
        if not ((np.diff(key) != 0) | (np.diff(repeat) != 0)).all():
            raise ValueError(f"{metric.name}: an instance and repeat is there twice")
        is_there = ~np.isnan(value)
        row = order if is_there.all() else (np.cumsum(is_there) - 1)[order]
        is_there, value, cluster = is_there[order], value[order], cluster[order]
        if not is_there.all():
            row, key, repeat, value, cluster, floored = (
                column[is_there] for column in (row, key, repeat, value, cluster, floored)
            )
        slack = _RANGE_SLACK * (metric.maximum - metric.minimum)
        if not ((value >= metric.minimum - slack) & (value <= metric.maximum + slack)).all():
            raise ValueError(
                f"{metric.name}: a value outside {metric.minimum:g} to {metric.maximum:g}"
            )
        sums = self._take_sums()[row]
        answers = None
        if self._keeps_answers:
            votes = np.frombuffer(self._votes, np.int64) if self._votes else np.zeros_like(order)
            votes = votes[order][is_there]
            answers = Answers(key, repeat, cluster, value, sums, floored, votes)
        is_first = np.diff(key, prepend=~key[:1]) != 0
        if not is_first.all():
            item = np.cumsum(is_first) - 1
            sums = np.stack([means(c, item, int(item[-1]) + 1) for c in sums.T], axis=1)
            key, cluster = key[is_first], cluster[is_first]
            floored = np.logical_or.reduceat(floored, np.flatnonzero(is_first))
        return MetricScores(
            ids=key,
            clusters=key if np.array_equal(key, cluster) else cluster,
            **_over_repeats(value, is_first),  # type: ignore[arg-type]  # four arrays by name
            sums=sums,
            pooling=Pooling(self._aggregation, self._names),
            floored=floored,
            total=float(value.sum()),
            counted=len(value),
            outcomes=dict(self._outcomes),
            answers=answers,
        )

    def _take(self, name: str) -> NDArray[Any]:
        return np.frombuffer(self._columns.pop(name), _PLAIN[name])

    def _take_sums(self) -> Floats:
        if not self._names:
            self._names = tuple(n.removesuffix(EACH) for n in self._aggregation.sums)
            return np.empty((0, len(self._names)))
        return np.frombuffer(self._sums, np.float64).reshape(-1, len(self._names))


def means(column: Floats, item: NDArray[np.int64], count: int) -> Floats:
    """Return the mean of a column for each of `count` items."""
    of = np.bincount(item, minlength=count)
    return np.asarray(np.bincount(item, weights=column, minlength=count) / of, dtype=np.float64)


def _over_repeats(value: Floats, is_first: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return mean, ends and SD of each item's values, under the names of `MetricScores`.

    The values of an item are side by side; `is_first` marks where an item begins.
    """
    if is_first.all():
        none = np.broadcast_to(np.float64(0.0), len(value))  # takes no memory
        return {"values": value, "low": value, "high": value, "spread": none}
    start = np.flatnonzero(is_first)
    item = np.cumsum(is_first) - 1
    values = means(value, item, len(start))
    squares = np.add.reduceat((value - values[item]) ** 2, start)
    spread = np.sqrt(squares / np.maximum(np.bincount(item) - 1, 1))
    return {
        "values": values,
        "low": np.minimum.reduceat(value, start),
        "high": np.maximum.reduceat(value, start),
        "spread": spread,
    }


def metadata_of(cell: Cell) -> dict[int, dict[str, str]]:
    """Return the metadata of the instances of a run by their keys; raises RecordError."""
    decode = msgspec.json.Decoder(dict[str, str]).decode
    found: dict[int, dict[str, str]] = {}
    try:
        for batch in read_scores(cell.run, METADATA_COLUMNS):
            rows = zip(*(batch.column(c).to_pylist() for c in METADATA_COLUMNS), strict=True)
            for instance, text in rows:
                if instance not in found:
                    found[instance] = decode(text) if text else {}
    except (msgspec.DecodeError, ValueError):
        fault = "metadata that is not an object of strings"
        raise RecordError(f"{cell.run.folder}: scores.parquet: {fault}") from None
    return found


def chosen_of(cell: Cell) -> dict[tuple[int, int], str]:
    """Return what was read in the scored answers of a run, by instance and repeat; of choices the option's letter.

    Raises RecordError.
    """
    main, found = cell.record.grading.metrics[0].name, {}
    for batch in read_scores(cell.run, CHOSEN_COLUMNS):
        for key, repeat, metric, outcome, text in zip(
            *(batch.column(c).to_pylist() for c in CHOSEN_COLUMNS), strict=True
        ):
            if metric == main and outcome == "scored" and text:
                found[key, repeat] = text
    return found
