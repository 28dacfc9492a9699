"""`medhelm agreement --criteria`: the sheet of criteria to decide on, and raters against the judges."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from medhelm.cli.rating_forms import SHEET, RatingForm, least_of
from medhelm.cli.tables import chosen_format, emit, settings
from medhelm.errors import DataError, UsageError
from medhelm.schema.data import DataClass

_ANSWERS = 30


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of decisions on criteria."""
    of_criteria = parser.add_argument_group("decisions on criteria")
    of_criteria.add_argument(
        "--criteria",
        metavar="BENCHMARK",
        help="whose stored answers are decided on, criterion by criterion",
    )
    of_criteria.add_argument(
        "--answers", type=int, metavar="N", help=f"answers on the sheet (default: {_ANSWERS})"
    )
    of_criteria.add_argument(
        "--criteria-text-of",
        nargs="+",
        action="extend",
        choices=[c for c in get_args(DataClass) if c != "public"],
        metavar="CLASS",
        help="data classes (gated, private) whose text may be written to that sheet",
    )


def _refuse_benchmark(args: argparse.Namespace) -> None:
    if args.benchmark:
        raise UsageError("--benchmark does not go with --criteria BENCHMARK, which names it")


def _print_tables(args: argparse.Namespace) -> int:
    """Print how the raters agree with the judges of the stored runs and with each other."""
    from medhelm.tables.clinicians.decision_files import read_grader
    from medhelm.tables.clinicians.decisions import by_rater
    from medhelm.tables.clinicians.fidelity import Comparison, alignment_table, fidelity_table
    from medhelm.tables.clinicians.stored_decisions import read_stored

    _refuse_benchmark(args)
    form = chosen_format(args.format, args.out)
    chosen = settings(args)
    stored = read_stored(
        Path(args.results_dir),
        args.criteria,
        data=args.data,
        latest=args.latest,
        models=args.model or (),
    )
    paths = [Path(name) for name in args.ratings]
    experts = by_rater(read_grader("experts", paths, stored.cases, is_judge=False))
    if shared := {e.name for e in experts} & {judge.name for judge in stored.judges}:
        raise DataError(f"{min(shared)!r} is a rater and a judge; name the rater otherwise")
    compared = Comparison(experts, stored.judges)
    tables = []
    if args.table in (None, "fidelity"):
        tables.append(fidelity_table(compared, chosen))
    if args.table in (None, "alignment"):
        tables.append(alignment_table(compared))
    emit(tables, form, args.out)
    return 0


def _write_sheet(args: argparse.Namespace) -> int:
    """Write the sheet and return the exit code."""
    from medhelm.tables.clinicians.ratings import key_path
    from medhelm.tables.clinicians.stored_decisions import write_criteria_sheet

    _refuse_benchmark(args)
    path = Path(args.template)
    answers = write_criteria_sheet(
        path,
        Path(args.results_dir),
        args.criteria,
        answers=least_of("--answers", args.answers, _ANSWERS, 1),
        seed=args.seed or 0,
        text_of=args.criteria_text_of or (),
        data=args.data,
        latest=args.latest,
        models=args.model or (),
    )
    print(f"{path}: the criteria of {answers} answers to decide on")
    print(f"{key_path(path)}: which model wrote which; keep it from the raters")
    print("\nEach rater fills a copy: a name or number in `rater` of every row, and in `met`:")
    print("  yes or no, by the answer above or in the row; nothing where the rater cannot say")
    print(f"\nThen: medhelm agreement --criteria {args.criteria} FILLED.csv ...")
    print(f"or, in groups: medhelm fidelity --stored {args.criteria} --experts one=FILLED.csv ...")
    return 0


FORM = RatingForm(
    option="--criteria",
    about="criteria",
    help="experts' decisions on the criteria of answers against the judges of the stored runs",
    add_options=_add_options,
    options={"answers": SHEET, "criteria_text_of": SHEET},
    tables=("fidelity", "alignment"),
    tables_of_runs=("fidelity", "alignment"),
    print_tables=_print_tables,
    write_sheet=_write_sheet,
)
