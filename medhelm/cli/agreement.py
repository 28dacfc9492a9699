"""`medhelm agreement`: clinicians' ratings against the jury, and the sheet to rate on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from medhelm.cli.tables import add_common, chosen_format, emit, settings
from medhelm.errors import UsageError
from medhelm.schema import DataClass

if TYPE_CHECKING:
    from medhelm.tables.sheet import Sheet

_MIN_COMMON = 5
_PER_BENCHMARK = 30
_MANY = 3
_SHEET = "rating_sheet.csv"
_TABLES = ("agreement", "corrected", "shares")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("ratings", nargs="*", metavar="RATINGS.csv", help="files of ratings")
    parser.add_argument("--key", metavar="FILE", help="of a filled sheet (default: beside it)")
    parser.add_argument("--table", choices=_TABLES, help="one table (default: all of them)")
    parser.add_argument(
        "--min-common",
        type=int,
        metavar="N",
        help=f"answers that a pair of clinicians must have in common (default: {_MIN_COMMON})",
    )
    parser.add_argument("--judges", action="store_true", help="show each judge of the jury too")
    parser.add_argument(
        "--metric", nargs="+", action="extend", metavar="NAME", help="show these metrics too"
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="SCORE",
        help="of --table shares: the score from which on an answer counts as good",
    )
    parser.add_argument(
        "--template",
        nargs="?",
        const=_SHEET,
        metavar="FILE",
        help=f"write a blinded sheet to rate on (default name: {_SHEET})",
    )
    parser.add_argument(
        "--per-benchmark",
        type=int,
        metavar="N",
        help=f"answers of each benchmark on the sheet (default: {_PER_BENCHMARK})",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the sheet's sample (default: 0)")
    parser.add_argument(
        "--text-of",
        nargs="+",
        action="extend",
        choices=[c for c in get_args(DataClass) if c != "public"],
        metavar="CLASS",
        help="data classes (gated, private) whose text may be written to the sheet",
    )
    parser.add_argument(
        "--benchmark", nargs="+", action="extend", metavar="NAME", help="only these benchmarks"
    )
    parser.add_argument(
        "--model", nargs="+", action="extend", metavar="NAME", help="only these models"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Print agreement, or write a sheet, and return the exit code."""
    if bool(args.ratings) == bool(args.template):
        raise UsageError(
            "name files of ratings, or write a sheet to rate on with --template FILE, not both"
            if args.ratings
            else "name a file of ratings, or write a sheet to rate on with --template FILE"
        )
    kind, others = (
        ("ratings", ("per_benchmark", "seed", "text_of"))
        if args.ratings
        else ("--template", ("key", "table", "min_common", "judges", "metric", "threshold"))
    )
    for name in others:
        if getattr(args, name) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} does not go with {kind}")
    return _print(args) if args.ratings else _write(args)


def _print(args: argparse.Namespace) -> int:
    from medhelm.tables.agreement import agreement_table
    from medhelm.tables.corrected import corrected_table, shares_table
    from medhelm.tables.rated import load_rated
    from medhelm.tables.ratings import read_ratings

    if args.table not in (None, "shares") and args.threshold is not None:
        raise UsageError("--threshold belongs to --table shares")
    if args.table == "shares" and args.threshold is None:
        raise UsageError("--table shares needs --threshold SCORE")
    form = chosen_format(args.format, args.out)
    chosen = settings(args)
    least = _least("--min-common", args.min_common, _MIN_COMMON, 3)
    ratings = read_ratings([Path(p) for p in args.ratings], Path(args.key) if args.key else None)
    rated = load_rated(
        ratings,
        Path(args.results_dir),
        metrics=args.metric or (),
        data=args.data,
        scoring=args.scoring,
        latest=args.latest,
        benchmarks=args.benchmark or (),
        models=args.model or (),
    )
    tables = []
    if args.table in (None, "agreement"):
        table = agreement_table(rated, chosen, min_common=least, with_judges=args.judges)
        tables.append(table)
    if args.table in (None, "corrected"):
        tables.append(corrected_table(rated, chosen))
    if args.threshold is not None:
        tables.append(shares_table(rated, args.threshold, chosen))
    emit(tables, form, args.out)
    return 0


def _least(option: str, given: int | None, default: int, least: int) -> int:
    value = default if given is None else given
    if value < least:
        raise UsageError(f"{option} must be at least {least}, not {value}")
    return value


def _write(args: argparse.Namespace) -> int:
    from medhelm.tables.sheet import write_sheet

    sheet = write_sheet(
        Path(args.template),
        Path(args.results_dir),
        per_benchmark=_least("--per-benchmark", args.per_benchmark, _PER_BENCHMARK, 1),
        seed=args.seed or 0,
        text_of=args.text_of or (),
        data=args.data,
        scoring=args.scoring,
        latest=args.latest,
        benchmarks=args.benchmark or (),
        models=args.model or (),
    )
    _explain(sheet)
    return 0


def _explain(sheet: Sheet) -> None:
    """Print what was written and what raters are to do."""
    counts = ", ".join(f"{name} {n}" for name, n in sheet.counts.items())
    print(f"{sheet.path}: {sum(sheet.counts.values())} answers to rate ({counts})")
    print(f"{sheet.key}: which model wrote which; keep it from the raters")
    for line in sheet.damaged[:_MANY]:
        print(f"left out, damaged: {line}", file=sys.stderr)
    print("\nEach rater fills a copy: a name or number in `rater`, and whole numbers in")
    seen: set[str] = set()
    for record in sheet.records:
        rubric = record.grading.jury.rubric if record.grading.jury else None
        for criterion in rubric.criteria if rubric else ():
            if criterion.name not in seen:
                seen.add(criterion.name)
                assert rubric is not None
                scale = f"{rubric.minimum} to {rubric.maximum}"
                print(f"  {criterion.name} ({scale}): {criterion.text}")
    print(f"\nThen: medhelm agreement FILLED.csv --key {sheet.key}")
