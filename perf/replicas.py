"""Kills one of three servers of a run with `kill -9` at random moments, as rows of a Markdown table.

    python perf/replicas.py [--times 10] [--seed 1] [--write]

A run starts three stand-in servers (`model.replicas=3`). Killed is a server, then the process that watches it.
Where the run ends with an error, as while servers load, the same command goes on. Results are compared with those
of a run that nobody disturbs. `--write` puts the figures into docs/reliability.md.
"""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from kills import results_of
from measuring import ROOT, measure_reliability

from medhelm.store.records import find_runs
from medhelm.store.runlog import read_log
from tests.quiz import arguments, command, environment, write_quiz

SERVER = ROOT / "tests" / "models" / "served_model.py"
CALLS, LATENCY_S, IN_FLIGHT, REPLICAS = 600, 0.1, 4, 3
END_S = 15.0
"""The longest that a server may be left after the end."""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run whose servers note their processes in its folder."""
    words = (sys.executable, SERVER, "{model}", "--port", "{port}", "--note", folder / "note")
    serve = shlex.join(map(str, (*words, "--latency", LATENCY_S, "--answer", "A|B|C|D")))
    given = {"model__replicas": REPLICAS, "model__max_concurrency": IN_FLIGHT}
    argv = arguments(folder, "", model__serve=serve, model__endpoint_class="local", **given)
    silent = subprocess.DEVNULL
    run = command(*(word for word in argv if not word.startswith("model.base_url")))
    return subprocess.Popen(run, stdout=silent, stderr=silent, env=environment())


def servers(folder: Path) -> list[psutil.Process]:
    """Return the servers, with a child each, that are alive of all that were ever started for a folder."""
    note, found = folder / "note", []
    for line in note.read_text().splitlines() if note.exists() else ():
        for pid in line.split()[:2]:
            with suppress(psutil.Error):
                process = psutil.Process(int(pid))
                found += [process] * (process.status() != psutil.STATUS_ZOMBIE)
    return found


def disturbed(folder: Path, whole_s: float, rng: random.Random, is_watcher: bool) -> int:
    """Kill a server, or what watches it, once all are there; return how often the command was started again."""
    process = start(folder)
    while len(servers(folder)) < 2 * REPLICAS and process.poll() is None:
        time.sleep(0.01)
    time.sleep(rng.uniform(0.0, whole_s))
    with suppress(psutil.Error, IndexError):  # it has ended already
        victim = servers(folder)[2 * rng.randrange(REPLICAS)]
        watcher = victim.parent()
        if not is_watcher:
            victim.kill()
        elif watcher is not None and any("server_watcher" in word for word in watcher.cmdline()):
            watcher.kill()
    again = 0
    while process.wait():
        if again == 3:
            raise SystemExit("the same command does not go on")
        process, again = start(folder), again + 1
    return again


def left(folder: Path) -> int:
    """Return how many processes of servers are alive some seconds after the end, and end them."""
    until = time.monotonic() + END_S
    while (alive := servers(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    for process in alive:
        process.kill()
    return len(alive)


def measure(times: int, seed: int) -> Iterator[Sequence[object]]:
    """Yield the rows of the table, of so many moments for a server, and as many for what watches it."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        clean = Path(name) / "clean"
        write_quiz(clean, CALLS)
        process = start(clean)
        while len(servers(clean)) < 2 * REPLICAS:
            time.sleep(0.01)
        began = time.monotonic()
        assert process.wait() == 0
        whole_s = time.monotonic() - began
        for what in ("a server", "the process that watches it"):
            started = twice = differ = orphans = 0
            for n in range(times):
                folder = Path(name) / f"{what[0]}{n}"
                write_quiz(folder, CALLS)
                started += disturbed(folder, whole_s, rng, what != "a server")
                (run,) = find_runs(folder / "results")
                twice += len([*read_log(run)]) - CALLS
                differ += results_of(folder / "results") != results_of(clean / "results")
                orphans += left(folder)
            yield what, times, started, twice, differ, orphans


if __name__ == "__main__":
    measure_reliability(__doc__, "replicas", measure, 10)
