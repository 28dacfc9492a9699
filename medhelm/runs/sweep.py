"""The state that the runs of one sweep share: open logs, judges' troubles; and how Ctrl-C ends them."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from medhelm.errors import Interrupted, MedhelmError, RecordError
from medhelm.models import ModelPool
from medhelm.runs.run import Run
from medhelm.runs.selection import Selection
from medhelm.runs.sending import GRACE_S, Desk
from medhelm.store.loglines import Scan
from medhelm.store.records import Plan
from medhelm.store.runlog import RunFolder

if TYPE_CHECKING:
    from medhelm.runs.progress import Display

_T = TypeVar("_T")
_SYNC_S = 0.5
_ACTIVE_RUNS = 4
"""Runs of one model at a time: enough to fill its endpoint while one of them ends."""


@dataclass
class JudgeTroubles:
    """Collects what kept a judge of a run from giving verdicts."""

    broken: MedhelmError | None = None
    """The reason why it could not be asked. The run is graded without it."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed requests, by reason."""
    window: int = 0
    """Tokens of the largest request that did not fit its window; 0: none."""


@dataclass
class Sweep:
    """The state that the runs of one sweep share."""

    pool: ModelPool
    desk: Desk
    progress: Display
    logs: dict[RunFolder, ActiveRun] = field(default_factory=dict)
    """The open logs, and the run that writes each."""
    selections: dict[tuple[int, int, int | None], asyncio.Future[Selection]] = field(
        default_factory=dict
    )
    places: dict[tuple[str, bool], asyncio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: asyncio.Semaphore(_ACTIVE_RUNS))
    )

    @property
    def stopped(self) -> MedhelmError | None:
        """Return the reason why no further request is sent, and None while the sweep goes on."""
        return self.desk.stopped

    async def keep_synced(self) -> None:
        """Sync the logs well within the second that a power cut may cost, until cancelled.

        The run of a log that cannot be synced or found any more is ended.
        """
        while True:
            await asyncio.sleep(_SYNC_S)
            for log in [*self.logs]:
                try:
                    await asyncio.to_thread(log.sync)
                except RecordError as e:
                    active = self.logs.get(log)
                    if active is not None and active.task is not None and active.lost is None:
                        active.lost = e
                        active.task.cancel()


@dataclass(eq=False)
class ActiveRun:
    """A run of a sweep while it is asked, judged and graded."""

    run: Run
    sweep: Sweep
    task: asyncio.Task[Any] | None = None
    lost: RecordError | None = None
    """The reason for the task's end where a log of the run cannot be synced or found any more."""
    judges: dict[str, JudgeTroubles] = field(default_factory=lambda: defaultdict(JudgeTroubles))
    available: int = 0
    """Instances of the data; 0: they were not counted."""
    plan: Plan = field(init=False)
    share: frozenset[int] | None = None
    """Order keys of the instances that this process asks; None: all of them."""
    scan: Scan | None = None
    """The contents of the folder's log when it was opened; None: it is not open."""

    def __post_init__(self) -> None:
        self.folder = RunFolder(self.run.path, self.run.shard)

    def say(self, text: str) -> None:
        """Print a line that begins with the names of the run."""
        spec = self.run.spec
        self.sweep.progress.message(f"{spec.benchmark} x {spec.model.name}: {text}")

    async def open_folder(self) -> Scan:
        """Return what the run holds, its folder open."""
        if self.scan is None:
            self.scan = await self.open_log(self.folder, self.folder.open)
        return self.scan

    async def open_log(self, log: RunFolder, open_log: Callable[[], _T]) -> _T:
        """Open a log in a thread; one that is cancelled meanwhile is closed when it is open."""
        opening = asyncio.ensure_future(asyncio.to_thread(open_log))
        try:
            found = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                log.close()
            raise
        self.sweep.logs[log] = self
        return found

    def close_folder(self) -> None:
        """Close the folder, where it is open."""
        if self.scan is not None:
            self.scan = None
            self.sweep.logs.pop(self.folder, None)
            self.folder.close()


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
            self._loop.add_signal_handler(signal.SIGINT, self._interrupt)
            self._loop.add_signal_handler(signal.SIGTERM, self._interrupt, False)
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

    def _interrupt(self, is_typed: bool = True) -> None:
        if self._timer is not None:
            if is_typed:  # a cluster sends SIGTERM to all, and so does the parent of this process
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
