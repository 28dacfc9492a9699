"""The judges of a sweep: every stored answer of a run is shown to every judge, all at once.

Judges share the sweep's connections, rate limits and budget with the models that are asked.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Protocol

from medhelm.costs import Ledger, Reservation
from medhelm.errors import BudgetReached, MedhelmError, ModelError
from medhelm.jury.gradelog import GradeLog, judgement_key
from medhelm.jury.panel import judge_folder
from medhelm.models import ModelPool, is_instance_model
from medhelm.planning import Run
from medhelm.protocols import judging
from medhelm.records import Plan
from medhelm.runlog import read_exchanges
from medhelm.schema import Exchange, JuryTerms, Model, Request


class Log(Protocol):
    """What is synced while a sweep goes on."""

    is_dirty: bool

    def sync(self) -> None:
        """Force what was appended to the disk."""


class Sweep(Protocol):
    """What judging needs of a sweep."""

    pool: ModelPool
    ledger: Ledger
    feeders: set[asyncio.Task[None]]
    folders: set[Log]
    broken: dict[Path, MedhelmError]
    stopped: MedhelmError | None

    def stop(self, reason: MedhelmError) -> None:
        """Send nothing more."""


async def judge_answers(run: Run, plan: Plan, sweep: Sweep) -> None:
    """Ask every judge for every answer of a run that it has not judged yet.

    A judge that cannot be asked (a wrong key, a dead server) is noted as broken and stops no other.
    Raises what stops the run; a budget that is reached stops the sweep.
    """
    terms = run.grading.jury
    if terms is None or not terms.jury.judges or sweep.stopped:
        return
    async with asyncio.TaskGroup() as group:
        for place in range(len(terms.jury.judges)):
            group.create_task(_judge_if_there(run, plan, terms, place, sweep))


async def _judge_if_there(run: Run, plan: Plan, terms: JuryTerms, place: int, sweep: Sweep) -> None:
    try:
        await _judge(run, plan, terms, place, sweep)
    except* ModelError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, ModelError)
        sweep.broken.setdefault(run.path, error)


async def _judge(run: Run, plan: Plan, terms: JuryTerms, place: int, sweep: Sweep) -> None:
    """Let one judge rate all answers of a run that are not in its log."""
    model = sweep.pool.open(terms.jury.judges[place])
    assert not is_instance_model(model)  # choose_jury refuses baselines
    log = GradeLog(judge_folder(run.path, terms, place))
    final = await asyncio.to_thread(log.open)
    sweep.folders.add(log)
    try:
        async with asyncio.TaskGroup() as group:
            feeder = group.create_task(_feed(run, plan, terms, model, log, final, sweep, group))
            sweep.feeders.add(feeder)
            feeder.add_done_callback(sweep.feeders.discard)
    finally:
        sweep.folders.discard(log)
        log.close()


async def _feed(
    run: Run,
    plan: Plan,
    terms: JuryTerms,
    model: Model,
    log: GradeLog,
    final: set[int],
    sweep: Sweep,
    group: asyncio.TaskGroup,
) -> None:
    """Start one judgement after the other as the judge's endpoint has room."""

    async def ask(exchange: Exchange, request: Request, reservation: Reservation) -> None:
        try:
            judgement = await judging.conduct(
                model, terms, exchange, request, reservation, sweep.ledger
            )
        except judging.RepairRefused as e:
            log.append(e.judgement)
            sweep.stop(e.reason)
            return
        log.append(judgement)

    reservation: Reservation | None = None
    try:
        for exchange in read_exchanges(run.path, plan):
            if not judging.is_judged(exchange.response):
                continue
            if judgement_key(exchange.instance, exchange.response) in final:
                continue
            request = judging.judge_request(model.spec, terms, exchange)
            reservation = await judging.reserve_call(sweep.ledger, model.spec, request)
            await model.acquire()
            if sweep.stopped:
                model.release()
                return
            task = group.create_task(ask(exchange, request, reservation))
            # not in `ask`: a task that is cancelled before its first step never gets there
            task.add_done_callback(partial(_give_back, model, reservation))
            reservation = None
    except BudgetReached as e:
        sweep.stop(e)
    except asyncio.CancelledError:
        if not sweep.stopped:
            raise
    finally:
        if reservation is not None:
            reservation.cancel()


def _give_back(model: Model, reservation: Reservation, _: asyncio.Task[None]) -> None:
    reservation.cancel()  # nothing, where it was settled
    model.release()
