"""The judges of a sweep: every stored answer of a run is shown to every judge, all at once.

Judges share the sweep's connections, rate limits and budget with the models that are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from medhelm.errors import MedhelmError, ModelError
from medhelm.grading.jury import judging
from medhelm.grading.jury.gradelog import GradeLog, judgement_key
from medhelm.grading.jury.panel import judge_folder
from medhelm.models import ModelPool, is_instance_model
from medhelm.runs.ask import Desk, Live, Start, feed
from medhelm.runs.logs import Log, opened
from medhelm.runs.planning import Run
from medhelm.schema.episode import Episode
from medhelm.schema.model import Model
from medhelm.schema.run import JuryTerms
from medhelm.store.records import Plan
from medhelm.store.runlog import read_episodes


class Sweep(Protocol):
    """The parts of a sweep that its judges need."""

    pool: ModelPool
    desk: Desk
    logs: dict[Log, asyncio.Task[Any] | None]
    broken: dict[Path, dict[str, MedhelmError]]


_BATCH = 32
"""Answers that are read from the run's log at a time."""
_AHEAD = 64
"""Answers that may wait for one judge while another is at work on earlier ones."""


class _Judge:
    """One judge of a run, its log, and the answers that wait for it."""

    def __init__(self, model: Model, log: GradeLog, final: set[int]) -> None:
        self.model = model
        self.log = log
        self.final = final
        self._coming: asyncio.Queue[Episode | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_AHEAD)
        self._is_gone = False

    async def put(self, episode: Episode) -> None:
        """Hand over an answer, once there is room; nothing where the judge is gone."""
        if not self._is_gone:
            await self._room.acquire()
            self._coming.put_nowait(episode)

    def end(self) -> None:
        """Say that there are no more answers."""
        self._coming.put_nowait(None)

    def leave(self) -> None:
        """Take no more answers, and hold nobody up who has one."""
        self._is_gone = True
        self._room.release()

    async def judgements(self, terms: JuryTerms, desk: Desk) -> AsyncIterator[Start]:
        """Yield the judgements that are still to be made."""
        judge = self.model.spec

        async def one(episode: Episode, live: Live) -> None:
            request = judging.judge_request(judge, terms, episode)
            send = partial(desk.send, self.model, live=live)
            with desk.border():
                await judging.conduct(judge, terms, episode, request, send, self.log.append)

        while (episode := await self._coming.get()) is not None:
            self._room.release()
            yield partial(one, episode)


async def judge_answers(run: Run, plan: Plan, sweep: Sweep) -> None:
    """Ask every judge for every answer of a run that it has not judged yet.

    A judge that cannot be asked (a wrong key, a dead server) is noted as broken and stops no other.
    Raises what stops the run. A budget that is reached stops the sweep.
    """
    terms = run.grading.jury
    if terms is None or not terms.jury.judges or sweep.desk.stopped:
        return
    with ExitStack() as logs:
        judges = []
        for place in range(len(terms.jury.judges)):
            try:
                judges.append(await _open(run, terms, place, sweep, logs))
            except ModelError as e:
                _note(run, terms.jury.judges[place].name, e, sweep)
        if sweep.desk.stopped:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(_share_out(run, plan, judges, sweep.desk))
            for judge in judges:
                group.create_task(_judge(run, terms, judge, sweep))


async def _open(run: Run, terms: JuryTerms, place: int, sweep: Sweep, logs: ExitStack) -> _Judge:
    model = sweep.pool.open(terms.jury.judges[place])
    assert not is_instance_model(model)  # choose_jury refuses baselines
    log = GradeLog(judge_folder(run.path, terms, place))
    final = await opened(log, log.open)
    logs.callback(log.close)
    sweep.logs[log] = asyncio.current_task()
    logs.callback(sweep.logs.pop, log)
    return _Judge(model, log, final)


def _note(run: Run, judge: str, error: ModelError, sweep: Sweep) -> None:
    sweep.broken.setdefault(run.path, {})[judge] = error


async def _share_out(run: Run, plan: Plan, judges: Collection[_Judge], desk: Desk) -> None:
    """Read the answers once, in a thread, and hand each to the judges that have not rated it."""
    try:
        with desk.border(), desk.stoppable():
            episodes = read_episodes(run.path, plan)
            while batch := await asyncio.to_thread(_keyed, episodes):
                for episode, key in batch:
                    for judge in judges:
                        if key is not None and key not in judge.final:
                            await judge.put(episode)
    finally:
        for judge in judges:
            judge.end()


def _keyed(episodes: Iterator[Episode]) -> list[tuple[Episode, int | None]]:
    """Return the next episodes with the keys of their judgements; None: nothing to rate."""
    return [
        (e, judgement_key(e) if judging.is_judged(e.response) else None)
        for e in islice(episodes, _BATCH)
    ]


async def _judge(run: Run, terms: JuryTerms, judge: _Judge, sweep: Sweep) -> None:
    """Let one judge rate all answers that come to it."""
    if (
        sweep.desk.stopped
    ):  # before its first step, and so perhaps before that of who hands out answers
        return
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(feed(sweep.desk, judge.judgements(terms, sweep.desk), group))
    except* ModelError as failed:
        error: BaseException = failed
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, ModelError)
        _note(run, judge.model.spec.name, error, sweep)
    finally:
        judge.leave()
