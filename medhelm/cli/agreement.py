"""`medhelm agreement`: ratings of answers against the jury, those of the forms that plugins add, and
the sheets to rate on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from medhelm.cli.rating_forms import MIN_COMMON, RATINGS, SHEET, RatingForm, least_of
from medhelm.cli.tables import add_common, chosen_format, emit, settings
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import UsageError
from medhelm.schema.data import DataClass

if TYPE_CHECKING:
    from medhelm.tables.clinicians.agreement import ZScores
    from medhelm.tables.clinicians.sheet import Sheet

_PER_BENCHMARK = 30
_MANY = 3
_SHEET = "rating_sheet.csv"
_TABLES = ("agreement", "corrected", "shares")
_CHOOSE_RUNS = ("benchmark", "model", "data", "latest", "results_dir")

_OF_ANSWERS = {
    "key": RATINGS,
    "judges": RATINGS,
    "metric": RATINGS,
    "threshold": RATINGS,
    "per_benchmark": SHEET,
    "text_of": SHEET,
    **dict.fromkeys((*_CHOOSE_RUNS, "scoring"), ""),
    "z_scores": RATINGS,
}
_OF_ALL = {"table": RATINGS, "min_common": RATINGS, "seed": SHEET}
"""Map each option to what it goes with: ratings or a sheet. Nothing means both."""

_ABSENT = (None, False, "fixed", DEFAULT_RESULTS)
"""Lists the values of options that were not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    forms: list[RatingForm] = parser.get_default("forms") or []
    parser.description = "; ".join(
        (
            "Clinicians' ratings of answers against the jury",
            *(f"with {form.option}, {form.help}" for form in forms),
            "with --taxonomy, the survey on the taxonomy. And the sheets to rate on.",
        )
    )
    rated = ("answers", *(form.about for form in forms))
    of_runs = [name for form in forms if not form.is_of_runs for name in form.tables_of_runs]
    parser.add_argument("ratings", nargs="*", metavar="RATINGS.csv", help="files of ratings")
    parser.add_argument(
        "--table",
        choices=[*_TABLES, *(name for form in forms for name in form.tables)],
        help="one table (default: all of them"
        + f", but those that need runs: {', '.join(of_runs)}" * bool(of_runs)
        + ")",
    )
    parser.add_argument(
        "--min-common",
        type=int,
        metavar="N",
        help=f"{' or '.join(rated)} that a pair of raters must have in common "
        f"(default: {MIN_COMMON}; 2 with --z-scores after)",
    )
    parser.add_argument(
        "--template",
        nargs="?",
        const=_SHEET,
        metavar="FILE",
        help=f"write a blinded sheet to rate on (default name: {_SHEET})",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="of the sheet's sample (default: 0)")
    parser.add_argument(
        "--taxonomy",
        action="store_true",
        help="ratings, and the sheet, are of the survey on the taxonomy",
    )
    for form in forms:
        form.add_options(parser)
    _add_of_answers(parser)
    add_common(parser)


def _add_of_answers(parser: argparse.ArgumentParser) -> None:
    of_answers = parser.add_argument_group("ratings of answers")
    of_answers.add_argument("--key", metavar="FILE", help="of a filled sheet (default: beside it)")
    of_answers.add_argument("--judges", action="store_true", help="show each judge of the jury too")
    of_answers.add_argument(
        "--metric", nargs="+", action="extend", metavar="NAME", help="show these metrics too"
    )
    of_answers.add_argument(
        "--z-scores",
        choices=("before", "after"),
        help="z-score clinicians' ratings before they are averaged (default), or their plain mean "
        "after, as in the paper, with two answers in common allowed",
    )
    of_answers.add_argument(
        "--threshold",
        type=float,
        metavar="SCORE",
        help="of --table shares: the score from which on an answer counts as good",
    )
    of_answers.add_argument(
        "--per-benchmark",
        type=int,
        metavar="N",
        help=f"answers of each benchmark on the sheet (default: {_PER_BENCHMARK})",
    )
    of_answers.add_argument(
        "--text-of",
        nargs="+",
        action="extend",
        choices=[c for c in get_args(DataClass) if c != "public"],
        metavar="CLASS",
        help="data classes (gated, private) whose text may be written to the sheet",
    )
    of_answers.add_argument(
        "--benchmark", nargs="+", action="extend", metavar="NAME", help="only these benchmarks"
    )
    of_answers.add_argument(
        "--model", nargs="+", action="extend", metavar="NAME", help="only these models"
    )


def run(args: argparse.Namespace) -> int:
    """Print agreement, or write a sheet, and return the exit code."""
    if bool(args.ratings) == bool(args.template):
        raise UsageError(
            "name files of ratings, or write a sheet to rate on with --template FILE, not both"
            if args.ratings
            else "name a file of ratings, or write a sheet to rate on with --template FILE"
        )
    forms: list[RatingForm] = args.forms
    chosen = [form for form in forms if form.is_chosen(args)]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[1].option} does not go with {chosen[0].option}")
    form = chosen[0] if chosen else None
    _check_options(args, form)
    if args.template and Path(args.template).is_dir():
        raise UsageError(f"--template {args.template} is a folder; name a file, as in sheet.csv")
    if args.taxonomy:
        return _print_survey(args) if args.ratings else _write_survey(args)
    if form is not None:
        return form.print_tables(args) if args.ratings else form.write_sheet(args)
    return _print(args) if args.ratings else _write(args)


def _check_options(args: argparse.Namespace, form: RatingForm | None) -> None:
    """Raise UsageError for an option that would change nothing."""
    own = {} if form is None else {**form.options}
    others = {name: other for other in args.forms if other is not form for name in other.options}
    if args.taxonomy:
        own_names = [f.option.removeprefix("--").replace("-", "_") for f in args.forms]
        names = (*_OF_ANSWERS, *own, *others, *_OF_ALL, *own_names)
        given = [n for n in names if n != "seed" and getattr(args, n) not in _ABSENT]
        if given:
            raise UsageError(f"{_option(given[0])} does not go with --taxonomy")
    takes_runs = form is not None and (form.is_of_runs or args.table in form.tables_of_runs)
    for name, where in (_OF_ANSWERS | own | dict.fromkeys(others, "") | _OF_ALL).items():
        is_of_runs = name in _CHOOSE_RUNS
        if getattr(args, name) in _ABSENT or (is_of_runs and takes_runs):
            continue
        if other := others.get(name):
            does = f"needs {other.option} FILE: it is of ratings of {other.about}"
            raise UsageError(f"{_option(name)} {does}")
        if form is not None and name in _OF_ANSWERS:
            but = f" (but with --table {' or '.join(form.tables_of_runs)})"
            but *= is_of_runs and bool(form.tables_of_runs)
            raise UsageError(f"{_option(name)} does not go with {form.option}{but}")
        kind = RATINGS if args.ratings else SHEET
        if where not in ("", kind):
            raise UsageError(f"{_option(name)} does not go with {kind}")
    known, about = (_TABLES, "answers") if form is None else (form.tables, form.about)
    if args.table is not None and args.table not in known:
        whose = (f"needs {f.option}" for f in args.forms if args.table in f.tables)
        does = f"does not go with {form.option}" if form is not None else next(whose)
        raise UsageError(f"--table {args.table} {does}; of {about}: {', '.join(known)}")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _print_survey(args: argparse.Namespace) -> int:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.taxonomy_survey import read_survey, survey_table

    form = chosen_format(args.format, args.out)
    taxonomy = load_taxonomy()
    answers = read_survey([Path(p) for p in args.ratings], taxonomy)
    emit([survey_table(answers, taxonomy, settings(args))], form, args.out)
    return 0


def _write_survey(args: argparse.Namespace) -> int:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.taxonomy_survey import write_survey

    rows = write_survey(Path(args.template), load_taxonomy(), args.seed or 0)
    print(f"{args.template}: {rows} rows to answer")
    print("\nEach clinician fills a copy, named as the clinician is to be called. In `answer`:")
    print("  the letter of the category to which the subcategory belongs; in the last row 1 to 5")
    print("\nThen: medhelm agreement --taxonomy CLINICIAN.csv ...")
    return 0


def _print(args: argparse.Namespace) -> int:
    from medhelm.tables.clinicians.agreement import agreement_table
    from medhelm.tables.clinicians.corrected_scores import corrected_table, shares_table
    from medhelm.tables.clinicians.rated_answers import load_rated
    from medhelm.tables.clinicians.ratings import read_ratings

    if args.table not in (None, "shares") and args.threshold is not None:
        raise UsageError("--threshold belongs to --table shares")
    if args.table not in (None, "agreement") and args.z_scores is not None:
        raise UsageError("--z-scores belongs to --table agreement")
    if args.table == "shares" and args.threshold is None:
        raise UsageError("--table shares needs --threshold SCORE")
    form = chosen_format(args.format, args.out)
    chosen = settings(args)
    z_scores: ZScores = args.z_scores or "before"
    if args.min_common is not None:
        least_of("--min-common", args.min_common, MIN_COMMON, 2 if z_scores == "after" else 3)
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
        table = agreement_table(
            rated,
            chosen,
            min_common=args.min_common,
            with_judges=args.judges,
            z_scores=z_scores,
        )
        tables.append(table)
    if args.table in (None, "corrected"):
        tables.append(corrected_table(rated, chosen))
    if args.threshold is not None:
        tables.append(shares_table(rated, args.threshold, chosen))
    emit(tables, form, args.out)
    return 0


def _write(args: argparse.Namespace) -> int:
    from medhelm.tables.clinicians.sheet import write_sheet

    sheet = write_sheet(
        Path(args.template),
        Path(args.results_dir),
        per_benchmark=least_of("--per-benchmark", args.per_benchmark, _PER_BENCHMARK, 1),
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
