"""Run pages of many benchmarks, written by other processes while this one computes tables.

A worker is `python -m medhelm.leaderboard.crew`: one JSON task a line in, one JSON answer a line
out. Small sites need none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import msgspec

from medhelm.errors import MedhelmError
from medhelm.leaderboard.files import SiteFolder
from medhelm.leaderboard.pages import Problem
from medhelm.leaderboard.run_pages import write_runs
from medhelm.records import read_record
from medhelm.tables.selection import GradedRun

_FEW = 20_000
"""Answers below which starting a process takes longer than what it does."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one benchmark under one scoring."""

    site: str
    results: str
    runs: tuple[tuple[str, str], ...]
    """(grading folder, its path below the results folder)."""
    known: dict[str, str]
    """Files of the build that stands there, by path; those of this benchmark."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task."""

    files: dict[str, str]
    written: int
    problems: tuple[Problem, ...]
    error: str = ""
    """Why nothing could be written."""


class Crew:
    """Writes run pages in the background: `start` hands out tasks, `finish` lends a hand."""

    def __init__(self, site: SiteFolder, results: Path) -> None:
        self._site, self._results = site, results
        self._tasks: SimpleQueue[tuple[str, Task]] = SimpleQueue()
        self._done: dict[str, Done] = {}
        self._workers: list[subprocess.Popen[bytes]] = []
        self._threads: list[Thread] = []

    def start(self, groups: Mapping[str, Sequence[GradedRun]]) -> None:
        """Begin to write the pages of these benchmarks, by the names of their groups."""
        for name, runs in groups.items():
            self._tasks.put((name, self._task(runs)))
        answers = sum(
            r.record.instances * r.record.spec.repeats for g in groups.values() for r in g
        )
        count = min(len(groups), (os.cpu_count() or 2) - 1) if answers >= _FEW else 0
        for _ in range(count):
            worker = subprocess.Popen(
                [sys.executable, "-m", "medhelm.leaderboard.crew"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._workers.append(worker)
            self._threads.append(Thread(target=self._feed, args=(worker,), daemon=True))
            self._threads[-1].start()

    def finish(self) -> dict[str, tuple[Problem, ...]]:
        """Write what is left and wait for the others; return what could not be read, by group.

        Raises MedhelmError where something could not be written.
        """
        while (task := self._next()) is not None:
            self._done[task[0]] = _work(task[1])
        for thread in self._threads:
            thread.join()
        for done in self._done.values():
            if done.error:
                raise MedhelmError(done.error)
            self._site.add(done.files, done.written)
        return {name: done.problems for name, done in self._done.items()}

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

    def _task(self, runs: Sequence[GradedRun]) -> Task:
        return Task(
            site=str(self._site.path),
            results=str(self._results),
            runs=tuple((str(r.path), r.folder) for r in runs),
            known=self._site.before.files if self._site.before else {},
        )

    def _next(self) -> tuple[str, Task] | None:
        try:
            return self._tasks.get_nowait()
        except Empty:
            return None

    def _feed(self, worker: subprocess.Popen[bytes]) -> None:
        """Give one worker a task after the other."""
        assert worker.stdin is not None and worker.stdout is not None
        while (task := self._next()) is not None:
            answer = b""
            with suppress(BrokenPipeError, ValueError):
                worker.stdin.write(msgspec.json.encode(task[1]) + b"\n")
                worker.stdin.flush()
                answer = worker.stdout.readline()
            if not answer:
                stopped = "a process that writes run pages has ended; start the same command again"
                self._done[task[0]] = Done(files={}, written=0, problems=(), error=stopped)
                return
            self._done[task[0]] = msgspec.json.decode(answer, type=Done)


def _work(task: Task) -> Done:
    site = SiteFolder(Path(task.site))
    site.know(task.known)
    runs = [GradedRun(Path(p), folder, read_record(Path(p))) for p, folder in task.runs]
    problems = write_runs(site, runs, Path(task.results))
    return Done(files=dict(site.files), written=site.written, problems=tuple(problems))


def main() -> None:
    """Do tasks until there are no more."""
    for line in sys.stdin.buffer:
        try:
            done = _work(msgspec.json.decode(line, type=Task))
        except MedhelmError as e:
            done = Done(files={}, written=0, problems=(), error=str(e))
        sys.stdout.buffer.write(msgspec.json.encode(done) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # the process that started this one says so
        sys.exit(130)
