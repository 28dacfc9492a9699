"""Run pages of many benchmarks, written by other processes while this one computes tables."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import reduction
from pathlib import Path
from typing import NamedTuple

import msgspec

from medhelm.errors import MedhelmError
from medhelm.grading.process_pool import ProcessPool
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.run import RunRecord
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import usable
from medhelm_leaderboard.run_pages import write_runs

_FEW = 20_000
"""Answers below which starting a process takes longer than what it does."""


class _Done(NamedTuple):
    """The outcome of the pages of one benchmark under one scoring."""

    files: dict[str, str]
    written: int
    problems: list[Problem]
    error: str = ""
    """The reason where nothing could be written."""


class _Lock:
    """A descriptor of the site's lock, which a process of the pool holds for as long as it lives."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, ((reduction.DupFd(self._descriptor),),)


class WorkerPool:
    """Writes run pages in the background: `start` hands out the work, `finish` lends a hand."""

    def __init__(self, site: SiteFolder, results: Path, registry: Registry) -> None:
        self._site, self._results, self._registry = site, results, registry
        self._write = partial(_write, site.path, results, registry)
        self._groups: list[Sequence[GradedRun]] = []
        self._left: deque[int] = deque()
        """Places of the groups that nobody has begun."""
        self._pool: ProcessPool | None = None
        self._threads = ThreadPoolExecutor()
        self._driven: list[Future[dict[int, _Done]]] = []

    def start(self, groups: Sequence[Sequence[GradedRun]]) -> None:
        """Begin to write the pages of these benchmarks, each with its runs under one scoring."""
        self._groups = list(groups)
        self._left = deque(range(len(groups)))
        answers = sum(r.record.instances * r.record.spec.repeats for g in groups for r in g)
        count = min(len(groups), (os.cpu_count() or 2) - 1) if answers >= _FEW else 0
        if count:
            locks = tuple(map(_Lock, self._site.locks))
            pool = self._pool = ProcessPool(count, _prepare, self._registry.files, locks)
            begun = [self._begin(pool) for _ in range(count)]
            self._driven = [self._threads.submit(self._drive, pool, *first) for first in begun]

    def finish(self) -> list[Problem]:
        """Write what is left and wait for the others; return what could not be read."""
        done = self._work_here()
        for driven in self._driven:
            done |= driven.result()
        problems: list[Problem] = []
        for place, runs in enumerate(self._groups):
            own = done.get(place) or self._write(runs)
            if own.error:
                raise MedhelmError(own.error)
            self._site.add(own.files, own.written)
            problems += own.problems
        return problems

    def close(self) -> None:
        """Stop all processes."""
        self._left.clear()
        if self._pool is not None:
            self._pool.__exit__()
        self._threads.shutdown()

    def _begin(self, pool: ProcessPool) -> tuple[int, Future[_Done]]:
        """Give the next group to the pool; raises IndexError where there is none."""
        place = self._left.popleft()
        # A record goes as JSON: unpickled, its defaults would not be known as such, and the hashes
        # by which judgements are found would be others.
        packed = [(r.path, r.folder, msgspec.json.encode(r.record)) for r in self._groups[place]]
        return place, pool.submit(_work, self._site.path, self._results, packed)

    def _drive(self, pool: ProcessPool, place: int, begun: Future[_Done]) -> dict[int, _Done]:
        """Return what the pool has written, given one group at a time, until none is left or it breaks.

        Nothing that it holds is ever cancelled: where it breaks then, Python 3.11 loses the ends of others.
        """
        done: dict[int, _Done] = {}
        with suppress(IndexError, BrokenExecutor):
            while True:
                done[place] = begun.result()
                place, begun = self._begin(pool)
        return done

    def _work_here(self) -> dict[int, _Done]:
        """Return what this process has written of what no other has begun, from the end."""
        done: dict[int, _Done] = {}
        with suppress(IndexError):
            while True:
                place = self._left.pop()
                done[place] = self._write(self._groups[place])
        return done


def _write(site_path: Path, results: Path, registry: Registry, runs: Sequence[GradedRun]) -> _Done:
    site = SiteFolder(site_path)
    protocol = registry.protocols.get(runs[0].record.spec.protocol)
    transcript = protocol.transcript if protocol else None
    pages, _ = usable(registry.pages.values())
    try:
        problems = write_runs(site, runs, results, pages, transcript)
    except MedhelmError as e:
        return _Done({}, 0, [], str(e))
    return _Done(dict(site.files), site.written, problems)


_held: list[object] = []
"""The registry of this process, where it is one of a pool, and the site's lock."""


def _prepare(plugins: Sequence[str], locks: Sequence[object]) -> None:
    _held.extend((load_registry(plugins), locks))


def _work(site: Path, results: Path, packed: Sequence[tuple[Path, str, bytes]]) -> _Done:
    registry = _held[0]
    assert isinstance(registry, Registry)
    decode = msgspec.json.Decoder(RunRecord).decode
    runs = [GradedRun(path, folder, decode(record)) for path, folder, record in packed]
    return _write(site, results, registry, runs)
