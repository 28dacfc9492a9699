"""Stored episodes -> one graded run: scores.parquet and summary.json. Needs no model."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from medhelm import __version__
from medhelm.data.sources import hash_file
from medhelm.errors import PluginError, RecordError
from medhelm.extract.refusals import looks_like_refusal
from medhelm.files.durable import AtomicFile, make_private, remove_temporary, why
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.grade import MEAN_OF_PARTS, in_parts, summands
from medhelm.grading.panels import StoredPanels
from medhelm.grading.slow_metrics import score_all
from medhelm.models.identity import reads_prompt
from medhelm.processes.workers import workers_for
from medhelm.protocols.completion import COMPLETION
from medhelm.protocols.protocol import Protocol
from medhelm.schema.aggregation import Aggregation
from medhelm.schema.data import Instance
from medhelm.schema.episode import MODEL, Call, Episode
from medhelm.schema.run import (
    BenchmarkCard,
    GradingSpec,
    MetricRef,
    MetricResult,
    Party,
    RunRecord,
    RunSpec,
)
from medhelm.schema.score import Metric, Outcome, Score
from medhelm.stats.aggregation import ExactSum
from medhelm.store.loglines import is_answered
from medhelm.store.records import (
    ANSWERS_AGAIN,
    SCORES_HASH,
    STAMP,
    Plan,
    cluster_key,
    grading_hash,
    instance_key,
    read_served,
    write_struct,
)
from medhelm.store.runlog import log_bytes
from medhelm.store.usage import UsageTally

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
            value=self.value(ref),
            counted=self._counted,
            scored=self._outcomes["scored"],
            outcomes=dict(sorted(self._outcomes.items())),
            cut=self._cut,
            refused_in_words=self._declined,
        )

    def sums(self) -> dict[str, float]:
        """Return the sums over instances, by name; empty where no score has a value."""
        for repeats in (self._by_instance or {}).values():
            columns = zip(*repeats, strict=True)
            self._count([math.fsum(column) / len(repeats) for column in columns])
        self._by_instance = None
        rounded = (total.rounded() for total in self._sums)
        return dict(zip(self._order.names, rounded, strict=False))

    def value(self, ref: MetricRef) -> float | None:
        """Return the value of the run; raises PluginError where it is not in the metric's range."""
        import numpy as np

        from medhelm.stats.aggregation import Pooling

        if not (sums := self.sums()):
            return None
        pooling = Pooling(aggregation_of(self._metric, ref), self._order.names)
        value = float(pooling(np.asarray([*sums.values()])))
        if math.isnan(value):
            return None
        slack = _SLACK * (ref.maximum - ref.minimum)
        if not ref.minimum - slack <= value <= ref.maximum + slack:
            raise PluginError(
                f"metric {ref.name!r}: its aggregation {ref.aggregation!r} gave {value:g}, which is "
                f"not in [{ref.minimum:g}, {ref.maximum:g}]; mend its function or the range"
            )
        return value


_BATCH = 1 << 20
"""Bytes of rows, as JSON, that are written to Parquet at a time."""
_LIBRARIES = ("aiohttp", "evaluate", "numpy", "rouge-score", "scikit-learn", "scipy")


def score_run(
    run: Path,
    plan: Plan,
    grading: GradingSpec,
    metrics: Sequence[Metric],
    card: BenchmarkCard,
    protocol: Protocol = COMPLETION,
    controls: float = 0.0,
) -> RunRecord:
    """Grade the stored episodes of a run, write the grading folder and return its record.

    Streams the log; of an instance some 100 bytes are held where repeats are averaged. Both files appear
    whole or not at all. They share a stamp, and the summary holds the hash of the scores, so that a pair torn
    by a power cut and a flipped bit are seen. Raises RecordError where they cannot be written.
    """
    folder = run / "gradings" / grading_hash(grading)
    started = time.time()
    stamp = f"{started:.6f} {os.getpid()}"
    size, planned = log_bytes(run), plan.instances * plan.spec.repeats
    tallies = {m.name: Tally(m, plan.spec.repeats > 1) for m in metrics}
    usage = _UsageSum(plan.spec)
    panels = StoredPanels(run, grading, metrics, protocol)
    metrics = panels.bind(metrics)
    try:
        make_private(folder)
        for other in folder.parent.iterdir():  # whoever calls this holds the run's lock
            remove_temporary(other)
        with AtomicFile(folder / "scores.parquet") as handle:

            def note(replaced: Episode) -> None:
                usage.add_replaced(replaced)
                panels.note_replaced(replaced)

            main = next(iter(metrics), None)
            episodes = stated_episodes(run, plan, main, note, usage.add_retried)
            for episode, scores in _write(handle, episodes, plan, grading, metrics, stamp, card):
                usage.add(episode)
                for name, score in scores:
                    tallies[name].add(episode, score)
        marks = {STAMP: stamp, SCORES_HASH: hash_file(folder / "scores.parquet")}
    except OSError as e:
        raise RecordError(
            f"cannot write {folder}: {why(e)}; the answers are kept, `medhelm score` grades them"
        ) from None
    record = RunRecord(
        spec=plan.spec,
        request_hash=plan.request_hash,
        grading=grading,
        grading_hash=grading_hash(grading),
        card=card,
        state="partial" if usage.episodes < planned or panels.below_quorum else "complete",
        instances=plan.instances,
        left_out=plan.left_out,
        results=tuple(tallies[ref.name].result(ref) for ref in grading.metrics),
        parties=(*usage.parties(), *panels.parties()),
        controls=panels.controls(),
        provenance=_provenance(run, started, size, usage) | panels.provenance(controls) | marks,
    )
    write_struct(folder / "summary.json", record)
    return record


def _write(
    handle: BinaryIO,
    episodes: Iterator[Episode],
    plan: Plan,
    grading: GradingSpec,
    metrics: Sequence[Metric],
    stamp: str,
    card: BenchmarkCard,
) -> Iterator[tuple[Episode, list[tuple[str, Score]]]]:
    """Yield each episode with its scores while writing them to Parquet in batches."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            pa.field("instance_id", pa.string()),
            pa.field("instance_key", pa.uint64()),
            pa.field("repeat", pa.int32()),
            pa.field("cluster", pa.string()),
            pa.field("cluster_key", pa.uint64()),
            pa.field("metric", pa.string()),
            pa.field("value", pa.float64()),
            pa.field("outcome", pa.string()),
            pa.field("extracted", pa.string()),
            pa.field("reason", pa.string()),
            pa.field("sums", pa.map_(pa.string(), pa.float64())),
            pa.field("metadata", pa.string()),
        ],
        metadata={STAMP: stamp},
    )
    encode = msgspec.json.Encoder().encode_lines
    lines, column = bytearray(), SumColumn()
    orders = {ref.name: SumOrder(ref.name) for ref in grading.metrics}
    with pq.ParquetWriter(
        handle, schema, write_statistics=False, write_page_checksum=True
    ) as writer:
        total = plan.instances * plan.spec.repeats
        for episode, found in score_all(episodes, metrics, total, workers_for(card.data_class)):
            scores = [
                (ref.name, in_parts(score, ref.aggregation, episode.instance, grading.parts))
                for score, ref in zip(found, grading.metrics, strict=True)
            ]
            shared = _shared_columns(episode)
            rows = []
            for name, score in scores:
                own = orders[name].row(episode.instance, score) if score.sums else []
                column.add(orders[name].names[: len(own)])
                scored = msgspec.structs.asdict(score)
                rows.append(shared | scored | {"metric": name, "sums": own})
            lines += encode(rows)
            yield episode, scores
            if len(lines) >= _BATCH:
                writer.write_table(_to_table(lines, schema, column))
                lines.clear()
        if lines:
            writer.write_table(_to_table(lines, schema, column))


def _to_table(lines: bytearray, schema: pa.Schema, sums: SumColumn) -> pa.Table:
    """Return rows, written as JSON lines, as a table.

    Not from Python's own values: pyarrow would import pandas to read them.
    """
    import pyarrow as pa
    from pyarrow import json

    place = schema.get_field_index("sums")
    listed = schema.set(place, pa.field("sums", pa.list_(pa.float64())))
    table = json.read_json(
        pa.BufferReader(bytes(lines)),
        json.ReadOptions(use_threads=False, block_size=len(lines)),
        json.ParseOptions(explicit_schema=listed, unexpected_field_behavior="error"),
    )
    lists = table.column(place).combine_chunks()  # Arrow reads no maps from JSON
    table = table.set_column(place, schema.field(place), sums.take(lists))
    return table.replace_schema_metadata(schema.metadata)


def _shared_columns(episode: Episode) -> dict[str, Any]:
    instance = episode.instance
    return {
        "instance_id": instance.id,
        "instance_key": instance_key(instance.id),
        "repeat": episode.response.repeat,
        "cluster": instance.cluster,
        "cluster_key": cluster_key(instance.id, instance.cluster),
        "metadata": msgspec.json.encode(instance.metadata).decode(),
    }


class _UsageSum:
    """Sums the usage of all roles of a run, and the times of its answers."""

    def __init__(self, spec: RunSpec) -> None:
        self._models = {MODEL: spec.model, **spec.cast}
        self._own = UsageTally(spec.max_output_tokens)
        others = {r: UsageTally(model.max_output_tokens or 0) for r, model in spec.cast.items()}
        self._roles = {MODEL: self._own, **others}
        self._rules = {role for role, model in self._models.items() if not reads_prompt(model)}
        self._has_calls = bool(spec.protocol)
        self.episodes = self.errors = self.stale = self.again = 0
        self._replaced: dict[tuple[str, int], set[bytes]] = {}
        """The calls of replaced episodes: two shards that went on with what a third began have copies of its calls."""
        self.waited_s, self.timed = ExactSum(), 0
        """Seconds until answers were there, and of how many that is known: of none of a batch."""
        self.ended_at: list[float] = []
        """Unix times of the first and the last answer."""

    def add(self, episode: Episode) -> None:
        response = episode.response
        self.episodes += 1
        self.waited_s.add(response.latency_s)
        self.timed += response.latency_s > 0
        if response.finished_at:
            first, last = self.ended_at or (response.finished_at,) * 2
            self.ended_at = [min(first, response.finished_at), max(last, response.finished_at)]
        self.errors += not (has_answer := is_answered(response))
        self.again += has_answer and (episode.instance_id, episode.repeat) in self._replaced
        self.stale += len(episode.stale)
        self._add_calls(episode)

    def add_replaced(self, episode: Episode) -> None:
        """Count the calls of an episode that was asked again though it was answered."""
        self._replaced.setdefault((episode.instance_id, episode.repeat), set())
        self._add_calls(episode)

    def _add_calls(self, episode: Episode) -> None:
        counted = self._replaced.get((episode.instance_id, episode.repeat))
        for call in (*episode.calls, *episode.stale):
            if counted is not None:
                mark = msgspec.json.encode((call.role, call.step, call.attempt, call.response))
                if mark in counted:
                    continue
                counted.add(mark)
            role = call.role if call.role in self._roles else MODEL
            self._roles[role].add(call.response, is_sent=role not in self._rules)
        if not episode.calls and not self._has_calls:
            self._own.add(episode.response, is_sent=bool(episode.messages))

    def add_retried(self, _: int, call: Call) -> None:
        """Count the answers that a failed try has lost which another one followed."""
        role = call.role if call.role in self._roles else MODEL
        self._roles[role].add_lost(call.response.lost)

    def parties(self) -> tuple[Party, ...]:
        return tuple(
            Party(
                role=role,
                model=self._models[role],
                usage=usage.totals(),
                served_models=usage.served_models(),
                served_at=dict(usage.served_at),
            )
            for role, usage in self._roles.items()
        )


@cache
def software() -> Mapping[str, str]:
    """Return the versions of what computes scores, and the commit of a checkout; read once."""
    found: dict[str, str] = {"version.medhelm": __version__}
    for library in _LIBRARIES:
        try:
            found[f"version.{library}"] = version(library)
        except PackageNotFoundError:
            continue
    if (commit := _git_commit()) is not None:
        found["git_commit"] = commit
    return found


def _provenance(run: Path, started: float, size: int, usage: _UsageSum) -> dict[str, str]:
    servers = read_served(run).servers.items()
    found = {**software()} | {f"server.{name}": "; ".join(those) for name, those in servers}
    for name, moment in zip(("answered_from", "answered_until"), usage.ended_at, strict=False):
        found[name] = _utc(moment)
    return found | {
        "version.python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "graded_at": _utc(started),
        "grading_seconds": f"{time.time() - started:.3f}",
        "answer_seconds": f"{usage.waited_s.rounded():.3f}",
        "answers_timed": str(usage.timed),
        "log_bytes": str(size),
        "asked_again": str(usage.errors),
        **({"stale_calls": str(usage.stale)} if usage.stale else {}),
        **({ANSWERS_AGAIN: str(usage.again)} if usage.again else {}),
    }


def _utc(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _git_commit() -> str | None:
    """Return the commit of the checkout that medhelm runs from, '-dirty' with changes; else None."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
