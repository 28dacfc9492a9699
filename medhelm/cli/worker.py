"""A process that asks a part of a command's runs: its way to the pool of all, and its end with its parent's."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from medhelm.cli.engines import ACTOR, POOL
from medhelm.config import Job
from medhelm.errors import DataError, RecordError
from medhelm.files.durable import make_private
from medhelm.models.pacing.pool import Pool, PoolAccess
from medhelm.models.pacing.pool_file import PoolFile
from medhelm.models.privacy import POLICY, may_leave
from medhelm.processes.workers import Workers
from medhelm.runs.progress import Display
from medhelm.runs.run import Run

_TELL_S = 0.5


def join_pool(job: Job, runs: Sequence[Run], environ: Mapping[str, str]) -> PoolAccess | None:
    """Return the pool that a shard shares with others: that of its command, or of its array of SLURM.

    None where there is none. Raises RecordError where the command's folder is not seen from here, DataError
    where the data here are not the command's.
    """
    shard = next((run.shard for run in runs if run.shard is not None), None)
    if shard is None:
        return None
    own = sorted(str(run.path.relative_to(job.results_dir)) for run in runs)
    path = Path(place := environ.get(POOL, ""))
    if POOL not in environ:
        if not job.shard.startswith("auto") or "SLURM_ARRAY_JOB_ID" not in environ:
            return None
        make_private(Path(job.results_dir) / "jobs")
        # a script may have two commands
        these = hashlib.sha256("\n".join(own).encode()).hexdigest()[:8]
        array = environ["SLURM_ARRAY_JOB_ID"]
        path = Path(job.results_dir) / "jobs" / f"slurm-{array}-{these}.json"
        told = f"all {shard.count} jobs of this array together, as its first set them ({path})"
        print(f"limits and budget hold for {told}", file=sys.stderr)
    pool: PoolAccess
    if place.startswith(ACTOR):
        from medhelm.cli.ray_engine import joined_pool

        pool = joined_pool(place, str(shard), shard.count)
    else:
        if POOL in environ and not path.exists():
            raise RecordError(
                f"{path} is not seen on {os.uname().nodename}: name a results_dir that all workers share"
            )
        pool = PoolFile(path, str(shard), new_pool(job, shard.count, own))
    if others := set(own) - set(pool.read().runs):
        raise DataError(
            f"the data on {os.uname().nodename} are not those of the command: {min(others)} is none of its "
            "runs; give all workers the same data_dir and version of medhelm"
        )
    return pool


def fellows(job: Job, workers: int, environ: Mapping[str, str]) -> Workers:
    """Return who computes slow metrics of a process that asks: tasks of Ray where it is one, else cores of this machine."""
    if not environ.get(POOL, "").startswith(ACTOR):
        return Workers()
    text_of = [data_class for data_class in POLICY if may_leave(data_class, job.privacy)]
    return Workers(workers, is_ray=True, text_of=text_of, cpus=0)


def new_pool(job: Job, workers: int, runs: Sequence[str]) -> Pool:
    """Return the pool of so many workers with the caps of their command."""
    return Pool(workers, cap_usd=job.budget_usd, cap_tokens=job.budget_tokens, runs=[*runs])


@asynccontextmanager
async def telling(pool: PoolAccess | None, display: Display) -> AsyncIterator[None]:
    """Tell the pool how far this worker is; end it like Ctrl-C once its parent is gone."""
    if pool is None:
        yield
        return
    with suppress(ValueError):  # not in the main thread
        # SLURM's word to the job, which stops this process
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    loop = asyncio.get_running_loop()
    has_parent = POOL in os.environ and sys.stdin is not None
    if has_parent:
        loop.add_reader(sys.stdin.fileno(), _on_parent, loop)
    teller = asyncio.create_task(_tell(pool, display))
    try:
        yield
    finally:
        teller.cancel()
        if has_parent:
            loop.remove_reader(sys.stdin.fileno())
        with suppress(RecordError):
            pool.tell(display.counts())


async def _tell(pool: PoolAccess, display: Display) -> None:
    with suppress(RecordError):  # who asks finds that out
        while True:
            await asyncio.to_thread(pool.tell, display.counts())
            await asyncio.sleep(_TELL_S)


def _on_parent(loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 1):  # the other end of the pipe is closed
        loop.remove_reader(sys.stdin.fileno())
        os.kill(os.getpid(), signal.SIGTERM)
