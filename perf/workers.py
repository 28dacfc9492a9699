"""Measures workers that share limits and a budget beside one process, printed as a Markdown table.

    python perf/workers.py [--instances 100000] [--kills 10] [--workers 4] [--only ROWS] [--write]

An endpoint that refuses by its rate and one that is slow are simulated in virtual time, with the real limiter,
leases and pool. The others are commands as a user starts them, at a server that is a process of its own on
loopback. The rows of a Ray cluster need the extra ray. `--write` puts the table into docs/scaling.md.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
from limiter import Bucket, Server, simulate
from measuring import ROOT, FixedServer, completion, http, parser, row, serve, server_process
from msgspec.structs import replace
from pages import put, table_of

from medhelm.store.records import find_gradings, read_record
from medhelm.store.runlog import read_log
from tests.quiz import PLUGIN, write_quiz

PAGE = ROOT / "docs" / "scaling.md"
SERVER = ROOT / "tests" / "models" / "served_model.py"
SEEDS = 5
ROWS = ("limits", "large", "local", "worker", "node", "actor", "head", "replica")
"""The rows of the table; all from the fourth on are parts of a Ray cluster."""


def buckets(workers: int) -> Iterator[Sequence[str]]:
    """Yield the rows of endpoints with a limit, by median over seeds."""
    for rate, burst in ((40.0, 40.0), (40.0, 4.0)):
        found = []
        for count in (0, workers):
            seconds, refused = [], []
            for seed in range(SEEDS):
                random.seed(seed)
                server = Bucket(seed, 0.05, rate=rate, burst=burst)
                took, errors = simulate(server, 1600, workers=count)
                assert errors == 0
                seconds.append(took)
                refused.append(len(server.refused) / (len(server.refused) + 1600))
            found.append((statistics.median(seconds), statistics.median(refused)))
        (alone_s, alone), (parted_s, parted) = found
        what = f"1,600 calls, a bucket of {rate:.0f}/s that holds {burst:.0f}"
        yield what, f"{alone:.1%} refused", f"{parted_s / alone_s:.2f} x, {parted:.1%} refused"
    slow, other = Server(0, 2.0), Server(0, 2.0)
    alone_s, _ = simulate(slow, 3200, 128)
    parted_s, _ = simulate(other, 3200, 128, workers)
    what = "3,200 calls of 2 s, `max_concurrency=128`"
    most = f"{parted_s / alone_s:.2f} x, {other.in_flight_max} in flight"
    yield what, f"{slow.in_flight_max} in flight", most


def command(
    folder: Path, url: str, name: str, *words: str, address: str = ""
) -> subprocess.Popen[bytes]:
    """Start the command that asks the quiz. `address`: of a Ray cluster."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "medhelm", "run", "benchmark=quiz", f"plugins=[{PLUGIN}]"),
            *("model=openai/test", f"model.base_url={url}", f"data_dir={folder / 'data'}"),
            *(f"results_dir={folder / name}", *words),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "none", "RAY_ADDRESS": address},
    )


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the workers of a command."""
    found = []
    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children():
            found += [child] * any("shard=" in word for word in child.cmdline())
    return found


def watched(
    process: subprocess.Popen[bytes], parts: Counter[str] | None = None
) -> tuple[float, float, float]:
    """Return the seconds until a command ended, and the peak MiB of it and of its largest worker.

    `parts`: takes the peak MiB of the largest process of each kind that a command has on Ray.
    """
    kinds = {
        "its actor": ["ray::Desk"],
        "a task": ["ray::_work"],
        "a worker": ["-m medhelm", "shard="],
    }
    began, own, largest = time.monotonic(), 0, 0
    while process.poll() is None:
        with suppress(psutil.Error):
            own = max(own, psutil.Process(process.pid).memory_info().rss)
        for worker in workers_of(process):
            with suppress(psutil.Error):
                largest = max(largest, worker.memory_info().rss)
        if parts is not None:
            for kind, words in kinds.items():
                for one in running(*words):
                    with suppress(psutil.Error):
                        parts[kind] = max(parts[kind], one.memory_info().rss >> 20)
        time.sleep(0.05 if parts is None else 0.5)
    assert process.returncode == 0
    return time.monotonic() - began, own / 2**20, largest / 2**20


def assert_equal(one: Path, many: Path) -> None:
    """Refuse results that differ. Requests that a killed server took with it are left out."""
    kept = []
    for results in (one, many):
        (grading,) = find_gradings(results)
        record = read_record(grading)
        usage = [replace(party.usage, lost=0) for party in record.parties]
        keys = ["instance_id", "repeat", "metric"]
        scores = pd.read_parquet(grading / "scores.parquet").sort_values(keys, ignore_index=True)
        kept.append((record.state, record.results, usage, scores))
    assert kept[0][:3] == kept[1][:3]
    pd.testing.assert_frame_equal(kept[0][3], kept[1][3])


@contextmanager
def nodes(cpus: int) -> Iterator[Any]:
    """Yield a Ray cluster of two nodes of this machine, each with so many CPUs and GPUs declared."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": cpus, "num_gpus": cpus, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.node = cluster.add_node(num_cpus=cpus, num_gpus=cpus)
    yield cluster
    cluster.shutdown()


def large(instances: int, workers: int) -> Iterator[Sequence[str]]:
    """Yield the rows of a run of many instances, here and on Ray, whose results must be equal."""
    with server_process(__file__) as url, tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_quiz(folder, instances)
        alone_s, alone_mib, _ = watched(command(folder, url, "one"))
        local = command(folder, url, "local", f"workers=local:{workers}")
        parted_s, own_mib, worker_mib = watched(local)
        assert_equal(folder / "one", folder / "local")
        yield (
            f"{instances:,} calls, answered at once, {os.cpu_count()} cores: equal results",
            f"{alone_mib:.0f} MiB",
            f"{parted_s / alone_s:.2f} x, {own_mib:.0f} MiB; a worker {worker_mib:.0f} MiB",
        )
        if find_spec("ray") is None:
            return
        with nodes(-(-workers // 2)) as cluster:
            words = [f"workers=ray:{workers}"]
            process = command(folder, url, "ray", *words, address=cluster.address)
            parted_s, own_mib, _ = watched(process, parts := Counter[str]())
        assert_equal(folder / "one", folder / "ray")
    each = "; ".join(f"{name} {mib:.0f} MiB" for name, mib in parts.items())
    yield (
        f"{instances:,} calls on {workers} workers of Ray, answered at once: equal results",
        f"{alone_mib:.0f} MiB",
        f"{parted_s / alone_s:.2f} x, {own_mib:.0f} MiB; {each}",
    )


def kills(what: str, times: int, workers: int) -> Iterator[Sequence[str]]:
    """Yield the row of a part that is killed at random moments, five in a run; each run is then ended.

    `what`: `local` for a worker of this machine, else a part of a Ray cluster.
    """
    rng, hit, started, whole, again = random.Random(2), 0, 0, 0, 0
    with (
        server_process(__file__) as url,
        tempfile.TemporaryDirectory() as made,
        ExitStack() as stack,
    ):
        folder, calls = Path(made), 1000 if what == "replica" else 4000
        write_quiz(folder, calls)
        engine = "local" if what == "local" else "ray"
        given = [f"workers={engine}:{workers}", "model.max_concurrency=4"]
        own: list[str] = []
        if what == "replica":
            words = [sys.executable, str(SERVER), "{model}", "--host", "{host}", "--port", "{port}"]
            own = [f"model.serve={shlex.join(words)}"]
            given = ["servers=ray", "model.replicas=6", "model.gpus=1", *given[1:]]
        command(folder, url, "one", *own).wait()
        cluster = None
        while hit < times:
            name = f"{what}{started}"
            moments = sorted(rng.sample(range(calls), min(5, times - hit)))
            is_whole = False
            while moments and not is_whole:
                if engine == "ray" and cluster is None:
                    cluster = stack.enter_context(nodes(3 if own else 2))
                address = cluster.address if cluster else ""
                process, before = command(folder, url, name, *own, *given, address=address), hit
                while process.poll() is None:
                    is_due = moments and logged(folder / name) >= moments[0]
                    if is_due and strike(what, cluster, str(folder / name), rng):
                        hit, moments = hit + 1, moments[1:]
                    time.sleep(0.05)
                is_whole = process.returncode == 0
                assert is_whole or hit > before, "a command ended by itself, and not the run"
                started, whole = started + 1, whole + is_whole
                ended = time.monotonic() + 15
                while left := running(str(folder / name)) + running("served_model", str(folder)):
                    assert time.monotonic() < ended, left
                    time.sleep(0.1)
                if what == "head":
                    stack.close()
                    cluster = None
            assert command(folder, url, name, *own).wait() == 0
            assert_equal(folder / "one", folder / name)
            (run,) = (folder / name / "runs").glob("*/*/*")
            again += len([*read_log(run)]) - calls
    ended_so = f"{whole} of {started} commands ended the run, else the next one did"
    killed = f"Ray: {times} times the {what}" if engine == "ray" else f"{times} times a worker"
    yield (
        f"{killed} killed at a random moment",
        "",
        f"equal results, {again} logged calls sent again; {ended_so}",
    )


def strike(what: str, cluster: Any, results: str, rng: random.Random) -> bool:
    """Kill a part; returns whether there was one."""
    if what == "node":
        cluster.remove_node(cluster.node, allow_graceful=False)
        cluster.node = cluster.add_node(num_cpus=2, num_gpus=2)
        return True
    if what == "head":
        if (head := cluster.head_node) is not None:
            cluster.remove_node(head, allow_graceful=False)
        return head is not None
    words = {"actor": ("ray::Desk",), "replica": ("ray::_Replica",)}
    found = running(*words.get(what, (results, "shard=")))
    with suppress(IndexError, psutil.Error):
        rng.choice(found).kill()
        return True
    return False


def logged(results: Path) -> int:
    """Return how many calls the logs of a results folder hold."""
    logs = results.glob("runs/**/responses.jsonl")
    with suppress(FileNotFoundError):  # shards go once they are gathered
        return sum(log.read_bytes().count(b"\n") for log in logs)
    return 0


def write(line: str) -> None:
    """Put a row into the page: in place of the one of the same thing, else at the end."""
    head, rows = table_of(PAGE, "workers")
    lines = {what(old): old for old in rows} | {what(line): line}
    put(PAGE, "\n".join([*head, *lines.values(), ""]), part="workers", check=False)


def what(line: str) -> str:
    """Return what a row is of, without how often."""
    return re.sub(r"^(Ray: )?[\d,]+ ", r"\1", line.split("|")[1].strip())


def running(*words: str) -> list[psutil.Process]:
    """Return the processes whose command line holds all words."""
    found = psutil.process_iter(["cmdline"])
    return [p for p in found if all(w in " ".join(p.info["cmdline"] or ()) for w in words)]


def main() -> int:
    """Print the table."""
    made = parser(__doc__, instances=100_000, kills=10, workers=4)
    made.add_argument("--only", nargs="+", choices=ROWS, metavar="ROWS", help=", ".join(ROWS))
    made.add_argument("--write", action="store_true", help="into docs/scaling.md")
    args = made.parse_args()
    if args.serve:
        reply = http(json.dumps(completion("A")).encode())
        asyncio.run(serve(lambda: FixedServer(lambda head, sent: reply)))
    rows: dict[str, Callable[[], Iterator[Sequence[str]]]] = {
        "limits": lambda: buckets(args.workers),
        "large": lambda: large(args.instances, args.workers),
        "local": lambda: kills("local", args.kills, args.workers),
    }
    rows |= {what: partial(kills, what, args.kills, args.workers) for what in ROWS[3:]}
    known = ROWS if find_spec("ray") else ROWS[:3]
    for name in args.only or known:
        for cells in rows[name]():
            print(row(cells), flush=True)
            if args.write:
                write(row(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
