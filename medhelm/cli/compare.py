"""`medhelm compare A B`: two models on the same instances, paired."""

from __future__ import annotations

import argparse

from medhelm.cli.options import add_plugins
from medhelm.cli.tables import add_common, add_reduce, chosen_format, emit, load, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("a", metavar="A", help="a model as tables name it; * stands for any text")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument(
        "--benchmark", nargs="+", action="extend", metavar="NAME", help="only these benchmarks"
    )
    add_reduce(parser)
    add_plugins(parser)
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison and return the exit code."""
    form = chosen_format(args.format, args.out)
    chosen = settings(args, reduce=args.reduce)
    results = load(args, args.benchmark, [args.a, args.b])
    emit([results.comparison(args.a, args.b, chosen)], form, args.out)
    return 0
