"""Episodes -> the same with their scores, in order; slow metrics are computed on all cores.

Work goes to processes that are started afresh and speak through pipes: none is a fork of a
process with threads, none imports the user's script, and each ends with its pipe, however the
process at the other end came to its end. What a process cannot do (a metric that raises, a
process that dies) is done here, so scores and errors are those of a single process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Protocol, Self, runtime_checkable

import msgspec

from medhelm.grading.grade import grade
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

Pair = tuple[Instance, Episode]
_Batch = Sequence[Episode]
_encode = msgspec.msgpack.Encoder().encode
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
    *,
    processes: int | None = None,
) -> Iterator[tuple[Episode, list[Score]]]:
    """Yield each episode with what `grade` says of it by each metric.

    About `total` episodes are expected; some hundreds are held at a time. `processes`: how many
    slow metrics may use, all cores by default. Raises what `grade` raises.
    """
    batches = _batches(episodes)
    count = _cores() if processes is None else processes
    places = _portable(metrics) if total >= ENOUGH and count > 1 else {}
    if not places:
        for batch in batches:
            yield from _finish(batch, metrics, {}, None)
        return
    with _TURN, _Workers(tuple(metrics[i] for i in places), count) as workers:
        waiting: deque[tuple[_Batch, Future[list[list[Score]] | None]]] = deque()
        for batch in batches:
            waiting.append((batch, workers.ask(batch)))
            if len(waiting) >= _AHEAD * count:
                done, scores = waiting.popleft()
                yield from _finish(done, metrics, places, scores.result())
        for done, scores in waiting:
            yield from _finish(done, metrics, places, scores.result())


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


class _Workers:
    """Processes that hold the same metrics. Each works on one batch at a time."""

    def __init__(self, metrics: tuple[Metric, ...], count: int) -> None:
        self._metrics = pickle.dumps(metrics)
        self._count = count
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Self:
        try:
            for _ in range(self._count):
                worker = _Worker(self._metrics)
                self._workers.append(worker)
                self._idle.put(worker)
        except OSError:  # no further process: those that run do the work, or this one
            if not self._workers:
                self._threads.shutdown()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()  # whoever waits for its reply hears that it is gone
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def ask(self, batch: _Batch) -> Future[list[list[Score]] | None]:
        """Return the scores to come, or None to come where no process could make them."""
        if not self._workers:
            nothing: Future[list[list[Score]] | None] = Future()
            nothing.set_result(None)
            return nothing
        return self._threads.submit(self._work, _encode(batch))

    def _work(self, body: bytes) -> list[list[Score]] | None:
        worker = self._idle.get()
        try:
            return worker.ask(body)
        finally:
            # a dead one comes back only where there is no other, so that nobody waits for ever
            if worker.is_alive or not any(w.is_alive for w in self._workers):
                self._idle.put(worker)


class _Worker:
    """One process."""

    def __init__(self, metrics: bytes) -> None:
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from medhelm.grading.slow_metrics import work; work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C is for the command, which ends this one itself
        )
        self._metrics: bytes | None = metrics

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, body: bytes) -> list[list[Score]] | None:
        """Return the scores of a batch; None where a metric raised or the process is gone."""
        to, back = self._process.stdin, self._process.stdout
        assert to is not None and back is not None
        try:
            if self._metrics is not None:
                _send(to, self._metrics)
                self._metrics = None
            _send(to, body)
            reply = _receive(back)
        except (OSError, ValueError):  # the pipe is closed
            reply = None
        if reply is None:
            self.end()
            return None
        scores: list[list[Score]] | None = _decode_scores(reply)
        return scores

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _send(pipe: IO[bytes], body: bytes) -> None:
    pipe.write(len(body).to_bytes(8) + body)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """Return what the other end has sent; None where it has ended."""
    head = pipe.read(8)
    size = int.from_bytes(head)
    body = pipe.read(size) if len(head) == 8 else b""
    return body if len(head) == 8 and len(body) == size else None


def work() -> None:
    """Score batches from stdin until it ends, as each process of the pool does."""
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a metric prints is not a reply
        requests = sys.stdin.buffer
        sent = _receive(requests)
        if sent is None:
            return
        # the parent's own objects, through a pipe that nobody else writes to; back comes no pickle
        metrics: tuple[Metric, ...] = pickle.loads(sent)
        decode = msgspec.msgpack.Decoder(list[Episode]).decode
        while (body := _receive(requests)) is not None:
            _send(replies, _reply(metrics, decode(body)))


def _reply(metrics: Sequence[Metric], episodes: Iterable[Episode]) -> bytes:
    try:
        return _encode([[grade(m, episode) for m in metrics] for episode in episodes])
    except Exception:  # raised again, with its own words, where the batch came from
        return _encode(None)
