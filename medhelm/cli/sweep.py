"""One sweep on the terminal: plan, run with a display, then say what came of it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from medhelm.config import Job
from medhelm.costs import Ledger
from medhelm.errors import BudgetReached, MedhelmError, UsageError
from medhelm.models import ModelPool
from medhelm.planning import plan_runs
from medhelm.registry import Registry
from medhelm.runner import INTERRUPTED, SweepEnd, run_sweep


class Interrupted(MedhelmError):
    """The user stopped the sweep; everything answered is kept."""

    exit_code = 130


def run_jobs(jobs: Sequence[Job], registry: Registry, command: str) -> None:
    """Run all jobs together and print the tables; raises what stopped a run or the sweep."""
    from medhelm.cli.progress import Display

    runs = plan_runs(jobs, registry, os.environ)
    ledger = Ledger(jobs[0].budget_usd, jobs[0].budget_tokens)
    ledger.check([run.spec.model for run in runs])
    with Display(runs) as display:
        end = asyncio.run(run_sweep(runs, ledger, display, ModelPool(os.environ)))
    _print_tables(end, Path(jobs[0].results_dir))
    _raise_worst(end, command)


def _print_tables(end: SweepEnd, results: Path) -> None:
    from medhelm.formats import print_tables
    from medhelm.results import load_gradings

    graded = [
        e.run.path / "gradings" / e.run.grading_hash for e in end.endings if e.record is not None
    ]
    if graded:
        try:
            loaded = load_gradings(graded)
            print_tables([loaded.tables[n] for n in ("overall", "benchmarks", "mde", "cost")])
        except UsageError as e:  # a sweep over settings has several runs for one cell
            print(f"No common table: {e}")
    print(f"Runs: {results.resolve() / 'runs'}")
    print(f"Tables again: medhelm tables --results-dir {results}")


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
    if end.stopped == INTERRUPTED:
        raise Interrupted("interrupted; everything answered so far is kept")
    if end.stopped:
        raise BudgetReached(end.stopped)
    if failed:
        raise failed_error(failed[0].error, len(failed), len(end.endings))


def failed_error(first: MedhelmError | None, failed: int, total: int) -> MedhelmError:
    """Return one error for a sweep of which some runs failed, with the first one's exit code."""
    error = MedhelmError(f"{failed} of {total} run(s) failed, see above; the others are finished")
    error.exit_code = first.exit_code if first else 1
    return error
