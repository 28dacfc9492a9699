"""`medhelm schema`: the JSON Schema of files that users write."""

from __future__ import annotations

import argparse
import json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("form", choices=("noharm",), help="noharm: a case, one JSON object a line")


def run(args: argparse.Namespace) -> int:
    """Print the schema and return the exit code."""
    import msgspec

    from medhelm.noharm.cases import Case

    print(json.dumps(msgspec.json.schema(Case), indent=1))
    return 0
