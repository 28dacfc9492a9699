"""Encounters at size: memory, growth of the log, tables, and throughput beside a bare aiohttp loop.

    python perf/encounters.py [--cases 1000] [--turns 12]

A server in a process of its own plays every role with fixed replies, so that each encounter goes on
to its cap. Each run is a process of its own. Bodies of the bare loop are those that the run has
logged: the same messages, for the same roles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).parent.parent
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
base, folder, plugin, turns = sys.argv[1:]
def model(name):
    return ModelSpec(name=f"openai/{name}", model=name, base_url=base, max_concurrency=100)
started = time.perf_counter()
evaluate(model("clinician"), "stage", data_dir=folder, results_dir=f"{folder}/results-{turns}",
    cast={r: model(r) for r in ("patient", "controller")}, protocol={"turns": int(turns)},
    jury="offline", plugins=plugin)
print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class RoleServer(asyncio.Protocol):
    """Answers each request as the role that its model is named after."""

    def __init__(self) -> None:
        self.buffer = b""
        self.replies = {role: _reply(json.dumps(said)) for role, said in SAID.items()}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.index(b"content-length:") + 15
            length = int(head[at:].split(b"\r\n", 1)[0])
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            role = next(r for r in SAID if f'"{r}"'.encode() in body[:200] + body[-200:])
            self.transport.write(self.replies[role])


def _reply(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
    body = json.dumps({"id": "x", "model": "perf", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def serve() -> None:
    """Serve on a free loopback port and print the base URL."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(RoleServer, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def stored_bodies(folder: Path, turns: int, most: int) -> list[dict[str, Any]]:
    """Return the bodies of the calls that a run has logged, at most so many."""
    from medhelm.store import records, runlog

    (run,) = records.find_runs(folder / f"results-{turns}")
    found: list[dict[str, Any]] = []
    for episode in runlog.read_episodes(run, records.read_plan(run)):
        for call in episode.calls:
            messages = [{"role": m.role, "content": m.content} for m in call.messages]
            role = "clinician" if call.role not in SAID else call.role
            found.append({"model": role, "messages": messages, "temperature": 0.0, "seed": 0})
        if len(found) >= most:
            break
    return found[:most]


async def bare(base: str, bodies: list[dict[str, Any]]) -> float:
    """Return the seconds that a bare loop takes to send bodies and read the answers."""
    started = time.perf_counter()
    left = iter(bodies)

    async def work(session: aiohttp.ClientSession) -> None:
        for body in left:
            async with session.post(f"{base}/chat/completions", json=body) as response:
                await response.json()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as session:
        await asyncio.gather(*(work(session) for _ in range(100)))
    return time.perf_counter() - started


def main() -> None:
    """Print the rows of the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--serve", action="store_true")
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, __file__, "--serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        measure(process.stdout.readline().strip(), asked.cases, asked.turns)
    finally:
        process.terminate()
        process.wait()


def measure(base: str, cases: int, turns: int) -> None:
    """Run the encounters and print what they took."""
    plugin = ROOT / "tests" / "benchmarks" / "encounters" / "stage_plugin.py"
    env = os.environ | {"PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "x"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "stage").mkdir()
        lines = "".join(f"{json.dumps({'number': n})}\n" for n in range(cases))
        (folder / "stage" / "stage.jsonl").write_text(lines)
        found = {}
        for most in (turns // 2, turns):
            command = [sys.executable, "-c", RUN, base, name, str(plugin), str(most)]
            done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            seconds, megabytes = map(float, done.stdout.split()[-2:])
            log = next((folder / f"results-{most}").glob("runs/*/*/*/responses.jsonl"))
            found[most] = seconds, megabytes, log.stat().st_size
        (_, _, half), (seconds, megabytes, whole) = found.values()
        calls = 3 * turns * cases
        what = f"{cases:,} encounters of {turns} turns"
        bodies = stored_bodies(folder, turns, 5000)
        alone = asyncio.run(bare(base, bodies)) / len(bodies) * calls
        started = time.perf_counter()
        command = [sys.executable, "-m", "medhelm", "tables", "--table", "encounters", "--plugin"]
        command += [str(plugin), "--results-dir", str(folder / f"results-{turns}")]
        subprocess.run(command, env=env, check=True, capture_output=True)
        tables = time.perf_counter() - started
        print(f"| {what}: memory of the process | 300 MiB | {megabytes:.0f} MiB |")
        print(f"| {what}: log, beside half the turns | 2.2 x | {whole / half:.2f} x |")
        print(f"| {what}: the table of encounters | 10 s | {tables:.1f} s |")
        print(
            f"| {what}: {calls:,} calls, whole process | 40 % of a bare loop | "
            f"{alone / seconds:.0%} ({calls / seconds:.0f} calls/s) |"
        )


if __name__ == "__main__":
    main()
