"""The limiter of an endpoint gives out slots, and the queues in which requests wait for one."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
import time
from collections import deque
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, NamedTuple

from medhelm.models.pacing.in_flight import InFlightLimit
from medhelm.models.pacing.leased_pace import LeasedPacer
from medhelm.models.pacing.pace import Pacer
from medhelm.models.pacing.pool import Lease, Report

START = 64
"""Requests in flight at the start."""
CEILING = 512
"""The most in flight where the user sets no `max_concurrency`."""
MOST_WAITING = 1000
"""New requests are held back while so many wait for their next try: they take memory and budget."""
RETRY_AFTER_CAP_S = 300.0
"""A longer Retry-After ends the request as an error instead of holding the sweep."""


class Sent(NamedTuple):
    """The moment at which a request was sent, and the round that it belongs to."""

    at: float
    epoch: int
    cuts: int
    round: int


class SlotQueue:
    """Requests that wait for a slot of any of some limiters, those of one model's addresses.

    Retries go before new requests, these by their place, and of one place first come, first served.
    """

    def __init__(self, *limiters: AdaptiveLimiter) -> None:
        self.limiters = limiters
        self._new: list[tuple[int, int, asyncio.Future[AdaptiveLimiter]]] = []
        """A heap by place and arrival."""
        self._arrivals = count()
        self._retries: deque[asyncio.Future[AdaptiveLimiter]] = deque()
        for limiter in limiters:
            limiter.queues.append(self)

    async def acquire(self, place: int = 0) -> AdaptiveLimiter:
        """Wait for a slot, the lowest place first; returns whose it is, that of the least busy limiter."""
        free = [limiter for limiter in self.limiters if limiter.is_free()]
        if free:
            chosen = min(free, key=lambda limiter: (limiter.is_out, limiter.in_flight))
            chosen.take()
            return chosen
        future: asyncio.Future[AdaptiveLimiter] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._new, (place, next(self._arrivals), future))
        for limiter in self.limiters:
            limiter.wake()
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled():  # the slot had been given a moment before
                future.result().release()
            raise

    async def back_off(self, limiter: AdaptiveLimiter, delay_s: float) -> AdaptiveLimiter:
        """Give a slot back, wait for `delay_s` seconds, then for the next slot; returns whose it is.

        Of free ones that of another limiter goes first. Where it is cancelled, the caller still holds the
        slot that it had.
        """
        future: asyncio.Future[AdaptiveLimiter] | None = None
        task = asyncio.current_task()
        assert task is not None
        limiter._backing_off.add(task)
        limiter.release()
        try:
            if limiter._is_ending:
                raise asyncio.CancelledError
            await asyncio.sleep(delay_s)
            future = asyncio.get_running_loop().create_future()
            self._retries.append(future)
            for other in sorted(self.limiters, key=lambda x: (x is limiter, x.is_out, x.in_flight)):
                other.wake()
            return await future
        except asyncio.CancelledError:
            given = None if future is None or future.cancelled() else future.result()
            if given is not limiter:
                limiter.in_flight += 1
                if given is not None:
                    given.release()
            raise
        finally:
            limiter._backing_off.discard(task)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._new) + len(self._retries)

    def first(self) -> int | None:
        """Return the place of who is next, -1 for a retry; None where nobody waits.

        Who was cancelled leaves the queue here.
        """
        while self._retries:
            if not self._retries[0].done():
                return -1
            self._retries.popleft()
        while self._new:
            if not self._new[0][-1].done():
                return self._new[0][0]
            heapq.heappop(self._new)
        return None

    def give(self, limiter: AdaptiveLimiter) -> None:
        """Give a slot to who is next."""
        given = self._retries.popleft() if self._retries else heapq.heappop(self._new)[-1]
        given.set_result(limiter)


class AdaptiveLimiter:
    """Slots for an endpoint's requests: a slot is held from `acquire` to `release`.

    `InFlightLimit` says how many there are, `Pacer` how soon the next one is given. A request that
    waits for its next try holds none (`SlotQueue.back_off`). The time is the event loop's.
    """

    def __init__(self, maximum: int, start: int = START) -> None:
        self._limit = InFlightLimit(maximum, start)
        self._pacer: Pacer | LeasedPacer = Pacer()
        self._ceiling = maximum
        """The most in flight of all processes together."""
        self._leased: int | None = None
        """The most in flight by the lease of a pool, where there is one."""
        self.in_flight = 0
        """Requests that hold a slot now."""
        self._timer: asyncio.TimerHandle | None = None
        self.queues: list[SlotQueue] = []
        """The first is its own, the others are shared with other limiters."""
        SlotQueue(self)
        self._backing_off: set[asyncio.Task[Any]] = set()
        self._is_ending = False
        self.is_dead = False
        """True from when its endpoint was given up until that is heard of again."""

    @property
    def maximum(self) -> int:
        """Return how many requests may ever be in flight."""
        return self._ceiling

    @property
    def limit(self) -> int:
        """Return how many requests may be in flight now."""
        return self._limit.limit

    @property
    def rate(self) -> float | None:
        """Return how many requests may be sent in a second, None for any number."""
        return self._pacer.rate

    def lower(self, maximum: int) -> None:
        """Keep to a smaller maximum from now on (another model of the endpoint asks for it)."""
        self._ceiling = min(self._ceiling, maximum)
        self._limit.keep_to(min(self._limit.maximum, maximum))

    def share(self, workers: int) -> asyncio.Event:
        """Send nothing but by leases from now on, of a pool that so many processes share.

        Returns what is set where the pool should hear of something at once.
        """
        news = asyncio.Event()
        self._pacer, self._leased = LeasedPacer(news), 0
        self._limit = InFlightLimit(self._ceiling, max(1, START // workers))
        return news

    def report(self) -> Report:
        """Return what happened since the last report, for the pool."""
        assert isinstance(self._pacer, LeasedPacer)
        want = 2 * self._limit.limit if any(map(len, self.queues)) else self.in_flight + 1
        return self._pacer.report(self._ceiling, want, self.in_flight, _now())

    def hold(self, lease: Lease) -> None:
        """Keep to a lease."""
        assert isinstance(self._pacer, LeasedPacer)
        self._pacer.hold(lease, _now())
        self._leased = lease.most
        self._limit.keep_to(max(1, lease.most))
        self.wake()

    @property
    def is_out(self) -> bool:
        """Return whether tries are expected to fail, since so many in a row did."""
        return self.is_dead or self._limit.is_out

    @property
    def is_open(self) -> bool:
        """Return whether a request may be expected to be taken within a second."""
        return not self.is_out and self._pacer.wait(_now()) < 1.0

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot; the lowest place goes first."""
        await self.queues[0].acquire(place)

    def is_free(self) -> bool:
        """Return whether a new request finds a slot that nobody waits for."""
        return (
            self._next() is None
            and self.in_flight < self._most()
            and len(self._backing_off) < MOST_WAITING
            and self._pacer.wait(_now()) <= 0
        )

    def take(self) -> None:
        """Take a free slot."""
        self.in_flight += 1
        self._pacer.take(_now())

    def release(self) -> None:
        """Give the slot back."""
        self.in_flight -= 1
        self.wake()

    def end(self) -> None:
        """Cancel requests that wait for their next try, now and from now on: nothing of theirs
        is in flight."""
        self._is_ending = True
        for task in self._backing_off:
            task.cancel()

    def sent(self) -> Sent:
        """Note that a request is sent; what came of it is noted with what this returns."""
        now = _now()
        return Sent(now, self._pacer.sent(now), self._limit.cuts, self._limit.sent())

    def answered(self, sent: Sent) -> None:
        """Note an answer."""
        self.is_dead = False
        self._limit.answered(sent.round, _now() - sent.at)
        self.wake()

    def ended(self, sent: Sent) -> None:
        """Note a request that the endpoint did not take, for reasons of its own."""
        self.is_dead = False
        self._limit.ended(sent.round)

    def refused(self, sent: Sent, wait_s: float | None) -> None:
        """Note that the endpoint wants fewer requests, or none for `wait_s` seconds."""
        now = _now()
        self.ended(sent)
        self._pacer.refused(now, sent.epoch, now - sent.at, wait_s)

    def failed(self, sent: Sent, *, is_timeout: bool) -> int:
        """Note a failed try; returns the round of an outage, once in each, else 0."""
        return self._limit.failed(sent.round, sent.cuts, is_timeout=is_timeout)

    def pause(self, seconds: float) -> None:
        """Give no slot for `seconds`. A longer pause that is under way stays."""
        if seconds > 0:
            self._pacer.pause(_now() + seconds)

    def wake(self) -> None:
        """Give out the slots that there are."""
        while (queue := self._next()) is not None:
            if self.in_flight >= self._most():
                self._limit.bound()
                return
            if (wait_s := self._pacer.wait(_now())) > 0:
                self._pacer.bound()
                self._wake_at(_now() + wait_s)
                return
            queue.give(self)
            self.take()

    def _most(self) -> int:
        """Return how many requests may be in flight now: one where others can do the work of one that fails."""
        most = 1 if len(self.queues) > 1 and self.is_out else self._limit.limit
        return most if self._leased is None else min(most, self._leased)

    def _next(self) -> SlotQueue | None:
        """Return the queue whose turn it is; None where nobody may get a slot."""
        chosen, lowest = None, math.inf if len(self._backing_off) < MOST_WAITING else 0.0
        for queue in self.queues:
            place = queue.first()
            if place is not None and place < lowest:
                chosen, lowest = queue, place
        return chosen

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()


def _now() -> float:
    return asyncio.get_running_loop().time()


def backoff(attempt: int, rng: random.Random, base_s: float = 0.5, cap_s: float = 60.0) -> float:
    """Return seconds before try `attempt` + 1: exponential, with full jitter."""
    return rng.uniform(0.0, min(cap_s, base_s * 2.0 ** (attempt - 1)))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait (a number or an HTTP date), None if it does not."""
    if (text := headers.get("retry-after-ms")) is not None:
        value = _finite(text)
        if value is not None:
            return max(0.0, value / 1000.0)
    if (text := headers.get("Retry-After")) is None:
        return None
    value = _finite(text)
    if value is None:
        try:
            value = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, value)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
