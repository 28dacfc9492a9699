"""`medhelm compare A B`: two models on the same instances, paired."""

from __future__ import annotations

import argparse

from medhelm.cli.options import OF_GRADINGS, add_options
from medhelm.cli.tables import add_output, chosen_format, emit, load, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("a", metavar="A", help="a model as tables name it; * stands for any text")
    parser.add_argument("b", metavar="B", help="another one")
    add_options(parser, "--benchmark", help="only these benchmarks")
    add_options(parser, "--reduce", "--plugin", *OF_GRADINGS)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the comparison and return the exit code."""
    form = chosen_format(args.format, args.out)
    chosen = settings(args, reduce=args.reduce)
    results = load(args, args.benchmark, [args.a, args.b])
    emit([results.comparison(args.a, args.b, chosen)], form, args.out)
    return 0
