"""`medhelm fidelity`: graders of criteria against experts, and experts against each other."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.model_calls import ask, environ_of, show_estimate
from medhelm.cli.options import DEFAULT_RESULTS, data_folder, find_models, open_registry
from medhelm.cli.rating_forms import DATA_FORMATS, read_settings, run_choice
from medhelm.cli.tables import chosen_format, emit
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from medhelm.tables.clinicians.decision_files import Cases
    from medhelm.tables.clinicians.fidelity import Comparison
    from medhelm.tables.clinicians.stored_decisions import Stored
    from medhelm.tables.format.table import Settings, Table

_TABLES = ("fidelity", "graders", "corrected", "alignment", "low_agreement", "modes")
_ON_REQUEST = ("low_agreement", "modes")


def run(args: argparse.Namespace) -> int:
    """Print the tables, or write judge files, and return the exit code."""
    if args.reader or args.replies:
        return _measure_reader(args)
    if args.stress:
        return _stress(args)
    _check(args)
    form, (chosen, _) = chosen_format(args.format, args.out), read_settings(args.set, {})
    if args.table == "modes":
        from medhelm.tables.clinicians.grading_modes import modes_table

        emit([modes_table(run_choice(args), args.stored, chosen)], form, args.out)
        return 0
    compared, cases, stored = _read_comparison(args)
    if args.export is not None:
        return _export(compared, cases, Path(args.export))
    tables = _tables(args, compared, chosen, is_text=form not in DATA_FORMATS)
    emit(tables, form, args.out)
    if args.keep and stored is not None:
        from medhelm.store.kept_fidelity import keep
        from medhelm.tables.clinicians.fidelity import agreements

        found = agreements(args.stored, tables[0], stored.asked)
        print(f"kept in {keep(Path(args.results_dir), found)}", file=sys.stderr)
    return 0


def _stress(args: argparse.Namespace) -> int:
    """Ask the judges of stored runs once more, and print what order and length do to them."""
    from medhelm.proof.judge_stress import ANSWERS, read_judges, stress_table
    from medhelm.tables.clinicians.decision_files import named_paths
    from medhelm.tables.clinicians.rated_answers import load_rated
    from medhelm.tables.clinicians.ratings import read_ratings

    if not args.stored or any((args.judge, args.cases, args.table, args.export, args.keep)):
        raise UsageError("--stress needs --stored BENCHMARK, and of files takes --experts alone")
    form, (chosen, _) = chosen_format(args.format, args.out), read_settings(args.set, {})
    choice, registry, folder = run_choice(args), open_registry(args.plugin), data_folder(args)
    most, seed = args.sample or ANSWERS, chosen.bootstrap_seed
    judges = read_judges(choice, args.stored, registry, folder, most, seed)
    environ = environ_of(args)
    runs = [run for judge in judges if (run := judge.run(environ)) is not None]
    if args.estimate and runs:
        return show_estimate(runs, args)
    compared, rated = None, {}
    if judges[0].is_of_jury:
        of = replace(choice, benchmarks=(args.stored,))
        named = named_paths(args.experts, "--experts").items()
        rated = {name: load_rated(read_ratings(paths), of) for name, paths in named}
    elif args.experts:
        compared = _read_comparison(args)[0]
    if runs:
        ask(runs, args).raise_worst()
    emit([stress_table(judges, chosen, compared, rated)], form, args.out)
    return 0


def _measure_reader(args: argparse.Namespace) -> int:
    """Ask a reader for written replies, and print how many it reads as people do."""
    from medhelm.proof.reader_fidelity import ReaderTrial

    if not (args.reader and args.replies) or any(
        (args.experts, args.judge, args.stored, args.cases, args.table, args.export)
    ):
        raise UsageError("a reader is measured by --reader MODEL --replies FILE alone")
    form, trial = chosen_format(args.format, args.out), ReaderTrial([*map(Path, args.replies)])
    (model,) = find_models([args.reader], args.plugin)
    run = trial.run(model, Path(args.results_dir), args.data_class, environ_of(args))
    if args.estimate:
        return show_estimate([run], args)
    ask([run], args).raise_worst()
    emit([trial.table(run)], form, args.out)
    return 0


def _check(args: argparse.Namespace) -> None:
    of_stored = (
        args.model,
        args.data,
        args.latest,
        args.scoring != "fixed",
        args.results_dir != DEFAULT_RESULTS,
    )
    if any(of_stored) and not args.stored:
        raise UsageError(
            "--model, --data, --latest, --scoring and --results-dir belong to --stored BENCHMARK"
        )
    files = (args.experts, args.judge, args.cases, args.alias)
    if args.table == "modes" and (not args.stored or any(files) or args.keep):
        raise UsageError("--table modes needs --stored BENCHMARK alone: it reads no files")
    if args.show_text and args.table != "low_agreement":
        raise UsageError("--show-text belongs to --table low_agreement")
    if args.keep and (not args.stored or args.table not in (None, "fidelity")):
        raise UsageError("--keep needs --stored BENCHMARK, and keeps the table fidelity")
    if args.export is not None:
        is_file = len(args.judge) == 1 and args.cases and not args.stored
        output = (args.experts, args.table, args.out, args.format, args.keep)
        if any(output) or not (is_file or (args.stored and not args.judge)):
            raise UsageError(
                "--export DIR writes one judge and no table: --judge NAME=FILE --cases FILE, or "
                "--stored BENCHMARK, and no --experts"
            )
    elif args.table != "modes":
        if not args.experts or (len(args.experts) + len(args.judge) < 2 and not args.stored):
            raise UsageError(
                "name two groups, or a group and a judge: --experts A=FILE --judge B=FILE"
            )
        if args.table == "corrected" and not args.judge and not args.stored:
            raise UsageError(
                "--table corrected needs --judge NAME=FILE: it corrects a judge's shares"
            )


def _read_comparison(args: argparse.Namespace) -> tuple[Comparison, Cases, Stored | None]:
    """Return the graders, the cases of --cases, and the judges of --stored."""
    from medhelm.tables.clinicians import decision_files as files
    from medhelm.tables.clinicians.fidelity import Comparison

    experts = files.named_paths(args.experts, "--experts")
    judges = files.named_paths(args.judge, "--judge")
    if shared := experts.keys() & judges.keys():
        raise UsageError(f"{min(shared)!r} is a group of experts and a judge; name one otherwise")
    cases: Cases = files.read_case_criteria(Path(args.cases)) if args.cases else {}
    stored = _stored(args) if args.stored else None
    if stored is not None:
        cases = {**stored.cases, **cases}
        if shared := {j.name for j in stored.judges} & {*experts, *judges}:
            raise UsageError(
                f"{min(shared)!r} is a judge of the stored runs too; name it otherwise"
            )
    aliases = dict(word.partition("=")[::2] for word in args.alias)
    for name, other in aliases.items():
        if not name or not other:
            raise UsageError(f"--alias {name}: write NAME=NAME")
    groups, own = (
        [
            grader
            for name, paths in given.items()
            for grader in files.read_graders(name, paths, cases, is_judge=is_judge)
        ]
        for given, is_judge in ((experts, False), (judges, True))
    )
    own += stored.judges if stored is not None else ()
    return Comparison(groups, own, aliases), cases, stored


def _stored(args: argparse.Namespace) -> Stored:
    from medhelm.tables.clinicians.sheet import check_privacy
    from medhelm.tables.clinicians.stored_decisions import read_stored

    if args.text_of and not args.show_text:
        raise UsageError(
            "--text-of says whose text --show-text may show; add --show-text or leave it out"
        )
    found = read_stored(run_choice(args), args.stored)
    if args.show_text:
        check_privacy(found.records, args.text_of)
    if found.unjudged:
        print(f"note: {found.unjudged} answers without verdicts of a judge", file=sys.stderr)
    return found


def _tables(
    args: argparse.Namespace, compared: Comparison, chosen: Settings, *, is_text: bool
) -> list[Table]:
    from medhelm.tables.clinicians import fidelity as made

    largest = made.LARGEST if is_text else None
    makers = {
        "fidelity": lambda: made.fidelity_table(compared, chosen),
        "graders": lambda: made.graders_table(compared),
        "corrected": lambda: made.coverage_table(compared, chosen),
        "alignment": lambda: made.alignment_table(compared),
        "low_agreement": lambda: made.low_agreement_table(
            compared, largest, with_text=args.show_text
        ),
    }
    names = [args.table] if args.table else [n for n in _TABLES if n not in _ON_REQUEST]
    return [makers[name]() for name in names if name != "corrected" or compared.judges]


def _export(compared: Comparison, cases: Cases, folder: Path) -> int:
    from medhelm.tables.clinicians.decision_files import write_judge_files

    if len(compared.judges) > 1:
        names = ", ".join(judge.name for judge in compared.judges)
        raise UsageError(f"--export DIR writes one judge; the runs have {names}")
    for path in write_judge_files(compared.judges[0], folder, cases):
        print(path)
    return 0
