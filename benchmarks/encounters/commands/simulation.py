"""`medhelm qc simulation`: how true patient and surroundings of stored encounters are to their packets."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from medhelm.cli.options import add_plugins, open_registry
from medhelm.cli.tables import chosen_format, emit
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.study.selection import GradedRun
    from medhelm_benchmarks.encounters.fidelity.stored import CheckedRun

_TABLES = ("simulation", "marked", "cast", "variance")
_LEAST = 0.95
_EXAMPLES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--results-dir", metavar="DIR", default=DEFAULT_RESULTS, help="(default: %(default)s)"
    )
    parser.add_argument("--benchmark", action="append", metavar="NAME", help="these alone")
    parser.add_argument("--model", action="append", metavar="NAME", help="these clinicians alone")
    parser.add_argument(
        "--judge", metavar="MODEL", help="who looks for what rules cannot tell (default: nobody)"
    )
    parser.add_argument(
        "--least",
        type=float,
        default=_LEAST,
        metavar="SHARE",
        help="share of lines without a fault below which an encounter is marked "
        "(default: %(default)s)",
    )
    parser.add_argument("--table", choices=_TABLES, help="one table (default: all)")
    parser.add_argument(
        "--examples",
        metavar="FILE",
        help=f"write up to {_EXAMPLES} faults of each kind and role there, one JSON object a line; "
        "with the words of the line where the benchmark's data are public",
    )
    parser.add_argument(
        "--format",
        choices=("terminal", "csv", "json", "markdown", "latex", "parquet"),
        help="output format (default: by the suffix of --out, else terminal)",
    )
    parser.add_argument("--out", metavar="FILE", help="write there, not to the standard output")
    parser.add_argument("--budget-usd", type=float, metavar="USD", help="cap for the judge")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="cap on tokens")
    add_plugins(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tables and return 0; else the code of what stopped the judge."""
    from medhelm_benchmarks.encounters.fidelity.stored import check_run
    from medhelm_benchmarks.encounters.fidelity.tables import (
        cast_table,
        marked_table,
        rates_table,
        scored,
        variance_table,
    )

    form = chosen_format(args.format, args.out)
    if not 0 <= args.least <= 1:
        raise UsageError(f"--least must lie between 0 and 1, not {args.least:g}")
    runs = [check_run(r) for r in _runs(args)]
    stopped = None
    if args.judge:
        runs, stopped = _judge(runs, args)
    if args.examples:
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _examples(runs))
        Path(args.examples).write_bytes(lines)
    found = [scored(r) for r in runs]
    newest = list({(r.run.path.parents[1]): r for r in found}.values())
    tables = {
        "simulation": lambda: rates_table(newest, is_judged=bool(args.judge)),
        "marked": lambda: marked_table(newest, args.least),
        "cast": lambda: cast_table(found),
        "variance": lambda: variance_table(found),
    }
    emit([tables[name]() for name in ([args.table] if args.table else _TABLES)], form, args.out)
    if stopped is not None:
        raise stopped
    return 0


def _runs(args: argparse.Namespace) -> list[GradedRun]:
    """Return the graded runs of encounters, older gradings first."""
    from medhelm.tables.clinicians.rated_answers import graded_runs
    from medhelm_benchmarks.encounters.fidelity.stored import PROTOCOLS

    runs, damaged = graded_runs(Path(args.results_dir))
    for line in damaged:
        print(f"medhelm: left out, damaged: {line}", file=sys.stderr)
    own = [r for r in runs if r.record.spec.protocol in PROTOCOLS]
    own = _chosen(own, "--benchmark", args.benchmark, lambda r: r.benchmark)
    own = _chosen(own, "--model", args.model, lambda r: r.model)
    if not own:
        raise UsageError(
            f"no run below {args.results_dir} has encounters; `medhelm run model=... "
            "benchmark=medsp1000 data=sample` makes one"
        )
    return own


def _chosen(
    runs: list[GradedRun], option: str, wanted: list[str] | None, name: Callable[[GradedRun], str]
) -> list[GradedRun]:
    """Return the runs with one of the names that an option was given; all where it was not."""
    known = sorted({name(r) for r in runs})
    for one in wanted or ():
        if one not in known:
            raise UsageError(f"{option} {one}: no stored encounters; there are {', '.join(known)}")
    return [r for r in runs if name(r) in wanted] if wanted else runs


def _judge(
    runs: Sequence[CheckedRun], args: argparse.Namespace
) -> tuple[list[CheckedRun], Exception | None]:
    """Return the runs as a judge sees them, and what stopped it."""
    from medhelm.models import ModelPool, check_model, privacy
    from medhelm.models.catalogue import find_model
    from medhelm.models.costs import Ledger
    from medhelm.models.identity import reads_prompt
    from medhelm_benchmarks.encounters.fidelity.stored import Judging, judge_runs

    judge = find_model(args.judge, open_registry(args.plugin).models)
    if not reads_prompt(judge):
        raise UsageError(f"{judge.name} is a rule and judges nothing; name a language model")
    for run in runs:
        card = run.run.record.card
        privacy.check(card.name, card.data_class, judge.name, judge.endpoint_class)
    check_model(judge, os.environ)
    ledger = Ledger(args.budget_usd, args.budget_tokens)
    ledger.check([judge])

    def say(text: str) -> None:
        print(f"medhelm: {text}", file=sys.stderr, flush=True)

    async def work() -> tuple[list[CheckedRun], Exception | None]:
        pool = ModelPool(os.environ)
        judging = Judging(judge, pool, ledger, say)
        try:
            return await judge_runs(runs, judging), judging.stopped
        finally:
            await pool.close()
            for line in pool.said():
                say(line)

    return asyncio.run(work())


def _examples(runs: Sequence[CheckedRun]) -> Iterator[dict[str, object]]:
    """Yield the first faults of each kind and role; their words only of public data."""
    seen: dict[tuple[str, str, str], int] = {}
    for run in runs:
        is_public = run.run.record.card.data_class == "public"
        for encounter in run.encounters:
            for fault in encounter.faults:
                key = (run.model(fault.role), fault.role, fault.kind)
                seen[key] = seen.get(key, 0) + 1
                if seen[key] > _EXAMPLES:
                    continue
                yield {
                    "run": run.run.folder,
                    "case": encounter.case,
                    "repeat": encounter.repeat,
                    "turn": fault.turn,
                    "line": fault.line,
                    "role": fault.role,
                    "model": run.model(fault.role),
                    "kind": fault.kind,
                    "by": fault.by,
                    **({"quote": fault.quote} if is_public else {}),
                }
