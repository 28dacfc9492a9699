"""`medhelm agreement --encounter-items`: people tick the items of stored encounters."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.cli.rating_forms import SHEET, RatingForm, least_of
from medhelm.cli.tables import chosen_format, emit


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of items ticked by hand."""
    of_items = parser.add_argument_group("items of encounters, ticked by hand")
    of_items.add_argument(
        "--encounter-items", metavar="DIR", help="the results folder with the encounters"
    )
    of_items.add_argument(
        "--max-units", type=int, metavar="N", help="encounters on the sheet (default: all)"
    )


def _print_items(args: argparse.Namespace) -> int:
    """Print how far raters and evaluators agree on items."""
    from medhelm_benchmarks.encounters.experts.items import items_table, read_judged

    form = chosen_format(args.format, args.out)
    judged, _ = read_judged(Path(args.encounter_items))
    emit([items_table([Path(p) for p in args.ratings], judged)], form, args.out)
    return 0


def _write_items(args: argparse.Namespace) -> int:
    """Write the sheet and return the exit code."""
    from medhelm_benchmarks.encounters.experts.items import RULES, read_judged, write_item_sheet

    most = args.max_units
    if most is not None:
        most = least_of("--max-units", most, most, 1)
    judged, left_out = read_judged(Path(args.encounter_items))
    sheet = write_item_sheet(Path(args.template), judged, most=most, seed=args.seed or 0)
    print(f"{sheet.path}: the items of {sheet.units} encounters to tick")
    print(f"{sheet.page}: the encounters, to be read beside it")
    if left_out:
        print(f"left out, since their data are not public: {left_out} encounters")
    print("\nEach rater fills a copy of their own:")
    for name, meaning in RULES:
        print(f"  {name}: {meaning}")
    print(
        f"\nThen: medhelm agreement --encounter-items {args.encounter_items} RATER.csv\n"
        "The scores: the same `medhelm run` with jury.name=by_hand jury.quorum=1 "
        "'jury.judges=[rater/RATER.csv]'"
    )
    return 0


FORM = RatingForm(
    option="--encounter-items",
    about="items of encounters",
    help="items of encounters that people have ticked",
    add_options=_add_options,
    options={"max_units": SHEET},
    tables=("items",),
    print_tables=_print_items,
    write_sheet=_write_items,
)
