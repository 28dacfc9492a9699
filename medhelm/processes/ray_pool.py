"""Tasks of a Ray cluster that do work for this process, with the interface of `ProcessPool`.

Texts lie in the calls themselves, never in Ray's object store, which writes to its session's folder what it has no
room for. What a task prints goes nowhere, and what it raises is raised again where its work is done instead.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

from medhelm.errors import MedhelmError

_T = TypeVar("_T")

_PART, _MOST = 64 << 10, 8 << 20
"""Bytes of an argument, and of all: Ray keeps arguments of 100 KiB, and 10 MiB a call, out of its store."""


class RayPool:
    """At most `count` tasks at a time; `is_open`: what they are sent and give may lie in Ray's store."""

    def __init__(
        self, count: int, is_open: bool, prepare: Callable[..., Any], *args: Any, cpus: int = 1
    ) -> None:
        import ray

        self._ray, self._is_open = ray, is_open
        options = {"num_cpus": cpus, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        self._task = ray.remote(_do).options(**options)
        first = ray.cloudpickle.dumps((prepare, args))
        first = ray.put(first) if is_open else first
        self._first = (secrets.token_hex(8), code_hash(), is_open, first)
        self._threads = ThreadPoolExecutor(count)
        self._at_work: set[Any] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for task in [*self._at_work]:
            self._ray.cancel(task, force=True)

    def submit(self, work: Callable[..., _T], *args: Any) -> Future[_T]:
        """Return what `work(prepared, *args)` gives, to come; BrokenExecutor to come where no task does it."""
        return self._threads.submit(self._ask, pickle.dumps((work, args)))

    def _ask(self, sent: bytes) -> Any:
        if len(sent) > _MOST and not self._is_open:
            raise BrokenExecutor
        parts = (sent[at : at + _PART] for at in range(0, len(sent), _PART))
        task = self._task.remote(*self._first, *parts)
        self._at_work.add(task)
        try:
            reply = self._ray.get(task)
        except (self._ray.exceptions.RayError, ConnectionError) as e:
            reply = f"a task was lost ({type(e).__name__})"
        self._at_work.discard(task)
        if isinstance(reply, bytes):
            return pickle.loads(reply)
        if reply:
            say_once(f"medhelm: Ray: {reply}; its work is done here")
        raise BrokenExecutor


@cache
def say_once(line: str) -> None:
    """Print a line on the standard error unless it was printed before."""
    print(line, file=sys.stderr)


_prepared: dict[str, Any] = {}
"""The value that this process works with, by the pool that it last worked for, where it is one of Ray's."""


def _do(pool: str, code: str, is_open: bool, first: bytes, *parts: bytes) -> bytes | str:
    """Return what work gives, pickled; else why there is nothing, empty where it raised or is too long."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # Ray keeps what is printed in files that all may read
        os.dup2(nowhere, output)
    os.close(nowhere)
    try:
        if code != code_hash():
            return f"{os.uname().nodename} has other versions of medhelm, plugins or what they need"
        if pool not in _prepared:
            prepare, args = pickle.loads(first)
            _prepared.clear()
            _prepared[pool] = prepare(*args)
        work, args = pickle.loads(b"".join(parts))
        reply = pickle.dumps(work(_prepared[pool], *args))
    except MedhelmError as e:
        return str(e)
    except Exception:  # whatever plugins raise
        return ""
    return reply if is_open or len(reply) <= _PART else ""


@cache
def code_hash() -> str:
    """Return a hash of the files of medhelm and of installed plugins, and of the versions of what it needs."""
    needed = [re.split(r"[^\w.-]", n)[0] for n in metadata.requires("medhelm-framework") or ()]
    versions = {found.name: found.version for found in metadata.distributions()}
    digest = sha256(repr([versions.get(name) for name in needed]).encode())
    plugins = {e.module.partition(".")[0] for e in metadata.entry_points(group="medhelm")}
    for spec in map(find_spec, sorted({"medhelm", "medhelm_leaderboard", *plugins})):
        for place in (spec and (spec.submodule_search_locations or [spec.origin or ""])) or ():
            for path in sorted({Path(place), *Path(place).rglob("*.*")}):
                if path.is_file() and path.suffix != ".pyc":
                    digest.update(path.name.encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()
