"""The limiter of an endpoint: it gives out slots, and lets failed requests wait for their next try."""

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
from medhelm.models.pacing.pace import Pacer

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


class AdaptiveLimiter:
    """Slots for an endpoint's requests: a slot is held from `acquire` to `release`.

    `InFlightLimit` says how many there are, `Pacer` how soon the next one is given. A request that
    waits for its next try holds none (`back_off`). Retries go before new requests, these by their
    place, and of one place first come, first served. The time is the event loop's.
    """

    def __init__(self, maximum: int, start: int = START) -> None:
        self._limit = InFlightLimit(maximum, start)
        self._pacer = Pacer()
        self._sending = 0
        self._timer: asyncio.TimerHandle | None = None
        self._new: list[tuple[int, int, asyncio.Future[None]]] = []
        """A heap by place and arrival."""
        self._arrivals = count()
        self._retries: deque[asyncio.Future[None]] = deque()
        self._backing_off: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    @property
    def maximum(self) -> int:
        """Return how many requests may ever be in flight."""
        return self._limit.maximum

    @property
    def limit(self) -> int:
        """Return how many requests may be in flight now."""
        return self._limit.limit

    @property
    def rate(self) -> float | None:
        """Return how many requests may be sent in a second, None for any number."""
        return self._pacer.rate

    @property
    def in_flight(self) -> int:
        """Return how many requests hold a slot now."""
        return self._sending

    def lower(self, maximum: int) -> None:
        """Keep to a smaller maximum from now on (another model of the endpoint asks for it)."""
        self._limit.lower(maximum)

    async def acquire(self, place: int = 0) -> None:
        """Wait for a slot; the lowest place goes first."""
        if self._is_idle() and self._pacer.wait(now := _now()) <= 0:
            self._sending += 1
            self._pacer.take(now)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._new, (place, next(self._arrivals), future))
        self._wake()
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():  # the slot had been given a moment before
                self.release()
            raise

    def release(self) -> None:
        """Give the slot back."""
        self._sending -= 1
        self._wake()

    async def back_off(self, delay_s: float) -> None:
        """Give the slot back, wait for `delay_s` seconds, then for the next slot."""
        self._sending -= 1
        task = asyncio.current_task()
        assert task is not None
        self._backing_off.add(task)
        self._wake()
        future = None
        try:
            if self._is_ending:
                raise asyncio.CancelledError
            await asyncio.sleep(delay_s)
            future = asyncio.get_running_loop().create_future()
            self._retries.append(future)
            self._wake()
            await future
        except asyncio.CancelledError:
            if future is None or future.cancelled():
                self._sending += 1  # the caller gives back a slot
            raise
        finally:
            self._backing_off.discard(task)

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
        self._limit.answered(sent.round, _now() - sent.at)
        self._wake()

    def ended(self, sent: Sent) -> None:
        """Note a request that the endpoint did not take, for reasons of its own."""
        self._limit.ended(sent.round)

    def refused(self, sent: Sent, wait_s: float | None) -> None:
        """Note that the endpoint wants fewer requests, or none for `wait_s` seconds."""
        now = _now()
        self._limit.ended(sent.round)
        self._pacer.refused(now, sent.epoch, now - sent.at, wait_s)

    def failed(self, sent: Sent, *, is_timeout: bool) -> int:
        """Note a failed try; returns the round of an outage, once in each, else 0."""
        return self._limit.failed(sent.round, sent.cuts, is_timeout=is_timeout)

    def pause(self, seconds: float) -> None:
        """Give no slot for `seconds`. A longer pause that is under way stays."""
        if seconds > 0:
            self._pacer.pause(_now() + seconds)

    def _wake(self) -> None:
        """Give out the slots that there are."""
        while self._is_waited_for():
            if self._sending >= self._limit.limit:
                self._limit.bound()
                return
            now = _now()
            if (wait_s := self._pacer.wait(now)) > 0:
                self._pacer.bound()
                self._wake_at(now + wait_s)
                return
            given = self._retries.popleft() if self._retries else heapq.heappop(self._new)[-1]
            given.set_result(None)
            self._sending += 1
            self._pacer.take(now)

    def _is_idle(self) -> bool:
        """Return whether a new request finds a slot that nobody waits for."""
        return (
            not self._new
            and not self._retries
            and self._sending < self._limit.limit
            and len(self._backing_off) < MOST_WAITING
        )

    def _is_waited_for(self) -> bool:
        """Return whether someone may get a slot; who was cancelled leaves the queue here."""
        while self._retries and self._retries[0].done():
            self._retries.popleft()
        while self._new and self._new[0][-1].done():
            heapq.heappop(self._new)
        return bool(self._retries) or (bool(self._new) and len(self._backing_off) < MOST_WAITING)

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._wake()


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
