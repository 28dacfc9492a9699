"""The Python entry points: the same power as the commands, the same files on disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from medhelm.config import DEFAULT_RESULTS, BenchmarkChoice, Job, PrivacyPolicy
from medhelm.costs import Ledger
from medhelm.errors import BudgetReached, MedhelmError
from medhelm.models import ModelPool
from medhelm.models.catalogue import find_model
from medhelm.planning import Run, plan_runs
from medhelm.registry import Registry, load_registry
from medhelm.runner import SweepEnd, run_sweep
from medhelm.schema import Exchange, ModelSpec, RunRecord, Scoring
from medhelm.tables.results import Results, load_gradings


def evaluate(
    models: str | ModelSpec | Sequence[str | ModelSpec],
    benchmarks: str | Sequence[str],
    *,
    data: Literal["sample", "full"] = "full",
    data_dir: str | Path | None = None,
    results_dir: str | Path = DEFAULT_RESULTS,
    max_instances: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    scoring: Scoring = "fixed",
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    privacy: PrivacyPolicy | None = None,
    plugins: Sequence[str] = (),
) -> Results:
    """Return the results of every model on every benchmark, asking only what is not stored yet.

    `models` and `benchmarks` are names (`medhelm list`) or `ModelSpec`s; `benchmarks="*"` means
    all. Raises MedhelmError: before any request where something is missing or refused, after
    all runs where one of them failed or the budget is reached (the others are kept on disk).
    """
    registry = load_registry(plugins)
    names = list(registry.benchmarks) if benchmarks == "*" else _listed(benchmarks)
    jobs = [
        Job(
            model=model,
            benchmarks=tuple(BenchmarkChoice(name=name) for name in names),
            data=data,
            data_dir=None if data_dir is None else str(data_dir),
            results_dir=str(results_dir),
            max_instances=max_instances,
            repeats=repeats,
            seed=seed,
            scoring=scoring,
            budget_usd=budget_usd,
            budget_tokens=budget_tokens,
            privacy=privacy or {},
        )
        for model in _models(models, registry)
    ]
    runs = plan_runs(jobs, registry, os.environ)
    ledger = Ledger(budget_usd, budget_tokens)
    ledger.check([run.spec.model for run in runs])
    end = _in_own_loop(runs, ledger)
    for ending in end.endings:
        if ending.error is not None:
            raise ending.error
    if end.stopped:
        raise BudgetReached(end.stopped)
    return load_gradings([run.path / "gradings" / run.grading_hash for run in runs])


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _models(
    models: str | ModelSpec | Sequence[str | ModelSpec], registry: Registry
) -> Iterable[ModelSpec]:
    for model in [models] if isinstance(models, str | ModelSpec) else models:
        yield model if isinstance(model, ModelSpec) else find_model(model, registry.models)


def _in_own_loop(runs: Sequence[Run], ledger: Ledger) -> SweepEnd:
    """Run the sweep in a loop of its own, in a thread where the caller's loop is running."""

    def work() -> SweepEnd:
        return asyncio.run(run_sweep(runs, ledger, _Silent(), ModelPool(os.environ)))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as thread:  # a notebook: its loop cannot be entered again
        return thread.submit(work).result()


class _Silent:
    """A `runner.Progress` that shows nothing."""

    def planned(self, run: Run, total: int, answered: int) -> None:
        """Show nothing."""

    def advanced(self, run: Run, exchange: Exchange) -> None:
        """Show nothing."""

    def ended(self, run: Run, record: RunRecord | None, error: MedhelmError | None) -> None:
        """Show nothing."""

    def message(self, text: str) -> None:
        """Show nothing."""
