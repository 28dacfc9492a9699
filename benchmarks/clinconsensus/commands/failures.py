"""`medhelm rubric failures BENCHMARK`: why criteria are not met, by hand-made labels or by a model's."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.options import add_plugins, open_registry
from medhelm.cli.tables import add_output, chosen_format, emit, settings
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm_benchmarks.clinconsensus.failures.unmet import Answer, Name

_ANSWERS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("benchmark", metavar="BENCHMARK", help="a benchmark with binary criteria")
    parser.add_argument(
        "--template", metavar="FILE", help="write a sheet of unmet criteria there, to be filled"
    )
    parser.add_argument("--labels", nargs="+", metavar="FILE", help="filled sheets")
    parser.add_argument("--judge", metavar="MODEL", help="the model that labels")
    parser.add_argument(
        "--answers",
        type=int,
        default=_ANSWERS,
        metavar="N",
        help="of --template and --judge: answers of each model (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="draws them (default: 0)")
    parser.add_argument(
        "--text-of",
        nargs="+",
        choices=("gated", "private"),
        default=[],
        metavar="CLASS",
        help="of --template: data whose text may be written, besides public",
    )
    parser.add_argument("--model", nargs="+", metavar="NAME", help="only answers of these models")
    parser.add_argument("--data", choices=("sample", "full"), help="which runs")
    parser.add_argument("--latest", action="store_true", help="the newest of several runs")
    parser.add_argument(
        "--results-dir", metavar="DIR", default=DEFAULT_RESULTS, help="(default: %(default)s)"
    )
    parser.add_argument("--budget-usd", type=float, metavar="USD", help="cap of --judge")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="cap of --judge in tokens")
    add_plugins(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Write the sheet, or print the table, and return the exit code."""
    from medhelm.tables.clinicians.sheet import check_privacy
    from medhelm_benchmarks.clinconsensus.failures.labels import read_labels, write_sheet
    from medhelm_benchmarks.clinconsensus.failures.table import failures_table
    from medhelm_benchmarks.clinconsensus.failures.unmet import drawn, read_unmet

    if sum(map(bool, (args.template, args.labels, args.judge))) != 1:
        raise UsageError(
            "rubric failures: name one of --template FILE, --labels FILE, --judge MODEL"
        )
    if args.answers < 1:
        raise UsageError("--answers must be at least 1")
    form, chosen = chosen_format(args.format, args.out), settings(args)
    answers = read_unmet(
        Path(args.results_dir),
        args.benchmark,
        data=args.data,
        latest=args.latest,
        models=args.model or (),
    )
    some = drawn(answers, args.answers, args.seed)
    if args.template:
        check_privacy(answers[0].record, args.text_of)
        count = write_sheet(Path(args.template), some)
        print(f"{args.template}: {count} unmet criteria of {len(some)} answers; fill `type`")
        return 0
    stopped: Exception | None = None
    labels: Mapping[Name, str]
    if args.labels:
        labels, by = read_labels([Path(name) for name in args.labels], answers), "hand"
    else:
        labels, stopped = _judge(args, some)
        by = f"{args.judge}, which nobody has compared with people"
    emit([failures_table(answers, labels, by, chosen)], form, args.out)
    if stopped is not None:
        raise stopped
    return 0


def _judge(
    args: argparse.Namespace, answers: Sequence[Answer]
) -> tuple[Mapping[Name, str], Exception | None]:
    """Return the labels of a model, and what stopped it."""
    from medhelm.models import ModelPool, check_model, privacy
    from medhelm.models.catalogue import find_model
    from medhelm.models.costs import Ledger
    from medhelm.models.identity import reads_prompt
    from medhelm_benchmarks.clinconsensus.failures.labelling import Labelling, label

    model = find_model(args.judge, open_registry(args.plugin).models)
    if not reads_prompt(model):
        raise UsageError(f"{model.name} is a rule and labels nothing; name a language model")
    for answer in answers:
        card = answer.record.card
        privacy.check(card.name, card.data_class, model.name, model.endpoint_class)
    check_model(model, os.environ)
    ledger = Ledger(args.budget_usd, args.budget_tokens)
    ledger.check([model])

    def say(text: str) -> None:
        print(f"medhelm: {text}", file=sys.stderr, flush=True)

    async def work() -> Labelling:
        pool = ModelPool(os.environ)
        labelling = Labelling(model, pool, ledger, say)
        try:
            await label(answers, labelling)
        finally:
            await pool.close()
            for line in pool.said():
                say(line)
        return labelling

    done = asyncio.run(work())
    return done.found, done.stopped
