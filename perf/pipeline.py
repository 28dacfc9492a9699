"""The whole program against a local server, as ratios in one run, printed as a Markdown table.

    python perf/pipeline.py [--big 100000]

Bare loops take turns with medhelm on the same requests, and the best of three rounds counts,
since other work on the machine only ever slows a round down. Absolute times depend on the
machine; the ratios carry over.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measuring import parser, print_row, server_process
from throughput import bare_loop

SERVER = str(Path(__file__).with_name("throughput.py"))
PLUGIN = """
from medhelm import Benchmark, FileDataset, Instance, SourceFile, hookimpl

def to_instance(row):
    return Instance(id=row["id"], context=row["context"], choices=("yes", "no"), references=("A",))

@hookimpl
def medhelm_benchmarks():
    return [Benchmark(name="load", subcategory="providing_clinical_knowledge_support",
        dataset=FileDataset(files=(SourceFile(name="load.jsonl"),)), to_instance=to_instance,
        metrics=["exact_match"], instruction="Answer.", max_output_tokens=16)]
"""
NOTE = "A 65-year-old man comes to the clinic because of three weeks of shortness of breath. " * 4


def write_data(folder: Path, n: int) -> None:
    """Write a benchmark of n instances and its plugin."""
    path = folder / "data" / "load" / "load.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lines:
        for i in range(n):
            lines.write(json.dumps({"id": f"i{i}", "context": f"{NOTE}Case {i}."}) + "\n")
    (folder / "load_plugin.py").write_text(PLUGIN)


def run_command(folder: Path, base_url: str, most: int | None) -> list[str]:
    """Return the command of a run of all instances, with at most so many in flight."""
    return [
        sys.executable,
        "-m",
        "medhelm",
        "run",
        "model=openai/perf",
        f"model.base_url={base_url}",
        *([] if most is None else [f"model.max_concurrency={most}"]),
        "benchmark=load",
        f"data_dir={folder / 'data'}",
        f"results_dir={folder / 'results'}",
        f"plugins=[{folder / 'load_plugin.py'}]",
    ]


def quiet_environment() -> dict[str, str]:
    """Return an environment with a key, without proxies, and with modules kept compiled.

    An installed package has them compiled; without them every start takes half a second more.
    """
    kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {"OPENAI_API_KEY": "none"}


def run(folder: Path, base_url: str, most: int | None = 100) -> tuple[float, float, int]:
    """Return seconds while sending, seconds of the whole process, and its peak memory (bytes)."""
    started = time.perf_counter()
    process = subprocess.Popen(
        run_command(folder, base_url, most),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=quiet_environment(),
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    whole = time.perf_counter() - started
    if status:
        raise SystemExit(f"the run failed: {said}")
    return sending_seconds(folder), whole, usage.ru_maxrss * 1024


def sending_seconds(folder: Path) -> float:
    """Return the time from the first request to the last answer, as the log has it."""
    (log,) = (folder / "results").glob("runs/*/*/*/responses.jsonl")
    first, last = float("inf"), 0.0
    with log.open() as lines:
        for line in lines:
            ended = float(re.findall(r'"finished_at":([0-9.]+)', line)[-1])
            took = float(re.findall(r'"latency_s":([0-9.e-]+)', line)[-1])
            first, last = min(first, ended - took), max(last, ended)
    return last - first


def fresh(folder: Path) -> None:
    """Forget all answers."""
    shutil.rmtree(folder / "results", ignore_errors=True)


def throughput(folder: Path) -> list[tuple[str, str, str]]:
    """Return the row of throughput against a 0 ms server."""
    n = 10_000
    write_data(folder, n)
    ours, theirs = float("inf"), float("inf")
    with server_process(SERVER) as base_url:
        for _ in range(3):
            fresh(folder)
            ours = min(ours, run(folder, base_url)[0])
            started = time.perf_counter()
            asyncio.run(bare_loop(base_url, n, 100))
            theirs = min(theirs, time.perf_counter() - started)
    what = f"throughput, 0 ms server, {n:,} requests, 100 in flight, while sending"
    return [(what, "at least 50 % of a bare aiohttp loop", f"{100 * theirs / ours:.0f} %")]


def latency(folder: Path) -> list[tuple[str, str, str]]:
    """Return the rows of wall time against a 200 ms server."""
    write_data(folder, 2000)
    with server_process(SERVER, "--latency", "0.2") as base_url:
        rounds, free = [], []
        for _ in range(3):
            fresh(folder)
            rounds.append(run(folder, base_url)[:2])
            fresh(folder)
            free.append(run(folder, base_url, None)[1])
    sending, whole = map(min, zip(*rounds, strict=True))
    what = "2,000 requests, 200 ms server, 100 in flight"
    return [
        (f"{what}, while sending", "at most 1.15 x ideal (4 s)", f"{sending / 4:.2f} x"),
        (f"{what}, whole process", "6 s", f"{whole:.1f} s"),
        ("the same with the default limit, whole process", "6 s", f"{min(free):.1f} s"),
    ]


def size(folder: Path, big: int) -> list[tuple[str, str, str]]:
    """Return the rows of memory and of running a finished run again."""
    with server_process(SERVER) as base_url:
        write_data(folder, 1000)
        small_peak = run(folder, base_url)[2]
        fresh(folder)
        write_data(folder, big)
        peak = run(folder, base_url)[2]
        again = min(run(folder, base_url)[1] for _ in range(3))
    each = (peak - small_peak) / (big - 1000)
    return [
        (
            f"memory of a run, from 1,000 to {big:,} instances",
            "at most 200 bytes an instance",
            f"{each:.0f} bytes an instance ({small_peak / 2**20:.0f} to {peak / 2**20:.0f} MiB)",
        ),
        (f"a finished run of {big:,} instances again", "3 s, no request", f"{again:.1f} s"),
    ]


def start(folder: Path) -> list[tuple[str, str, str]]:
    """Return the rows of start-up."""
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "medhelm", "--help"],
            check=True,
            stdout=subprocess.DEVNULL,
            env=quiet_environment(),
        )
        seconds.append(time.perf_counter() - began)
    write_data(folder, 100)
    firsts = []
    with server_process(SERVER) as base_url:
        for _ in range(5):
            fresh(folder)
            began_at = time.time()
            run(folder, base_url)
            (log,) = (folder / "results").glob("runs/*/*/*/responses.jsonl")
            firsts.append(first_request(log) - began_at)
    return [
        ("`medhelm --help`", "0.3 s", f"{min(seconds):.2f} s"),
        ("`medhelm run` until the first request", "1.5 s", f"{min(firsts):.2f} s"),
    ]


def first_request(log: Path) -> float:
    """Return the Unix time of the first request."""
    line = log.open().readline()
    ended = float(re.findall(r'"finished_at":([0-9.]+)', line)[-1])
    return ended - float(re.findall(r'"latency_s":([0-9.e-]+)', line)[-1])


def main() -> int:
    """Print the table."""
    options = parser(__doc__, big=100_000)
    options.add_argument("--only", choices=("start", "throughput", "latency", "size"))
    args = options.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| what | target | measured |\n|---|---|---|")
    measures: dict[str, Callable[[Path], list[tuple[str, str, str]]]] = {
        "start": start,
        "throughput": throughput,
        "latency": latency,
        "size": lambda folder: size(folder, args.big),
    }
    for name, measure in measures.items():
        if args.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                for row in measure(Path(folder)):
                    print_row(*row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
