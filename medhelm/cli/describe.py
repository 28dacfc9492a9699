"""`medhelm describe NAME`: all facts of one thing that has a name."""

from __future__ import annotations

import argparse

from medhelm.cli.options import data_folder, open_registry, print_json
from medhelm.listing.description import describe_name


def run(args: argparse.Namespace) -> int:
    """Return 0; raises UnknownName where nothing bears the name."""
    found = describe_name(args.name, open_registry(args.plugin), data_folder(args))
    if args.format == "json":
        print_json("description", {"kind": found.kind, **found.facts})
    else:
        print(found)
    return 0
