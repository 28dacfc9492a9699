"""`medhelm agreement --cases`: experts' ratings of actions, and what follows from them."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import MIN_COMMON, RATINGS, SHEET, RatingForm, least_of
from medhelm.cli.tables import chosen_format, emit, settings
from medhelm.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medhelm.tables.format.table import Table
    from medhelm_benchmarks.noharm.experts.ratings import RatedActions
    from medhelm_benchmarks.noharm.rules.cases import Case

_OF_REPLIES = ("rubrics", "sensitivity")
"""Tables that score stored replies."""
_LARGEST = 20


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ratings of actions."""
    of_actions = parser.add_argument_group("ratings of actions")
    of_actions.add_argument(
        "--cases", metavar="FILE", help="the cases whose actions are rated, as JSON lines"
    )
    of_actions.add_argument(
        "--min-experts",
        type=int,
        metavar="N",
        help="ratings of an action that make an experts' median (default: 2, of one expert 1; of "
        "rubrics and sensitivity 3)",
    )
    of_actions.add_argument(
        "--write",
        metavar="FILE",
        help="write the cases with the experts' ratings in place of theirs",
    )
    of_actions.add_argument(
        "--validated-by", metavar="TEXT", help="of --write: who vouches for the ratings; published"
    )
    of_actions.add_argument(
        "--date", metavar="YYYY-MM-DD", help="of --write: the day of the validation"
    )
    of_actions.add_argument(
        "--largest",
        type=int,
        metavar="N",
        help=f"actions in --table differences (default: {_LARGEST})",
    )
    of_actions.add_argument(
        "--show-text", action="store_true", help="show the text of those actions too"
    )
    of_actions.add_argument(
        "--max-cases", type=int, metavar="N", help="cases on the sheet (default: all)"
    )
    of_actions.add_argument(
        "--per-case", type=int, metavar="N", help="actions of each case on it (default: all)"
    )


def _print_actions(args: argparse.Namespace) -> int:
    """Print agreement on actions, or write the cases with the experts' ratings."""
    from medhelm_benchmarks.noharm.experts.agreement import actions_table, differences_table
    from medhelm_benchmarks.noharm.experts.ratings import read_action_ratings
    from medhelm_benchmarks.noharm.rules.casefile import read_cases

    form = chosen_format(args.format, args.out)
    chosen = settings(args)
    common = least_of("--min-common", args.min_common, MIN_COMMON, 2)
    least = args.min_experts
    if least is not None:
        least = least_of("--min-experts", least, least, 1)
    largest = least_of("--largest", args.largest, _LARGEST, 1)
    path = Path(args.cases)
    cases = read_cases(path)
    rated = read_action_ratings([Path(p) for p in args.ratings], cases, path.name)
    if args.write is not None or args.validated_by is not None or args.date is not None:
        return _write_rerated(args, cases, rated)
    tables = []
    if args.table in (None, "actions"):
        tables.append(actions_table(rated, chosen, least=least, min_common=common))
    if args.table in (None, "differences"):
        tables.append(
            differences_table(rated, least=least, largest=largest, with_text=args.show_text)
        )
    if args.table in _OF_REPLIES:
        tables.append(_of_replies(args, cases, rated, least))
    emit(tables, form, args.out)
    return 0


def _of_replies(
    args: argparse.Namespace, cases: Sequence[Case], rated: RatedActions, least: int | None
) -> Table:
    """Return a table of stored replies under the ratings of the cases and those of the experts."""
    from medhelm_benchmarks.noharm.experts.replies import load_replies
    from medhelm_benchmarks.noharm.experts.rubrics import rated_whole, rubrics_table, to_rubrics
    from medhelm_benchmarks.noharm.experts.sensitivity import sensitivity_table

    sheets = rated.sheets
    replies = load_replies(
        Path(args.results_dir),
        rated_whole(cases, sheets, least),
        data=args.data,
        latest=args.latest,
        benchmarks=args.benchmark or (),
        models=args.model or (),
    )
    make = rubrics_table if args.table == "rubrics" else sensitivity_table
    return make(to_rubrics(cases, sheets, least, replies), settings(args))


def _write_rerated(args: argparse.Namespace, cases: Sequence[Case], rated: RatedActions) -> int:
    """Write the cases that experts rated whole, with their ratings."""
    from medhelm_benchmarks.noharm.rules.casefile import write_cases
    from medhelm_benchmarks.noharm.rules.cases import Validation
    from medhelm_benchmarks.noharm.rules.experts import rerate_cases, validation_text

    for name in ("write", "validated_by", "date"):
        if getattr(args, name) is None:
            raise UsageError(
                f"--{name.replace('_', '-')} is missing: --write FILE --validated-by TEXT "
                "--date YYYY-MM-DD go together"
            )
    for name in ("table", "out", "format", "min_experts", "largest", "min_common"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} does not go with --write")
    target = Path(args.write)
    if target.exists():
        raise UsageError(f"--write {target} is there already; name another file, or remove it")
    with suppress(ValueError):  # what is not a day is named where the cases are checked
        if date.fromisoformat(args.date) > date.today() + timedelta(days=1):  # or one zone ahead
            raise UsageError(f"--date {args.date} has not come yet; give the day of the validation")
    validation = Validation(by=" ".join(args.validated_by.split()), date=args.date)
    found = rerate_cases(cases, rated.sheets, validation)
    write_cases(target, found.cases)
    print(f"{target}: {len(found.cases)} cases with experts' ratings")
    print(validation_text(validation))
    for what, codes in (
        ("without any rating of an expert", found.unrated),
        ("with an action of fewer than three ratings", found.partly_rated),
    ):
        if codes:
            print(f"left out, {what}: {len(codes)} cases")
    print(f"\nNext: medhelm qc noharm {args.write}")
    return 0


def _write_actions(args: argparse.Namespace) -> int:
    """Write the sheet of actions and return the exit code."""
    from medhelm_benchmarks.noharm.experts.sheet import SCALE, write_action_sheet
    from medhelm_benchmarks.noharm.rules.casefile import read_cases

    sheet = write_action_sheet(
        Path(args.template),
        read_cases(Path(args.cases)),
        max_cases=_at_least_one("--max-cases", args.max_cases),
        per_case=_at_least_one("--per-case", args.per_case),
        seed=args.seed or 0,
    )
    print(f"{sheet.path}: {sheet.actions} actions of {sheet.cases} cases to rate")
    print(f"{sheet.page}: the cases, to be read beside it")
    print("\nEach expert fills a copy, named as the expert is to be called. In `rating`:")
    for points, text in SCALE:
        print(f"  {points:<6}  {text}")
    print(f"\nThen: medhelm agreement --cases {args.cases} EXPERT.csv ...")
    return 0


def _at_least_one(option: str, given: int | None) -> int | None:
    return None if given is None else least_of(option, given, given, 1)


FORM = RatingForm(
    option="--cases",
    about="actions",
    help="experts' ratings of actions against the ratings that the cases hold",
    add_options=_add_options,
    options={
        "min_experts": RATINGS,
        "largest": RATINGS,
        "show_text": RATINGS,
        "write": RATINGS,
        "validated_by": RATINGS,
        "date": RATINGS,
        "max_cases": SHEET,
        "per_case": SHEET,
    },
    tables=("actions", "differences", *_OF_REPLIES),
    tables_of_runs=_OF_REPLIES,
    print_tables=_print_actions,
    write_sheet=_write_actions,
)
