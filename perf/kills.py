"""Kills run, episodes, judges, score and the build of a site with `kill -9` at random moments.

    python perf/kills.py [--times 20] [--seed 1] [--write]

After every kill the same command is started again; the last one is left to end. What it has made is
compared with what a command makes that nobody kills. `--write` puts the figures into
docs/reliability.md.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT, measure_reliability

from medhelm.store.records import find_gradings, read_record
from tests.benchmarks.encounters.players import TURNS, reply
from tests.juries import ESSAY, house_jury, rated
from tests.protocols.interview import options, play
from tests.quiz import PLUGIN, arguments, command, environment, medhelm, write_quiz
from tests.server import FaultServer, serve_in_thread

STAGE = ROOT / "tests" / "benchmarks" / "encounters" / "stage_plugin.py"
QUIZ = 2000
CASES = 40
IN_FLIGHT = 8
Argv = Sequence[str | Path]


def kill_at(argv: Argv, server: FaultServer, target: int) -> bool:
    """Kill a command when so many requests have come; return whether it was still at work."""
    process = _start(argv)
    while server.requests < target and process.poll() is None:
        time.sleep(0.001)
    return _kill(process)


def kill_after(argv: Argv, seconds: float) -> bool:
    """Kill a command after a time; return whether it was still at work."""
    process = _start(argv)
    time.sleep(seconds)
    return _kill(process)


def _start(argv: Argv) -> subprocess.Popen[bytes]:
    silent = subprocess.DEVNULL
    return subprocess.Popen(command(*argv), stdout=silent, stderr=silent, env=environment())


def _kill(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def finish(argv: Argv) -> float:
    """Run a command to its end and return the seconds that it took."""
    started = time.monotonic()
    medhelm(*argv)
    return time.monotonic() - started


def results_of(results: Path) -> list[Any]:
    """Return what summaries say of scores, outcomes and judges, and the rows of the scores."""
    import pyarrow.parquet as pq

    found = []
    for grading in find_gradings(results):
        record = read_record(grading)
        rows = pq.read_table(grading / "scores.parquet").to_pylist()
        rows.sort(key=lambda r: (r["instance_id"], r["repeat"], r["metric"]))
        ended = [(j.model.name, j.ends) for j in record.graders]
        found.append((record.results, ended, rows))
    return found


def left_behind(folder: Path) -> int:
    """Return the number of temporary files below a folder."""
    return sum(path.name.endswith(".tmp") for path in folder.rglob(".*"))


def kill_asking(
    what: str,
    folder: Path,
    times: int,
    rng: random.Random,
    argv_of: Callable[[Path, FaultServer], Argv],
    *,
    latency_s: float,
    in_flight: int = IN_FLIGHT,
    **served: Any,
) -> Sequence[object]:
    """Kill a command while it asks a server; whatever was in flight may be asked again."""
    clean, killed = folder / "clean", folder / "killed"
    with serve_in_thread(**served) as server:
        finish(argv_of(clean, server))
        whole = server.requests
    with serve_in_thread(**served, latency_s=latency_s) as server:
        argv, step = argv_of(killed, server), max(2, whole * 8 // 10 // times)
        kills = sum(
            kill_at(argv, server, server.requests + rng.randint(step // 2, step))
            for _ in range(times)
        )
        finish(argv)
        again = server.requests - whole
    lost = max(0, again - kills * in_flight) + left_behind(killed)
    lost += results_of(killed / "results") != results_of(clean / "results")
    return what, kills, whole, f"{again:,} ({kills * in_flight:,})", lost


def kill_runs(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run while it asks."""

    def asked(where: Path, server: FaultServer) -> Argv:
        write_quiz(where, QUIZ)
        return arguments(where, server.base_url, model__max_concurrency=IN_FLIGHT)

    return kill_asking("run, while it asks", folder, times, rng, asked, latency_s=0.01)


def kill_episodes(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run of episodes in which three roles talk, all at one endpoint, best of three answers."""
    settings = {"model__strategy": "best_of_3", "repeats": 10, "model__max_concurrency": IN_FLIGHT}

    def talked(where: Path, server: FaultServer) -> Argv:
        return options(server, where, **settings)

    what = "run, inside episodes of three roles"
    return kill_asking(what, folder, min(times, 10), rng, talked, latency_s=0.01, answer=play)


def kill_encounters(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run of encounters of six turns at ten moments or fewer, inside of them."""

    def played(where: Path, server: FaultServer) -> Argv:
        data = where / "data" / "stage"
        data.mkdir(parents=True)
        data.joinpath("stage.jsonl").write_text(
            "".join(f"{json.dumps({'number': n})}\n" for n in range(CASES))
        )
        roles = {"model": "clinician", "cast.patient": "patient", "cast.controller": "controller"}
        given = [f"{key}=openai/{name}" for key, name in roles.items()]
        given += [f"{key}.base_url={server.base_url}" for key in roles]
        given += ["benchmark=stage", "jury=offline", f"model.max_concurrency={IN_FLIGHT}"]
        given += [f"data_dir={where / 'data'}", f"results_dir={where / 'results'}"]
        return ("run", *given, f"plugins=[{STAGE}]")

    what = "run of encounters, inside of them"
    row = kill_asking(what, folder, min(times, 10), rng, played, latency_s=0.02, by_body=reply)
    if row[2] != CASES * 3 * TURNS:
        raise SystemExit(f"an unbroken run sent {row[2]} calls and not {CASES * 3 * TURNS}")
    return row


def kill_judges(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run while its three judges are asked."""

    def judged(where: Path, server: FaultServer) -> Argv:
        house = house_jury(where, server.base_url, *"abc", max_concurrency=2)
        essay = ("model=baseline/lead", "benchmark=essay", "data=sample")
        return ("run", *essay, f"plugins=[{ESSAY}]", f"results_dir={where / 'results'}", *house)

    what, says = "run, while judges are asked", rated(2, "Sound.")
    times = min(times, 10)
    return kill_asking(
        what, folder, times, rng, judged, latency_s=0.1, in_flight=6, answer=lambda _: says
    )


def kill_scores(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill `score`; whatever it leaves, the tables stay right."""
    write_quiz(folder, QUIZ)
    results = folder / "results"
    where = (f"plugins=[{PLUGIN}]", f"data_dir={folder / 'data'}", f"results_dir={results}")
    finish(("run", "model=baseline/random", "benchmark=quiz", "data=full", *where))
    before = results_of(results)
    argv = ("score", "--results-dir", results, "--plugin", PLUGIN)
    whole = finish(argv)
    kills = lost = tries = 0
    while kills < times and (tries := tries + 1) <= 3 * times:  # some end before they are killed
        kills += kill_after(argv, rng.uniform(0.3, 0.9) * whole)
        lost += results_of(results) != before
    finish(argv)
    lost += (results_of(results) != before) + left_behind(folder)
    return "score", kills, "", "", lost


def kill_builds(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill the build of a site; the next one makes the site that an unbroken one makes."""
    write_quiz(folder, QUIZ)
    results = folder / "results"
    where = (f"plugins=[{PLUGIN}]", f"data_dir={folder / 'data'}", f"results_dir={results}")
    for model in ("random", "majority", "oracle"):
        finish(("run", f"model=baseline/{model}", "benchmark=quiz", "data=full", *where))
    whole = finish(_build(results, folder / "clean"))
    kills = lost = tries = 0
    while kills < times and (tries := tries + 1) <= 3 * times:
        kills += kill_after(_build(results, folder / "site"), rng.uniform(0.3, 0.9) * whole)
        if rng.random() < 0.3:
            finish(_build(results, folder / "site"))
            lost += _pages(folder / "site") != _pages(folder / "clean")
            shutil.rmtree(folder / "site")
    finish(_build(results, folder / "site"))
    lost += (_pages(folder / "site") != _pages(folder / "clean")) + left_behind(folder)
    return "leaderboard build", kills, "", "", lost


def _build(results: Path, site: Path) -> Argv:
    return ("leaderboard", "build", "--results-dir", results, "--out", site)


def _pages(site: Path) -> dict[str, Any]:
    """Return the files of a site with their hashes, but for the page that says when it was built."""
    build = json.loads((site / "build.json").read_text())
    there = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    if there - {"build.json"} != set(build["files"]):
        return {"files": sorted(there)}
    return {name: d for name, d in build["files"].items() if name != "data/site.js"}


def measure(times: int, seed: int) -> Iterator[Sequence[object]]:
    """Yield the rows of the table, of so many kills of each command."""
    rng = random.Random(seed)
    for part in (kill_runs, kill_episodes, kill_encounters, kill_judges, kill_scores, kill_builds):
        with tempfile.TemporaryDirectory() as name:
            yield part(Path(name), times, rng)


if __name__ == "__main__":
    measure_reliability(__doc__, "kills", measure, 20)
