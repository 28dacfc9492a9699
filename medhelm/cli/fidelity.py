"""`medhelm fidelity`: graders of criteria against experts, and experts against each other."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import least_of
from medhelm.cli.tables import add_common, chosen_format, emit, settings
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.clinicians.decision_files import Cases
    from medhelm.tables.clinicians.fidelity import Comparison
    from medhelm.tables.clinicians.stored_decisions import Stored
    from medhelm.tables.format.table import Settings, Table

_TABLES = ("fidelity", "graders", "corrected", "alignment", "low_agreement", "modes")
_LARGEST = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Judges of criteria against groups of experts, and these against each other: macro F1, "
        "strictness, order of the models, and shares corrected by what the experts decided."
    )
    parser.add_argument(
        "--experts",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="decisions of a group of experts; may be given several times, also for one name",
    )
    parser.add_argument(
        "--judge",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="decisions of a judge: a file, or a folder of MODEL_judge.json",
    )
    parser.add_argument(
        "--stored",
        metavar="BENCHMARK",
        help="the judges of its runs; their cases give the texts of files that hold ids alone",
    )
    parser.add_argument(
        "--model", nargs="+", action="extend", metavar="NAME", help="of --stored: only these models"
    )
    parser.add_argument(
        "--cases", metavar="FILE", help="cases with their criteria, for files that hold ids alone"
    )
    parser.add_argument(
        "--alias",
        action="append",
        default=[],
        metavar="NAME=NAME",
        help="what a file calls a model, and the name that it stands for",
    )
    _add_output(parser)
    add_common(parser)


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add what is printed, kept and exported."""
    parser.add_argument(
        "--table",
        choices=_TABLES,
        help="one table (default: all but low_agreement and modes); modes compares the strict and "
        "the batched grading of --stored and needs no experts",
    )
    parser.add_argument(
        "--largest",
        type=int,
        metavar="N",
        help=f"answers in --table low_agreement of every two graders (default: {_LARGEST})",
    )
    parser.add_argument(
        "--show-text",
        action="store_true",
        help="of --table low_agreement: show disputed criteria; only where they may be shown",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="with --stored: keep the agreement beside the runs; sites show it above the scores",
    )
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="write the decisions of the one --judge there, a MODEL_judge.json for each model",
    )


def run(args: argparse.Namespace) -> int:
    """Print the tables, or write judge files, and return the exit code."""
    from medhelm.tables.clinicians.decision_files import named_paths

    experts, judges = named_paths(args.experts, "--experts"), named_paths(args.judge, "--judge")
    if shared := experts.keys() & judges.keys():
        raise UsageError(f"{min(shared)!r} is a group of experts and a judge; name one otherwise")
    if args.export is not None:
        return _export(args)
    _check_stored(args)
    if args.table == "modes":
        return _modes(args)
    if not experts or (len(experts) + len(judges) < 2 and not args.stored):
        raise UsageError("name two groups, or a group and a judge: --experts A=FILE --judge B=FILE")
    if args.table == "corrected" and not judges and not args.stored:
        raise UsageError("--table corrected needs --judge NAME=FILE: it corrects a judge's shares")
    if args.table != "low_agreement":
        for name in ("largest", "show_text"):
            if getattr(args, name):
                raise UsageError(f"--{name.replace('_', '-')} belongs to --table low_agreement")
    form = chosen_format(args.format, args.out)
    chosen = settings(args)  # refuses what is not a setting before files are read
    if args.keep and (not args.stored or args.table not in (None, "fidelity")):
        raise UsageError("--keep needs --stored BENCHMARK, and keeps the table fidelity")
    compared, _, stored = _read(args)
    tables = _tables(args, compared, chosen)
    emit(tables, form, args.out)
    if args.keep and stored is not None:
        _keep(args, tables[0], stored)
    return 0


def _keep(args: argparse.Namespace, table: Table, stored: Stored) -> None:
    from medhelm.store.kept_fidelity import keep
    from medhelm.tables.clinicians.fidelity import agreements

    found = agreements(args.stored, table, stored.asked)
    print(f"kept in {keep(Path(args.results_dir), found)}", file=sys.stderr)


def _modes(args: argparse.Namespace) -> int:
    """Print how the two modes of the judges of stored runs agree."""
    from medhelm.tables.clinicians.grading_modes import modes_table

    named = (
        args.experts,
        args.judge,
        args.cases,
        args.alias,
        args.largest,
        args.show_text,
        args.keep,
    )
    if not args.stored or any(named):
        raise UsageError("--table modes needs --stored BENCHMARK alone: it reads no files")
    form, chosen = chosen_format(args.format, args.out), settings(args)
    folder = Path(args.results_dir)
    table = modes_table(folder, args.stored, chosen, data=args.data, models=args.model or ())
    emit([table], form, args.out)
    return 0


def _read(args: argparse.Namespace) -> tuple[Comparison, Cases, Stored | None]:
    """Return the graders, the cases of --cases, and the judges of --stored."""
    from medhelm.tables.clinicians.decision_files import (
        named_paths,
        read_case_criteria,
        read_graders,
    )
    from medhelm.tables.clinicians.fidelity import Comparison

    cases: Cases = read_case_criteria(Path(args.cases)) if args.cases else {}
    stored = _stored(args) if args.stored else None
    if stored is not None:
        cases = {**stored.cases, **cases}
    aliases = dict(word.partition("=")[::2] for word in args.alias)
    for name, other in aliases.items():
        if not name or not other:
            raise UsageError(f"--alias {name}: write NAME=NAME")
    experts, judges = (
        [
            grader
            for name, paths in named_paths(given, option).items()
            for grader in read_graders(name, paths, cases, is_judge=is_judge)
        ]
        for given, option, is_judge in (
            (args.experts, "--experts", False),
            (args.judge, "--judge", True),
        )
    )
    if stored is not None:
        names = {judge.name for judge in stored.judges}
        if shared := names & {grader.name for grader in (*experts, *judges)}:
            raise UsageError(
                f"{min(shared)!r} is a judge of the stored runs too; name it otherwise"
            )
        judges += stored.judges
    return Comparison(experts, judges, aliases), cases, stored


def _check_stored(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that is of stored runs, or for text that may not be shown."""
    given = {"model": args.model, "data": args.data, "latest": args.latest}
    given |= {
        "scoring": args.scoring != "fixed",
        "results-dir": args.results_dir != DEFAULT_RESULTS,
    }
    for name, value in given.items():
        if value and not args.stored:
            raise UsageError(f"--{name} belongs to --stored BENCHMARK")


def _stored(args: argparse.Namespace) -> Stored:
    from medhelm.tables.clinicians.sheet import check_privacy
    from medhelm.tables.clinicians.stored_decisions import read_stored

    found = read_stored(
        Path(args.results_dir),
        args.stored,
        data=args.data,
        scoring=args.scoring,
        latest=args.latest,
        models=args.model or (),
    )
    if args.show_text:
        for record in found.records:
            check_privacy(record, ())
    if found.unjudged:
        print(f"note: {found.unjudged} answers without verdicts of a judge", file=sys.stderr)
    return found


def _tables(args: argparse.Namespace, compared: Comparison, chosen: Settings) -> list[Table]:
    from medhelm.tables.clinicians.corrected_coverage import corrected_table
    from medhelm.tables.clinicians.fidelity import (
        alignment_table,
        fidelity_table,
        graders_table,
        low_agreement_table,
    )

    largest = least_of("--largest", args.largest, _LARGEST, 1)
    makers = {
        "fidelity": lambda: fidelity_table(compared, chosen),
        "graders": lambda: graders_table(compared),
        "corrected": lambda: corrected_table(compared, chosen),
        "alignment": lambda: alignment_table(compared),
        "low_agreement": lambda: low_agreement_table(compared, largest, with_text=args.show_text),
    }
    names = (
        [args.table] if args.table else [n for n in _TABLES if n not in ("low_agreement", "modes")]
    )
    return [makers[name]() for name in names if name != "corrected" or compared.judges]


def _export(args: argparse.Namespace) -> int:
    """Write the decisions of one judge as files of the exchange format."""
    from medhelm.tables.clinicians.decision_files import write_judge_files

    _check_stored(args)
    is_file = len(args.judge) == 1 and args.cases and not args.stored
    if args.experts or not (is_file or (args.stored and not args.judge)):
        raise UsageError(
            "--export DIR writes one judge: --judge NAME=FILE --cases FILE, or --stored BENCHMARK, "
            "and no --experts"
        )
    for name in ("table", "out", "format", "largest", "show_text", "keep"):
        if getattr(args, name):
            raise UsageError(f"--{name.replace('_', '-')} does not go with --export")
    compared, cases, _ = _read(args)
    if len(compared.judges) > 1:
        names = ", ".join(judge.name for judge in compared.judges)
        raise UsageError(f"--export DIR writes one judge; the runs have {names}")
    for path in write_judge_files(compared.judges[0], Path(args.export), cases):
        print(path)
    return 0
