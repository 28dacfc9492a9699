"""The limiter keeps its bounds whatever happens; its laws are those of `perf/limiter.py`."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.models.codecs.wire import Failure
from medhelm.models.pacing import limits
from medhelm.models.pacing.in_flight import HOLD, OUTAGE, InFlightLimit
from medhelm.models.pacing.limits import AdaptiveLimiter, backoff, retry_after
from medhelm.models.pacing.pace import OPEN_COUNT, Pacer

sys.path.insert(0, str(Path(__file__).parents[2] / "perf"))

from limiter import AtMost, Bucket, Faulty, Server, simulate, steady
from virtual_time import run_virtually

from tests.cases import cases

EVENTS = st.lists(
    st.sampled_from(
        ["answer", "429", "time-out", "failure", "retry", "cancel", "pause", "lower", "new"]
    ),
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
                await limiter.queues[0].back_off(limiter, 0.0)
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
                    limiter.answered(limiter.sent())
                case "429":
                    limiter.refused(limiter.sent(), rng.choice([None, 0.01]))
                case "time-out":
                    limiter.failed(limiter.sent(), is_timeout=True)
                case "failure":
                    limiter.failed(limiter.sent(), is_timeout=False)
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
            await asyncio.sleep(rng.choice([0, 0, 0.1]))
            assert 1 <= limiter.limit <= limiter.maximum <= maximum
            assert limiter.in_flight <= maximum
        while not all(task.done() for task in tasks):  # everyone who waits gets a turn
            for turn in turns:
                turn.set()
            await asyncio.sleep(0.5)
        assert limiter.in_flight == 0
        assert most[0] <= maximum

    run_virtually(asyncio.wait_for(play(), 10_000))


def answer_round(limit: InFlightLimit, seconds: float, *, is_bound: bool = True) -> int:
    """Send and answer as many requests as are allowed; returns the limit after that."""
    sent = [limit.sent() for _ in range(limit.limit)]
    if is_bound:
        limit.bound()
    for round_ in sent:
        limit.answered(round_, seconds)
    return limit.limit


def test_the_limit_doubles_while_the_throughput_rises() -> None:
    limit = InFlightLimit(400, 32)
    assert [answer_round(limit, 0.2) for _ in range(5)] == [64, 128, 256, 400, 400]


def test_the_limit_goes_back_where_more_at_once_is_only_slower() -> None:
    limit = InFlightLimit(512, 32)
    # Up to 64 at once in 0.2 s: 320 answers a second, however many wait.
    seen = [answer_round(limit, max(0.2, limit.limit / 320)) for _ in range(3 + HOLD)]
    assert seen == [64, 128] + [64] * HOLD + [128]  # and is tried again later


def test_a_limit_that_nobody_reaches_does_not_rise() -> None:
    limit = InFlightLimit(512, 32)
    assert [answer_round(limit, 0.2, is_bound=False) for _ in range(5)] == [32] * 5


def test_requests_that_fail_do_not_hold_the_limit_for_ever() -> None:
    limit = InFlightLimit(512, 10)
    sent = [limit.sent() for _ in range(10)]
    limit.bound()
    for place, round_ in enumerate(sent):
        if place % 3:
            limit.answered(round_, 0.2)
        else:
            limit.ended(round_)
    assert limit.limit == 20


def test_one_round_of_time_outs_halves_once_and_the_limit_rises_by_a_tenth_from_there() -> None:
    limit = InFlightLimit(200, 64)
    cuts = limit.cuts
    for _ in range(30):
        limit.failed(limit.sent(), cuts, is_timeout=True)
    once = limit.limit
    limit.failed(limit.sent(), limit.cuts, is_timeout=True)
    assert (once, limit.limit) == (32, 16)
    assert [answer_round(limit, 0.2) for _ in range(3)] == [17, 18, 19]


def test_an_outage_lowers_the_limit_is_said_once_a_round_and_recovery_is_fast() -> None:
    limit = InFlightLimit(16, 16)
    for _ in range(OUTAGE - 1):
        assert limit.failed(0, limit.cuts, is_timeout=False) == 0
    assert limit.limit == 16
    cuts = limit.cuts
    rounds = [limit.failed(0, cuts, is_timeout=False) for _ in range(3)]
    rounds += [limit.failed(0, limit.cuts, is_timeout=False) for _ in range(5)]
    assert (rounds, limit.limit) == ([1, 0, 0, 2, 3, 4, 5, 6], 1)
    assert [answer_round(limit, 0.2) for _ in range(4)] == [2, 4, 8, 16]
    assert limit.failed(0, limit.cuts, is_timeout=False) == 0


def flood(pacer: Pacer, now: float, sent: int, refused: int, said_s: float | None) -> None:
    """Send so many at once, of which so many are refused 10 ms later, and let that settle."""
    epochs = [pacer.sent(now) for _ in range(sent)]
    for epoch in epochs[:refused]:
        pacer.refused(now + 0.01, epoch, 0.01, said_s)
    pacer.wait(now + 1.0)


def test_a_few_refusals_set_no_pace() -> None:
    pacer = Pacer()
    for second in range(20):
        flood(pacer, 2.0 * second, OPEN_COUNT, OPEN_COUNT // 20, 1.0)
    assert pacer.rate is None and pacer.wait(100.0) == 0.0


def test_many_refusals_set_the_accepted_rate_and_requests_go_out_evenly() -> None:
    pacer = Pacer()
    flood(pacer, 0.0, 64, 40, 1.0)  # 24 were accepted
    assert pacer.rate is not None and 20.0 <= pacer.rate <= 24.0
    now, times = 50.0, []  # after a long rest: no burst
    while len(times) < 10:
        if (wait_s := pacer.wait(now)) > 0.0:
            now += wait_s
        else:
            pacer.take(now)
            times.append(now)
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert gaps[0] >= 0.5 / pacer.rate  # one may be a little early
    assert all(gap == pytest.approx(1 / pacer.rate) for gap in gaps[1:])


@pytest.mark.parametrize("start", [0.0, 1e6])
def test_the_rate_after_a_stop_is_what_was_accepted_whatever_the_clock_says(start: float) -> None:
    pacer = Pacer()
    flood(pacer, start, 300, 20, None)
    flood(pacer, start + 2.0, 400, 390, 8.0)  # 290 accepted in 3 s, and 8 s of pause
    assert pacer.rate == pytest.approx(0.97 * 290 / 11, rel=0.01)


def test_a_rest_does_not_make_the_accepted_rate_look_low() -> None:
    pacer = Pacer()
    for second in range(50):
        pacer.sent(float(second))
    hour = 3600.0
    for place in range(300):  # 30 a second, of which a third is refused
        epoch = pacer.sent(hour + place / 30)
        if place % 3 == 0:
            pacer.refused(hour + place / 30, epoch, 0.01, 1.0)
        pacer.wait(hour + place / 30)
        if pacer.rate is not None:
            break
    assert pacer.rate is not None and pacer.rate > 5.0


def test_nearly_all_refused_pauses_for_as_long_as_the_endpoint_says() -> None:
    pacer = Pacer()
    flood(pacer, 0.0, 20, 20, 7.0)
    assert pacer.wait(1.0) == pytest.approx(7.0, abs=0.1)
    assert pacer.wait(9.0) == 0.0


def test_refusals_of_what_was_sent_before_a_cut_do_not_count() -> None:
    pacer = Pacer()
    late = [pacer.sent(0.0) for _ in range(64)]
    for epoch in late[:30]:
        pacer.refused(0.01, epoch, 0.01, None)
    pacer.wait(0.2)
    rate = pacer.rate
    for epoch in late[30:]:
        pacer.refused(1.0, epoch, 1.0, None)
    pacer.wait(2.0)
    assert pacer.rate == rate and pacer.epoch == 1


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


@pytest.mark.slow
@pytest.mark.parametrize("latency_s", [0.0, 0.2])
def test_random_faults_take_at_most_three_times_as_long(latency_s: float) -> None:
    def took(seed: int, share: float) -> float:
        seconds, errors = simulate(Faulty(seed, latency_s, share=share, each_s=1 / 1500), 2000)
        assert errors == 0
        return seconds

    assert median([took(seed, 0.05) for seed in range(3)]) <= 3.0 * took(0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "burst", "used", "refusals", "seconds"),
    [
        (100.0, 20.0, 0.9, 5.0, 30.0),
        (5.0, 5.0, 0.85, 10.0, 60.0),
        (5.0, 20.0, 0.85, 20.0, 60.0),
        (20.0, 20.0, 0.85, 5.0, 60.0),
        (400.0, 20.0, 0.85, 5.0, 15.0),
    ],
)
def test_a_token_bucket_is_used_and_seldom_refuses(
    rate: float,
    burst: float,
    used: float,
    refusals: float,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("limiter.LENGTH_S", seconds)  # thousands of requests are enough
    server = Bucket(1, 0.05, rate=rate, burst=burst)
    simulate(server)
    per_second, per_100 = steady(server)
    assert used <= per_second / rate <= 1.1
    assert per_100 <= refusals


@pytest.mark.parametrize("latency_s", [0.2, 2.0])
def test_a_server_that_takes_two_at_once_sees_no_storm(latency_s: float) -> None:
    server = AtMost(0, latency_s)
    simulate(server)
    per_second, per_100 = steady(server)
    assert per_100 <= 25.0  # 62 in 64 without a pace
    assert per_second * latency_s / 2 >= 0.3


@pytest.mark.slow
def test_refusals_at_any_rate_take_the_pace_off() -> None:
    server = Faulty(0, 0.01, share=0.5, kinds=("429",))
    took, _ = simulate(server, 2000, 64)
    # 4,000 tries at 64 in flight take 0.6 s, a request refused six times 6 s; a pace of a few
    # hundred a second would take longer than that.
    assert took < 12.0 and len(server.refused) > 1500


def test_the_default_limit_is_found_while_asking() -> None:
    server = Server(0, 0.2)
    took, _ = simulate(server, 2000)
    assert took <= 3.0 and 256 <= server.in_flight_max <= limits.CEILING


def test_a_request_that_waits_for_its_retry_holds_no_slot() -> None:
    class Once(Server):
        """Refuses the first request, for a long time."""

        def refuse(self, now: float) -> Failure | None:
            if self.refused or self.answered:
                return None
            return Failure("retry", "http 429", 429, wait_s=30.0)

    server = Once(0, 0.1)
    took, errors = simulate(server, 20, 1)
    assert errors == 0
    assert server.answered[-2] < 5.0  # nineteen requests, one after the other, meanwhile
    assert 30.0 <= server.answered[-1] == pytest.approx(took, abs=0.01)


def test_retries_go_first_then_the_oldest_work_and_equals_as_they_came() -> None:
    order: list[str] = []

    async def play() -> None:
        limiter = AdaptiveLimiter(1)
        await limiter.acquire()

        async def new(name: str, place: int) -> None:
            await limiter.acquire(place)
            order.append(name)
            await asyncio.sleep(0.1)
            limiter.release()

        async def retry() -> None:
            await limiter.queues[0].back_off(limiter, 0.05)
            order.append("retry")
            limiter.release()

        waiting = [("new", 9), ("old", 2), ("old, later", 2), ("oldest", 0), ("newer", 11)]
        tasks = [asyncio.create_task(new(name, place)) for name, place in waiting]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(retry()))
        await asyncio.gather(*tasks)

    run_virtually(play())
    assert order == ["oldest", "retry", "old", "old, later", "new", "newer"]


def test_new_requests_wait_while_very_many_wait_for_their_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_WAITING", 3)

    async def play() -> tuple[int, bool, bool]:
        limiter = AdaptiveLimiter(2)

        async def fail_once() -> None:
            await limiter.acquire()
            await limiter.queues[0].back_off(limiter, 10.0)
            limiter.release()

        retries = [asyncio.create_task(fail_once()) for _ in range(3)]
        await asyncio.sleep(0.1)
        in_flight = limiter.in_flight
        new = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(1.0)
        early = new.done()
        await asyncio.gather(*retries, new)
        return in_flight, early, new.done()

    assert run_virtually(play()) == (0, False, True)


def test_a_pause_holds_everyone_until_it_has_passed() -> None:
    async def play() -> list[float]:
        limiter = AdaptiveLimiter(8)
        loop = asyncio.get_running_loop()
        limiter.pause(5.0)
        limiter.pause(1.0)  # a shorter one does not end it
        waited = []

        async def ask() -> None:
            await limiter.acquire()
            waited.append(loop.time())
            limiter.release()

        await asyncio.gather(*(ask() for _ in range(3)))
        return waited

    assert run_virtually(play()) == pytest.approx([5.0] * 3)


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
    ("headers", "seconds"), cases(__file__, "retry_after_is_read_as_seconds_or_date")
)
def test_retry_after_is_read_as_seconds_or_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


def test_retry_after_as_a_date_ahead() -> None:
    seconds = retry_after({"Retry-After": formatdate(time.time() + 30, usegmt=True)})
    assert seconds is not None and 28.0 < seconds <= 30.0
