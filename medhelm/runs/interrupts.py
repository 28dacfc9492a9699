"""Handle Ctrl-C and SIGTERM in work that is asking models."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Self

from medhelm.errors import Interrupted, MedhelmError
from medhelm.models import ModelPool
from medhelm.runs.sending import GRACE_S


class Interrupts:
    """First Ctrl-C (or SIGTERM): send nothing more. Second, or the grace over: cancel."""

    def __init__(
        self,
        stop: Callable[[MedhelmError], None],
        pool: ModelPool,
        say: Callable[[str], None],
        tasks: Collection[asyncio.Task[Any]],
    ) -> None:
        self._stop, self._pool, self._say, self._tasks = stop, pool, say, tasks
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        with suppress(ValueError, RuntimeError):  # not in the main thread: its owner decides
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError, RuntimeError):
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()

    async def wait(self) -> list[Any]:
        """Return what the tasks return. To cancel this is Ctrl-C, for work in a thread."""
        gathered = asyncio.gather(*self._tasks)
        while True:
            try:
                return await asyncio.shield(gathered)
            except asyncio.CancelledError:
                if gathered.done():
                    raise
                self._interrupt()

    def _interrupt(self) -> None:
        if self._timer is not None:
            self._cancel()
            return
        self._stop(Interrupted("interrupted; everything answered so far is kept"))
        self._pool.end()
        self._say(
            f"stopping: waiting up to {GRACE_S:.0f} s for requests in flight; "
            "Ctrl-C again cancels them"
        )
        self._timer = self._loop.call_later(GRACE_S, self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
