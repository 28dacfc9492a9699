"""Tasks of a Ray cluster that do work for this process, with the interface of `ProcessPool`.

What is sent and what comes back lies in the calls themselves, never in Ray's object store, which writes to its
session's folder what it has no room for. What a task prints goes nowhere, what it raises is not reported.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar, TypeVarTuple, Unpack

from medhelm.errors import MedhelmError
from medhelm.processes.workers import say_once

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_PART = 64 << 10
"""Bytes of one argument. Ray keeps 100 KiB and less out of its store."""
_MOST = 8 << 20
"""Bytes of all arguments, of which Ray keeps 10 MiB out of its store."""
_NAME = "medhelm-framework"


class RayPool:
    """At most `count` tasks at a time, in processes that began with `prepare(*args)`.

    A process whose code is not that of this one does nothing. `is_open`: what comes back may be in Ray's store.
    """

    def __init__(
        self,
        count: int,
        prepare: Callable[[Unpack[_Ts]], None],
        *args: *_Ts,
        is_open: bool = False,
    ) -> None:
        import ray

        self._ray = ray
        options = {"num_cpus": 1, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._task = ray.remote(_do).options(**options)
        first = ray.cloudpickle.dumps((prepare, args))
        if is_open and len(first) > _PART:  # once for all tasks
            first = ray.put(first)
        self._first = (secrets.token_hex(8), code_hash(), is_open, first)
        self._threads = ThreadPoolExecutor(count)
        self._at_work: set[Any] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for task in [*self._at_work]:
            self._ray.cancel(task, force=True)

    def submit(self, work: Callable[[Unpack[_Ts]], _T], *args: *_Ts) -> Future[_T]:
        """Return what `work(*args)` gives, to come; BrokenExecutor to come where no task does it."""
        return self._threads.submit(self._ask, pickle.dumps((work, args)))

    def _ask(self, sent: bytes) -> Any:
        if len(sent) > _MOST:
            raise BrokenExecutor
        parts = (sent[at : at + _PART] for at in range(0, len(sent), _PART))
        task = self._task.remote(*self._first, *parts)
        self._at_work.add(task)
        try:
            reply = self._ray.get(task)
        except (self._ray.exceptions.RayError, ConnectionError) as e:
            reply = f"a task was lost ({type(e).__name__})"
        finally:
            self._at_work.discard(task)
        if isinstance(reply, bytes):
            return pickle.loads(reply)
        if reply:
            say_once(f"medhelm: Ray: {reply}; its work is done here")
        raise BrokenExecutor


_begun = [""]
"""The pool that this process was prepared for, where it is one of Ray's."""


def _do(pool: str, code: str, is_open: bool, first: bytes, *parts: bytes) -> bytes | str:
    """Return what a piece of work gives, pickled; else why there is nothing, empty where it raised."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # Ray keeps what is printed in files that all may read
        os.dup2(nowhere, output)
    os.close(nowhere)
    if code != code_hash():
        return f"{os.uname().nodename} has another version of medhelm, of a plugin or of what they need"
    try:
        if _begun[0] != pool:
            prepare, args = pickle.loads(first)
            prepare(*args)
            _begun[0] = pool
        work, args = pickle.loads(b"".join(parts))
        reply = pickle.dumps(work(*args))
    except MedhelmError as e:
        return str(e)
    except Exception:  # raised again, with its own words, where the work came from
        return ""
    return reply if is_open or len(reply) <= _PART else ""


@cache
def code_hash() -> str:
    """Return a hash of all files of medhelm and of its installed plugins, and of the versions of what it needs."""
    plugins = {e.module.partition(".")[0] for e in metadata.entry_points(group="medhelm")}
    found = sha256(repr(sorted(map(_version, metadata.requires(_NAME) or ()))).encode())
    for name in sorted({"medhelm", "medhelm_leaderboard", *plugins}):
        spec = find_spec(name)
        for place in (spec.submodule_search_locations or [spec.origin]) if spec else ():
            for path in sorted(Path(str(place)).rglob("*.*")):
                if path.is_file() and path.suffix != ".pyc":
                    found.update(path.name.encode() + sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _version(needed: str) -> str:
    name = re.split(r"[^\w.-]", needed)[0]
    with suppress(metadata.PackageNotFoundError):
        return f"{name} {metadata.version(name)}"
    return name
