"""The judges of a sweep: every stored answer of a run is shown to every judge, all at once.

Judges share the sweep's connections, rate limits and budget with the models that are asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from medhelm.errors import MedhelmError, ModelError
from medhelm.grading.graders.grader import shown_text
from medhelm.grading.graders.terms import graders_of
from medhelm.grading.jury import judging
from medhelm.grading.jury.gradelog import GradeLog, judgement_key
from medhelm.grading.jury.panel import judge_folder
from medhelm.models import ModelPool, is_instance_model
from medhelm.runs.ask import Desk, Live, Start, start_all
from medhelm.runs.graders import Bench, GraderJudge
from medhelm.runs.logs import Log, opened
from medhelm.runs.planning import Run
from medhelm.runs.served import ServedCheck
from medhelm.schema.episode import Episode
from medhelm.schema.model import InstanceModel, Model, ModelSpec
from medhelm.schema.run import JuryTerms
from medhelm.store.appendlog import AppendLog
from medhelm.store.records import Plan, grader_folder
from medhelm.store.runlog import read_episodes


class Sweep(Protocol):
    """The parts of a sweep that its judges need."""

    pool: ModelPool
    desk: Desk
    logs: dict[Log, asyncio.Task[Any] | None]
    broken: dict[Path, dict[str, MedhelmError]]
    errors: dict[Path, dict[str, Counter[str]]]
    windows: dict[Path, Counter[str]]


_BATCH = 32
"""Answers that are read from the run's log at a time."""
_AHEAD = 64
"""Answers that may wait for one judge while another is at work on earlier ones."""


class Rater(Protocol):
    """One judge of a run with its log, for a jury or for a grader."""

    @property
    def desk(self) -> Desk:
        """Return the desk that sends its requests; it fails without those of other judges."""

    @property
    def model(self) -> Model:
        """Return the model that is asked."""

    @property
    def log(self) -> AppendLog:
        """Return the log of what it said."""

    @property
    def final(self) -> set[int]:
        """Return the keys of the answers that it has rated."""

    def open(self) -> None:
        """Lock and mend the log."""

    def key(self, episode: Episode) -> int | None:
        """Return the key of an answer's judgement; None where there is nothing to rate."""

    def judge(self, episode: Episode, live: Live) -> Coroutine[Any, Any, None]:
        """Rate one answer."""


class _JuryJudge:
    """A judge of a jury."""

    def __init__(self, run: Run, desk: Desk, model: Model, terms: JuryTerms, folder: Path) -> None:
        self.model, self.log = model, GradeLog(folder)
        self.final: set[int] = set()
        self.desk, self._terms, self._protocol = desk, terms, run.protocol

    def open(self) -> None:
        """Mend the log and read what it holds."""
        self.final = self.log.open()

    def key(self, episode: Episode) -> int | None:
        """Return the key of an answer that can be rated."""
        return judgement_key(episode) if judging.is_judged(episode.response) else None

    async def judge(self, episode: Episode, live: Live) -> None:
        """Ask for one judgement."""
        judge, terms = self.model.spec, self._terms
        shown = shown_text(self._protocol, episode)
        request = judging.judge_request(judge, terms, episode, shown)
        send = partial(self.desk.send, self.model, live=live)
        with self.desk.border():
            await judging.conduct(judge, terms, episode, shown, request, send, self.log.append)


class _Queue:
    """The answers that wait for one rater."""

    def __init__(self, rater: Rater) -> None:
        self.rater = rater
        self._coming: asyncio.Queue[Episode | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_AHEAD)
        self._is_gone = False

    async def offer(self, episode: Episode) -> None:
        """Hand over an answer that the rater has not rated, once there is room."""
        key = self.rater.key(episode)
        if key is None or key in self.rater.final or self._is_gone:
            return
        await self._room.acquire()
        self._coming.put_nowait(episode)

    def end(self) -> None:
        """Say that there are no more answers."""
        self._coming.put_nowait(None)

    def leave(self) -> None:
        """Take no more answers, and hold nobody up who has one."""
        self._is_gone = True
        self._room.release()

    async def judgements(self) -> AsyncIterator[Start]:
        """Yield the judgements that are still to be made."""
        while (episode := await self._coming.get()) is not None:
            self._room.release()
            yield partial(self.rater.judge, episode)


async def judge_answers(run: Run, plan: Plan, sweep: Sweep) -> None:
    """Ask every judge for every answer of a run that it has not judged yet.

    A judge that cannot be asked (a wrong key, a dead server) is noted as broken and stops no other.
    Raises what stops the run. A budget that is reached stops the sweep.
    """
    if sweep.desk.stopped:
        return
    with ExitStack() as logs:
        queues, served = [], ServedCheck(run, sweep.pool)
        for judge, made in _raters(run, sweep):
            try:
                queues.append(await _open(served.open(judge), made, sweep, logs))
            except ModelError as e:
                _note(run, judge.name, e, sweep)
        if sweep.desk.stopped or not queues:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(_share_out(run, plan, queues, sweep.desk))
            for queue in queues:
                group.create_task(_judge(run, queue, sweep))


_Make = Callable[[Model], Rater]


def _raters(run: Run, sweep: Sweep) -> Iterator[tuple[ModelSpec, _Make]]:
    """Yield the judges of a run's jury and of its graders, each with what makes it a rater."""
    if (terms := run.grading.jury) is not None:
        for place, judge in enumerate(terms.jury.judges):
            folder = judge_folder(run.path, terms, place)
            yield judge, partial(_jury_judge, run, sweep.desk.part(), terms, folder)
    graders = graders_of(run.metrics)
    for own in run.grading.graders:
        for judge in own.jury.judges:
            desk = sweep.desk.part()
            bench = Bench(run.benchmark, run.protocol, graders[own.grader], own, desk)
            yield judge, partial(_grader_judge, bench, grader_folder(run.path, judge, own))


def _jury_judge(run: Run, desk: Desk, terms: JuryTerms, folder: Path, model: Model) -> Rater:
    return _JuryJudge(run, desk, model, terms, folder)


def _grader_judge(bench: Bench, folder: Path, model: Model) -> Rater:
    return GraderJudge(bench, model, folder)


async def _open(model: Model | InstanceModel, make: _Make, sweep: Sweep, logs: ExitStack) -> _Queue:
    assert not is_instance_model(model)  # choose_jury refuses baselines
    rater = make(model)
    await opened(rater.log, rater.open)
    logs.callback(rater.log.close)
    sweep.logs[rater.log] = asyncio.current_task()
    logs.callback(sweep.logs.pop, rater.log)
    return _Queue(rater)


def _note(run: Run, judge: str, error: ModelError, sweep: Sweep) -> None:
    sweep.broken.setdefault(run.path, {})[judge] = error


async def _share_out(run: Run, plan: Plan, queues: Collection[_Queue], desk: Desk) -> None:
    """Read the answers once, in a thread, and hand each to the raters that have not rated it."""
    try:
        with desk.border(), desk.stoppable():
            episodes = read_episodes(run.path, plan)
            while batch := await asyncio.to_thread(lambda: list(islice(episodes, _BATCH))):
                for episode in batch:
                    for queue in queues:
                        await queue.offer(episode)
    finally:
        for queue in queues:
            queue.end()


async def _judge(run: Run, queue: _Queue, sweep: Sweep) -> None:
    """Let one judge rate all answers that come to it."""
    desk = queue.rater.desk
    if desk.stopped:  # before its first step, and so perhaps before that of who hands out answers
        return
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(start_all(desk, queue.judgements(), group))
    finally:
        queue.leave()
    if desk.errors:
        name = queue.rater.model.spec.name
        sweep.errors.setdefault(run.path, {}).setdefault(name, Counter()).update(desk.errors)
    if desk.window:
        windows = sweep.windows.setdefault(run.path, Counter())
        windows[queue.rater.model.spec.name] = desk.window
    if isinstance(desk.failed, ModelError):
        _note(run, queue.rater.model.spec.name, desk.failed, sweep)
    elif desk.failed:
        raise desk.failed
