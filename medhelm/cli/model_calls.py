"""Estimate and usage of commands that ask models about instances of their own (`runs.own_runs`)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from medhelm.cli.estimate import show_estimates
from medhelm.cli.options import print_rows
from medhelm.runs.planning import Run
from medhelm.schema.episode import MODEL
from medhelm.schema.run import RunRecord
from medhelm.store.runlog import read_begun
from medhelm.tables.spending import spend_of

if TYPE_CHECKING:
    from medhelm.cli.sweep import Asked as Asked


def ask(
    runs: Sequence[Run], args: argparse.Namespace, before: Callable[[], None] | None = None
) -> Asked:
    """Return how runs ended that are asked under the caps, those without instances left out.

    `before` is called once nothing can be refused.
    """
    from medhelm.cli.sweep import ask_runs
    from medhelm.runs.own_runs import has_instances
    from medhelm.runs.planning import capped_ledger

    runs = [run for run in runs if has_instances(run)]
    ledger = capped_ledger(runs, args.budget_usd, args.budget_tokens)
    if before is not None:
        before()
    return ask_runs(runs, ledger)


def show_estimate(runs: Sequence[Run], format: str) -> int:
    """Print what is left to ask of runs, and return 0; nothing is sent, no key is needed."""
    show_estimates(runs, runs[0].path.parent, format)
    return 0


def print_usage(run: Run, record: RunRecord) -> None:
    """Print requests, tokens and USD of each role over all commands on a run's folder."""
    asked = [p for p in record.parties if p.usage.requests or p.usage.lost]
    usd = [spend_of(p.model, p.usage).actual for p in asked]
    columns = {
        "role": [run.protocol.roles[0] if p.role == MODEL else p.role for p in asked],
        "model": [p.model.name for p in asked],
        "requests": [f"{p.usage.requests:,}" for p in asked],
        "in": [f"{p.usage.input_tokens:,}" for p in asked],
        "out": [f"{p.usage.output_tokens:,}" for p in asked],
        "lost": [f"{p.usage.lost:,}" for p in asked],
        "USD": ["price unknown" if paid is None else f"{paid:,.4f}" for paid in usd],
    }
    if asked:
        print_rows(columns, numbers=tuple(columns)[2:], leaving=("lost", "in", "out"))
    unfinished = [e for e in read_begun(run.path).values() if not e.last]
    used = [call.response.usage for e in unfinished for call in e.calls.values()]
    if used:
        tokens = sum((u.input_tokens or 0) + (u.output_tokens or 0) for u in used)
        print(
            f"besides: {len(used):,} requests of {len(unfinished):,} unfinished instances, "
            f"{tokens:,} tokens"
        )
