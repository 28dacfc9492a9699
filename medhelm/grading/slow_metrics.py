"""Episodes -> the same with their scores, in order; slow metrics are computed by the workers of the command.

What another process cannot do (a metric that raises, a process that dies) is done here, so scores
and errors are those of a single process.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from typing import Protocol, runtime_checkable

import msgspec

from medhelm.grading.grade import grade
from medhelm.processes.workers import Workers
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score

ENOUGH = 500
"""Episodes from which on other processes are started: below, starting them takes longer."""
_BATCH, _BATCH_CHARS = 32, 1 << 18
"""Episodes, and characters of their texts, that go to a process at a time."""
_AHEAD = 3
"""Batches per process that are under way or wait for their turn."""
_TURN = threading.Lock()
"""One grading at a time has the processes. They fill the machine."""

_ALL_CORES = Workers()
Pair = tuple[Instance, Episode]
_Batch = Sequence[Episode]
_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(list[Episode]).decode
_decode_scores = msgspec.msgpack.Decoder(list[list[Score]] | None).decode


@runtime_checkable
class Batched(Protocol):
    """A metric that computes several responses faster at once than one by one."""

    def look_ahead(self, pairs: Sequence[Pair]) -> None:
        """Compute what `score` will be asked next. It must give the same without this."""


def score_all(
    episodes: Iterable[Episode],
    metrics: Sequence[Metric],
    total: int,
    workers: Workers = _ALL_CORES,
) -> Iterator[tuple[Episode, list[Score]]]:
    """Yield each episode with what `grade` says of it by each metric.

    About `total` episodes are expected; some hundreds are held at a time. Raises what `grade` raises.
    """
    batches = _batches(episodes)
    places = _portable(metrics) if total >= ENOUGH else {}
    count = workers.count or _cores()
    if not places or (count == 1 and not workers.is_ray):
        for batch in batches:
            yield from _finish(batch, metrics, {}, None)
        return
    sent = pickle.dumps([metrics[i] for i in places])
    with _TURN, workers.pool(count, pickle.loads, sent) as pool:
        waiting: deque[tuple[_Batch, Future[bytes]]] = deque()
        for batch in batches:
            waiting.append((batch, pool.submit(_work, _encode(batch))))
            if len(waiting) >= _AHEAD * count:
                done, reply = waiting.popleft()
                yield from _finish(done, metrics, places, _scores(reply))
        for done, reply in waiting:
            yield from _finish(done, metrics, places, _scores(reply))


def _batches(episodes: Iterable[Episode]) -> Iterator[_Batch]:
    batch: list[Episode] = []
    size = 0
    for episode in episodes:
        batch.append(episode)
        instance = episode.instance
        size += len(instance.context) + len(episode.response.text)
        size += sum(map(len, instance.references))
        if len(batch) >= _BATCH or size >= _BATCH_CHARS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _finish(
    batch: _Batch,
    metrics: Sequence[Metric],
    places: Mapping[int, int],
    scores: list[list[Score]] | None,
) -> Iterator[tuple[Episode, list[Score]]]:
    """Yield a batch with its scores: those of other processes at their places, all else made here."""
    for metric in metrics:
        if isinstance(metric, Batched):
            metric.look_ahead([(e.instance, e) for e in batch])
    for n, episode in enumerate(batch):
        yield (
            episode,
            [
                scores[n][places[i]]
                if scores is not None and i in places
                else grade(metric, episode)
                for i, metric in enumerate(metrics)
            ],
        )


def _cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _portable(metrics: Sequence[Metric]) -> dict[int, int]:
    """Return the places of slow metrics that another process can be sent, and their order there."""
    found = [i for i, m in enumerate(metrics) if m.is_slow and not isinstance(m, Batched)]
    found = [i for i in found if _is_importable(metrics[i]) and _can_pickle(metrics[i])]
    return {i: n for n, i in enumerate(found)}


def _is_importable(metric: Metric) -> bool:
    """Return whether a new process finds the metric's module by its name."""
    top = type(metric).__module__.partition(".")[0]
    if top == "__main__":
        return False
    return any(finder.find_spec(top, None) is not None for finder in sys.meta_path)


def _can_pickle(metric: Metric) -> bool:
    try:
        pickle.dumps(metric)
    except Exception:  # the boundary to plugins: whatever their values raise
        return False
    return True


def _scores(reply: Future[bytes]) -> list[list[Score]] | None:
    """Return the scores of a batch; None where a metric raised or the process is gone."""
    try:
        scores: list[list[Score]] | None = _decode_scores(reply.result())
    except BrokenExecutor:
        return None
    return scores


def _work(metrics: Sequence[Metric], batch: bytes) -> bytes:
    """Return a batch's scores."""
    try:
        return _encode([[grade(m, episode) for m in metrics] for episode in _decode_batch(batch)])
    except Exception:  # raised again, with its own words, where the batch came from
        return _encode(None)
