"""The state that the runs of one sweep share; logs opened in a thread, and synced while calls are appended."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from medhelm.errors import MedhelmError, RecordError
from medhelm.models import ModelPool
from medhelm.runs.planning import Run
from medhelm.runs.selection import Selection
from medhelm.runs.sending import Desk
from medhelm.schema.episode import Episode
from medhelm.schema.run import RunRecord
from medhelm.store.runlog import RunFolder

_T = TypeVar("_T")
_SYNC_S = 0.5
_ACTIVE_RUNS = 4
"""Runs of one model at a time: enough to fill its endpoint while one of them ends."""


class Progress(Protocol):
    """Receives the events of a sweep. All calls come from the event loop's thread."""

    def planned(self, run: Run, total: int, answered: int) -> None:
        """Say how many episodes a run has, and how many were answered before."""

    def advanced(self, run: Run, episode: Episode) -> None:
        """Report one finished episode."""

    def ended(self, run: Run, record: RunRecord | None, error: MedhelmError | None) -> None:
        """Report the end of a run."""

    def message(self, text: str) -> None:
        """Show one line."""


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
    progress: Progress
    logs: dict[RunFolder, asyncio.Task[Any] | None] = field(default_factory=dict)
    """The open logs, and the task of the run that writes each."""
    lost: dict[asyncio.Task[Any] | None, RecordError] = field(default_factory=dict)
    """Reason for a cancelled task: one of its logs cannot be synced or found any more."""
    judges: dict[Path, dict[str, JudgeTroubles]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(JudgeTroubles))
    )
    """By run and judge."""
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
                    task = self.logs.get(log)
                    if task is not None and task not in self.lost:
                        self.lost[task] = e
                        task.cancel()


async def opened(log: RunFolder, open_log: Callable[[], _T]) -> _T:
    """Open a log in a thread; one that is cancelled meanwhile is closed when it is open."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_log))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.wait([opening])
        if opening.exception() is None:
            log.close()
        raise
