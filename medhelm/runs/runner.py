"""Runs of one sweep, all in one event loop: ask what is not yet answered, then grade.

    plan -> open the folder -> ask every planned instance -> grade -> RunRecord

A failed request is a record with its reason. What stops a run (a refused key, a dead
server, a full disk) stops that run alone. The log keeps all that was answered.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import msgspec

from medhelm.data.instance_ids import copies_note
from medhelm.errors import MedhelmError, OtherVersion, RecordError, RunLocked
from medhelm.files.durable import why
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.costs import Ledger
from medhelm.models.serving import Work
from medhelm.runs.conduct import Stage, conduct, place_of
from medhelm.runs.judges import MissingJudge, judge_answers, missing_judges
from medhelm.runs.progress import Display
from medhelm.runs.refusals import stale_note
from medhelm.runs.run import Run
from medhelm.runs.selection import (
    SeededOrder,
    Selection,
    find_unread,
    plan_of,
    read_finished,
    select,
    selection_key,
    share_of,
)
from medhelm.runs.sending import AHEAD, Desk, Live, Start, Stopped, start_all
from medhelm.runs.served import ServedCheck
from medhelm.runs.sweep import ActiveRun, Interrupts, Sweep
from medhelm.schema.data import Instance
from medhelm.schema.run import RunRecord
from medhelm.store.loglines import Scan, episode_keys
from medhelm.store.names import rename_run
from medhelm.store.records import (
    Plan,
    is_same_model,
    one_spelling,
    order_key,
    read_plan,
    write_struct,
)
from medhelm.store.runlog import RunFolder, read_answered

_YIELD_EVERY = 64


@dataclass(frozen=True)
class Ending:
    """The end of one run of a sweep."""

    run: Run
    record: RunRecord | None
    """None where nothing could be graded, or nothing was begun before the sweep stopped."""
    error: MedhelmError | None = None
    missing: tuple[MissingJudge, ...] = ()
    """Judges that lack verdicts, where none of them is the error."""
    available: int = 0
    """Instances of the data, of which the run has the first; 0: they were not counted now."""


@dataclass(frozen=True)
class SweepEnd:
    """The end of a sweep."""

    endings: tuple[Ending, ...]
    stopped: MedhelmError | None
    """The reason for a stop before its end; else None."""


async def run_sweep(
    runs: Sequence[Run], ledger: Ledger, progress: Display, pool: ModelPool
) -> SweepEnd:
    """Return how each run ended, in the order given, and how the sweep was stopped, if it was.

    Raises nothing that a run can cause.
    """
    sweep = Sweep(pool, Desk(ledger), progress)
    pool.say = progress.message
    if pool.leases is not None:
        pool.leases.lost = sweep.desk.stop
    active = [ActiveRun(run, sweep) for run in runs]
    parts = [_parts(one) for one in active]
    pool.servers.expect([part.work for own in parts for part in own])
    tasks = [asyncio.create_task(_one(*own)) for own in zip(active, parts, strict=True)]
    syncer = asyncio.create_task(sweep.keep_synced())
    with _seldom_collected(), Interrupts(sweep.desk.stop, pool, progress.message, tasks) as work:
        try:
            endings = await work.wait()
        finally:
            syncer.cancel()
            await pool.close()
    return SweepEnd(tuple(endings), sweep.stopped)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let Python look for cycles of garbage less often: at its own rate that is a sixth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(20_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Part(NamedTuple):
    """The work of a run in one turn."""

    work: Work
    is_first: bool = True
    is_last: bool = True


_WHOLE = _Part(Work(is_judging=False))


def _parts(active: ActiveRun) -> list[_Part]:
    """Return the parts of a run: all in one, or where servers are to be started its asking and its judging."""
    run, servers = active.run, active.sweep.pool.servers
    asked = servers.work(() if run.judge_again else run.players.values(), is_judging=False)
    judged = servers.work(run.grading.judges, is_judging=True)
    if (asked.servers or judged.servers) and _finished(run) is None:
        return [_Part(asked, is_last=False), _Part(judged, is_first=False)]
    return [_WHOLE]


async def _one(active: ActiveRun, left: list[_Part]) -> Ending:
    record: RunRecord | None = None
    error: MedhelmError | None = None
    run, sweep = active.run, active.sweep
    active.task = asyncio.current_task()
    servers = sweep.pool.servers
    try:
        # those that wait for hours hold nobody up
        is_in_batches = any(model.batch for model in run.models)
        try:
            while left and record is None:
                part = left[0]
                with suppress(Stopped), sweep.desk.stoppable():
                    await servers.turn(part.work)
                place = sweep.places[run.spec.model.name, part.is_first]
                async with nullcontext() if is_in_batches else place:
                    if sweep.stopped and part.is_first:
                        record = read_finished(run)
                        break
                    record = await _work(active, part)
                await servers.leave(left.pop(0).work)
        finally:
            active.close_folder()
            for part in left:
                await servers.leave(part.work)
    except asyncio.CancelledError:
        error = active.lost
        if error is None and not sweep.stopped:
            raise
    except Exception as e:  # the boundary of a run: the others go on
        error = _as_ours(run, e)
    broken = {name: own.broken for name, own in active.judges.items() if own.broken is not None}
    if broken and (record is None or record.state == "partial"):
        error = error or _all_broken(broken)
    sweep.progress.ended(run)
    if record is not None and run.tracking is not None:
        with suppress(asyncio.CancelledError):  # the run has ended all the same
            for line in await asyncio.to_thread(run.tracking.tell, run.path, record):
                sweep.progress.message(line)
    missing: tuple[MissingJudge, ...] = ()
    if record is not None and error is None and not sweep.stopped:
        missing = missing_judges(run.path, record, active.judges)
    return Ending(run, record, error, missing, active.available)


def _all_broken(broken: Mapping[str, MedhelmError]) -> MedhelmError:
    """Return one error that names every broken judge, with the first one's exit code."""
    first, *others = broken.values()
    if not others:
        return first
    error = MedhelmError(
        "; ".join(f"{'' if name in str(e) else f'judge {name}: '}{e}" for name, e in broken.items())
    )
    error.exit_code = first.exit_code
    return error


def _as_ours(run: Run, error: BaseException) -> MedhelmError:
    """Return what stopped a run as one line; of a defect its kind and place, never its text."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(MedhelmError)
        error = (ours or error).exceptions[0]
    if isinstance(error, MedhelmError):
        return error
    if isinstance(error, OSError):
        return RecordError(f"cannot write {run.path}: {why(error)}")
    return MedhelmError(f"a defect stopped this run: {place_of(error)}")


async def _work(active: ActiveRun, part: _Part) -> RunRecord | None:
    """Return the record of one run: from disk where it is finished, else after asking.

    None of a part that is not the last, and of a shard where others have to end first.
    """
    run, sweep = active.run, active.sweep
    if run.found is not None and part.is_first:
        await asyncio.to_thread(rename_run, run.found, run.path, run.spec)
        sweep.progress.message(f"{run.spec.benchmark}: {run.renamed}")
    finished = _finished(run) if part.is_first else None
    if finished is not None:
        total = finished.instances * run.spec.repeats
        sweep.progress.planned(run, total, total)
        return finished
    is_asking = part.is_first and not run.judge_again
    selection = await _select(active) if is_asking else None
    active.plan = _plan(active, selection) if selection else read_plan(run.path)
    active.share = await asyncio.to_thread(
        share_of, run.dataset, run.spec, active.plan.cut, run.shard
    )
    scan, is_held = await active.open_folder(), False
    try:
        if selection is not None:
            await _answer(active, selection, scan)
        elif part.is_first:
            sweep.progress.planned(run, len(scan.answered), len(scan.answered))
        if not part.is_last:
            is_held = run.shard is not None  # nobody may end a run that is still to be judged
            return None
        async with ServedCheck(run, sweep.pool) as served:
            await judge_answers(active, served)
            broken = (own.broken for own in active.judges.values())
            served.is_done = not sweep.stopped and not any(broken)
        if run.shard is None:
            return await _grade(active)
    except asyncio.CancelledError:
        if not sweep.stopped or active.lost is not None:
            raise  # whoever runs the loop gave up, or there is nothing to grade any more
        if run.shard is None:
            return await _grade(active)
    finally:
        if not is_held:
            active.close_folder()
    return await _end_shard(active)


def _finished(run: Run) -> RunRecord | None:
    """Return the stored record where nothing is to be asked."""
    is_open = run.is_own or run.ask_again or run.judge_again
    return None if is_open else read_finished(run)


async def _end_shard(active: ActiveRun) -> RunRecord | None:
    """Return the record of the whole run where all is answered and no other shard is at work.

    The last shard to end asks what is still to be judged. Of several that end at once, one does.
    """
    why, run, plan = "the run stopped here", active.run, active.plan
    if not active.sweep.stopped:
        total = plan.instances * plan.spec.repeats
        active.share = None
        answered = await asyncio.to_thread(_count_answered, active, read_answered(run.path))
        why = f"{answered:,} of {total:,} answers are there"
        leases = active.sweep.pool.leases
        if answered == total and (leases is None or leases.pool.sees_all):
            active.run, active.folder = replace(run, shard=None), RunFolder(run.path)
            try:
                return await _work(active, _WHOLE)
            except RunLocked as e:
                why = str(e)
    active.say(
        f"shard {run.shard} has ended; {why}. The last shard to end grades, or this command without shard="
    )
    return None


async def _answer(active: ActiveRun, selection: Selection, scan: Scan) -> None:
    run, share = active.run, active.share
    if (
        run.shard is None
        and (scan.answered or scan.failed or scan.begun)
        and (gone := await asyncio.to_thread(_tidy, active, scan))
    ):
        active.say(
            f"{gone} stored answer(s) are of instances that are no longer in the data; moved to stale.jsonl"
        )
    if scan.torn or scan.quarantined:
        active.say(
            f"dropped {scan.torn} torn and {scan.quarantined} damaged line(s) of the log; their instances "
            "are asked again"
        )
    own = [n for name, n in selection.made.items() if is_same_model(run.spec.model, name)]
    if own:
        active.say(
            f"this model wrote or rated {max(own)} instance(s) of the data; its score on them may be too high"
        )
    write_struct(run.path / "spec.json", active.plan)
    if run.ask_again:
        await asyncio.to_thread(_forget_unread, active, scan)
    total = (active.plan.instances if share is None else len(share)) * run.spec.repeats
    active.sweep.progress.planned(run, total, _count_answered(active, scan.answered))
    to_ask = await asyncio.to_thread(
        SeededOrder, run.dataset, run.spec, selection.cut, scan.answered, run.path, share
    )
    with closing(to_ask):
        async with ServedCheck(run, active.sweep.pool) as served:
            await _ask_all(active, to_ask, served)
            served.is_done = not active.sweep.stopped


def _forget_unread(active: ActiveRun, scan: Scan) -> None:
    """Take answers that the user wants asked again out of those that are not; the log keeps them."""
    run = active.run
    run.score(active.plan)
    unread = find_unread(run)
    for instance in run.dataset.instances():
        for repeat, key in enumerate(episode_keys(instance, run.spec.repeats)):
            if (instance.id, repeat) in unread:
                scan.answered.discard(key)


def _plan(active: ActiveRun, selection: Selection) -> Plan:
    """Return the plan of a run: the stored one where only the spelling of settings differs.

    One that is damaged is replaced, which is reported. Raises OtherVersion.
    """
    run = active.run
    plan = plan_of(run, selection)
    if not (run.path / "spec.json").exists():
        return plan
    try:
        stored = read_plan(run.path)
    except OtherVersion:
        raise
    except RecordError as e:
        active.sweep.progress.message(f"{e}. It is written again, as this command plans it")
        return plan
    one, other = (
        msgspec.structs.replace(each, spec=one_spelling(each.spec)) for each in (stored, plan)
    )
    return stored if one == other else plan


async def _grade(active: ActiveRun) -> RunRecord:
    """Return the record of what the log holds; raises RecordError where the log is gone.

    Once the sweep is stopped no further Ctrl-C breaks it off: the thread ends before the process.
    """
    run, sweep = active.run, active.sweep
    sweep.logs.pop(active.folder, None)  # from here on `close` looks after it
    await asyncio.to_thread(active.folder.sync)
    troubles = active.judges.values()
    is_asked = not sweep.stopped and not any(own.broken or own.errors for own in troubles)
    controls = run.controls if is_asked and run.has_controls else 0.0
    graded = asyncio.ensure_future(asyncio.to_thread(run.score, active.plan, controls))
    while True:
        try:
            return await asyncio.shield(graded)
        except asyncio.CancelledError:
            if not sweep.stopped:
                raise


def _tidy(active: ActiveRun, scan: Scan) -> int:
    """Set answers aside whose instance is not in the data as it is now; return how many."""
    run, stored = active.run, scan.answered | scan.failed | scan.begun.keys()
    valid = {
        key
        for instance in run.dataset.instances()
        for key in episode_keys(instance, run.spec.repeats)
        if key in stored
    }
    if run.is_own:  # what was paid for of instances that are not given now, and may be again
        valid |= {key for key, episode in scan.begun.items() if not episode.last}
    if len(valid) == len(stored):
        return 0
    scan.answered.intersection_update(valid)
    return active.folder.set_aside(valid)


async def _select(active: ActiveRun) -> Selection:
    """Return the selection, made once for all models that are asked the same instances."""
    run, selections = active.run, active.sweep.selections
    key = selection_key(run)
    is_first = key not in selections
    if is_first:
        made = asyncio.to_thread(select, run.dataset, run.spec)
        selections[key] = asyncio.ensure_future(made)
    selection = await asyncio.shield(selections[key])
    active.available = selection.available
    if is_first and (note := copies_note(selection.rows.copies)):
        active.sweep.progress.message(f"{run.spec.benchmark}: {note}")
    return selection


def _count_answered(active: ActiveRun, answered: set[int]) -> int:
    run, cut, share = active.run, active.plan.cut, active.share
    if not answered or (cut is None and run.shard is None):
        return len(answered)
    return sum(
        key in answered
        for instance in run.dataset.instances()
        if cut is None or order_key(run.spec.seed, instance.id) <= cut
        if share is None or order_key(run.spec.seed, instance.id) in share
        for key in episode_keys(instance, run.spec.repeats)
    )


_ToAsk = Iterable[tuple[Instance, int]]


async def _ask_all(active: ActiveRun, to_ask: _ToAsk, served: ServedCheck) -> None:
    run, progress, desk = active.run, active.sweep.progress, active.sweep.desk.part()
    models = {role: served.open(spec, run.path) for role, spec in run.players.items()}
    stage = Stage(run=run, models=models, desk=desk, log=active.folder)
    for model in stage.models.values():
        if is_instance_model(model):
            model.prepare(run.benchmark, run.dataset.instances())
    if stage.is_embedded:
        for n, (instance, repeat) in enumerate(to_ask):
            if n % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            if desk.stopped or not (episode := await conduct(stage, instance, repeat, None, None)):
                break
            progress.advanced(run, episode)
    else:
        try:
            async with asyncio.TaskGroup() as group:
                work = served.started(_episodes(active, stage, to_ask), *run.players.values())
                ahead = AHEAD if stage.is_one_call else None
                group.create_task(start_all(desk, work, group, ahead))
        finally:
            if stage.stale:
                active.say(stale_note(stage.stale))
    if desk.failed:
        raise desk.failed


async def _episodes(active: ActiveRun, stage: Stage, to_ask: _ToAsk) -> AsyncIterator[Start]:
    """Yield the episodes that are left; texts are read as they are needed."""
    begun = active.scan.begun if active.scan is not None else {}

    async def one(instance: Instance, repeat: int, live: Live) -> None:
        key = episode_keys(instance, repeat + 1)[-1] if begun else 0
        episode = await conduct(stage, instance, repeat, live, begun.get(key))
        if episode is not None:
            active.sweep.progress.advanced(active.run, episode)

    for instance, repeat in to_ask:
        yield partial(one, instance, repeat)
