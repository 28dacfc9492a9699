"""How many requests an endpoint gets at once, and how long to wait before the next try."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

START = 64
"""Places at the start; doubled with every round of answers until the endpoint objects."""
RETRY_AFTER_CAP_S = 300.0
"""A longer Retry-After ends the request as an error instead of holding the sweep."""
OUTAGE = 8
"""Failures in a row that look like an outage and not like chance: at 10 % faults, 1e-8."""


class AdaptiveLimiter:
    """Turns to send among an endpoint's requests: never more than `maximum`, never less than 1.

    A place is held from `acquire` to `release`, at most `maximum` of them, and comes with a
    turn. A request that waits for its next try keeps its place and lends out its turn
    (`back_off`), so that retries respect a lowered limit and waiting costs no throughput.
    Each answer raises the limit: by one place below the last level that the endpoint refused
    (doubling per round), above it by one place and a tenth per round. A 429 or a
    time-out halves it, at most once per round: what was sent before the last cut says
    nothing about the present limit. First come, first served; retries before new requests.
    """

    def __init__(self, maximum: int, start: int = START) -> None:
        self.maximum = maximum
        self._limit = float(min(maximum, start))
        self._threshold = float(maximum)
        self._held = 0
        self._sending = 0
        self._peak = 0
        self._cuts = 0
        self._failures = 0
        self._outage_rounds = 0
        self._paused_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._new: deque[asyncio.Future[None]] = deque()
        self._retries: deque[asyncio.Future[None]] = deque()
        self._backing_off: set[asyncio.Task[Any]] = set()
        self._is_ending = False

    @property
    def limit(self) -> int:
        """Return how many requests may be in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """Return how many requests have a turn now."""
        return self._sending

    @property
    def round(self) -> int:
        """Return the number of cuts so far; take it when sending, give it to `failed`."""
        return self._cuts

    def lower(self, maximum: int) -> None:
        """Keep to a smaller maximum from now on (another model of the endpoint asks for it)."""
        self.maximum = min(self.maximum, maximum)
        self._limit = min(self._limit, float(self.maximum))
        self._threshold = min(self._threshold, float(self.maximum))

    async def acquire(self) -> None:
        """Wait for a place."""
        is_waited_for = self._new or self._retries or self._paused()
        if not is_waited_for and self._sending < self.limit and self._held < self.maximum:
            self._held += 1
            self._take_turn()
            return
        future = self._queue(self._new)
        try:
            await future
        except asyncio.CancelledError:
            if not future.cancelled():  # the place had been given a moment before
                self.release()
            raise

    def release(self) -> None:
        """Give the place back."""
        self._held -= 1
        self._sending -= 1
        self._wake()

    async def back_off(self, delay_s: float) -> None:
        """Lend the turn out for `delay_s` seconds, then wait for the next one."""
        self._sending -= 1
        self._wake()
        future = None
        task = asyncio.current_task()
        assert task is not None
        self._backing_off.add(task)
        try:
            if self._is_ending:
                raise asyncio.CancelledError
            await asyncio.sleep(delay_s)
            future = self._queue(self._retries)
            await future
        except asyncio.CancelledError:
            if future is None or future.cancelled():
                self._sending += 1  # the caller gives back a place with its turn
            raise
        finally:
            self._backing_off.discard(task)

    def end(self) -> None:
        """Cancel requests that wait for their next try, now and from now on: nothing of theirs
        is in flight."""
        self._is_ending = True
        for task in self._backing_off:
            task.cancel()

    def succeeded(self) -> None:
        """Raise the limit after an answer, to at most twice what has been tried since a cut."""
        self._failures = self._outage_rounds = 0
        if self._limit >= 2 * self._peak:
            return
        step = 1.0 if self._limit < self._threshold else 0.1 + 1.0 / self._limit
        self._limit = min(self._limit + step, float(self.maximum))
        self._wake()

    def failed(self, sent_in_round: int, *, is_load: bool) -> int:
        """Halve the limit where a failed try is a sign of load (429, time-out) or of an outage.

        Returns how many rounds of an outage there have been, once in each, and 0 otherwise:
        as long as it lasts one try a round is enough, and the caller pauses for longer
        and longer. After an outage without load the limit recovers at once.
        """
        self._failures += 1
        is_outage = self._failures >= OUTAGE
        if sent_in_round != self._cuts or not (is_load or is_outage):
            return 0
        self._cuts += 1
        self._peak = self._sending
        self._limit = max(1.0, self._limit / 2)
        if is_load:
            self._threshold = self._limit
        self._outage_rounds += is_outage
        return self._outage_rounds

    def pause(self, seconds: float) -> None:
        """Give no turn for `seconds`; a longer pause that is under way stays."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if seconds > 0 and until > self._paused_until:
            self._paused_until = until
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(until, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._paused_until = 0.0  # a timer may fire a clock tick early
        self._wake()

    def _paused(self) -> bool:
        return self._timer is not None

    def _queue(self, queue: deque[asyncio.Future[None]]) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        queue.append(future)
        self._wake()
        return future

    def _wake(self) -> None:
        while not self._paused() and self._sending < self.limit and (future := self._next()):
            self._take_turn()
            future.set_result(None)

    def _take_turn(self) -> None:
        self._sending += 1
        self._peak = max(self._peak, self._sending)

    def _next(self) -> asyncio.Future[None] | None:
        # A cancelled waiter stays in its queue until its turn comes.
        while self._retries:
            if not (future := self._retries.popleft()).done():
                return future
        while self._new and self._held < self.maximum:
            if not (future := self._new.popleft()).done():
                self._held += 1
                return future
        return None


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
