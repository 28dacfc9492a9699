"""What workers that share limits and a budget cost, beside one process; printed as Markdown tables.

    python perf/workers.py [--calls 1600] [--workers 4] [--instances 100000] [--only NAME]

The server is a process of its own on loopback: a token bucket of 40 requests a second, one that answers
after 2 s, and one that answers at once. It counts what it was sent, refused and had in flight.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from aiohttp import web
from measuring import ROOT, completion, parser, print_row, server_process

from medhelm.store.records import find_gradings, read_record
from tests.quiz import PLUGIN, write_quiz


class Server:
    """Answers after `latency_s`, `rate` requests a second from a bucket of as many; counts all."""

    def __init__(self, rate: float, latency_s: float) -> None:
        self.rate, self.latency_s = rate, latency_s
        self.tokens, self.then = rate, time.monotonic()
        self.in_flight = self.most = self.refused = 0
        self.asked: Counter[str] = Counter()
        self.last = 0.0

    async def respond(self, request: web.Request) -> web.Response:
        """Answer one request, or refuse it."""
        prompt = (await request.json())["messages"][-1]["content"]
        now = self.last = time.monotonic()
        self.tokens = min(self.rate, self.tokens + self.rate * (now - self.then))
        self.then = now
        if self.rate and self.tokens < 1.0:
            self.refused += 1
            return web.json_response({"error": {"message": "slow down"}}, status=429)
        self.tokens -= 1.0
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            self.asked[prompt] += 1
            return web.json_response(completion("A"))
        finally:
            self.in_flight -= 1

    async def counts(self, request: web.Request) -> web.Response:
        """Return the counts since the last time."""
        twice = sum(n - 1 for n in self.asked.values())
        said = {
            "asked": self.asked.total(),
            "twice": twice,
            "refused": self.refused,
            "most": self.most,
            "idle_s": time.monotonic() - self.last,
        }
        if "keep" not in request.query:
            self.asked.clear()
            self.refused = self.most = 0
        return web.json_response(said)


async def serve(rate: float, latency_s: float) -> None:
    """Serve on a free loopback port and print the base URL."""
    server = Server(rate, latency_s)
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.respond)
    app.router.add_get("/v1/counts", server.counts)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


def counts(url: str, *, keep: bool = False) -> dict[str, Any]:
    """Return what a server counted since the last time; `keep`: it goes on counting."""
    with urllib.request.urlopen(f"{url}/counts{'?keep' * keep}") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def command(folder: Path, url: str, *words: str) -> list[str]:
    """Return the command that asks the quiz."""
    return [
        *(sys.executable, "-m", "medhelm", "run", "benchmark=quiz", f"plugins=[{PLUGIN}]"),
        *("model=openai/test", f"model.base_url={url}", f"data_dir={folder / 'data'}"),
        *words,
    ]


def timed(folder: Path, url: str, name: str, *words: str) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a command that must succeed, and what the server counted."""
    counts(url)
    began = time.monotonic()
    line = command(folder, url, f"results_dir={folder / name}", *words)
    subprocess.run(line, check=True, cwd=ROOT, env={**os.environ, "OPENAI_API_KEY": "x"})
    return time.monotonic() - began, counts(url)


def compared(calls: int, workers: int, rate: float, latency_s: float, *words: str) -> None:
    """Print one process beside workers at a server."""
    with (
        server_process(__file__, str(rate), str(latency_s)) as url,
        tempfile.TemporaryDirectory() as made,
    ):
        folder = Path(made)
        write_quiz(folder, calls)
        alone_s, alone = timed(folder, url, "one", *words)
        parted_s, parted = timed(folder, url, "many", f"workers=local:{workers}", *words)
        assert_equal(folder / "one", folder / "many")
        what = f"{rate:.0f}/s" if rate else f"{latency_s:g} s"
        for name, seconds, said in (("one", alone_s, alone), (workers, parted_s, parted)):
            share = said["refused"] / (said["refused"] + said["asked"])
            print_row(what, name, f"{seconds / alone_s:.2f} x", f"{share:.1%}", said["most"])


def assert_equal(one: Path, many: Path) -> None:
    """Refuse results that differ."""
    kept = []
    for results in (one, many):
        (grading,) = find_gradings(results)
        scores = pd.read_parquet(grading / "scores.parquet")
        record = read_record(grading)
        kept.append((record.results, [p.usage for p in record.parties], scores))
    assert kept[0][:2] == kept[1][:2]
    pd.testing.assert_frame_equal(kept[0][2], kept[1][2])


def main() -> int:
    """Print the tables."""
    made = parser(__doc__, calls=1600, workers=4, instances=100_000)
    made.add_argument("rate", nargs="?", type=float, help="of --serve")
    made.add_argument("latency", nargs="?", type=float, help="of --serve")
    args = made.parse_args()
    if args.serve:
        asyncio.run(serve(args.rate, args.latency))
    print_row("server", "processes", "time", "refused", "most in flight")
    print_row(*["---"] * 5)
    compared(args.calls, args.workers, 40.0, 0.05)
    compared(args.calls, args.workers, 0.0, 2.0, "model.max_concurrency=128")
    return 0


if __name__ == "__main__":
    sys.exit(main())
