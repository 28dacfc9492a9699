"""Start requests one after the other as their endpoint has room: of runs and of their judges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from medhelm.errors import BudgetReached, MedhelmError
from medhelm.models import ModelPool
from medhelm.models.costs import Ledger, Reservation
from medhelm.protocols import completion
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import Model

_T = TypeVar("_T")


class Log(Protocol):
    """Syncs its file while a sweep goes on."""

    def sync(self) -> None:
        """Force what was appended to the disk; raises RecordError, also where the log is gone."""

    def close(self) -> None:
        """Sync and close it."""


class Sweep(Protocol):
    """Describes the parts of a sweep that asking needs."""

    pool: ModelPool
    ledger: Ledger
    feeders: set[asyncio.Task[None]]
    logs: dict[Log, asyncio.Task[Any] | None]
    broken: dict[Path, dict[str, MedhelmError]]
    stopped: MedhelmError | None

    def stop(self, reason: MedhelmError) -> None:
        """Send nothing more."""


class Seat:
    """A model with a place among its requests in flight, which is given back once."""

    def __init__(self, model: Model) -> None:
        self.spec = model.spec
        self._model = model
        self._is_held = False

    async def acquire(self) -> None:
        """Wait for the place."""
        await self._model.acquire()
        self._is_held = True

    def release(self) -> None:
        """Give the place back if it is held."""
        if self._is_held:
            self._is_held = False
            self._model.release()

    async def respond(self, request: Request) -> Response:
        """Ask the model."""
        return await self._model.respond(request)

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


Work = tuple[Request, Callable[[Model, Reservation], Coroutine[Any, Any, None]]]
"""A request, and what is to be done with it by a model that has a place for it."""


async def feed(
    sweep: Sweep, model: Model, work: AsyncIterator[Work], group: asyncio.TaskGroup
) -> None:
    """Start one request after the other as budget and endpoint have room.

    A budget that is reached stops the sweep.
    """
    reservation: Reservation | None = None
    try:
        async for request, start in work:
            reservation = await completion.reserve(sweep.ledger, model.spec, request)
            seat = Seat(model)
            await seat.acquire()
            if sweep.stopped:
                seat.release()
                return
            task = group.create_task(start(seat, reservation))
            # not in the task: one that is cancelled before its first step never gets there
            task.add_done_callback(partial(give_back, seat, reservation))
            reservation = None
    except BudgetReached as e:
        sweep.stop(e)
    except asyncio.CancelledError:
        if not sweep.stopped:
            raise
    finally:
        if reservation is not None:
            reservation.cancel()


def start_feeder(sweep: Sweep, group: asyncio.TaskGroup, feeder: Coroutine[Any, Any, None]) -> None:
    """Start the task that sends requests, to be cancelled when the sweep stops."""
    task = group.create_task(feeder)
    sweep.feeders.add(task)
    task.add_done_callback(sweep.feeders.discard)


async def opened(log: Log, open_log: Callable[[], _T]) -> _T:
    """Open a log in a thread; one that is cancelled meanwhile is closed when it is open."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_log))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        if opening.exception() is None:
            log.close()
        raise


def give_back(seat: Seat, reservation: Reservation, _: asyncio.Task[None]) -> None:
    """Give back what a task that is done has held."""
    reservation.cancel()  # nothing, where it was settled
    seat.release()
