"""`medhelm rubric lint FILE`: what is wrong with the criteria of cases."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from medhelm.cli.options import add_format, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and the expected number of criteria."""
    parser.add_argument("file", type=Path, metavar="FILE", help="cases, one JSON object a line")
    parser.add_argument(
        "--criteria", type=int, default=30, metavar="N", help="criteria of a case; 0: any number"
    )
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings and return the exit code: 1 where there is one."""
    from medhelm.data.readers import read_file
    from medhelm.errors import DataError
    from medhelm_benchmarks.clinconsensus.lint import lint

    if not args.file.is_file():
        raise DataError(f"{args.file}: there is no such file")
    rows = [row for _, row in read_file(args.file)]
    if not rows:
        raise DataError(f"{args.file}: holds no case; one JSON object a line is needed")
    found = [finding for row in rows for finding in lint(row, args.criteria)]
    counts = Counter(finding.rule for finding in found)
    if args.format == "json":
        print_json(
            "rubric_lint",
            {"cases": len(rows), "findings": [f._asdict() for f in found], "counts": counts},
        )
        return int(bool(found))
    for finding in found:
        where = " ".join(filter(None, (finding.case, finding.criterion)))
        print(f"{where}: {finding.rule}: {finding.text}")
    said = ", ".join(f"{n} {rule}" for rule, n in sorted(counts.items())) or "no finding"
    print(f"{len(rows)} cases: {said}")
    return int(bool(found))
