"""`medhelm compare A B`: two models on the same instances, paired; `--scorer`: another tool's scores and ours."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.cli.options import OF_GRADINGS, add_options
from medhelm.cli.tables import add_output, chosen_format, emit, load, settings
from medhelm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "a", nargs="?", metavar="A", help="a model as tables name it; * stands for any text"
    )
    parser.add_argument("b", nargs="?", metavar="B", help="another one")
    parser.add_argument(
        "--scorer",
        choices=("theirs,ours",),
        help="of imported runs (of A alone, where it is named): where the tool that asked scored "
        "otherwise than we do, answer by answer, and why",
    )
    add_options(parser, "--benchmark", help="only these benchmarks")
    add_options(parser, "--reduce", "--plugin", *OF_GRADINGS)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison and return the exit code."""
    form = chosen_format(args.format, args.out)
    if args.scorer:
        from medhelm.tables.other_scores import scorers

        models = [args.a] if args.a else []
        table = scorers(Path(args.results_dir), args.scoring, args.benchmark, models)
        emit([table], form, args.out)
        return 0
    if args.b is None:
        raise UsageError("compare takes two models, or --scorer theirs,ours")
    chosen = settings(args, reduce=args.reduce)
    results = load(args, args.benchmark, [args.a, args.b])
    emit([results.comparison(args.a, args.b, chosen)], form, args.out)
    return 0
