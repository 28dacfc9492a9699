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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT, measure_reliability

from medhelm.store.records import find_gradings, read_record
from tests.benchmarks.encounters.players import TURNS, reply
from tests.protocols.interview import options, play
from tests.quiz import PLUGIN, arguments, command, environment, medhelm, write_quiz
from tests.server import FaultServer, serve_in_thread

ESSAY = ROOT / "tests" / "plugins" / "essay.py"
VERDICT = {n: {"score": 4, "reason": "Sound."} for n in ("accuracy", "completeness", "clarity")}
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


def kill_runs(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run while it asks."""
    with serve_in_thread(latency_s=0.01) as server:
        clean, killed = folder / "clean", folder / "killed"
        for own in (clean, killed):
            write_quiz(own, QUIZ)
        argv = arguments(clean, server.base_url, model__max_concurrency=IN_FLIGHT)
        finish(argv)
    with serve_in_thread(latency_s=0.01) as server:
        argv = arguments(killed, server.base_url, model__max_concurrency=IN_FLIGHT)
        step = QUIZ * 8 // 10 // times
        kills = sum(
            kill_at(argv, server, server.requests + rng.randint(step // 2, step))
            for _ in range(times)
        )
        finish(argv)
        return _asked("run, while it asks", kills, server, killed, clean)


def kill_episodes(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run of episodes in which three roles talk, all at one endpoint, best of three answers."""
    settings = {"model__strategy": "best_of_3", "repeats": 10, "model__max_concurrency": IN_FLIGHT}
    with serve_in_thread(play) as server:
        finish(options(server, folder / "clean", **settings))
        whole = server.requests
    with serve_in_thread(play, latency_s=0.01) as server:
        argv = options(server, folder / "killed", **settings)
        times = min(times, 10)
        step = whole * 8 // 10 // times
        kills = sum(
            kill_at(argv, server, server.requests + rng.randint(step // 2, step))
            for _ in range(times)
        )
        finish(argv)
        killed, clean = _pair(folder)
        again = server.requests - whole
        lost = max(0, again - kills * IN_FLIGHT) + left_behind(killed)
        lost += results_of(killed / "results") != results_of(clean / "results")
        what = "run, inside episodes of three roles"
        return what, kills, whole, f"{again:,} ({kills * IN_FLIGHT:,})", lost


def kill_encounters(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run of encounters of six turns at ten moments or fewer, inside of them."""
    times = min(times, 10)
    calls = CASES * 3 * TURNS

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

    with serve_in_thread(by_body=reply) as server:
        finish(played(folder / "clean", server))
        if server.requests != calls:
            raise SystemExit(f"an unbroken run sent {server.requests} calls and not {calls}")
    with serve_in_thread(by_body=reply, latency_s=0.02) as server:
        argv = played(folder / "killed", server)
        step = calls * 8 // 10 // times
        kills = sum(
            kill_at(argv, server, server.requests + rng.randint(step // 2, step))
            for _ in range(times)
        )
        finish(argv)
        again = server.requests - calls
        lost = max(0, again - kills * IN_FLIGHT) + left_behind(folder / "killed")
        lost += results_of(folder / "killed/results") != results_of(folder / "clean/results")
        what = "run of encounters, inside of them"
        return what, kills, calls, f"{again:,} ({kills * IN_FLIGHT:,})", lost


def kill_judges(folder: Path, times: int, rng: random.Random) -> Sequence[object]:
    """Kill a run while its three judges are asked."""
    replies = {n: v | {"score": 2} for n, v in VERDICT.items()}

    def judged(where: Path, server: FaultServer) -> Argv:
        common = {"endpoint_class": "local", "max_concurrency": 2}
        judges = [
            {"name": f"j/{n}", "model": n, "base_url": server.base_url, **common} for n in "abc"
        ]
        jury = where / "conf" / "jury" / "house.yaml"
        jury.parent.mkdir(parents=True)
        jury.write_text(json.dumps({"name": "house", "judges": judges}))
        essay = ("model=baseline/lead", "benchmark=essay", "data=sample", "jury=house")
        files = (f"plugins=[{ESSAY}]", f"results_dir={where / 'results'}")
        return ("run", *essay, *files, "--config-dir", jury.parents[1])

    with serve_in_thread(lambda _: json.dumps(replies)) as server:
        finish(judged(folder / "clean", server))
    with serve_in_thread(lambda _: json.dumps(replies), latency_s=0.1) as server:
        argv = judged(folder / "killed", server)
        kills = 0
        for _ in range(min(times, 10)):
            kills += kill_at(argv, server, server.requests + rng.randint(1, 3))
        finish(argv)
        return _asked("run, while judges are asked", kills, server, *_pair(folder), in_flight=6)


def _pair(folder: Path) -> tuple[Path, Path]:
    return folder / "killed", folder / "clean"


def _asked(
    what: str,
    kills: int,
    server: FaultServer,
    killed: Path,
    clean: Path,
    in_flight: int = IN_FLIGHT,
) -> Sequence[object]:
    answers = sum(server.answered.values())
    again = server.requests - len(server.answered) * _asks_of_each(server)
    lost = max(0, again - kills * in_flight) + left_behind(killed)
    lost += results_of(killed / "results") != results_of(clean / "results")
    return what, kills, answers, f"{again:,} ({kills * in_flight:,})", lost


def _asks_of_each(server: FaultServer) -> int:
    """Return how often each prompt is asked in an unbroken run: by every judge that shares it."""
    return min(server.answered.values())


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
