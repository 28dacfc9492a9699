"""Run pages of many benchmarks, written by other processes while this one computes tables."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from medhelm.errors import MedhelmError, RecordError
from medhelm.plugins.registry import Registry, load_registry
from medhelm.processes.workers import Pool, workers_for
from medhelm.schema.run import RunRecord
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import usable
from medhelm_leaderboard.run_pages import fingerprint, write_runs

_FEW = 20_000
"""Answers below which starting a process takes longer than what it does."""


class _Done(NamedTuple):
    """The outcome of the pages of one benchmark under one scoring."""

    files: Mapping[str, str]
    written: int
    problems: list[Problem]
    error: str = ""
    """The reason where nothing could be written."""
    content: Mapping[str, bytes] = {}
    """The files, where they are yet to be written."""


class _Memory(SiteFolder):
    """A site whose files another process writes."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.content: dict[str, bytes] = {}

    def put(self, name: str, content: bytes) -> None:
        self.content[name] = content


class WorkerPool:
    """Writes run pages in the background: `start` hands out the work, `finish` lends a hand."""

    def __init__(self, site: SiteFolder, results: Path, registry: Registry) -> None:
        self._site, self._results, self._registry = site, results, registry
        self._write = partial(_write, results, registry)
        self._groups: list[Sequence[GradedRun]] = []
        self._left: deque[int] = deque()
        """Places of the groups that nobody has begun."""
        self._pool: Pool | None = None
        self._threads = ThreadPoolExecutor()
        self._driven: list[Future[dict[int, _Done]]] = []

    def start(self, groups: Sequence[Sequence[GradedRun]]) -> None:
        """Begin to write the pages of these benchmarks, each with its runs under one scoring."""
        self._groups = list(groups)
        self._left = deque(range(len(groups)))
        answers = sum(r.record.instances * r.record.spec.repeats for g in groups for r in g)
        workers = workers_for()
        count = (workers.count or os.cpu_count() or 2) - 1
        if workers.is_ray:  # no file of a plugin goes there, and no secret of published hashes
            is_open = [publish.has_text(runs[0].record.card) for runs in groups]
            self._left = deque(place for place in self._left if is_open[place])
            count = 0 if self._registry.files else workers.count
        if count := min(len(self._left), count) if answers >= _FEW else 0:
            pool = self._pool = workers.pool(count, load_registry, self._registry.files)
            begun = [self._begin(pool) for _ in range(count)]
            self._driven = [self._threads.submit(self._drive, pool, *first) for first in begun]

    def finish(self) -> list[Problem]:
        """Write what is left and wait for the others; return what could not be read."""
        done = self._work_here()
        for driven in self._driven:
            done |= driven.result()
        problems: list[Problem] = []
        for place, runs in enumerate(self._groups):
            own = done.get(place) or self._write(runs, SiteFolder(self._site.path))
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

    def _begin(self, pool: Pool) -> tuple[int, Future[_Done]]:
        """Give the next group to the pool; raises IndexError where there is none."""
        place = self._left.popleft()
        # A record goes as JSON: unpickled, its defaults would not be known as such, and the hashes
        # by which judgements are found would be others.
        runs = self._groups[place]
        packed = [(r.path.absolute(), r.folder, msgspec.json.encode(r.record)) for r in runs]
        mark = fingerprint(runs, "") if workers_for().is_ray else ""
        return place, pool.submit(_work, mark, self._results.absolute(), packed)

    def _drive(self, pool: Pool, place: int, begun: Future[_Done]) -> dict[int, _Done]:
        """Return what the pool has written, given one group at a time, until none is left or it breaks.

        Nothing that it holds is ever cancelled: where it breaks then, Python 3.11 loses the ends of others.
        """
        done: dict[int, _Done] = {}
        with suppress(IndexError, BrokenExecutor):
            while True:
                made, site = begun.result(), SiteFolder(self._site.path)
                for name, content in made.content.items():
                    site.put(name, content)
                done[place] = made._replace(files=site.files, written=site.written, content={})
                place, begun = self._begin(pool)
        return done

    def _work_here(self) -> dict[int, _Done]:
        """Return what this process has written of what no other has begun, from the end."""
        done: dict[int, _Done] = {}
        with suppress(IndexError):
            while True:
                place = self._left.pop()
                done[place] = self._write(self._groups[place], SiteFolder(self._site.path))
        return done


def _write(results: Path, registry: Registry, runs: Sequence[GradedRun], site: SiteFolder) -> _Done:
    protocol = registry.protocols.get(runs[0].record.spec.protocol)
    transcript = protocol.transcript if protocol else None
    pages, _ = usable(registry.pages.values())
    try:
        problems = write_runs(site, runs, results, pages, transcript)
    except MedhelmError as e:
        return _Done({}, 0, [], str(e))
    return _Done(dict(site.files), site.written, problems)


def _work(
    registry: Registry, mark: str, results: Path, packed: Sequence[tuple[Path, str, bytes]]
) -> _Done:
    """Return pages of runs; raises RecordError where they are not those of a `mark`, or cannot be read."""
    site = _Memory()
    decode = msgspec.json.Decoder(RunRecord).decode
    runs = [GradedRun(path, folder, decode(record)) for path, folder, record in packed]
    done = _write(results, registry, runs, site)
    if mark and (done.error or done.problems or mark != fingerprint(runs, "")):
        raise RecordError(f"{results} is not seen, or another one, on {os.uname().nodename}")
    return done._replace(content=site.content)
