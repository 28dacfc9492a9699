"""Workers that are tasks of a Ray cluster, and the actor that they share: their pool, and the way of their files.

    worker's copy of the runs -> its task -> Desk (on the head) -> the command, which writes the results folder

A worker that sees the results folder writes there itself. Only the actor's files are texts, and only where a
worker has a copy.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray.exceptions import GetTimeoutError, RayError, TaskCancelledError

from medhelm.cli.engines import (
    ACTOR,
    ENDING_S,
    POOL,
    WHOLE,
    Choice,
    Ended,
    Engine,
    Origin,
    Worker,
    run_child,
)
from medhelm.errors import Interrupted, RecordError, UsageError, one_line
from medhelm.models.pacing.pool import EXPIRES_S, Pool, PoolAccess, ask, lost_pool
from medhelm.processes.ray_cluster import NAMESPACE, QUIET, join_cluster, room_for
from medhelm.store.mirror import Mirror, Piece, put

_COPY = "/copy"
"""Its place ends with this for a worker that has a copy of the runs, and messages with such begin so."""
_SEND_S, _BEGIN_S = 0.2, 120.0
_PART = 1 << 16
_HEAD = {"node:__internal_head__": 0.001}


class Desk:
    """The actor. Its methods are short, and are called one at a time.

    Files go through it in messages, of parts so small that Ray keeps them out of its object store, which may write
    to the disk.
    """

    def __init__(self, pool: bytes, refusal: str) -> None:
        """`refusal`: the reason why no worker may have a copy of the runs; empty where it may."""
        self._pool = msgspec.json.decode(pool, type=Pool)
        self._refusal = refusal
        self._messages: dict[str, bytearray] = {}
        self._whole: dict[str, None] = {}
        """Messages of which all is there, in order."""
        self._wanted: dict[str, None] = {}

    def ask(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives, by the clock of this process."""
        return ask(self._pool, name, *args)

    def read(self) -> bytes:
        """Return the pool as JSON."""
        return msgspec.json.encode(self._pool)

    def want(self, message: str) -> str:
        """Note that a worker wants a copy of the runs as this message; returns why there is none."""
        if not self._refusal:
            self._wanted[message] = None
        return self._refusal

    def add(self, message: str, part: bytes, is_last: bool) -> None:
        """Take a part of a message."""
        self._messages.setdefault(message, bytearray()).extend(part)
        if is_last:
            self._whole[message] = None

    def part(self, message: str, start: int) -> bytes:
        """Return a part of a message; nothing at its end."""
        return bytes(self._messages[message][start : start + _PART])

    def drop(self, message: str) -> None:
        """Forget a message, as it has arrived."""
        self._whole.pop(message)
        self._messages.pop(message)

    def is_whole(self, message: str) -> bool:
        """Return whether all of a message is there, and has not arrived."""
        return message in self._whole

    def look(self) -> tuple[list[str], list[str]]:
        """Return the copies that are wanted, and the messages that workers have sent."""
        wanted, self._wanted = [*self._wanted], {}
        return wanted, [message for message in self._whole if not message.startswith(_COPY)]


def _send(desk: Any, message: str, pieces: Sequence[Piece]) -> None:
    sent = msgspec.msgpack.encode(pieces)
    for start in range(0, len(sent), _PART):
        part = sent[start : start + _PART]
        _get(desk.add, message, part, start + _PART >= len(sent))


def _receive(desk: Any, message: str, root: Path) -> None:
    """Write the files of a message below a folder, and drop it."""
    found = bytearray()
    while part := _get(desk.part, message, len(found)):
        found += part
    put(root, msgspec.msgpack.decode(found, type=list[Piece]))
    _get(desk.drop, message)


class RayPool(PoolAccess):
    """A pool in an actor."""

    def __init__(self, desk: Any, worker: str, workers: int) -> None:
        super().__init__(worker, workers)
        self._desk = desk

    def call(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives."""
        return _get(self._desk.ask, name, *args)

    def read(self) -> Pool:
        """Return the pool as it is now."""
        return msgspec.json.decode(_get(self._desk.read), type=Pool)


def _get(method: Any, *args: Any, within_s: float = EXPIRES_S) -> Any:
    """Return what a method of the actor answers; raises RecordError where it is lost."""
    try:
        return ray.get(method.remote(*args), timeout=within_s)
    except GetTimeoutError:
        raise lost_pool(f"Ray's head did not answer for {within_s:.0f} s") from None
    except (RayError, ConnectionError) as e:
        raise lost_pool(f"Ray: {one_line(e)}") from None


def joined_pool(place: str, worker: str, workers: int) -> RayPool:
    """Return the way of a worker to its pool; raises RecordError where there is none."""
    try:
        ray.init(address=os.environ["RAY_ADDRESS"], **QUIET)
        name = place.removeprefix(ACTOR).removesuffix(_COPY)
        pool = RayPool(ray.get_actor(name, NAMESPACE), worker, workers)
    except (RayError, ConnectionError, ValueError) as e:
        raise lost_pool(f"Ray: {one_line(e)}") from None
    pool.sees_all = not place.endswith(_COPY)
    return pool


class RayEngine(Engine):
    """Tasks of a cluster, begun here where there is none."""

    name, environment = "Ray", "its node's `ray start`"
    rest_s = ENDING_S

    def __init__(self, choice: Choice, options: Mapping[str, Any]) -> None:
        super().__init__(choice.workers)
        join_cluster(choice.address)
        settings = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD", **options}
        try:
            self._run = ray.remote(_work).options(**settings)
        except (ValueError, TypeError) as e:
            raise UsageError(f"workers=ray: {one_line(e)}") from None
        room, nodes = room_for(settings)
        if not room:
            raise UsageError(
                f"workers=ray: no node has room for a worker ({nodes}); change engine.*"
            )
        self._name = f"medhelm-{secrets.token_hex(4)}"
        self._written = 0

    def open_pool(self, path: Path, new: Pool, refusal: str) -> PoolAccess:
        """Start the actor that holds the pool."""
        self.results, self._folders = path.parent.parent, new.runs
        options = {"name": self._name, "namespace": NAMESPACE, "num_cpus": 0, "resources": _HEAD}
        self._desk = ray.remote(Desk).options(**options).remote(msgspec.json.encode(new), refusal)
        _get(self._desk.look, within_s=_BEGIN_S)
        return RayPool(self._desk, "", new.workers)

    def start(self, command: Sequence[str], output: Path) -> Worker:
        """Start a task."""
        where = (str(self.results), str(output.relative_to(self.results)))
        return _Task(self._run.remote(command, self._name, *where, Origin.here()))

    def collect(self) -> bool:
        """Write what workers have sent, and give those a copy of the runs who want one."""
        wanted, sent = _get(self._desk.look)
        for message in sent:
            _receive(self._desk, message, self.results)
        for message in wanted:
            _send(self._desk, message, Mirror(self.results, self._folders).news())
        return bool(wanted)


class _Task:
    def __init__(self, task: Any) -> None:
        self._task = task

    def ended(self) -> Ended | None:
        try:
            done, _ = ray.wait([self._task], timeout=0)
            return Ended(*ray.get(self._task)) if done else None
        except TaskCancelledError:
            return Ended(Interrupted.exit_code)
        except (RayError, ConnectionError) as e:
            return Ended(1, f"{type(getattr(e, 'cause', None) or e).__name__}: {one_line(e)}")

    def stop(self) -> None:
        self._cancel(force=False)

    def kill(self) -> None:
        self._cancel(force=True)

    def _cancel(self, *, force: bool) -> None:
        with suppress(RayError, ConnectionError):  # the head is lost
            ray.cancel(self._task, force=force)


def _work(command: Sequence[str], name: str, results: str, output: str, origin: Origin) -> Ended:
    """Run a worker in the results folder, or in a copy of its runs where that is not seen from this node."""
    added = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address, POOL: ACTOR + name}
    for left in Path(tempfile.gettempdir()).glob(
        f"medhelm-{Path(output).stem}-*"
    ):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    if os.path.exists(Path(results, output)):
        return run_child(command, results, added, output, origin)
    try:
        return _work_on_copy(command, name, added, output, origin)
    except RecordError as e:
        return Ended(e.exit_code, f"{results} is not seen on {os.uname().nodename}, and {e}")


def _work_on_copy(
    command: Sequence[str], name: str, added: dict[str, str], output: str, origin: Origin
) -> Ended:
    desk, message = ray.get_actor(name, NAMESPACE), f"{_COPY} {output} {secrets.token_hex(4)}"
    if refusal := _get(desk.want, message):
        raise RecordError(refusal)
    while not _get(desk.is_whole, message):
        time.sleep(_SEND_S)
    with tempfile.TemporaryDirectory(prefix=f"medhelm-{Path(output).stem}-") as made:
        root = Path(made)
        put(root, [Piece(output, 0, b"")])
        _receive(desk, message, root)
        mirror = Mirror(root, ["runs", output])
        mirror.news()
        pieces, again_at = list[Piece](), 0.0

        def send() -> None:
            """Send what is new; once more where Ctrl-C came amid, since files are written at their places."""
            nonlocal message, again_at
            if (began := time.monotonic()) < again_at:
                return
            pieces.extend(mirror.news())
            if pieces:
                message = f"{output} {secrets.token_hex(4)}"
                _send(desk, message, pieces)
                pieces.clear()
            again_at = time.monotonic() + 4 * (
                time.monotonic() - began
            )  # many runs: a fifth of a core

        is_last = f"shard={WHOLE}" in command
        added[POOL] += "" if is_last else _COPY
        ended, again_at = run_child(command, made, added, output, origin, send), 0.0
        send()
        while _get(desk.is_whole, message):
            time.sleep(_SEND_S)
        return ended
