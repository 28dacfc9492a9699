"""One model at several addresses: where its requests go, which keys go along, and when it is given up."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models import ModelPool, check_model, endpoint
from medhelm.models.access import resolve_access
from medhelm.models.http_endpoint import HttpModel
from medhelm.models.identity import each_address
from medhelm.models.pacing.limits import AdaptiveLimiter, SlotQueue
from medhelm.schema.episode import Response
from medhelm.schema.model import ModelSpec
from tests.models.asking import ask_all, request, said_by, spec_for, without_timings
from tests.server import Faults, FaultServer

KEY = "sk-geheim"
GONE = "http://127.0.0.1:9/v1"
"""Nobody listens there."""


def at(*urls: str, **more: Any) -> ModelSpec:
    return spec_for(urls, **more)  # type: ignore[arg-type]


async def asked(
    servers: list[FaultServer], n: int, *more: str, **settings: Any
) -> tuple[list[Response], list[str], HttpModel]:
    """Return the responses of a model at all these servers, what was said meanwhile, and the model."""
    async with AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(server)).base_url for server in servers]
        pool, said = ModelPool({"K": KEY}), list[str]()
        pool.say = said.append
        model = pool.open(at(*urls, *more, **settings))
        assert isinstance(model, HttpModel)
        try:
            found = await ask_all(model, [request(i) for i in range(n)])
        finally:
            await pool.close()
        assert not any(limiter.in_flight for limiter in model._ways)
        return found, said, model


def test_the_least_busy_address_goes_first_and_all_have_one_queue() -> None:
    async def run() -> None:
        a, b = AdaptiveLimiter(2, 2), AdaptiveLimiter(1, 1)
        queue = SlotQueue(a, b)
        assert [await queue.acquire() for _ in range(3)] == [a, b, a]
        late, soon = (asyncio.create_task(queue.acquire(place)) for place in (7, 3))
        own, given_up = (asyncio.create_task(limiter.acquire(5)) for limiter in (b, a))
        await asyncio.sleep(0)
        given_up.cancel()
        b.release()
        assert await soon is b and not own.done()
        b.release()
        await own
        a.release()
        assert await late is a and (a.in_flight, b.in_flight) == (2, 1)
        moving = asyncio.create_task(queue.back_off(a, 0.0))
        await asyncio.sleep(0)
        assert await queue.acquire() is a
        b.release()
        assert await moving is b and (a.in_flight, b.in_flight) == (2, 1)

    asyncio.run(run())


def test_a_request_that_is_cancelled_on_its_way_holds_what_it_held() -> None:
    async def run(is_given: bool) -> tuple[int, int]:
        a, b = AdaptiveLimiter(1, 1), AdaptiveLimiter(1, 1)
        queue = SlotQueue(a, b)
        first, second = await queue.acquire(), await queue.acquire()
        moving = asyncio.create_task(queue.back_off(first, 0.0))
        await asyncio.sleep(0)
        assert await queue.acquire() is first
        for _ in range(3):
            await asyncio.sleep(0)
        if is_given:
            second.release()  # to the one that moves, which has not seen it yet
        moving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving
        first.release()  # as its caller does
        return a.in_flight, b.in_flight

    assert [asyncio.run(run(is_given)) for is_given in (False, True)] == [(1, 1), (1, 0)]


def test_answers_are_those_of_one_address_and_say_which() -> None:
    (alone, _, _), (found, said, model) = (
        asyncio.run(asked([FaultServer(latency_s=0.005) for _ in range(n)], 60, *more, max_concurrency=4))
        for n, more in ((2, ()), (3, ("http://LOCALHOST:1/v1",)))
    )  # fmt: skip
    names = {response.address for response in found}
    assert len(names) == 3 and all(str(name).startswith("http://127.0.0.1:") for name in names)
    assert {str(r.address) for r in alone}.isdisjoint(map(str, names))
    texts = [[without_timings(r).text for r in responses] for responses in (alone, found)]
    assert texts[0] == texts[1] and [r.finish for r in found] == ["stop"] * 60
    assert len(said) <= 1 and len(model._ways) == 4  # at the fourth nobody is there


def test_a_try_that_failed_is_followed_by_one_elsewhere() -> None:
    broken, idle = FaultServer(faults=Faults(rate=1.0, kinds=("500",))), FaultServer()
    found, _, _ = asyncio.run(asked([broken, idle], 1, max_attempts=2))
    assert [(r.finish, r.attempts) for r in found] == [("stop", 2)]
    assert (broken.requests, idle.requests) == (1, 1)


def test_one_that_refuses_is_paced_and_the_others_are_not() -> None:
    full = Faults(rate=1.0, kinds=("429_retry_after",), retry_after_s=400.0)
    servers = [FaultServer(latency_s=0.01), FaultServer(latency_s=0.01), FaultServer(faults=full)]
    found, said, model = asyncio.run(asked(servers, 400, max_concurrency=8, max_attempts=10))
    rates = [limiter.rate for limiter in model._ways]
    assert rates[:2] == [None, None] and rates[2] is not None
    assert {r.finish for r in found} == {"stop"} and said == []
    assert servers[2].requests < 60 and min(s.requests for s in servers[:2]) > 150


def test_a_dead_one_is_left_out_said_once_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "AGAIN_AFTER_S", 0.3)

    async def run() -> None:
        port = FaultServer()
        async with port:
            url = port.base_url
        pool, said = ModelPool({}), list[str]()
        pool.say = said.append
        async with FaultServer(latency_s=0.01) as alive:
            spec = at(alive.base_url, url, max_concurrency=2)
            for n in range(2):  # a second run of the model has the same addresses
                found = await ask_all(pool.open(spec), [request(f"{n} {i}") for i in range(60)])  # type: ignore[arg-type]
                assert {r.address for r in found} == {alive.base_url}
            host = url.removeprefix("http://").removesuffix("/v1")
            assert [line.partition(":")[0] for line in said] == [host.partition(":")[0]]
            assert said[0].startswith(
                f"{host} does not answer (no connection): others are asked meanwhile"
            )
            async with FaultServer(port=int(host.rpartition(":")[2])) as back:
                await asyncio.sleep(0.4)
                found = await ask_all(pool.open(spec), [request(f"last {i}") for i in range(200)])  # type: ignore[arg-type]
                assert back.requests > 20 and {r.finish for r in found} == {"stop"}
            assert said[1:] == [f"{host} answers again"]
        await pool.close()

    asyncio.run(run())


def test_all_dead_ends_as_one_dead_address_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_CONNECT_S", 0.3)
    with pytest.raises(ModelError, match="127.0.0.1:1?9 does not"):
        spec = at(GONE, "http://127.0.0.1:19/v1")
        asyncio.run(said_by(spec, [request(i) for i in range(30)]))


def test_a_server_that_refuses_the_key_stops_the_model() -> None:
    with pytest.raises(ModelError, match="the key in K"):
        asyncio.run(asked([FaultServer(key=KEY), FaultServer(key="other")], 9, api_key_env="K"))


def test_a_key_goes_to_the_addresses_that_it_is_meant_for() -> None:
    ours, theirs = "https://x.openai.azure.com", "http://gpu:8000/v1"
    spec = ModelSpec(name="m", provider="azure", model="m", base_url=(ours, theirs))
    environ = {"AZURE_OPENAI_API_KEY": KEY, "K": "k"}
    keys = [resolve_access(way, environ).key for way in each_address(spec)]
    assert keys == [KEY, None]
    named = ModelSpec(name="m", model="m", base_url=("http://a/v1", theirs), api_key_env="K")
    assert [resolve_access(way, environ).key for way in each_address(named)] == ["k", "k"]
    check_model(named, environ)


@pytest.mark.parametrize(
    ("urls", "refusal"),
    [
        (("http://a/v1", "https://me:geheim@h/v1"), "user name or password"),
        (("http://a/v1", "https://h/v1?api_key=geheim"), "holds a key in 'api_key'"),
        (("http://a/v1", "gpu:8000"), "not an http or https address"),
        ((), "empty list"),
        (("https://a.openai.azure.com/openai/deployments/m",), "ends before"),
        (("https://a.openai.azure.com", "http://b.openai.azure.com"), "begins with http://"),
    ],
)
def test_every_address_is_checked(urls: tuple[str, ...], refusal: str) -> None:
    provider = "azure" if "azure" in str(urls) else "openai"
    spec = ModelSpec(name="m", provider=provider, model="m", base_url=urls)
    with pytest.raises((UsageError, ModelError), match=refusal) as found:
        check_model(spec, {"AZURE_OPENAI_API_KEY": KEY})
    assert "geheim" not in str(found.value)
