"""Estimate, asking and usage of the commands that ask models, each with runs of its own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from medhelm.cli.estimate import show_estimates
from medhelm.cli.options import print_rows
from medhelm.errors import UsageError
from medhelm.runs.own_runs import has_instances
from medhelm.runs.run import Run
from medhelm.schema.episode import MODEL
from medhelm.schema.run import RunRecord
from medhelm.store.runlog import read_begun
from medhelm.tables.spending import spend_of

if TYPE_CHECKING:
    from medhelm.cli.sweep import Asked as Asked


def ask(runs: Sequence[Run], args: argparse.Namespace) -> Asked:
    """Return how runs ended that are asked under the caps; on stderr is printed what each role has used."""
    from medhelm.cli.sweep import ask_runs
    from medhelm.models.costs import capped_ledger

    runs = [run for run in runs if has_instances(run)]
    models = (model for run in runs for model in run.models)
    asked = ask_runs(runs, capped_ledger(models, args.budget_usd, args.budget_tokens))
    own = ((end.run, end.record) for end in asked.end.endings if end.run.is_own)
    _print_usage([(run, record) for run, record in own if record is not None])
    return asked


def environ_of(args: argparse.Namespace) -> Mapping[str, str] | None:
    """Return the environment, which holds the keys; None: an estimate needs none."""
    return None if args.estimate else os.environ


def check_estimate(args: argparse.Namespace) -> None:
    """Refuse an estimate of a command that asks nobody without a judge; raises UsageError."""
    if args.estimate and not args.judge:
        raise UsageError("--estimate is of --judge; without one nothing is asked")


def show_estimate(runs: Sequence[Run], args: argparse.Namespace) -> int:
    """Print what is left to ask of runs, and return 0; nothing is sent, no key is needed."""
    is_json = args.format == "json" or str(getattr(args, "out", "")).endswith(".json")
    form = "json" if is_json else "text"
    show_estimates([*filter(has_instances, runs)], runs[0].path.parent, form)
    return 0


def _print_usage(ended: Sequence[tuple[Run, RunRecord]]) -> None:
    """Print requests, tokens and USD of each role over all commands on the folders of runs."""
    asked = [
        (run, party)
        for run, record in ended
        for party in record.parties
        if party.usage.requests or party.usage.lost
    ]
    usages = [party.usage for _, party in asked]
    usd = [spend_of(party.model, party.usage).actual for _, party in asked]
    columns = {
        "asked about": [run.benchmark.name for run, _ in asked],
        "role": [run.protocol.roles[0] if p.role == MODEL else p.role for run, p in asked],
        "model": [party.model.name for _, party in asked],
        "requests": [f"{usage.requests:,}" for usage in usages],
        "in": [f"{usage.input_tokens:,}" for usage in usages],
        "out": [f"{usage.output_tokens:,}" for usage in usages],
        "lost": [f"{usage.lost:,}" for usage in usages],
        "USD": ["price unknown" if paid is None else f"{paid:,.4f}" for paid in usd],
    }
    if asked:
        leaving = ("asked about", "lost", "in", "out")
        print_rows(columns, numbers=tuple(columns)[3:], leaving=leaving, is_aside=True)
    begun = (episode for run, _ in ended for episode in read_begun(run.path).values())
    unfinished = [episode for episode in begun if not episode.last]
    used = [call.response.usage for e in unfinished for call in e.calls.values()]
    if used:
        tokens = sum((u.input_tokens or 0) + (u.output_tokens or 0) for u in used)
        print(
            f"besides: {len(used):,} requests of {len(unfinished):,} unfinished instances, "
            f"{tokens:,} tokens",
            file=sys.stderr,
        )
