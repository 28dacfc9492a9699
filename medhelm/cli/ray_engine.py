"""Workers that are tasks of a Ray cluster, and the actor that they share: their pool, and the way of their files.

    worker's copy of the runs -> its task -> Desk (on the head) -> the command, which writes the results folder

A worker that sees the results folder writes there itself. Only the actor's files are texts, and only where a
worker has a copy.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import GetTimeoutError, RayError, TaskCancelledError

from medhelm.cli.engines import ACTOR, POOL, Choice, Ended, Engine, Worker, one_line, run_child
from medhelm.errors import Interrupted, ModelError, RecordError, UsageError
from medhelm.models.pacing.pool import EXPIRES_S, Pool, PoolAccess, ask, lost_pool
from medhelm.store.mirror import Mirror, Piece, put

_COPY = "/copy"
"""Its place ends with this for a worker that has a copy of the runs."""
_SPACE = "medhelm"
_SEND_S, _BEGIN_S = 0.2, 120.0
_QUIET = {"log_to_driver": False, "logging_level": "error", "namespace": _SPACE}
_HEAD = {"node:__internal_head__": 0.001}


class Desk:
    """The actor. Its methods are short, and are called one at a time."""

    def __init__(self, pool: bytes, refusal: str) -> None:
        """`refusal`: the reason why no worker may have a copy of the runs; empty where it may."""
        self._pool = msgspec.json.decode(pool, type=Pool)
        self._refusal = refusal
        self._pieces: list[Piece] = []
        self._taken = self._written = 0
        self._wanted: set[str] = set()
        self._copies: dict[str, list[Piece]] = {}

    def ask(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives, by the clock of this process."""
        return ask(self._pool, name, *args)

    def read(self) -> bytes:
        """Return the pool as JSON."""
        return msgspec.json.encode(self._pool)

    def copy(self, worker: str) -> tuple[str, list[Piece] | None]:
        """Return why there is no copy of the runs for a worker, and the copy once the command has made it."""
        self._wanted.add(worker)
        return self._refusal, self._copies.pop(worker, None)

    def send(self, pieces: Sequence[Piece]) -> int:
        """Take files of a worker's copy for the command; returns the number of all that were taken."""
        self._pieces += pieces
        return self._taken + len(self._pieces)

    def written(self) -> int:
        """Return how many files the command has written."""
        return self._written

    def take(self, written: int) -> tuple[set[str], list[Piece]]:
        """Hand the command who wants a copy, and what was sent; `written`: the number of all that it has written."""
        wanted, self._wanted = self._wanted, set()
        pieces, self._pieces = self._pieces, []
        self._written = written
        self._taken += len(pieces)
        return wanted, pieces

    def give(self, worker: str, pieces: list[Piece]) -> None:
        """Keep a copy for a worker until it comes for it."""
        self._copies[worker] = pieces


class RayPool(PoolAccess):
    """A pool in an actor."""

    def __init__(self, desk: Any, worker: str, workers: int) -> None:
        super().__init__(worker, workers)
        self._desk = desk

    def call(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives."""
        return _get(self._desk.ask.remote(name, *args))

    def read(self) -> Pool:
        """Return the pool as it is now."""
        return msgspec.json.decode(_get(self._desk.read.remote()), type=Pool)


def _get(answer: Any, within_s: float = EXPIRES_S) -> Any:
    """Return what the actor answers; raises RecordError where it is lost."""
    try:
        return ray.get(answer, timeout=within_s)
    except GetTimeoutError:
        raise lost_pool(f"Ray's head did not answer for {within_s:.0f} s") from None
    except (RayError, ConnectionError) as e:
        raise lost_pool(f"Ray: {one_line(e)}") from None


def joined_pool(place: str, worker: str, workers: int) -> RayPool:
    """Return the way of a worker to its pool; raises RecordError where there is none."""
    try:
        ray.init(address=os.environ["RAY_ADDRESS"], **_QUIET)
        name = place.removeprefix(ACTOR).removesuffix(_COPY)
        pool = RayPool(ray.get_actor(name, _SPACE), worker, workers)
    except (RayError, ConnectionError, ValueError) as e:
        raise lost_pool(f"Ray: {one_line(e)}") from None
    pool.sees_all = not place.endswith(_COPY)
    return pool


class RayEngine(Engine):
    """Tasks of a cluster, begun here where there is none."""

    name = "Ray"

    def __init__(self, choice: Choice, options: Mapping[str, Any]) -> None:
        super().__init__(choice.workers)
        if not ray.is_initialized():
            join_cluster(choice.address)
        settings = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD", **options}
        try:
            self._run = ray.remote(_work).options(**settings)
        except (ValueError, TypeError) as e:
            raise UsageError(f"workers=ray: {one_line(e)}") from None
        self._name = f"medhelm-{secrets.token_hex(4)}"
        self._written = 0

    def open_pool(self, path: Path, new: Pool, refusal: str) -> PoolAccess:
        """Start the actor that holds the pool."""
        self.results, self._folders = path.parent.parent, new.runs
        options = {"name": self._name, "namespace": _SPACE, "num_cpus": 0, "resources": _HEAD}
        self._desk = ray.remote(Desk).options(**options).remote(msgspec.json.encode(new), refusal)
        _get(self._desk.written.remote(), _BEGIN_S)
        return RayPool(self._desk, "", new.workers)

    def start(self, command: Sequence[str], output: Path) -> Worker:
        """Start a task."""
        where = (str(self.results), str(output.relative_to(self.results)))
        return _Task(self._run.remote(command, self._name, *where, os.getcwd()))

    def collect(self) -> bool:
        """Write what workers have sent, and give those a copy of the runs who want one."""
        wanted, pieces = _get(self._desk.take.remote(self._written))
        put(self.results, pieces)
        self._written += len(pieces)
        for worker in wanted:
            _get(self._desk.give.remote(worker, Mirror(self.results, self._folders).news()))
        return bool(wanted)


def join_cluster(address: str = "") -> None:
    """Join a cluster, or one that is begun on this machine where there is none; raises ModelError."""
    try:
        ray.init(address=address or "auto", **_QUIET)
    except ConnectionError:
        if address:
            raise ModelError(f"workers={address}: no Ray cluster answers there") from None
        ray.init(include_dashboard=False, **_QUIET)


class _Task:
    def __init__(self, task: Any) -> None:
        self._task = task

    def ended(self) -> Ended | None:
        done, _ = ray.wait([self._task], timeout=0)
        if not done:
            return None
        try:
            return Ended(*ray.get(self._task))
        except TaskCancelledError:
            return Ended(Interrupted.exit_code)
        except RayError as e:
            why = getattr(e, "cause", None) or e  # of what a task raised
            return Ended(1, f"{type(why).__name__}: {one_line(why)}")

    def stop(self) -> None:
        ray.cancel(self._task, force=False)

    def kill(self) -> None:
        ray.cancel(self._task, force=True)


def _work(command: Sequence[str], name: str, results: str, output: str, cwd: str) -> Ended:
    """Run a worker in the results folder, or in a copy of its runs where that is not seen from this node."""
    added = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, POOL: ACTOR + name}
    if os.path.exists(Path(results, output)):
        return run_child(command, results, added, output, cwd)
    try:
        return _work_on_copy(command, name, added, output, cwd)
    except RecordError as e:
        return Ended(e.exit_code, f"{results} is not seen on {os.uname().nodename}, and {e}")


def _work_on_copy(
    command: Sequence[str], name: str, added: dict[str, str], output: str, cwd: str
) -> Ended:
    desk, copy = ray.get_actor(name, _SPACE), None
    sent, pieces = 0, list[Piece]()
    while copy is None:
        refusal, copy = _get(desk.copy.remote(output))
        if refusal:
            raise RecordError(refusal)
        time.sleep(_SEND_S)
    with tempfile.TemporaryDirectory(prefix="medhelm-") as made:
        root = Path(made)
        put(root, [*copy, Piece(output, 0, b"")])
        mirror = Mirror(root, ["runs", output])
        mirror.news()

        def send() -> None:
            nonlocal sent
            pieces.extend(mirror.news())
            if pieces:  # sent twice where Ctrl-C comes amid
                sent = _get(desk.send.remote(pieces))
                pieces.clear()

        is_last = "shard=0/1" in command
        added[POOL] += "" if is_last else _COPY
        ended = run_child(command, made, added, output, cwd, send)
        send()
        while _get(desk.written.remote()) < sent:
            time.sleep(_SEND_S)
        return ended
