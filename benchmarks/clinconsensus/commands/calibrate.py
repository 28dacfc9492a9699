"""`medhelm rubric calibrate FILE`: the threshold k from graded answers of physicians."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from medhelm.plugin import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file and the number of criteria."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="CSV or JSON lines with `case_id`, `hits` and `graded_by`, one physician's answer a row; `graded_by` is "
        "`physicians`, others than those who answered: what a judge graded sets no threshold",
    )
    parser.add_argument("--criteria", type=int, default=30, metavar="N", help="criteria of a case")
    options.add_options(parser, "--format")


def run(args: argparse.Namespace) -> int:
    """Print the threshold and return the exit code."""
    from medhelm import DataError
    from medhelm.plugin import readers
    from medhelm_benchmarks.clinconsensus.calibration import calibrate

    if not args.file.is_file():
        raise DataError(f"{args.file}: there is no such file")
    hits: list[int] = []
    for number, row in readers.read_file(args.file):
        where = f"{args.file.name}, row {number}"
        if str(row.get("graded_by", "")) != "physicians":
            raise DataError(
                f"{where}: graded_by is not 'physicians'; a threshold is never set by the automatic "
                "grader"
            )
        text = str(row.get("hits", ""))
        if not text.isascii() or not text.isdigit():
            raise DataError(f"{where}: hits is not a whole number")
        hits.append(int(text))
    found = calibrate(hits, args.criteria)
    if args.format == "json":
        options.print_json("rubric_calibration", asdict(found) | {"rate": found.rate})
        return 0
    print(
        f"{found.cases} answers of physicians meet {found.hits:,} of "
        f"{found.cases * found.criteria:,} criteria ({found.rate:.2%}); mean {found.mean:.2f}, "
        f"median {found.median:g}, quartiles {found.low:g} to {found.high:g} of {found.criteria}."
    )
    print(f"k = {found.k} (the mean, rounded half up)")
    return 0
