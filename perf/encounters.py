"""Encounters at size: memory, growth of the log, tables, and throughput beside a bare aiohttp loop.

    python perf/encounters.py [--cases 1000] [--turns 12] [--paced 300] [--rounds 3]

A server in a process of its own plays every role with fixed replies, so that each encounter goes on
to its cap. Each run is a process of its own. Throughput is measured by the server, from the first
request to the last answer, so that start, grading and tables take no part. Runs of `--paced` cases
and a bare loop take turns, and the best round of each counts. The bare loop sends the bodies that
the run has logged: the same messages, for the same roles, as often.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from measuring import ROOT, FixedServer, bare, completion, http, parser, serve, server_process

PLUGIN = ROOT / "tests" / "benchmarks" / "encounters" / "stage_plugin.py"
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "x"}
SAID = {
    "clinician": {"speak": "How long has she been ill?", "actions": ["vital signs"], "eos": False},
    "patient": {"speak": ["Mother: Since last night."], "actors_present": {"Mother": "named"}},
    "controller": {
        "feedback": ["Heart rate 160 per minute."],
        "events": [],
        "actors_present": {},
        "action_assessments": [],
        "patient_status": "Crying.",
        "progress_index": 0,
        "state_label": "arrival",
        "should_end": False,
        "completion_reason": "",
    },
}
RUN = """
import resource, sys, time
from medhelm import ModelSpec, evaluate
base, folder, results, plugin, turns = sys.argv[1:]
def model(name):
    return ModelSpec(name=f"openai/{name}", model=name, base_url=base, max_concurrency=100)
started = time.perf_counter()
evaluate(model("clinician"), "stage", data_dir=folder, results_dir=results,
    cast={r: model(r) for r in ("patient", "controller")}, protocol={"turns": int(turns)},
    jury="offline", plugins=plugin)
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


@dataclass
class Window:
    """The requests that a server has answered since it was last asked for them."""

    first: float = 0.0
    last: float = 0.0
    count: int = 0

    def add(self) -> None:
        """Count one more."""
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.count += 1

    def take(self) -> bytes:
        """Return count and seconds as a response, and begin again."""
        found = json.dumps([self.count, self.last - self.first])
        self.first, self.last, self.count = 0.0, 0.0, 0
        return http(found.encode())


def role_server() -> Callable[[], FixedServer]:
    """Return servers that answer each request as the role that its model is named after."""
    window = Window()
    replies = {
        role: http(json.dumps(completion(json.dumps(said), 900, 30)).encode())
        for role, said in SAID.items()
    }

    def reply(head: bytes, body: bytes) -> bytes:
        if head.startswith(b"get"):
            return window.take()
        window.add()
        role = next(r for r in SAID if f'"{r}"'.encode() in body[:200] + body[-200:])
        return replies[role]

    return lambda: FixedServer(reply)


def calls_per_second(base: str) -> float:
    """Return the rate of what the server has answered since the last time."""
    with urllib.request.urlopen(f"{base}/window") as answer:
        count, seconds = json.load(answer)
    return float(count / seconds)


def stored_bodies(results: Path) -> list[dict[str, Any]]:
    """Return the bodies of the calls that a run has logged."""
    from medhelm.store import records, runlog

    (run,) = records.find_runs(results)
    return [
        {
            "model": call.role,
            "messages": [{"role": m.role, "content": m.content} for m in call.messages],
            "max_tokens": 300,
            "temperature": 0.0,
            "seed": 0,
        }
        for episode in runlog.read_episodes(run, records.read_plan(run))
        for call in episode.calls
    ]


def write_cases(folder: Path, cases: int) -> None:
    """Write the table of so many cases into a data folder."""
    (folder / "stage").mkdir(parents=True)
    lines = "".join(f"{json.dumps({'number': n})}\n" for n in range(cases))
    (folder / "stage" / "stage.jsonl").write_text(lines)


def run(base: str, folder: Path, results: Path, turns: int) -> tuple[float, float]:
    """Run the cases of a data folder; return the seconds of the process and its MiB."""
    command = [sys.executable, "-c", RUN, base, str(folder), str(results), str(PLUGIN), str(turns)]
    done = subprocess.run(command, env=ENV, check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split()[-2:])
    return seconds, megabytes


def pace(base: str, folder: Path, cases: int, turns: int, rounds: int) -> str:
    """Return the row of throughput while sending."""
    write_cases(folder, cases)
    ours, alone = [], []
    bodies: list[dict[str, Any]] = []
    for round_ in range(rounds):
        results = folder / f"results-{round_}"
        run(base, folder, results, turns)
        ours.append(calls_per_second(base))
        bodies = bodies or stored_bodies(results)
        asyncio.run(bare(base, bodies))
        alone.append(calls_per_second(base))
    best, other = max(ours), max(alone)
    return (
        f"| {len(bodies):,} calls of {cases:,} encounters of {turns} turns, while sending | "
        f"40 % of a bare loop | {best / other:.0%} ({best:.0f} of {other:.0f} calls/s) |"
    )


def size(base: str, folder: Path, cases: int, turns: int) -> Iterator[str]:
    """Yield the rows of memory, log, table."""
    write_cases(folder, cases)
    found = {}
    for most in (turns // 2, turns):
        seconds, megabytes = run(base, folder, folder / f"results-{most}", most)
        log = next((folder / f"results-{most}").glob("runs/*/*/*/responses.jsonl"))
        found[most] = seconds, megabytes, log.stat().st_size
    (_, _, half), (seconds, megabytes, whole) = found.values()
    what = f"{cases:,} encounters of {turns} turns"
    started = time.perf_counter()
    command = [sys.executable, "-m", "medhelm", "tables", "--table", "encounters", "--plugin"]
    command += [str(PLUGIN), "--results-dir", str(folder / f"results-{turns}")]
    subprocess.run(command, env=ENV, check=True, capture_output=True)
    tables = time.perf_counter() - started
    opened = open_page(folder, folder / f"results-{turns}", turns)
    yield f"| {what}: memory of the process | 300 MiB | {megabytes:.0f} MiB |"
    yield f"| {what}: log, beside half the turns | 2.2 x | {whole / half:.2f} x |"
    yield f"| {what}: the table of encounters | 10 s | {tables:.1f} s |"
    yield f"| {what}: the page of one opens | 1 s | {opened} |"
    yield f"| {what}: the whole run | | {seconds:.0f} s |"


def open_page(folder: Path, results: Path, turns: int) -> str:
    """Return the seconds until an encounter is shown by a browser that has nothing of the site yet."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if chromium is None or find_spec("playwright") is None:
        return "not measured: no Chromium"
    from playwright.sync_api import sync_playwright

    build = [sys.executable, "-m", "medhelm", "leaderboard", "build", "--plugin", str(PLUGIN)]
    build += ["--results-dir", str(results), "--out", str(folder / "site")]
    subprocess.run(build, env=ENV, check=True, capture_output=True)
    address = (folder / "site" / "index.html").as_uri()
    seconds = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for number in range(5):
            page = browser.new_context().new_page()
            started = time.perf_counter()
            case = f"art{number}%2Fscenario0"
            page.goto(
                f"{address}#/run/stage/openai%2Fclinician?instance={case}", wait_until="commit"
            )
            page.locator("ol.encounter-turns > li").nth(turns - 1).wait_for(state="attached")
            seconds.append(time.perf_counter() - started)
        browser.close()
    return f"{median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def main() -> None:
    """Print the rows of the table."""
    asked = parser(__doc__, cases=1000, turns=12, paced=300, rounds=3).parse_args()
    if asked.serve:
        asyncio.run(serve(role_server()))
    with server_process(__file__) as base, tempfile.TemporaryDirectory() as name:
        print(pace(base, Path(name) / "paced", asked.paced, asked.turns, asked.rounds))
        if asked.cases:
            for row in size(base, Path(name) / "size", asked.cases, asked.turns):
                print(row)


if __name__ == "__main__":
    main()
