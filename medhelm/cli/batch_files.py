"""`medhelm export openai_batch`: what `medhelm run` would ask, as files; and the answers that come back."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from medhelm.cli.completion import complete as complete
from medhelm.cli.options import open_registry
from medhelm.config import Job
from medhelm.errors import UsageError
from medhelm.interop.batch_files import Answers, Exchange, FilePool, Outbox
from medhelm.models.costs import Ledger
from medhelm.plugins.registry import Registry
from medhelm.runs.estimation import without_keys
from medhelm.runs.planning import plan_runs
from medhelm.runs.progress import Display
from medhelm.runs.runner import Ending, run_sweep


def run(args: argparse.Namespace) -> int:
    """Return 0. No key is needed; nothing is sent."""
    from medhelm.cli.compose import read_options
    from medhelm.cli.run import jobs_of

    config = ["--config-dir", args.config_dir] if args.config_dir else []
    argv = [*config, *args.arguments]
    typed = read_options(argv)
    jobs, registry = jobs_of(typed, open_registry(typed.plugins))
    out = Outbox(results := Path(jobs[0].results_dir), argv)
    _sweep(jobs, registry, out.take)
    written = out.write(Path(args.out))
    for path, n in written.items():
        print(f"{path}: {n:,} request(s)")
    done = "`medhelm import openai_batch OUTPUT.jsonl ERRORS.jsonl"
    print(
        f"Nothing was sent. Once they are answered elsewhere: {done} --results-dir {results}`"
        if written
        else "nothing is left to ask"
    )
    return 0


def take_answers(paths: Sequence[Path], results: Path) -> int:
    """Bring answers in, print the tables, and return 0."""
    from medhelm.cli.compose import read_options
    from medhelm.cli.run import jobs_of
    from medhelm.cli.sweep import show_runs

    answers = Answers(paths, results)
    for name, arguments in answers.exports.items():
        typed = read_options(arguments)
        jobs, registry = jobs_of(typed, open_registry(typed.plugins))
        jobs = [msgspec.structs.replace(job, results_dir=str(results)) for job in jobs]
        endings = _sweep(jobs, registry, answers.of(name))
        show_runs(endings, results, registry)
    print(
        f"{answers.used:,} answer(s) taken, {answers.old:,} were before. What has none yet: the same "
        "`medhelm export openai_batch` writes it again"
    )
    if answers.unused:
        print(
            f"{answers.unused:,} answer(s) are to no request of today: data, prompts or settings have "
            "changed, or what they are answers to is answered"
        )
    return 0


def _sweep(jobs: Sequence[Job], registry: Registry, exchange: Exchange) -> Sequence[Ending]:
    """Return how runs ended whose requests are exchanged so; raises what stopped any of them."""
    from medhelm.cli.sweep import make_results, refuse_swept

    refuse_swept(jobs)
    environ = without_keys(os.environ, jobs, registry)
    runs = plan_runs(jobs, registry, environ).runs
    if own := [model.name for run in runs for model in run.models if model.serve]:
        raise UsageError(f"{own[0]} is served by `medhelm run` itself, so no file is needed")
    make_results(Path(jobs[0].results_dir))
    with Display(runs, is_shown=False) as display:
        end = asyncio.run(run_sweep(runs, Ledger(), display, FilePool(environ, exchange)))
    for error in (end.stopped, *(ending.error for ending in end.endings)):
        if error is not None:
            raise error
    return end.endings
