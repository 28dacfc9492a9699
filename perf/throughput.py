"""Throughput of medhelm's model layer as a ratio to a bare aiohttp loop, in one run.

    python perf/throughput.py [--requests 5000] [--concurrency 100] [--latency 0.0] [--rounds 5]

The server is a process of its own that answers every request with the same bytes, so that
the client is what is measured. The two loops take turns; the best round of each counts, as
other work on the machine only ever slows a round down. CPU seconds of this process are
printed too: their ratio does not depend on how fast the server is.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from measuring import FixedServer, bare, completion, http, parser, serve, server_process

from medhelm.models import open_model
from medhelm.models.http_endpoint import HttpModel
from medhelm.schema.episode import Message, Request
from medhelm.schema.model import ModelSpec

PROMPT = (
    "A 65-year-old man comes to the clinic because of three weeks of progressive shortness of"
    " breath on exertion and swelling of both ankles. Question {i}: which is most likely?\n"
    "A. Heart failure\nB. Asthma\nC. Pneumonia\nD. Anemia\nAnswer with one letter."
) * 2


def bodies(count: int) -> Iterator[dict[str, Any]]:
    """Yield the bodies of the requests, as the layer sends them."""
    for i in range(count):
        yield {
            "model": "perf",
            "messages": [{"role": "user", "content": PROMPT.format(i=i)}],
            "max_tokens": 16,
            "temperature": 0.0,
        }


async def bare_loop(base_url: str, count: int, concurrency: int) -> None:
    """Send the requests with aiohttp alone."""
    await bare(base_url, bodies(count), concurrency)


async def layer(base_url: str, count: int, concurrency: int) -> None:
    """Send the same requests through medhelm's model layer, as a runner does."""
    spec = ModelSpec(
        name="openai/perf", model="perf", base_url=base_url, max_concurrency=concurrency
    )
    model = open_model(spec, environ={})
    assert isinstance(model, HttpModel)

    async def ask(request: Request) -> None:
        try:
            response = await model.respond(request)
            assert response.text == "A"
        finally:
            model.release()

    tasks: set[asyncio.Task[None]] = set()
    for i in range(count):
        await model.acquire()
        messages = (Message("user", PROMPT.format(i=i)),)
        request = Request(instance_id=str(i), messages=messages, max_output_tokens=16)
        task = asyncio.create_task(ask(request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    await model.close()


Loop = Callable[[str, int, int], Awaitable[None]]


async def measure(loop: Loop, base_url: str, count: int, concurrency: int) -> tuple[float, float]:
    """Return wall and CPU seconds of one round."""
    wall, cpu = time.perf_counter(), time.process_time()
    await loop(base_url, count, concurrency)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> int:
    """Print the ratio."""
    args = parser(__doc__, requests=5000, concurrency=100, latency=0.0, rounds=5).parse_args()
    if args.serve:
        answer = http(json.dumps(completion("A")).encode())
        asyncio.run(serve(lambda: FixedServer(lambda head, body: answer, args.latency)))
    best = {"bare aiohttp loop": (9e9, 9e9), "medhelm model layer": (9e9, 9e9)}
    loops: dict[str, Loop] = dict(zip(best, (bare_loop, layer), strict=True))
    with server_process(__file__, "--latency", str(args.latency)) as base_url:
        for _ in range(args.rounds):
            for name, loop in loops.items():
                took = asyncio.run(measure(loop, base_url, args.requests, args.concurrency))
                best[name] = tuple(map(min, best[name], took))  # type: ignore[assignment]
    for name, (wall, cpu) in best.items():
        print(f"{name:20} {args.requests / wall:8.0f} requests/s {wall:7.2f} s {cpu:7.2f} s CPU")
    base, ours = best.values()
    ideal = args.requests * args.latency / args.concurrency
    print(f"ratio of throughput {base[0] / ours[0]:.2f}, of CPU seconds {base[1] / ours[1]:.2f}")
    if ideal:
        print(f"wall time / ideal of {ideal:.1f} s: {ours[0] / ideal:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
