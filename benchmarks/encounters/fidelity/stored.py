"""Fidelity of stored encounters: read from runs, checked by rule, and by a judge whose calls are kept.

<run>/fidelity/<judge>/responses.jsonl    the judge's calls; the same command sends none again
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from medhelm import DataError, Episode, Instance, ModelSpec, Response
from medhelm.errors import MedhelmError
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.costs import Ledger
from medhelm.models.identity import identity
from medhelm.runs import ask
from medhelm.runs.interrupts import Interrupts
from medhelm.runs.logs import synced
from medhelm.schema.model import Model
from medhelm.store.calls import OpenEpisode
from medhelm.store.records import read_plan
from medhelm.store.runlog import RunFolder, Scan, episode_key, read_episodes, read_log
from medhelm.tables.study.selection import GradedRun
from medhelm_benchmarks.encounters.fidelity.faults import Fault, Line, lines_of
from medhelm_benchmarks.encounters.fidelity.judge import JUDGE, PROMPT_VERSION, faults_by_judge
from medhelm_benchmarks.encounters.fidelity.rules import faults_by_rule
from medhelm_benchmarks.encounters.grading.completion import ticked
from medhelm_benchmarks.encounters.grading.evaluator import EVALUATIONS, RUBRIC, items_of
from medhelm_benchmarks.encounters.packets import RubricItem, packets_of
from medhelm_benchmarks.encounters.record import encounter_of

PROTOCOLS = ("encounter", "consultation")
COMPLETION = "encounter_completion"


@dataclass(frozen=True)
class Checked:
    """One encounter with its faults."""

    case: str
    repeat: int
    ending: str
    lines: tuple[Line, ...]
    by_rule: tuple[Fault, ...]
    by_judge: tuple[Fault, ...] | None = None
    """None: not judged, or no usable reply came."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Return all faults; of one kind and line once, whoever found it."""
        found = {(f.line, f.kind): f for f in (*(self.by_judge or ()), *self.by_rule)}
        return tuple(found[key] for key in sorted(found))

    @property
    def fidelity(self) -> float | None:
        """Return the share of lines without a fault; None where nobody said anything."""
        if not self.lines:
            return None
        return 1 - len({fault.line for fault in self.faults}) / len(self.lines)


@dataclass(frozen=True)
class CheckedRun:
    """A run with its encounters."""

    run: GradedRun
    encounters: tuple[Checked, ...]

    def model(self, role: str) -> str:
        """Return who plays a role."""
        return self.run.record.spec.cast[role].name


def check_run(run: GradedRun) -> CheckedRun:
    """Return a run's encounters with the faults by rule."""
    return CheckedRun(run, tuple(_checked(episode) for episode in _episodes(run)))


def _episodes(run: GradedRun) -> Iterator[Episode]:
    path = run.path.parents[1]
    return read_episodes(path, read_plan(path))


def _checked(episode: Episode) -> Checked:
    encounter = encounter_of(episode)
    lines = tuple(lines_of(encounter))
    packets = packets_of(episode.instance)
    faults = tuple(faults_by_rule(lines, packets, episode.instance.context))
    return Checked(episode.instance.id, episode.response.repeat, episode.ending, lines, faults)


@dataclass
class Judging:
    """Holds the state that the judging of several runs shares, and its results."""

    judge: ModelSpec
    pool: ModelPool
    ledger: Ledger
    say: Callable[[str], None]
    stopped: MedhelmError | None = None
    found: dict[tuple[Path, str, int], tuple[Fault, ...] | None] = field(default_factory=dict)


async def judge_runs(runs: Sequence[CheckedRun], judging: Judging) -> list[CheckedRun]:
    """Return the runs with what the judge finds. What stopped it is in `judging.stopped`."""
    for run in runs:
        if judging.stopped is None:
            await _judge_run(run, judging)
    return [
        replace(
            run,
            encounters=tuple(
                replace(e, by_judge=judging.found.get((run.run.path, e.case, e.repeat)))
                for e in run.encounters
            ),
        )
        for run in runs
    ]


async def _judge_run(run: CheckedRun, judging: Judging) -> None:
    decides = {"model": identity(judging.judge), "prompt": PROMPT_VERSION}
    digest = hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:16]
    log = RunFolder(run.run.path.parents[1] / "fidelity" / digest)
    scan = log.open()
    try:
        model = judging.pool.open(judging.judge)
        assert not is_instance_model(model)  # refused before anything is asked
        stored = {(e.instance_id, e.response.repeat): e.state for e in read_log(log.path)}
        work = _RunJudging(run.run, judging, ask.Desk(judging.ledger), model, log, scan, stored)
        task = asyncio.create_task(work.everything())
        async with synced(log, work.desk.stop):
            with Interrupts(work.desk.stop, judging.pool, judging.say, [task]):
                try:
                    await task
                except asyncio.CancelledError:
                    if work.desk.stopped is None:
                        raise
        log.sync()
    finally:
        log.close()
    judging.stopped = work.desk.stopped


@dataclass(frozen=True)
class _RunJudging:
    """The judging of one run."""

    run: GradedRun
    judging: Judging
    desk: ask.Desk
    model: Model
    log: RunFolder
    scan: Scan
    stored: Mapping[tuple[str, int], Mapping[str, Any]]
    """The end states of judged encounters by case and repeat."""

    async def everything(self) -> None:
        """Judge all encounters in which somebody said something."""
        async with asyncio.TaskGroup() as group:
            await ask.start_all(self.desk, self._work(), group)

    async def _work(self) -> AsyncIterator[ask.Start]:
        for episode in _episodes(self.run):
            if lines_of(encounter_of(episode)):
                yield partial(self._one, episode)

    async def _one(self, episode: Episode, live: ask.Live) -> None:
        name = (episode.instance.id, episode.response.repeat)
        try:
            with self.desk.border():
                self.judging.found[self.run.path, *name] = await self._faults(episode, live)
        except MedhelmError as e:
            self.desk.stop(e)
        finally:
            live.end()

    async def _faults(self, episode: Episode, live: ask.Live) -> tuple[Fault, ...] | None:
        """Return what the judge finds in an encounter, from the log where it is there."""
        key = episode_key(msgspec.json.encode(episode), 0)
        case, repeat = episode.instance.id, episode.response.repeat
        if key in self.scan.answered and (case, repeat) in self.stored:
            return msgspec.convert(self.stored[case, repeat]["faults"], tuple[Fault, ...])
        begun = self.scan.begun.get(key)
        own = (begun or OpenEpisode(f"{key:016x}")).of(episode.instance, repeat)
        models = {JUDGE: self.model}
        asker = ask.Asker(self.desk, models, own, live, self.log)
        encounter = encounter_of(episode)
        packets = packets_of(episode.instance)
        lines, judge = lines_of(encounter), self.judging.judge
        try:
            found = await faults_by_judge(encounter, lines, packets, judge, asker, case)
        finally:
            await asker.end()
        if found is not None:
            response = Response(instance_id=case, repeat=repeat, text="", finish="stop")
            asker.begin(self.log)
            faults = {"faults": msgspec.to_builtins(found)}
            last = own.ended(response, "judged", faults, own.unasked(asker.asked))
            self.log.append_part(msgspec.json.encode(last))
        return found


def scores_of(run: GradedRun, metric: str) -> Mapping[tuple[str, int], float]:
    """Return the value of each encounter that has one, by case and repeat."""
    return {key: v for key, v in _column(run, metric, "value").items() if v is not None}


def ticks_of(run: GradedRun) -> Mapping[tuple[str, int], Mapping[int, tuple[int, ...] | None]]:
    """Return which items a grading found met in each encounter that it has scored, as `ticked` does."""
    found = _column(run, COMPLETION, "extracted")
    return {key: ticked(shown) for key, shown in found.items() if shown}


def rubric_of(run: GradedRun, case: Instance) -> tuple[RubricItem, ...]:
    """Return the items by which a grading scored a case; empty where it has a diagnosis in their place."""
    for terms in run.record.grading.graders:
        if terms.grader == EVALUATIONS.name:
            return items_of(case, terms.settings.get(RUBRIC, ""))
    return packets_of(case).evaluator.items


def _column(run: GradedRun, metric: str, name: str) -> Mapping[tuple[str, int], Any]:
    """Return a column of a metric's scores by case and repeat."""
    import pyarrow.parquet as pq

    columns = ["instance_id", "repeat", "metric", name]
    try:
        table = pq.read_table(run.path / "scores.parquet", columns=columns)
    except (OSError, ValueError, KeyError):
        raise DataError(f"{run.folder}: its scores cannot be read; run `medhelm score`") from None
    rows = zip(*(table[column].to_pylist() for column in columns), strict=True)
    return {(i, r): value for i, r, m, value in rows if m == metric}
