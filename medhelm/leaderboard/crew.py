"""Run pages of many benchmarks, written by other processes while this one computes tables.

A worker is `python -m medhelm.leaderboard.crew`: one JSON task a line in, one JSON answer a line
out. Small sites need none.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

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
    """Writes run pages in the background: `start` hands out tasks, `finish` waits for them."""

    def __init__(self, site: SiteFolder, results: Path) -> None:
        self._site, self._results = site, results
        self._pool: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._asked: list[Future[Done]] = []

    def start(self, groups: Sequence[Sequence[GradedRun]]) -> None:
        """Begin to write the pages of these benchmarks."""
        answers = sum(r.record.instances * r.record.spec.repeats for g in groups for r in g)
        count = 1 if answers < _FEW else max(1, min(len(groups), (os.cpu_count() or 2) - 1))
        self._pool = ThreadPoolExecutor(count)
        if answers >= _FEW:
            for _ in range(count):
                worker = subprocess.Popen(
                    [sys.executable, "-m", "medhelm.leaderboard.crew"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
                self._workers.append(worker)
                self._idle.put(worker)
        work = self._ask if self._workers else _work
        self._asked = [self._pool.submit(work, self._task(group)) for group in groups]

    def finish(self) -> list[Problem]:
        """Wait until all is written; return what could not be read. Raises MedhelmError."""
        problems: list[Problem] = []
        for asked in self._asked:
            done = asked.result()
            if done.error:
                raise MedhelmError(done.error)
            self._site.add(done.files, done.written)
            problems += done.problems
        return problems

    def close(self) -> None:
        """Stop all workers."""
        for asked in self._asked:
            asked.cancel()
        for worker in self._workers:
            worker.kill()
            worker.wait()
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.close()
            worker.stdout.close()
        if self._pool is not None:
            self._pool.shutdown()

    def _task(self, runs: Sequence[GradedRun]) -> Task:
        before = self._site.before.files if self._site.before else {}
        return Task(
            site=str(self._site.path),
            results=str(self._results),
            runs=tuple((str(r.path), r.folder) for r in runs),
            known=before,
        )

    def _ask(self, task: Task) -> Done:
        worker = self._idle.get()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            worker.stdin.write(msgspec.json.encode(task) + b"\n")
            worker.stdin.flush()
            answer = worker.stdout.readline()
        except (BrokenPipeError, ValueError):
            answer = b""
        self._idle.put(worker)
        if not answer:
            stopped = "a process that writes run pages has ended; start the same command again"
            return Done(files={}, written=0, problems=(), error=stopped)
        return msgspec.json.decode(answer, type=Done)


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
