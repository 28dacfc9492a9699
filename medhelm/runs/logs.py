"""Open logs in a thread, and sync them while calls are appended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

from medhelm.errors import RecordError

_T = TypeVar("_T")
_L = TypeVar("_L", bound="Log")
_SYNC_S = 0.5


class Log(Protocol):
    """Syncs its file while a sweep goes on."""

    def sync(self) -> None:
        """Force what was appended to the disk; raises RecordError, also where the log is gone."""

    def close(self) -> None:
        """Sync and close it."""


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


async def keep_synced(logs: Iterable[_L], lost: Callable[[_L, RecordError], None]) -> None:
    """Sync the logs well within the second that a power cut may cost, until cancelled.

    `logs` may change meanwhile. `lost` is called for each that cannot be synced or found any more.
    """
    while True:
        await asyncio.sleep(_SYNC_S)
        for log in [*logs]:
            try:
                await asyncio.to_thread(log.sync)
            except RecordError as e:
                lost(log, e)


@asynccontextmanager
async def synced(log: Log, stop: Callable[[RecordError], None]) -> AsyncIterator[None]:
    """Keep one log synced meanwhile; `stop` is called once it is lost."""
    syncer = asyncio.create_task(keep_synced([log], lambda _, error: stop(error)))
    try:
        yield
    finally:
        syncer.cancel()
