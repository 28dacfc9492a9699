"""Run pages of many benchmarks, written by other processes while this one computes tables.

A worker runs `work`: one JSON task a line in, one JSON answer a line out. Small sites need none, and
what a worker leaves undone this process does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import msgspec

from medhelm.errors import MedhelmError
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.run import RunRecord
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import usable
from medhelm_leaderboard.run_pages import write_runs

_FEW = 20_000
"""Answers below which starting a process takes longer than what it does."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one benchmark under one scoring."""

    site: str
    results: str
    runs: tuple[tuple[str, str, RunRecord], ...]
    """(grading folder, its path below the results folder, its record as it is published)."""
    plugins: tuple[str, ...]
    """Plugin files that the user named; those that are installed are found again."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the outcome of a task."""

    files: dict[str, str]
    written: int
    problems: tuple[Problem, ...]
    error: str = ""
    """Gives the reason why nothing could be written."""


class WorkerPool:
    """Writes run pages in the background: `start` hands out tasks, `finish` lends a hand."""

    def __init__(self, site: SiteFolder, results: Path, registry: Registry) -> None:
        self._site, self._results, self._registry = site, results, registry
        self._tasks: SimpleQueue[tuple[int, Task]] = SimpleQueue()
        self._done: dict[int, Done] = {}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._threads: list[Thread] = []

    def start(self, groups: Sequence[Sequence[GradedRun]]) -> None:
        """Begin to write the pages of these benchmarks, each with its runs under one scoring."""
        for place, runs in enumerate(groups):
            self._tasks.put((place, self._task(runs)))
        answers = sum(r.record.instances * r.record.spec.repeats for g in groups for r in g)
        count = min(len(groups), (os.cpu_count() or 2) - 1) if answers >= _FEW else 0
        for _ in range(count):
            try:
                worker = self._hire()
            except OSError:  # no memory or no process to spare
                break
            self._workers.append(worker)
            self._threads.append(Thread(target=self._feed, args=(worker,), daemon=True))
            self._threads[-1].start()

    def finish(self) -> list[Problem]:
        """Write what is left and wait for the others; return what could not be read.

        Raises MedhelmError where something could not be written.
        """
        self._work_here()
        for thread in self._threads:
            thread.join()
        self._work_here()  # what a worker that was killed has left
        for _, done in sorted(self._done.items()):
            if done.error:
                raise MedhelmError(done.error)
            self._site.add(done.files, done.written)
        return [problem for _, done in sorted(self._done.items()) for problem in done.problems]

    def close(self) -> None:
        """Stop all workers."""
        while self._next() is not None:
            continue
        for worker in self._workers:
            worker.kill()
            worker.wait()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            assert worker.stdin is not None and worker.stdout is not None
            with suppress(BrokenPipeError):
                worker.stdin.close()
            worker.stdout.close()

    def _hire(self) -> subprocess.Popen[bytes]:
        """Start a worker that imports what this process would. The site stays locked while it lives."""
        paths = os.pathsep.join(os.path.abspath(p) for p in sys.path)
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-c",
                "from medhelm_leaderboard.worker_pool import work; work()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": paths},
            pass_fds=self._site.locks,
            start_new_session=True,  # Ctrl-C is for the command, which ends this one itself
        )

    def _work_here(self) -> None:
        while (task := self._next()) is not None:
            self._done[task[0]] = _work(task[1], self._registry)

    def _task(self, runs: Sequence[GradedRun]) -> Task:
        return Task(
            site=str(self._site.path),
            results=str(self._results),
            runs=tuple((str(r.path), r.folder, r.record) for r in runs),
            plugins=self._registry.files,
        )

    def _next(self) -> tuple[int, Task] | None:
        try:
            return self._tasks.get_nowait()
        except Empty:
            return None

    def _feed(self, worker: subprocess.Popen[bytes]) -> None:
        """Give one worker a task after the other."""
        assert worker.stdin is not None and worker.stdout is not None
        while (task := self._next()) is not None:
            answer = b""
            with suppress(OSError, ValueError):
                worker.stdin.write(msgspec.json.encode(task[1]) + b"\n")
                worker.stdin.flush()
                answer = worker.stdout.readline()
            if not answer.endswith(b"\n"):  # it was killed
                self._tasks.put(task)
                return
            self._done[task[0]] = msgspec.json.decode(answer, type=Done)


def _work(task: Task, registry: Registry) -> Done:
    site = SiteFolder(Path(task.site))
    runs = [GradedRun(Path(path), folder, record) for path, folder, record in task.runs]
    protocol = registry.protocols.get(runs[0].record.spec.protocol)
    problems = write_runs(
        site,
        runs,
        Path(task.results),
        usable(registry.pages.values())[0],
        protocol.transcript if protocol else None,
    )
    return Done(files=dict(site.files), written=site.written, problems=tuple(problems))


def work() -> None:
    """Do tasks until there are no more."""
    registry = None
    for line in sys.stdin.buffer:
        task = msgspec.json.decode(line, type=Task)
        try:
            registry = registry or load_registry(task.plugins)
            done = _work(task, registry)
        except MedhelmError as e:
            done = Done(files={}, written=0, problems=(), error=str(e))
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()
