"""Parts that the measures share: a server in a process of its own, a bare loop, rows of a Markdown table."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parent.parent
RELIABILITY = ROOT / "docs" / "reliability.md"
sys.path.insert(0, str(ROOT))  # for `tests`, whose servers and benchmarks are measured with
sys.path.append(str(ROOT / "scripts"))

from pages import put, table_of  # noqa: E402


def http(body: bytes) -> bytes:
    """Return a JSON body as a whole response."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def completion(text: str, input_tokens: int = 150, output_tokens: int = 1) -> dict[str, Any]:
    """Return a chat completion of the OpenAI protocol."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "x",
        "object": "chat.completion",
        "model": "perf",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
    }


class FixedServer(asyncio.Protocol):
    """Answers each HTTP request by a function of its head and body, after a fixed time."""

    def __init__(self, reply: Callable[[bytes, bytes], bytes], latency_s: float = 0.0) -> None:
        self.reply, self.latency_s = reply, latency_s
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            reply = self.reply(head, self.buffer[end + 4 : end + 4 + length])
            self.buffer = self.buffer[end + 4 + length :]
            if self.latency_s:
                loop = asyncio.get_running_loop()
                loop.call_later(self.latency_s, self.transport.write, reply)
            else:
                self.transport.write(reply)


async def serve(make: Callable[[], asyncio.Protocol]) -> None:
    """Serve on a free loopback port and print the base URL."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


@contextmanager
def server_process(script: str, *words: str) -> Iterator[str]:
    """Run `SCRIPT --serve WORDS` in a process of its own and yield the base URL that it prints."""
    with process_of_server(script, *words) as (_, base_url):
        yield base_url


@contextmanager
def process_of_server(script: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Do the same, and yield the process, too."""
    command = [sys.executable, script, "--serve", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


async def bare(
    base_url: str, bodies: Iterable[Mapping[str, Any] | bytes], in_flight: int = 100
) -> None:
    """Send bodies with aiohttp alone, so many at a time; those that are no bytes are encoded here."""
    url, left = f"{base_url}/chat/completions", iter(bodies)
    headers = {"Content-Type": "application/json"}

    async def work(session: aiohttp.ClientSession) -> None:
        for body in left:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            async with session.post(url, headers=headers, data=data) as response:
                answer = await response.json()
                assert answer["choices"]

    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(work(session) for _ in range(in_flight)))


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table at once."""
    print(row(cells), flush=True)


def row(cells: Iterable[object]) -> str:
    """Return a row of a Markdown table."""
    shown = (f"{c:,}" if isinstance(c, int) else str(c) for c in cells)
    return f"| {' | '.join(shown)} |"


def parser(doc: str | None, **numbers: float) -> argparse.ArgumentParser:
    """Return the parser of a measure, with its numbers as options; `--serve` is for `server_process`."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in numbers.items():
        made.add_argument(f"--{name}", type=type(default), default=default, help="(%(default)s)")
    made.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return made


Rows = Iterable[Sequence[object]]


def measure_reliability(
    doc: str | None, name: str, measure: Callable[[int, int], Rows], times: int
) -> None:
    """Print the rows of a measure that is repeated so often, from a seed; `--write` puts them into docs/reliability.md."""
    made = parser(doc, times=times, seed=1)
    made.add_argument("--write", action="store_true", help="into docs/reliability.md")
    args = made.parse_args()
    lines = [row(cells) for cells in measure(args.times, args.seed)]
    print("\n".join(lines))
    if args.write:
        head, _ = table_of(RELIABILITY, name)
        put(RELIABILITY, "\n".join([*head, *lines, ""]), part=name, check=False)
