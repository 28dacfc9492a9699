"""Processes that do work for this one: `concurrent.futures`, with what its processes lack.

None is a fork of a process with threads, none imports the user's script or a module from the folder
of the command, none hears Ctrl-C, and each ends with this process, however that came to its end.
What is lost with a process that dies is the caller's to do: its futures raise `BrokenExecutor`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread
from types import ModuleType
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class Worker(SpawnProcess):
    """One process of a pool."""

    def start(self) -> None:
        """Start it; raises OSError where there is no process to spare."""
        main, safe = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        sys.modules["__main__"] = ModuleType("__main__")  # else the user's script is imported
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main
            del os.environ["PYTHONSAFEPATH"]
            if safe is not None:
                os.environ["PYTHONSAFEPATH"] = safe
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Context(SpawnContext):
    def __init__(self) -> None:
        super().__init__()
        self.started: list[Worker] = []

    def Process(self, *args: object, **kwargs: object) -> Worker:  # type: ignore[override]  # noqa: N802
        self.started.append(Worker(*args, **kwargs))  # type: ignore[arg-type]
        return self.started[-1]


class ProcessPool:
    """At most `count` processes, each of which begins with `prepare(*args)` and works with what that returns."""

    def __init__(self, count: int, prepare: Callable[..., Any], *args: Any) -> None:
        self._context = _Context()
        self._executor: ProcessPoolExecutor | None = None
        with suppress(OSError, ImportError, NotImplementedError):  # a system without semaphores
            self._executor = ProcessPoolExecutor(count, self._context, _begin, (prepare, args))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._context.started:
            if worker.pid is not None:
                worker.kill()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def submit(self, work: Callable[..., _T], *args: Any) -> Future[_T]:
        """Return what `work(prepared, *args)` gives, to come; BrokenExecutor to come where no process does it."""
        # A pool that breaks while it starts a process closes what that one was to be given: ValueError.
        with suppress(OSError, ValueError, BrokenExecutor):
            if self._executor is not None:
                return self._executor.submit(_work, work, args)
        lost: Future[_T] = Future()
        lost.set_exception(BrokenExecutor())
        return lost


_prepared: list[Any] = []
"""The value that this process works with, where it is one of a pool."""


def _work(work: Callable[..., _T], args: tuple[Any, ...]) -> _T:
    return work(_prepared[0], *args)


def _begin(prepare: Callable[..., Any], args: tuple[object, ...]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):  # what a plugin prints is not of the command
        os.dup2(nowhere, output)
    Thread(target=_end_with_parent, daemon=True).start()
    _prepared[:] = [prepare(*args)]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
