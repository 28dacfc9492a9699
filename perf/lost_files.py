"""Deletes, moves, cuts and replaces the files of a run that goes on, and lets its disk fill up.

    python perf/lost_files.py [--times 5] [--seed 1] [--write]

Each time a run of 400 requests against a server on loopback meets the fault at a random moment.
Then what can be put back is put back, and the same command is started again. `--write` puts the
figures into docs/reliability.md.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from measuring import measure_reliability

from tests.quiz import arguments, command, environment, scores_of, write_quiz
from tests.server import FaultServer, serve_in_thread

REQUESTS = 400
Fault = Callable[[Path], None]


def _replace(log: Path) -> None:
    content = log.read_bytes()
    log.unlink()
    log.write_bytes(content)


def _cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size * 2 // 3)


FAULTS: dict[str, Fault] = {
    "the log deleted": Path.unlink,
    "the log cut": _cut,
    "the log replaced by a copy": _replace,
    "the lock deleted": lambda log: log.with_name("lock").unlink(),
    "the run's folder moved away": lambda log: _move(log.parent),
    "the results folder deleted": lambda log: shutil.rmtree(log.parents[4]),
}


def _move(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}.moved"))


def start(folder: Path, server: FaultServer, before: str = "") -> subprocess.Popen[str]:
    """Start the run as a user does, behind a shell command where one is given."""
    argv = command(*arguments(folder, server.base_url, model__max_concurrency=8))
    whole = ["bash", "-c", f"{before} exec {shlex.join(argv)}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(whole, stdout=pipe, stderr=pipe, text=True, env=environment())


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command and return its exit code and errors."""
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


def try_fault(folder: Path, fault: Fault, at: int) -> tuple[bool, bool, int]:
    """Return whether a fault was noticed, whether the run went on, and answers lost in silence."""
    write_quiz(folder, REQUESTS)
    with serve_in_thread(latency_s=0.05) as server:
        process = start(folder, server)
        while server.requests < at and process.poll() is None:
            time.sleep(0.005)
        (run,) = (folder / "results" / "runs").glob("*/*/*")
        fault(run / "responses.jsonl")
        code, errors = finish(process)
        is_noticed = code == 4 and "Traceback" not in errors
        lost = REQUESTS - _stored(folder) if code == 0 else 0
        if (moved := run.with_name(f"{run.name}.moved")).exists():
            moved.rename(run)
        server.latency_s = 0.0
        again, _ = finish(start(folder, server))
    return is_noticed, again == 0 and _is_right(folder), lost


def try_full_disk(folder: Path, kilobytes: int) -> tuple[bool, bool, int]:
    """Return the same for files that may not grow beyond a size."""
    write_quiz(folder, REQUESTS)
    with serve_in_thread() as server:
        code, errors = finish(start(folder, server, f"ulimit -f {kilobytes};"))
        is_noticed = code == 4 and "Traceback" not in errors and "cannot write" in errors
        lost = REQUESTS - _stored(folder) if code == 0 else 0
        before = server.requests
        again, _ = finish(start(folder, server))
        is_right = again == 0 and _is_right(folder) and server.requests - before <= REQUESTS
    return is_noticed, is_right, lost


def _stored(folder: Path) -> int:
    logs = (folder / "results" / "runs").glob("*/*/*/responses.jsonl")
    return sum(log.read_bytes().count(b"\n") for log in logs)


@cache
def _unbroken() -> list[dict[str, Any]]:
    """Return the scores of a run that nothing happens to."""
    with tempfile.TemporaryDirectory() as name, serve_in_thread() as server:
        write_quiz(Path(name), REQUESTS)
        if finish(start(Path(name), server))[0] != 0:
            raise SystemExit("the unbroken run failed")
        return scores_of(Path(name))


def _is_right(folder: Path) -> bool:
    """Return whether the scores are those of an unbroken run, and no answer is there twice."""
    return scores_of(folder) == _unbroken() and _stored(folder) == REQUESTS


def measure(times: int, seed: int) -> list[Sequence[object]]:
    """Return the rows of the table, of so many of each fault."""
    rng = random.Random(seed)
    rows: list[Sequence[object]] = []
    for what, fault in FAULTS.items():
        ends = [_in_folder(try_fault, fault, rng.randrange(30, 250)) for _ in range(times)]
        rows.append((what, times, *(sum(column) for column in zip(*ends, strict=True))))
    sizes = [rng.randrange(1, 150) for _ in range(times)]
    full = [_in_folder(try_full_disk, size) for size in sizes]
    rows.append(
        ("no file may grow beyond 1 to 150 kB", times, *(sum(c) for c in zip(*full, strict=True)))
    )
    return rows


def _in_folder(work: Callable[..., tuple[bool, bool, int]], *given: object) -> tuple[int, int, int]:
    with tempfile.TemporaryDirectory() as name:
        noticed, went_on, lost = work(Path(name), *given)
    return int(noticed), int(went_on), lost


if __name__ == "__main__":
    measure_reliability(__doc__, "lost files", measure, 5)
