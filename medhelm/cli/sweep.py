"""One sweep on the terminal: plan, run with a display, then say what came of it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections import Counter
from collections.abc import Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from medhelm.config import Job
from medhelm.costs import Ledger
from medhelm.errors import MedhelmError, UsageError
from medhelm.models import ModelPool
from medhelm.planning import paid_models, plan_runs
from medhelm.registry import Registry
from medhelm.runner import SweepEnd, run_sweep

_LATE: tuple[str, ...] = (
    "pyarrow.parquet",
    "pyarrow.json",
    "medhelm.tables.formats",
    "medhelm.tables.results",
)
_LATE += ("scipy.special",)
_LOAD_AFTER_S = 0.5
"""The first requests are on their way by then."""


def run_jobs(jobs: Sequence[Job], registry: Registry, command: str) -> None:
    """Run all jobs together and print the tables; raises what stopped a run or the sweep."""
    end = _run(jobs, registry)
    graded = [
        e.run.path / "gradings" / e.run.grading_hash for e in end.endings if e.record is not None
    ]
    show_tables(graded, Path(jobs[0].results_dir))
    _raise_worst(end, command)


def run_alone(job: Job, registry: Registry) -> None:
    """Run one job of a sweep whose tables another process shows; raises its first error."""
    end = _run([job], registry)
    for ending in end.endings:
        if ending.error is not None:
            raise ending.error
    if end.stopped is not None:
        raise end.stopped


def show_tables(gradings: Sequence[Path], results: Path) -> None:
    """Print the tables of finished runs and where all of it lies."""
    from medhelm.tables.formats import print_tables
    from medhelm.tables.jury import brief
    from medhelm.tables.results import load_gradings

    if gradings:
        try:
            loaded = load_gradings(gradings)
            jury = brief(loaded.tables["jury"])
            first = [loaded.tables[n] for n in ("overall", "benchmarks")]
            last = [loaded.tables[n] for n in ("mde", "cost")]
            print_tables([*first, *([jury] if jury.rows else []), *last])
        except UsageError as e:  # a sweep over settings has several runs for one cell
            print(f"No common table: {e}")
    print(f"Runs: {results.resolve() / 'runs'}")
    print(f"Tables again: medhelm tables --results-dir {shlex.quote(str(results))}")


def _run(jobs: Sequence[Job], registry: Registry) -> SweepEnd:
    from medhelm.cli.progress import Display

    for key in ("results_dir", "budget_usd", "budget_tokens"):
        if len({getattr(job, key) for job in jobs}) > 1:
            raise UsageError(
                f"{key} holds for a whole sweep and cannot be swept; give it one value"
            )
    runs = plan_runs(jobs, registry, os.environ)
    ledger = Ledger(jobs[0].budget_usd, jobs[0].budget_tokens)
    ledger.check(paid_models(runs))
    with Display(runs) as display:
        return asyncio.run(_sweep(run_sweep(runs, ledger, display, ModelPool(os.environ))))


async def _sweep(sweep: Coroutine[Any, Any, SweepEnd]) -> SweepEnd:
    """Return how a sweep ended; what its tables need is loaded while it waits for answers."""
    loading = asyncio.create_task(_load_late())
    try:
        return await sweep
    finally:
        loading.cancel()


async def _load_late() -> None:
    await asyncio.sleep(_LOAD_AFTER_S)
    for module in _LATE:
        await asyncio.to_thread(import_module, module)


def _raise_worst(end: SweepEnd, command: str) -> None:
    failed = [e for e in end.endings if e.error is not None]
    by_reason = Counter(str(e.error) for e in failed)
    for reason, n in by_reason.most_common():
        first = next(e for e in failed if str(e.error) == reason)
        where = f"{first.run.spec.benchmark} x {first.run.spec.model.name}"
        more = f" and {n - 1} more run(s)" if n > 1 else ""
        print(f"medhelm: {where}{more}: {reason}", file=sys.stderr)
    partial = sum(e.record is not None and e.record.state == "partial" for e in end.endings)
    if end.stopped or failed or partial:
        print(f"To go on where it stopped: {command}", file=sys.stderr)
    if end.stopped is not None:
        raise end.stopped
    if failed:
        code = failed[0].error.exit_code if failed[0].error else 1
        raise failed_error(code, len(failed), len(end.endings))


def failed_error(exit_code: int, failed: int, total: int) -> MedhelmError:
    """Return one error for a sweep of which some runs failed, with the first one's exit code."""
    rest = "" if failed == total else "; the others are finished"
    error = MedhelmError(f"{failed} of {total} run(s) failed, see above{rest}")
    error.exit_code = exit_code
    return error
