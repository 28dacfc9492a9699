"""Select the instances that a run asks, none where it is finished, and the order in which it does."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from tempfile import SpooledTemporaryFile

import msgspec

from medhelm.data.dataset import Dataset, RowCounts, find_duplicate_ids
from medhelm.errors import DataError, MedhelmError, RecordError
from medhelm.files.durable import why
from medhelm.grading.panels import verdict_bytes
from medhelm.runs.run import Run
from medhelm.schema.data import MADE_BY, Instance
from medhelm.schema.run import RunRecord, RunSpec
from medhelm.store.loglines import episode_keys
from medhelm.store.records import (
    CONTROLS,
    DAMAGED,
    VERDICT_BYTES,
    Plan,
    one_spelling,
    order_key,
    read_plan,
    read_record,
    stored_jury,
    stored_reader,
)
from medhelm.store.runlog import log_bytes
from medhelm.store.shards import Shard, is_gathered

_IN_MEMORY = 4 << 20


@dataclass(frozen=True)
class Selection:
    """The instances that a run asks, by number and by their largest order key."""

    instances: int
    available: int
    """Instances of the data, of which these are the first."""
    cut: int | None
    """Instances whose `order_key` is at most this; None: all."""
    made: Mapping[str, int]
    """Models that wrote or rated instances of the data (metadata `made_by`), and how many."""
    rows: RowCounts


def plan_of(run: Run, selection: Selection) -> Plan:
    """Return the plan of a run that asks these instances."""
    return Plan(
        spec=run.spec,
        request_hash=run.request_hash,
        instances=selection.instances,
        cut=selection.cut,
        left_out=dict(selection.rows.left_out),
    )


def selection_key(run: Run) -> tuple[int, int, int | None]:
    """Return the key under which runs of several models share a selection."""
    return id(run.dataset), run.spec.seed, run.spec.max_instances


def select(dataset: Dataset, spec: RunSpec) -> Selection:
    """Return the selection of the first `max_instances` by a seeded hash of the ids.

    Reads the data once and holds 8 bytes an instance. Raises DataError where ids repeat or
    there is no instance.
    """
    made: Counter[str] = Counter()
    counts = RowCounts()

    def keys() -> Iterator[int]:
        for instance in replace(dataset, change=None).instances(counts):
            if makers := instance.metadata.get(MADE_BY):
                made.update(makers.split(", "))
            yield order_key(spec.seed, instance.id)

    ordered = array("Q", sorted(array("Q", keys())))
    if not ordered:
        raise DataError(f"{spec.benchmark}: the data set has no instance")
    if any(map(eq, ordered, ordered[1:])) and (repeated := find_duplicate_ids(dataset)):
        raise DataError(
            f"{spec.benchmark}: {len(repeated)} instance id(s) stand more than once in the data, "
            f"the first is {repeated[0]!r}; ids must be unique"
        )
    available = len(ordered)
    wanted = min(spec.max_instances or available, available)
    cut = ordered[wanted - 1] if wanted < len(ordered) else None
    if dataset.change is not None:  # of those that are asked as they are, so that there are pairs
        wanted, available = _changed(dataset, spec, ordered[wanted - 1])
    return Selection(wanted, available, cut, dict(made), counts)


def _changed(dataset: Dataset, spec: RunSpec, last: int) -> tuple[int, int]:
    """Return how many instances up to the last order key a form can be made of, and of all."""
    keys = array("Q", (order_key(spec.seed, one.id) for one in dataset.instances()))
    found = sum(key <= last for key in keys)
    if not found:
        raise DataError(
            f"{spec.benchmark}: none of the {spec.max_instances} questions can be asked in the "
            f"variant {spec.variant}; raise max_instances"
        )
    return found, len(keys)


def find_unread(run: Run) -> set[tuple[str, int]]:
    """Return instance and repeat of those with an outcome of `run.ask_again`, by the run's grading.

    The outcomes are those of the main metric; empty where there is no grading.
    """
    path = run.grading_path / "scores.parquet"
    if not run.ask_again or not path.exists():
        return set()
    import pyarrow.parquet as pq

    main = run.grading.metrics[0].name
    columns = ["instance_id", "repeat", "metric", "outcome"]
    return {
        (instance_id, repeat)
        for batch in pq.ParquetFile(path).iter_batches(columns=columns)
        for instance_id, repeat, metric, outcome in zip(
            *(batch.column(name).to_pylist() for name in columns), strict=True
        )
        if metric == main and outcome in run.ask_again
    }


def read_finished(run: Run) -> RunRecord | None:
    """Return the stored record if it is of this very run, complete and without errors.

    A new price or display name makes another record: it is graded again, nothing is asked.
    """
    try:
        plan = read_plan(run.path)
        record = read_record(run.grading_path)
    except MedhelmError:
        return None
    is_same = plan.spec == record.spec and one_spelling(plan.spec) == one_spelling(run.spec)
    is_same = is_same and record.card == run.card
    is_same = is_same and record.grading == run.grading  # the price of a judge, too
    noted = record.provenance
    is_whole = record.state == "complete" and noted.get("asked_again") == "0"
    is_judged = noted.get("not_judged", "0") == "0" and DAMAGED not in noted
    if run.grading.raters is not None:  # else tables would show a later grading by another jury
        is_judged = is_judged and stored_jury(run.path) == run.grading.raters
    if is_judged:
        is_judged = stored_reader(run.path, run.grading.scoring) == run.grading.reader
    if run.has_controls:
        is_judged = is_judged and float(noted.get(CONTROLS, "0")) >= run.controls
    if run.grading.judges:  # whose logs may be gone, or hold further verdicts
        size = verdict_bytes(run.path, run.grading)
        is_judged = is_judged and noted.get(VERDICT_BYTES, str(size or "")) == str(size)
    is_current = is_judged and noted.get("log_bytes") == str(log_bytes(run.path))
    has_scores = (run.grading_path / "scores.parquet").is_file()
    is_current = is_current and is_gathered(run.path)  # else a shard has asked beside the whole
    return record if is_same and is_whole and is_current and has_scores else None


def share_of(
    dataset: Dataset, spec: RunSpec, cut: int | None, shard: Shard | None
) -> frozenset[int] | None:
    """Return the order keys of a shard's instances: every N-th in the seeded order. None: all are asked."""
    if shard is None:
        return None
    keys = (order_key(spec.seed, instance.id) for instance in dataset.instances())
    ordered = sorted(key for key in keys if cut is None or key <= cut)
    return frozenset(ordered[shard.number :: shard.count])


class SeededOrder:
    """The instances that a run still asks, in the seeded order: a run that is stopped early holds a random sample.

    The texts wait in a file of the run folder that has no name (small data in memory), so that 16
    bytes an instance are held. Raises what reading the data does, and RecordError where the file
    cannot be written.
    """

    def __init__(
        self,
        dataset: Dataset,
        spec: RunSpec,
        cut: int | None,
        answered: Collection[int],
        folder: Path,
        share: Container[int] | None = None,
    ) -> None:
        self._places, self._starts = array("Q"), array("Q", [0])
        self._texts = SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 - see close
        encode = msgspec.msgpack.Encoder().encode
        try:
            for instance in dataset.instances():
                place = order_key(spec.seed, instance.id)
                if cut is not None and place > cut:
                    continue
                if share is not None and place not in share:
                    continue
                keys = episode_keys(instance, spec.repeats)
                if left := [repeat for repeat, key in enumerate(keys) if key not in answered]:
                    self._places.append(place)
                    text = encode((instance, left))
                    self._starts.append(self._starts[-1] + len(text))
                    with _writing(folder):
                        self._texts.write(text)
            with _writing(folder):
                self._texts.flush()
        except BaseException:
            with suppress(OSError):  # what is still to be written
                self.close()
            raise

    def __iter__(self) -> Iterator[tuple[Instance, int]]:
        """Yield each instance with the repeat that is asked."""
        decode = msgspec.msgpack.Decoder(tuple[Instance, list[int]]).decode
        for n in sorted(range(len(self._places)), key=self._places.__getitem__):
            self._texts.seek(self._starts[n])
            instance, left = decode(self._texts.read(self._starts[n + 1] - self._starts[n]))
            for repeat in left:
                yield instance, repeat

    def close(self) -> None:
        """Forget the texts."""
        self._texts.close()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise RecordError(f"cannot write texts that wait to {folder}: {why(e)}") from None
