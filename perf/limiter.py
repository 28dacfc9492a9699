"""Measures an endpoint's limiter with servers that refuse requests, printed as a Markdown table.

    python perf/limiter.py [--seeds 5] [--real]

The limiter, the retries and the endpoint are the real ones; only the server and the clock are
simulated. `--real` asks a token bucket behind a real socket on loopback instead, for 60 seconds.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web
from measuring import completion, parser, print_row, server_process
from virtual_time import run_virtually

from medhelm.models import open_model
from medhelm.models.access import resolve_access
from medhelm.models.codecs.wire import Answer, Failure
from medhelm.models.endpoint import Endpoint, EndpointModel
from medhelm.models.http_endpoint import HttpModel
from medhelm.models.pacing.leases import Leases
from medhelm.models.pacing.pool import Lease, Pool, PoolAccess, Report
from medhelm.schema.episode import Message, Request, Usage
from medhelm.schema.model import Model, ModelSpec

ANSWER = Answer("A", "stop", Usage(), "perf", "")
REFUSAL_S = 0.005
"""Seconds that a refusal takes."""
WARM_UP_S = 5.0
LENGTH_S = 60.0


@dataclass
class Server:
    """A simulated server: what it was asked when, and what it said."""

    seed: int
    latency_s: float = 0.05
    answered: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    in_flight: int = 0
    in_flight_max: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def refuse(self, now: float) -> Failure | None:
        """Return the failure of a request that arrives now, None where it is answered."""
        return None

    async def respond(self) -> Answer | Failure:
        """Answer one request, after a time that differs from request to request."""
        loop = asyncio.get_running_loop()
        failure = self.refuse(loop.time())
        if failure is not None:
            if failure.is_refusal:
                self.refused.append(loop.time())
            await asyncio.sleep(REFUSAL_S)
            return failure
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        await self.work()
        self.in_flight -= 1
        self.answered.append(loop.time())
        return ANSWER

    async def work(self) -> None:
        """Take the time of an answer: half of it fixed, half exponential."""
        await asyncio.sleep(self.latency_s * (0.5 + self.rng.expovariate(2.0)))


@dataclass
class Faulty(Server):
    """Refuses by chance, and is never faster than one request in `each_s` seconds."""

    share: float = 0.0
    each_s: float = 0.0
    kinds: tuple[str, ...] = ("429", "500")
    _free_at: float = 0.0

    def refuse(self, now: float) -> Failure | None:
        """Fail one request in so many."""
        if self.rng.random() >= self.share:
            return None
        if self.rng.choice(self.kinds) == "429":
            return Failure("retry", "http 429", 429, wait_s=1.0)
        return Failure("retry", "http 500", 500)

    async def work(self) -> None:
        """Take the time of an answer, one after the other where each takes the whole machine."""
        await super().work()
        if self.each_s:
            now = asyncio.get_running_loop().time()
            self._free_at = max(now, self._free_at) + self.each_s
            await asyncio.sleep(self._free_at - now)


@dataclass
class Bucket(Server):
    """Lets `rate` requests through a second, and `burst` at once after a rest."""

    rate: float = 100.0
    burst: float = 20.0
    is_whole: bool = True
    """True if Retry-After is in whole seconds."""
    _tokens: float = math.nan
    _at: float = 0.0

    def refuse(self, now: float) -> Failure | None:
        """Take a token; without one say when there will be one."""
        before = self.burst if math.isnan(self._tokens) else self._tokens
        self._tokens = min(self.burst, before + (now - self._at) * self.rate)
        self._at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return None
        wait_s = (1.0 - self._tokens) / self.rate
        return Failure(
            "retry", "http 429", 429, wait_s=math.ceil(wait_s) if self.is_whole else wait_s
        )


@dataclass
class AtMost(Server):
    """Refuses what comes while `most` are being answered."""

    most: int = 2

    def refuse(self, now: float) -> Failure | None:
        """Refuse beyond so many at once, without a Retry-After."""
        return Failure("retry", "http 429", 429) if self.in_flight >= self.most else None


class SimulatedModel(EndpointModel[Endpoint, None]):
    """A model behind a simulated server."""

    def __init__(self, spec: ModelSpec, server: Server) -> None:
        access = resolve_access(spec, {})
        super().__init__(spec, SimulatedEndpoint(access, spec.max_concurrency), owns_host=True)
        self._server = server
        self.endpoint.rng = random.Random(server.seed)

    def write(self, request: Request) -> None:
        """Return nothing: the simulated server needs no body."""

    async def send(self, sent: None) -> Answer | Failure:
        """Send it once and return what came of it."""
        return await self._server.respond()


class SimulatedEndpoint(Endpoint):
    """An endpoint without connections."""

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> Model:
        """Return nothing: models are made with their server."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close nothing."""


async def ask(model: Model, requests: Iterator[int], until: float = math.inf) -> int:
    """Ask one request after the other as slots come free; returns how many ended as errors."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()
    errors = 0

    async def one(i: int) -> None:
        nonlocal errors
        try:
            messages = (Message("user", f"Question {i}"),)
            response = await model.respond(
                Request(instance_id=str(i), messages=messages, max_output_tokens=16)
            )
            errors += response.finish == "error"
        finally:
            model.release()

    for i in requests:
        try:
            async with asyncio.timeout_at(until if until < math.inf else None):
                await model.acquire()
        except TimeoutError:
            break
        task = asyncio.create_task(one(i))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if loop.time() >= until:
            break
    for task in list(tasks) if until < math.inf else ():
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return errors


def fail(error: Exception) -> None:
    """Raise what ended the leases."""
    raise error


class SimulatedPool:
    """The way of one worker to a pool in this process."""

    def __init__(self, pool: Pool, worker: str) -> None:
        self.pool, self.worker, self.workers = pool, worker, pool.workers

    async def lease(self, endpoint: str, report: Report) -> Lease:
        """Report what was sent, and get the next lease."""
        await asyncio.sleep(0.002)
        return self.pool.lease(self.worker, endpoint, report, asyncio.get_running_loop().time())

    def leave(self) -> None:
        """End all leases."""
        self.pool.leave(self.worker)


def simulate(
    server: Server,
    count: int | None = None,
    max_concurrency: int | None = None,
    workers: int = 0,
) -> tuple[float, int]:
    """Return the virtual seconds that `count` requests take (without: those of 60 s) and errors.

    `workers`: so many processes ask an equal part each, by leases of a pool; 0: one asks without.
    """

    async def play() -> tuple[float, int]:
        spec = ModelSpec(
            name="openai/perf",
            model="perf",
            base_url="http://127.0.0.1:1/v1",
            max_concurrency=max_concurrency,
        )
        until = LENGTH_S if count is None else math.inf
        total = count if count is not None else 10**9
        pool = Pool(workers)

        async def one(number: int) -> int:
            model = SimulatedModel(spec, server)
            leases = Leases(cast(PoolAccess, SimulatedPool(pool, str(number))))
            leases.lost = fail
            if workers:
                leases.join("server", model.endpoint.limiter)
            try:
                return await ask(model, iter(range(number, total, max(workers, 1))), until)
            finally:
                await leases.close()

        errors = sum(await asyncio.gather(*map(one, range(max(workers, 1)))))
        return asyncio.get_running_loop().time(), errors

    return run_virtually(play())


def steady(server: Server) -> tuple[float, float]:
    """Return answers per second and refusals per 100 answers, after the first 5 s of 60."""
    answered = sum(WARM_UP_S <= at < LENGTH_S for at in server.answered)
    refused = sum(WARM_UP_S <= at < LENGTH_S for at in server.refused)
    return answered / (LENGTH_S - WARM_UP_S), 100 * refused / max(answered, 1)


def faults(seeds: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of 2,000 requests of which some fail by chance."""
    for share, target in ((0.05, "at most 3 x"), (0.15, "")):
        for name, latency_s, each_s in (
            ("0 ms server that answers 1,500/s", 0.0, 1 / 1500),
            ("200 ms server", 0.2, 0.0),
        ):
            ratios, clean_s = [], []
            for seed in range(seeds):
                clean, _ = simulate(Faulty(seed, latency_s, each_s=each_s), 2000)
                faulty, errors = simulate(Faulty(seed, latency_s, share=share, each_s=each_s), 2000)
                assert share > 0.1 or errors == 0
                ratios.append(faulty / clean)
                clean_s.append(clean)
            yield (
                f"2,000 requests, {name}, {share:.0%} at random 429 (Retry-After 1 s) or 500",
                target,
                f"{statistics.median(ratios):.2f} x the time without"
                f" ({statistics.median(clean_s):.1f} s)",
            )


def buckets(seeds: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of token buckets."""
    for rate, burst, latency_s, target in (
        (100.0, 20.0, 0.05, "90 %, 5 refusals per 100 answers"),
        (100.0, 20.0, 1.0, "90 %, 5 refusals per 100 answers"),
        (100.0, 100.0, 0.05, ""),
        (5.0, 1.0, 0.05, "85 %"),
        (5.0, 5.0, 0.05, "85 %"),
        (5.0, 20.0, 0.05, "85 %"),
        (5.0, 5.0, 4.0, "85 %"),
        (20.0, 4.0, 0.05, "85 %"),
        (20.0, 20.0, 0.05, "85 %"),
        (1000.0, 200.0, 0.05, "85 %"),
    ):
        used, refusals = [], []
        for seed in range(seeds):
            server = Bucket(seed, latency_s, rate=rate, burst=burst)
            simulate(server)
            per_second, per_100 = steady(server)
            used.append(per_second / rate)
            refusals.append(per_100)
        yield (
            f"token bucket {rate:,.0f}/s, burst {burst:.0f}, answers in {latency_s:g} s",
            target,
            f"{statistics.median(used):.0%} used (least {min(used):.0%}),"
            f" {statistics.median(refusals):.1f} refusals per 100 answers"
            f" (most {max(refusals):.1f})",
        )


def at_most(seeds: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of servers that answer so many at once."""
    for most, latency_s in ((2, 0.2), (2, 2.0), (32, 4.0)):
        used, refusals = [], []
        for seed in range(seeds):
            server = AtMost(seed, latency_s, most=most)
            simulate(server)
            per_second, per_100 = steady(server)
            used.append(per_second * latency_s / most)
            refusals.append(per_100)
        yield (
            f"at most {most} at once, answers in {latency_s:g} s",
            "no storm",
            f"{statistics.median(used):.0%} used,"
            f" {statistics.median(refusals):.1f} refusals per 100 answers",
        )


def rising(seeds: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the limit of requests in flight."""
    for name, each_s, target in (
        ("200 ms server", 0.0, "6 s"),
        ("200 ms server that answers 200/s", 1 / 200, "10 s at best"),
    ):
        took, most = [], []
        for seed in range(seeds):
            made = Faulty(seed, 0.2, each_s=each_s)
            took.append(simulate(made, 2000)[0])
            most.append(made.in_flight_max)
        yield (
            f"2,000 requests, {name}, default limit",
            target,
            f"{statistics.median(took):.1f} s, {statistics.median(most):.0f} in flight at most",
        )


async def serve(bucket: Bucket) -> None:
    """Serve a token bucket on a free loopback port and print the base URL."""

    async def respond(request: web.Request) -> web.Response:
        await request.read()
        failure = bucket.refuse(asyncio.get_running_loop().time())
        if failure is not None:
            after = {"Retry-After": f"{failure.wait_s:g}"}
            return web.json_response({"error": {}}, status=429, headers=after)
        await asyncio.sleep(bucket.latency_s)
        return web.json_response(completion("A"))

    app = web.Application()
    app.router.add_post("/v1/chat/completions", respond)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


async def ask_really(base_url: str, server: Server) -> None:
    """Ask a real server for 60 s, and note in `server` what it said when."""
    spec = ModelSpec(name="openai/perf", model="perf", base_url=base_url)
    model = open_model(spec, environ={})
    assert isinstance(model, HttpModel)
    loop = asyncio.get_running_loop()
    started, send = loop.time(), model.send

    async def noting(sent: bytes) -> Answer | Failure:
        result = await send(sent)
        times = server.answered if isinstance(result, Answer) else server.refused
        times.append(loop.time() - started)
        return result

    model.send = noting  # type: ignore[method-assign]
    await ask(model, iter(range(10**9)), started + LENGTH_S)
    await model.close()


def real(seeds: int) -> Iterator[tuple[str, str, str]]:
    """Yield the row of a token bucket behind a real socket."""
    server = Bucket(0)
    with server_process(__file__) as base_url:
        asyncio.run(ask_really(base_url, server))
    per_second, per_100 = steady(server)
    yield (
        f"token bucket {server.rate:.0f}/s, burst {server.burst:.0f}, real sockets, once",
        "90 %, 5 refusals per 100 answers",
        f"{per_second / server.rate:.0%} used, {per_100:.1f} refusals per 100 answers",
    )


def main() -> int:
    """Print the table."""
    options = parser(__doc__, seeds=5)
    options.add_argument(
        "--real", action="store_true", help="only the bucket on real sockets, 60 s"
    )
    args = options.parse_args()
    if args.serve:
        asyncio.run(serve(Bucket(0)))
        return 0
    measures: tuple[Callable[[int], Iterator[tuple[str, str, str]]], ...]
    measures = (real,) if args.real else (faults, buckets, at_most, rising)
    print("| what | target | median |\n|---|---|---|")
    for measure in measures:
        for row in measure(args.seeds):
            print_row(*row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
