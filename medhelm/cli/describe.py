"""`medhelm describe NAME`: all facts of one thing that has a name."""

from __future__ import annotations

import argparse

from medhelm.cli.options import add_options, data_folder, open_registry, print_json
from medhelm.listing.description import KINDS, describe_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("name", metavar="NAME", help=f"a {KINDS}")
    add_options(parser, "--data-dir", "--plugin", "--format")


def run(args: argparse.Namespace) -> int:
    """Return 0; raises UnknownName where nothing bears the name."""
    found = describe_name(args.name, open_registry(args.plugin), data_folder(args))
    if args.format == "json":
        print_json("description", {"kind": found.kind, **found.facts})
    else:
        print(found)
    return 0
