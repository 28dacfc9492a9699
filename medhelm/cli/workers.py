"""`workers=`: a command's runs asked by several processes, each a shard, shown and ended as one."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from medhelm.cli.engines import (
    WHOLE,
    Choice,
    Ended,
    Engine,
    LocalEngine,
    SlurmEngine,
    Worker,
    chosen_engine,
)
from medhelm.cli.sweep import Asked, ask_jobs, make_results
from medhelm.cli.worker import new_pool
from medhelm.config import Job
from medhelm.errors import DataError, Interrupted, MedhelmError, ModelError, RecordError, UsageError
from medhelm.files.durable import make_private
from medhelm.models.costs import capped_ledger
from medhelm.models.pacing.pool import Pool, PoolAccess
from medhelm.models.privacy import POLICY, may_leave
from medhelm.plugins.registry import Registry
from medhelm.runs.estimation import without_keys
from medhelm.runs.judges import missing_judges
from medhelm.runs.planning import plan_runs
from medhelm.runs.progress import Display
from medhelm.runs.regrading import score_stored
from medhelm.runs.run import Run
from medhelm.runs.runner import Ending, SweepEnd
from medhelm.runs.selection import read_finished
from medhelm.store.records import read_plan

_LOOK_S = 0.5
_STARTS = 4
"""Times that a worker which is killed may be started, in all."""
_ENDING_S = 20.0
"""Workers that are told to stop give requests in flight ten seconds, and then grade."""
_OURS_CODES = range(2, 8)
"""Exit codes of mistakes, which another start would make again."""
_STOPPED = (Interrupted.exit_code, 128 + signal.SIGTERM)
"""Exit codes of a worker that was told to stop; the second is of one that had only begun to load."""
_OF_PLACE = (UsageError.exit_code, DataError.exit_code, ModelError.exit_code)
"""Exit codes of what a node may lack that the command has."""
_OURS = ("workers=", "shard=", "results_dir=", "engine.")


@dataclass
class _Post:
    """A part of the runs, and who asks it now."""

    shard: str
    worker: Worker
    starts: int = 1
    ended: Ended | None = None
    at: float = 0.0
    """The moment of its end."""


def _why(ended: Ended) -> str:
    return ended.lost or "stopped from elsewhere"


def ask_with_workers(jobs: Sequence[Job], registry: Registry, argv: Sequence[str]) -> Asked:
    """Return how the runs of all jobs ended, asked by workers together."""
    choice = chosen_engine(jobs[0].workers, jobs[0].engine)
    if jobs[0].shard:
        raise UsageError("workers= and shard= part the runs twice: give one of them")
    if jobs[0].servers:
        raise UsageError("servers=ray is for one process that asks: leave out workers= or servers=")
    results = Path(os.path.abspath(jobs[0].results_dir))
    parts = [
        msgspec.structs.replace(job, shard=f"0/{choice.workers}", results_dir=str(results))
        for job in jobs
    ]
    environ = os.environ if choice.engine == "local" else without_keys(os.environ, parts, registry)
    planned = plan_runs(parts, registry, environ)
    for note in planned.notes:
        print(note, file=sys.stderr)
    runs = [replace(run, shard=None) for run in planned.runs]
    models = (model for run in runs for model in run.models)
    ledger = capped_ledger(models, jobs[0].budget_usd, jobs[0].budget_tokens)
    if all(map(read_finished, runs)):
        return ask_jobs(jobs, registry)
    make_results(results)
    make_private(results / "jobs")
    engine = _open_engine(choice, jobs[0].engine, results / "jobs")
    path = results / "jobs" / f"{secrets.token_hex(4)}.json"
    own = [str(run.path.relative_to(results)) for run in runs]
    new = new_pool(parts[0], choice.workers, own)
    pool = engine.open_pool(path, new, _may_not_travel(jobs[0], runs))
    given = [a for a in argv if not a.lstrip("+").startswith(_OURS)]
    workers = _Workers(engine, ["run", *given], pool, path)
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Display(runs, workers.status) as display:
        stopped = workers.work(display, [f"{n}/{choice.workers}" for n in range(choice.workers)])
        is_judged = any(run.grading.judged_by and not read_finished(run) for run in runs)
        if workers.has_copies and is_judged and not stopped and not [*workers.errors()]:
            stopped = workers.work(display, [WHOLE])  # judges' gaps and controls
        endings = [_ending(run) for run in runs]
        lost = tuple(workers.errors())
    for left in (path, path.with_suffix(".lock")):
        left.unlink(missing_ok=True)
    return Asked(SweepEnd(tuple(endings), stopped), ledger, display, lost)


class _Workers:
    """The workers of one command."""

    def __init__(self, engine: Engine, asked: Sequence[str], pool: PoolAccess, path: Path) -> None:
        """`path`: what workers print lies beside it."""
        self._engine, self._asked, self._pool, self._path = engine, asked, pool, path
        self._posts: list[_Post] = []
        self._status: list[str] = []
        self._is_stopping = False
        self.has_copies = False
        """True once a worker has a copy of the runs, as it does not see the results folder."""

    def work(self, display: Display, shards: Sequence[str]) -> MedhelmError | None:
        """Start all and show how far they are until they end; returns what stopped them, if something did."""
        try:
            if not self._posts:
                display.message(
                    f"{len(shards)} workers on {self._engine.name} share limits and budget; what they "
                    f"print is in {self._output('*')}"
                )
            for shard in shards:
                self._posts.append(_Post(shard, self._start(shard)))
            while self._look(display):
                time.sleep(_LOOK_S)
        except KeyboardInterrupt:
            self._stop(display)
            return Interrupted("interrupted; everything answered so far is kept")
        except MedhelmError as e:
            self._stop(display)
            return e
        finally:
            with suppress(RecordError):
                self._show(display, self._pool.read())
        return None

    def _show(self, display: Display, pool: Pool) -> None:
        """Show the sums of all workers, but for the one that asks judges at the end: the answers are counted."""
        parts = {n: own for n, own in pool.progress.items() if n != WHOLE} or pool.progress
        display.show_sums(self._engine.workers, map(bytes, parts.values()))

    def _start(self, shard: str) -> Worker:
        output = self._output(shard)
        output.touch(0o600)  # by which a worker tells whether it sees the folder
        return self._engine.start([*self._asked, "workers=", f"shard={shard}"], output)

    def _output(self, shard: str) -> Path:
        return self._path.with_suffix(f".{shard.partition('/')[0]}.log")

    def _look(self, display: Display) -> bool:
        """Show the counts; start again who was killed; returns whether anybody is at work."""
        self.has_copies |= self._engine.collect()
        pool = self._pool.read()
        self._show(display, pool)
        for post in self._posts:
            if post.ended is None:
                post.ended, post.at = post.worker.ended(), time.monotonic()
            elif self._goes_on(post) and time.monotonic() >= post.at + self._engine.rest_s:
                display.message(f"worker {post.shard}: {_why(post.ended)}; started again")
                post.worker, post.starts = self._start(post.shard), post.starts + 1
                post.ended = None
        at_work = sum(post.ended is None or self._goes_on(post) for post in self._posts)
        self._status = [f"{at_work} of {len(self._posts)} workers at work"]
        for name, shared in pool.endpoints.items():
            rate = f"{shared.pacer.rate:.0f}/s" if shared.pacer.rate else "no limit met"
            refused = f"{shared.refused / max(shared.sent, 1):.0%} refused"
            flying = sum(tenant.in_flight for tenant in shared.tenants.values())
            self._status.append(f"{name.partition(' ')[0]}: {rate}, {flying} in flight, {refused}")
        return at_work > 0

    def _goes_on(self, post: _Post) -> bool:
        """Return whether a worker that ended is to be started again: it was killed, or stopped by others."""
        ended = post.ended
        if ended is None or post.starts >= _STARTS or self._is_stopping:
            return False
        return ended.code == Interrupted.exit_code or (
            bool(ended.lost) and ended.code not in _OURS_CODES
        )

    def _stop(self, display: Display) -> None:
        self._is_stopping = True
        display.message(
            "stopping: waiting for requests in flight; Ctrl-C again ends all workers at once"
        )
        until = time.monotonic() + _ENDING_S
        try:
            for post in self._posts:
                post.worker.stop()
            while time.monotonic() < until and any(p.worker.ended() is None for p in self._posts):
                with suppress(RecordError):
                    self._engine.collect()
                time.sleep(0.1)
        except KeyboardInterrupt:
            pass
        for post in self._posts:
            if (ended := post.worker.ended()) is None:
                post.worker.kill()
            post.ended = post.ended or ended or Ended(Interrupted.exit_code)
        with suppress(RecordError):
            self._engine.collect()

    def status(self) -> list[str]:
        """Return a line of the workers and one of each endpoint."""
        return self._status

    def errors(self) -> Iterator[tuple[int, str]]:
        """Yield for each worker that failed its exit code and what it said, or why it ended."""
        for post in self._posts:
            ended = post.ended
            if ended is None or ended.code == 0 or (self._is_stopping and ended.code in _STOPPED):
                continue
            if ended.lost or ended.code == Interrupted.exit_code:
                yield ended.code, f"worker {post.shard}: {_why(ended)}"
                continue
            output = self._output(post.shard)
            lines = output.read_text("utf-8", "replace").splitlines() if output.exists() else []
            said = [
                line.removeprefix("medhelm: ") for line in lines if line.startswith("medhelm: ")
            ]
            said = said[:-1] or said  # the last one only counts them
            said = said or [f"worker {post.shard} failed (exit code {ended.code}): see {output}"]
            where = f"on {ended.node}: " if ended.node else ""
            said = [where + line for line in said]
            if where and ended.code in _OF_PLACE:
                said.append(
                    f"a worker has the environment of {self._engine.environment}, not that of this command: "
                    "name folders and --env-file FILE by paths that its node has, too"
                )
            yield from ((ended.code, line) for line in said)


def _ending(run: Run) -> Ending:
    """Return how a run ended: its record, graded from what there is where no worker did that."""
    if not (run.path / "spec.json").exists():
        return Ending(run, None)
    try:
        record = read_finished(run) or score_stored(run, read_plan(run.path))
    except MedhelmError as e:
        return Ending(run, None, e)
    return Ending(run, record, None, missing_judges(run.path, record, {}))


def _may_not_travel(job: Job, runs: Sequence[Run]) -> str:
    """Return why texts of the runs may not go over a network that Ray does not encrypt; empty where they may."""
    if os.environ.get("RAY_USE_TLS") == "1":
        return ""
    for run in runs:
        data_class = run.card.data_class
        if not may_leave(data_class, job.privacy):
            return (
                f"the texts of {run.spec.benchmark} are {data_class}: name a results_dir that all workers share, "
                "encrypt Ray's traffic (RAY_USE_TLS=1 on all nodes), or allow it with "
                f"privacy.{data_class}=[{','.join([*POLICY[data_class], 'external'])}]"
            )
    return ""


def _open_engine(choice: Choice, options: Mapping[str, Any], folder: Path) -> Engine:
    """Return the engine, with options of its own; raises UsageError where its package is not installed."""
    if choice.engine == "local":
        return LocalEngine(choice.workers)
    try:
        if choice.engine == "slurm":
            return SlurmEngine(choice, options, folder)
        from medhelm.cli.ray_engine import RayEngine

        return RayEngine(choice, options)
    except ModuleNotFoundError as e:
        raise UsageError(
            f"workers={choice.engine} needs {e.name}: run in the checkout: pip install '.[{choice.engine}]'"
        ) from None
