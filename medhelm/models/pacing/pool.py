"""The pool of several processes: one pace and one number in flight for each endpoint, one budget for all.

    a process reports what it sent -> Pool -> the lease of its part, for a second or two

A pool is pure: its methods are handed the time. It holds counts and names, never a text or a key.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from medhelm.errors import RecordError
from medhelm.models.pacing.pace import Pacer

AGAIN_S, AGAIN_PACED_S = 0.25, 0.06
"""Seconds until the next report, and the same where the endpoint has a pace."""
LAG_S = 0.6
"""The longest time that the pace waits for what others report."""
STEP_S = 0.02
"""The shortest pause."""
EXPIRES_S = 10.0
"""A lease ends by itself where nothing was heard of its process for so long."""
BLOCK = 0.01
"""The part of what is left of a budget that is given out at a time."""


class Report(msgspec.Struct, frozen=True):
    """The work of a process at an endpoint since its last report, and how much it could do."""

    maximum: int
    """The most in flight that the model's settings allow in all processes together."""
    want: int
    """Requests in flight and waiting."""
    in_flight: int
    sent: int = 0
    is_bound: bool = False
    """True if a request had to wait for the pace."""
    refusals: tuple[tuple[float, float, float | None], ...] = ()
    """Of each how many seconds ago and how many after sending it came, and the wait that it asked for."""


class Lease(msgspec.Struct, frozen=True):
    """The part of an endpoint that a process has until it reports again."""

    most: int
    """Requests in flight."""
    rate: float | None
    """Requests a second, None for any number."""
    pause_s: float
    """Seconds in which nothing is sent."""
    lag_s: float
    """The time that the pace has not heard of yet, in seconds before now."""
    bearable: float
    """The share of refusals from which the pace is cut."""
    again_s: float
    """Seconds until the next report."""


class Block(NamedTuple):
    """A part of a budget that one process may spend."""

    usd: float
    tokens: int
    may_come: bool
    """True if other processes hold blocks, of which they may give something back."""


class Tenant(msgspec.Struct):
    """A process at an endpoint, by its last report."""

    since: float
    want: int = 1
    most: int = 0
    in_flight: int = 0
    needs: float | None = None
    """Requests a second that it could send at most; None where the pace held it back."""

    @property
    def holds(self) -> int:
        """Return how many requests it may have in flight, whatever it is granted now."""
        return max(self.most, self.in_flight)


class Event(msgspec.Struct, array_like=True):
    """A request that was sent at a moment, or a refusal that came then of one sent `delay_s` before."""

    at: float
    is_bound: bool = False
    delay_s: float | None = None
    asked_s: float | None = None


class Shared(msgspec.Struct):
    """An endpoint that several processes ask."""

    maximum: int
    events: list[Event] = []
    """Events of which the pace has not heard: it hears of all processes in the order of time."""
    cut_at: float = 0.0
    """The moment of the last cut of the pace. Refusals of what was sent before say nothing."""
    pacer: Pacer = msgspec.field(default_factory=Pacer)
    tenants: dict[str, Tenant] = {}
    sent: int = 0
    refused: int = 0

    def hear(self, report: Report, since: float, now: float) -> None:
        """Take what a process reports of the time since its last report."""
        self.sent += report.sent
        self.refused += len(report.refusals)
        for n in range(report.sent):
            at = since + (now - since) * (n + 1) / report.sent
            self.events.append(Event(at, report.is_bound))
        for ago_s, delay_s, asked_s in report.refusals:
            self.events.append(Event(now - ago_s, False, delay_s, asked_s))

    def pace(self, now: float, again_s: float) -> tuple[float, float]:
        """Let the pace hear of what every process has reported; returns seconds of a pause, and not heard of.

        To the pace it is as if refusals came later, by the time until all processes keep to a lease.
        """
        pacer = self.pacer
        heard = max(now - LAG_S, min(tenant.since for tenant in self.tenants.values()))
        self.events.sort(key=lambda event: event.at)
        past = [event for event in self.events if event.at <= heard]
        del self.events[: len(past)]
        for event in past:
            epoch = pacer.epoch
            pacer.rest(event.at)
            if pacer.epoch != epoch:
                self.cut_at = event.at
            if event.delay_s is None:
                if event.is_bound:
                    pacer.bound()
                pacer.sent(event.at)
            elif event.at - event.delay_s >= self.cut_at:
                heard_s = AGAIN_S if pacer.rate is None else again_s
                pacer.refused(event.at, pacer.epoch, event.delay_s + heard_s, event.asked_s)
        epoch, rest_s = pacer.epoch, pacer.rest(heard)
        if pacer.epoch != epoch:
            self.cut_at = heard
        lag_s = now - heard
        return rest_s and max(
            STEP_S, rest_s - lag_s
        ), lag_s  # it ends once the pace has heard of its end


class Pool(msgspec.Struct):
    """The limits and the budget that the processes of one command share."""

    workers: int
    cap_usd: float | None = None
    cap_tokens: int | None = None
    taken_usd: float = 0.0
    """Given out in blocks and not given back. What a killed process held stays taken."""
    taken_tokens: int = 0
    holders: dict[str, float] = {}
    """The processes that hold blocks, and when each was heard of."""
    endpoints: dict[str, Shared] = {}
    runs: list[str] = []
    """Folders of the command's runs below its results folder, whose names tell data and settings."""
    progress: dict[str, msgspec.Raw] = {}
    """The last word of each process on its progress."""
    clock: float = 0.0
    """The latest time that any process has had: theirs may differ by seconds."""

    def lease(self, worker: str, endpoint: str, report: Report, now: float) -> Lease:
        """Count a report, and return the process's part of the endpoint.

        Parts are equal, but nobody gets more than it wants. No more are granted in all than `maximum`, also
        while one process gives up what another one is to get.
        """
        now = self.clock = max(self.clock, now)
        shared = self.endpoints.setdefault(endpoint, Shared(report.maximum))
        shared.maximum = min(shared.maximum, report.maximum)
        tenants = shared.tenants
        for name in [n for n, other in tenants.items() if now - other.since > EXPIRES_S]:
            del tenants[name]
        own = tenants.setdefault(worker, Tenant(now))
        seconds = max(now - own.since, 1e-3)
        shared.hear(report, own.since, now)
        if report.sent or report.is_bound:
            own.needs = None if report.is_bound else 1.0 + 2.0 * report.sent / seconds
        if worker in self.holders:
            self.holders[worker] = now
        own.since, own.want, own.in_flight = now, max(1, report.want), report.in_flight
        paced_s = max(AGAIN_PACED_S, STEP_S / 2 * self.workers)
        pause_s, lag_s = shared.pace(now, paced_s)
        names, place = [*tenants], [*tenants].index(worker)
        fair = divide(shared.maximum, [tenants[name].want for name in names])
        taken = sum(tenants[name].holds for name in names if name != worker)
        own.most = max(0, min(whole(fair, shared.maximum)[place], shared.maximum - taken))
        rate = shared.pacer.rate
        if rate is not None:
            needs = (tenants[name].needs for name in names)
            rate = divide(rate, [math.inf if n is None else n for n in needs])[place]
        is_calm = rate is None and not pause_s and all(e.delay_s is None for e in shared.events)
        again_s = max(AGAIN_S, paced_s) if is_calm else paced_s
        return Lease(own.most, rate, pause_s, lag_s, shared.pacer.bearable, again_s)

    def reserve(self, worker: str, usd: float, tokens: int, now: float) -> Block:
        """Give a block of each cap that holds so much at least; of one that has not so much left, nothing."""
        now = self.clock = max(self.clock, now)
        block_usd, block_tokens = 0.0, 0
        if self.cap_usd is not None and usd <= (left := self.cap_usd - self.taken_usd):
            block_usd = max(usd, BLOCK * left)
        if self.cap_tokens is not None and tokens <= (left := self.cap_tokens - self.taken_tokens):
            block_tokens = max(tokens, int(BLOCK * left))
        self.taken_usd += block_usd
        self.taken_tokens += block_tokens
        if block_usd or block_tokens:
            self.holders[worker] = now
        others = (at for name, at in self.holders.items() if name != worker)
        return Block(block_usd, block_tokens, any(now - at < EXPIRES_S for at in others))

    def give_back(self, worker: str, usd: float, tokens: int) -> None:
        """Take back all that a process did not spend of its blocks."""
        self.taken_usd -= usd
        self.taken_tokens -= tokens
        self.holders.pop(worker, None)

    def leave(self, worker: str) -> None:
        """End a process's leases."""
        for shared in self.endpoints.values():
            shared.tenants.pop(worker, None)

    def tell(self, worker: str, progress: bytes) -> None:
        """Keep a process's word on its progress."""
        self.progress[worker] = msgspec.Raw(progress)


class PoolAccess(ABC):
    """The way of one process to its pool; every method may raise RecordError where the pool is lost."""

    sees_all = True
    """False where the process has a copy of the results, in which others' newest answers are not."""

    def __init__(self, worker: str, workers: int) -> None:
        self.worker, self.workers = worker, workers

    @abstractmethod
    def call(self, name: str, *args: Any) -> Any:
        """Return what a method of the pool gives (`ask`)."""

    @abstractmethod
    def read(self) -> Pool:
        """Return the pool as it is now."""

    async def lease(self, endpoint: str, report: Report) -> Lease:
        """Report what was sent, and get the next lease."""
        lease: Lease = await asyncio.to_thread(self.call, "lease", self.worker, endpoint, report)
        return lease

    def reserve(self, usd: float, tokens: int) -> Block:
        """Get a block of the budget."""
        block: Block = self.call("reserve", self.worker, usd, tokens)
        return block

    def give_back(self, usd: float, tokens: int) -> None:
        """Give back all that was not spent of the blocks."""
        self.call("give_back", self.worker, usd, tokens)

    def leave(self) -> None:
        """End all leases."""
        self.call("leave", self.worker)

    def tell(self, progress: bytes) -> None:
        """Say how far the work is, as JSON."""
        self.call("tell", self.worker, progress)


def ask(pool: Pool, name: str, *args: Any) -> Any:
    """Return what a method of a pool gives; one that needs the time is handed that of this process."""
    now = (time.time(),) if name in ("lease", "reserve") else ()
    return getattr(pool, name)(*args, *now)


def lost_pool(why: str) -> RecordError:
    """Return the error of a pool that cannot be reached any more."""
    return RecordError(f"the limits that all workers share are lost ({why}); nothing more is sent")


def divide(total: float, wants: Sequence[float]) -> list[float]:
    """Return equal parts of a total, but for nobody more than it wants: the rest goes to the others."""
    parts = [0.0] * len(wants)
    left = total
    for n, place in enumerate(sorted(range(len(wants)), key=wants.__getitem__)):
        parts[place] = min(wants[place], left / (len(wants) - n))
        left -= parts[place]
    return parts


def whole(parts: Sequence[float], total: int) -> list[int]:
    """Return parts as whole numbers, of which the first get what is left over."""
    found = [math.floor(part) for part in parts]
    left = min(total, round(sum(parts))) - sum(found)
    for place, part in enumerate(parts):
        if left > 0 and part > found[place]:
            found[place] += 1
            left -= 1
    return found
