"""Grading by binary criteria against a bare aiohttp loop on the same bodies, and a large estimate.

    python perf/rubric.py [--cases 100] [--rounds 3]

100 cases x 30 criteria x 3 models are graded by one judge at a local server that answers at once. What
counts is the time from the first request to the last answer; the bare loop sends the bodies of
the same calls, as many at a time, and encodes each, as the loops of the other scripts do. The estimate is
of 2,500 cases x 30 criteria x 11 models.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from measuring import FixedServer, bare, completion, http, parser, serve, server_process

import medhelm
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JurySpec
from medhelm.store.runlog import read_keyed

IN_FLIGHT = 100
PLUGIN = Path(__file__).parents[1] / "tests" / "plugins" / "checklist.py"
VERDICT = '{"explanation": "The answer names it in its second sentence.", "criteria_met": true}'
TEXT = "The patient has had a fever for two days and drinks little. "


def write_cases(folder: Path, count: int) -> Path:
    """Write so many cases of thirty criteria; returns the data folder."""
    path = folder / "data" / "checklist" / "checklist.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as lines:
        for i in range(count):
            texts = [
                {"text": f"Names point {n} of case {i}, such as a stiff neck."} for n in range(30)
            ]
            row = {"id": f"k{i}", "question": TEXT * 15 + str(i), "threshold": "10/30"}
            lines.write(json.dumps(row | {"criteria": texts}) + "\n")
    return folder / "data"


def jury(base_url: str) -> JurySpec:
    """Return the one judge."""
    one = ModelSpec(
        name="judge/one",
        model="one",
        provider="openai",
        base_url=base_url,
        max_concurrency=IN_FLIGHT,
        price=Price(input=1.0, output=4.0, cached=0.1, date="2026-11-01"),
    )
    return JurySpec(name="perf", judges=(one,), quorum=1)


def scripted(number: int) -> ModelSpec:
    """Return a model with one answer of its own."""
    return ModelSpec(
        name=f"scripted/{number}",
        model=str(number),
        provider="scripted",
        endpoint_class="local",
        extra_body={"default": f"Model {number}. " + TEXT * 25},
    )


def grade(folder: Path, base_url: str) -> tuple[float, list[bytes]]:
    """Grade all answers; returns the seconds of sending and the bodies that were sent."""
    medhelm.evaluate(
        [scripted(n) for n in range(3)],
        "checklist",
        data_dir=folder / "data",
        plugins=PLUGIN,
        results_dir=folder / "results",
        jury=jury(base_url),
    )
    first, last, bodies = 9e99, 0.0, []
    for log in (folder / "results").glob("runs/*/*/*/graders/*"):
        for _, grading in read_keyed(log):
            for call in grading.calls:
                response = call.response
                first = min(first, response.finished_at - response.latency_s)
                last = max(last, response.finished_at)
                sent = {"model": "one", "messages": call.messages}
                bodies.append(msgspec.json.encode(sent | {"max_tokens": 1024, "temperature": 0.0}))
    return last - first, bodies


def send(base_url: str, bodies: Sequence[bytes | dict[str, Any]]) -> float:
    """Return the seconds in which a bare loop sends the same bodies."""
    start = time.perf_counter()
    asyncio.run(bare(base_url, bodies, IN_FLIGHT))
    return time.perf_counter() - start


def main() -> int:
    """Print the two figures."""
    args = parser(__doc__, cases=100, rounds=3).parse_args()
    if args.serve:
        answer = http(json.dumps(completion(VERDICT, 1000, 20)).encode())
        asyncio.run(serve(lambda: FixedServer(lambda head, body: answer)))
    os.environ.setdefault("OPENAI_API_KEY", "none")
    own, plain, encoded, size = 9e9, 9e9, 9e9, 0
    with server_process(__file__) as base_url:
        for _ in range(args.rounds):
            with tempfile.TemporaryDirectory() as name:
                write_cases(Path(name), args.cases)
                took, bodies = grade(Path(name), base_url)
                size = sum(
                    p.stat().st_size for p in Path(name).glob("**/graders/*/responses.jsonl")
                )
            own = min(own, took)
            plain = min(plain, send(base_url, [json.loads(body) for body in bodies]))
            encoded = min(encoded, send(base_url, bodies))
        calls = len(bodies)
        print(
            f"grading   {calls / own:8.0f} calls/s {own:6.2f} s  log {size / calls:.0f} bytes a call"
        )
        print(f"bare loop {calls / plain:8.0f} calls/s {plain:6.2f} s  ratio {plain / own:.2f}")
        print(f"  encoded beforehand {calls / encoded:8.0f} calls/s  ratio {encoded / own:.2f}")
        with tempfile.TemporaryDirectory() as name:
            data = write_cases(Path(name), 2500)
            start = time.perf_counter()
            found = medhelm.estimate(
                [scripted(n) for n in range(11)],
                "checklist",
                data_dir=data,
                plugins=PLUGIN,
                results_dir=Path(name) / "results",
                jury=jury(base_url),
            )
            took = time.perf_counter() - start
    judges = [judge for one in found for judge in one.judges]
    usd = (
        sum(j.usd_expected or 0 for j in judges),
        sum(j.usd_expected_cached or 0 for j in judges),
    )
    print(f"estimate of {sum(j.calls for j in judges):,} calls: {took:.1f} s")
    print(f"expected {usd[0]:,.0f} USD without a cache, {usd[1]:,.0f} with one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
