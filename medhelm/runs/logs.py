"""Open the logs of a sweep, each in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


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
