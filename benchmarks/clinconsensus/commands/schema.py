"""`medhelm schema clinconsensus`: the JSON Schema of a case, one JSON object a line."""

from __future__ import annotations

import argparse
import json


def run(args: argparse.Namespace) -> int:
    """Print the schema and return the exit code."""
    import msgspec

    from medhelm_benchmarks.clinconsensus.cases import Case

    print(json.dumps(msgspec.json.schema(Case), indent=1))
    return 0
