"""The limiter keeps its bounds whatever happens, and waits as long as it is told to."""

from __future__ import annotations

import asyncio
import random
import time
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.models.limits import OUTAGE, AdaptiveLimiter, backoff, retry_after

EVENTS = st.lists(
    st.sampled_from(["answer", "429", "failure", "retry", "cancel", "pause", "lower", "new"]),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(events=EVENTS, maximum=st.integers(1, 12), start=st.integers(1, 40), seed=st.integers(0, 99))
def test_never_above_the_maximum_never_below_one_and_nothing_is_lost(
    events: list[str], maximum: int, start: int, seed: int
) -> None:
    rng = random.Random(seed)
    most = [0]

    async def client(limiter: AdaptiveLimiter, turns: list[asyncio.Event], used: set[int]) -> None:
        await limiter.acquire()
        try:
            me = len(turns)
            turns.append(asyncio.Event())
            used.add(me)
            most[0] = max(most[0], limiter.in_flight)
            await turns[me].wait()
            if rng.random() < 0.3:
                await limiter.back_off(0.0)
                most[0] = max(most[0], limiter.in_flight)
            used.discard(me)
        finally:
            limiter.release()

    async def play() -> None:
        limiter = AdaptiveLimiter(maximum, start)
        turns: list[asyncio.Event] = []
        used: set[int] = set()
        tasks = [asyncio.create_task(client(limiter, turns, used)) for _ in range(20)]
        for event in events:
            match event:
                case "answer":
                    limiter.succeeded()
                case "429":
                    limiter.failed(limiter.round, is_load=True)
                case "failure":
                    limiter.failed(limiter.round, is_load=False)
                case "retry" if used:
                    turns[min(used)].set()
                case "cancel":
                    rng.choice(tasks).cancel()
                case "pause":
                    limiter.pause(0.001)
                case "lower":
                    limiter.lower(rng.randint(1, 12))
                case "new":
                    tasks.append(asyncio.create_task(client(limiter, turns, used)))
            await asyncio.sleep(0)
            assert 1 <= limiter.limit <= limiter.maximum <= maximum
            assert limiter.in_flight <= maximum
        while not all(task.done() for task in tasks):  # everyone who waits gets a turn
            for turn in turns:
                turn.set()
            await asyncio.sleep(0.0005)
        assert limiter.in_flight == 0
        assert most[0] <= maximum

    asyncio.run(asyncio.wait_for(play(), 20))


def test_the_limit_doubles_per_round_until_the_endpoint_objects() -> None:
    async def play() -> list[int]:
        limiter = AdaptiveLimiter(100, start=10)
        seen = [limiter.limit]
        for _ in range(3):
            places = limiter.limit
            for _ in range(places):
                await limiter.acquire()
            for _ in range(places):
                limiter.succeeded()
                limiter.release()
            seen.append(limiter.limit)
        limiter.failed(limiter.round, is_load=True)
        seen.append(limiter.limit)
        for _ in range(40):
            await limiter.acquire()
        for _ in range(40):  # one round: one place and a tenth
            limiter.succeeded()
            limiter.release()
        seen.append(limiter.limit)
        return seen

    assert asyncio.run(play()) == [10, 20, 40, 80, 40, 44]


def test_the_limit_does_not_grow_beyond_twice_what_was_tried() -> None:
    async def play() -> int:
        limiter = AdaptiveLimiter(100, start=4)
        for _ in range(50):  # never more than one at once
            await limiter.acquire()
            limiter.succeeded()
            limiter.release()
        return limiter.limit

    assert asyncio.run(play()) == 4


def test_one_round_of_429_halves_once() -> None:
    async def play() -> tuple[int, int]:
        limiter = AdaptiveLimiter(64, start=64)
        sent_in_round = limiter.round
        for _ in range(30):
            limiter.failed(sent_in_round, is_load=True)
        once = limiter.limit
        limiter.failed(limiter.round, is_load=True)
        return once, limiter.limit

    assert asyncio.run(play()) == (32, 16)


def test_an_outage_lowers_the_limit_is_told_once_a_round_and_recovery_is_fast() -> None:
    async def play() -> tuple[int, list[int], int, int]:
        limiter = AdaptiveLimiter(16)
        for _ in range(OUTAGE - 1):
            assert limiter.failed(limiter.round, is_load=False) == 0
        before = limiter.limit
        sent_in_round = limiter.round
        rounds = [limiter.failed(sent_in_round, is_load=False) for _ in range(3)]
        rounds += [limiter.failed(limiter.round, is_load=False) for _ in range(5)]
        down = limiter.limit
        for _ in range(4):
            places = limiter.limit
            for _ in range(places):
                await limiter.acquire()
            for _ in range(places):
                limiter.succeeded()
                limiter.release()
        assert limiter.failed(limiter.round, is_load=False) == 0
        return before, rounds, down, limiter.limit

    assert asyncio.run(play()) == (16, [1, 0, 0, 2, 3, 4, 5, 6], 1, 16)


def test_first_come_first_served_and_retries_first() -> None:
    order: list[str] = []

    async def play() -> None:
        limiter = AdaptiveLimiter(1)
        await limiter.acquire()

        async def new(name: str) -> None:
            await limiter.acquire()
            order.append(name)
            limiter.release()

        async def retry() -> None:
            await limiter.back_off(0.0)
            order.append("retry")
            limiter.release()

        tasks = [asyncio.create_task(new(name)) for name in "abc"]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(retry()))
        await asyncio.gather(*tasks)

    asyncio.run(play())
    assert order == ["retry", "a", "b", "c"]


def test_a_waiting_retry_lends_its_turn_but_keeps_its_place() -> None:
    async def play() -> tuple[int, int]:
        limiter = AdaptiveLimiter(4, start=2)

        async def fail_once() -> None:
            await limiter.back_off(0.02)
            limiter.release()

        await limiter.acquire()
        await limiter.acquire()
        retries = [asyncio.create_task(fail_once()) for _ in range(2)]
        await asyncio.sleep(0)
        await limiter.acquire()
        await limiter.acquire()  # with the turns of the two that wait
        fifth = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0.01)
        assert not fifth.done()  # four places are held
        during = limiter.in_flight
        limiter.release()
        limiter.release()
        await asyncio.gather(*retries, fifth)
        return during, limiter.in_flight

    assert asyncio.run(play()) == (2, 1)


def test_a_pause_holds_everyone_until_it_has_passed() -> None:
    async def play() -> list[float]:
        limiter = AdaptiveLimiter(8)
        started = time.monotonic()
        limiter.pause(0.05)
        limiter.pause(0.01)  # a shorter one does not end it
        waited = []

        async def ask() -> None:
            await limiter.acquire()
            waited.append(time.monotonic() - started)
            limiter.release()

        await asyncio.gather(*(ask() for _ in range(3)))
        return waited

    assert all(0.045 <= seconds < 1.0 for seconds in asyncio.run(play()))


def test_a_cancelled_waiter_gives_its_turn_to_the_next() -> None:
    async def play() -> None:
        limiter = AdaptiveLimiter(1)
        await limiter.acquire()
        first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        limiter.release()  # the turn is given to the first ...
        first.cancel()  # ... which is cancelled before it runs
        await asyncio.wait_for(second, 1)
        assert limiter.in_flight == 1

    asyncio.run(play())


@given(attempt=st.integers(1, 40), seed=st.integers(0, 1000))
def test_backoff_lies_between_zero_and_the_doubled_base(attempt: int, seed: int) -> None:
    seconds = backoff(attempt, random.Random(seed), base_s=0.5, cap_s=60.0)
    assert 0.0 <= seconds <= min(60.0, 0.5 * 2 ** (attempt - 1))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"retry-after-ms": "x", "Retry-After": "1"}, 1.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_ahead() -> None:
    seconds = retry_after({"Retry-After": formatdate(time.time() + 30, usegmt=True)})
    assert seconds is not None and 28.0 < seconds <= 30.0
