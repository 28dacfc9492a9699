"""The pace of a process that has its part of a pool: what it may send, and what it has to report."""

from __future__ import annotations

import asyncio
import math
import random

from medhelm.models.pacing.pace import Paced
from medhelm.models.pacing.pool import EXPIRES_S, LAG_S, Lease, Report

_ALARM = 3
"""Refusals since the last report from which their share says something."""


class LeasedPacer(Paced):
    """Spaces requests out as a pool's pace leaves them to this process, and collects what to report.

    The methods are those of `Pacer`. Where too large a share is refused, nothing is sent until the pool
    has heard of it, as it is about to cut the pace.
    """

    def __init__(self, news: asyncio.Event) -> None:
        self.rate: float | None = None
        self._news = news
        """Set where the pool should hear of something at once."""
        self._sent = self._refused = 0
        self._is_bound = False
        self._refusals: list[tuple[float, float, float | None]] = []
        self._next = self._paused_until = 0.0
        self._bearable = 1.0
        self._alarmed_at = -math.inf
        self._alarm_ends = self._rests_until = -math.inf
        self._ends = math.inf
        """The moment from which the pool gives this process's part to others, where it is not renewed."""

    def wait(self, now: float) -> float:
        """Return the seconds until the next request may be sent, 0 where it may be now."""
        if now >= self._ends:
            return LAG_S
        until = max(self._paused_until, self._rests_until, self._alarm_ends)
        if self.rate is not None:
            until = max(until, self._next)
        return max(0.0, until - now)

    def bound(self) -> None:
        """Note that a request waits for the pace."""
        self._is_bound = True

    def sent(self, now: float) -> int:
        """Note that a request is sent; returns 0, as the pool tells by the time what a refusal says."""
        self._sent += 1
        return 0

    def refused(self, now: float, epoch: int, delay_s: float, asked_s: float | None) -> None:
        """Note a refusal."""
        self._refusals.append((now, delay_s, asked_s))
        refused, usual = len(self._refusals), self._bearable * self._sent
        if refused >= _ALARM and refused > usual + 2.0 * math.sqrt(usual):
            self._alarmed_at, self._alarm_ends = now, now + LAG_S
        self._news.set()

    def report(self, maximum: int, want: int, in_flight: int, now: float) -> Report:
        """Return what happened since the last report."""
        refusals = tuple((now - at, delay_s, asked_s) for at, delay_s, asked_s in self._refusals)
        self._refusals = []
        sent, self._sent = self._sent, 0
        is_bound, self._is_bound = self._is_bound, False
        return Report(maximum, want, in_flight, sent, is_bound, refusals)

    def hold(self, lease: Lease, now: float) -> None:
        """Keep to a lease."""
        self._ends = now + EXPIRES_S
        if lease.rate is not None:
            gap_s = 1.0 / lease.rate
            is_new = self.rate is None or now < self._rests_until
            # not all processes at once after a pause that all made
            self._next = (
                now + random.uniform(0.0, gap_s) if is_new else min(self._next, now + gap_s)
            )
        self.rate, self._bearable = lease.rate, lease.bearable
        if now - lease.lag_s >= self._alarmed_at:
            self._alarm_ends = now
        # until the next lease, which comes as the pause ends and has another rate
        self._rests_until = now + lease.pause_s + LAG_S if lease.pause_s else now
