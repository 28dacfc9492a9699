"""`medhelm rubric bank`: the consensus criteria that case criteria are written from."""

from __future__ import annotations

import argparse

from medhelm.cli.options import add_format, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the form of the output."""
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the bank and return the exit code."""
    import msgspec

    from medhelm_benchmarks.clinconsensus.bank import bank

    if args.format == "json":
        print_json("rubric_bank", {"criteria": msgspec.to_builtins(bank())})
        return 0
    for criterion in bank():
        print(f"{criterion.id}  {criterion.text}" + "  (of a system)" * criterion.system)
    return 0
