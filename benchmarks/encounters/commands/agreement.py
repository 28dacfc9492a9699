"""`medhelm agreement --encounters`: raters of constructed cases and of encounters."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.cli.rating_forms import SHEET, RatingForm, least_of
from medhelm.cli.tables import chosen_format, emit


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ratings of encounters."""
    of_encounters = parser.add_argument_group("ratings of encounters and their cases")
    of_encounters.add_argument(
        "--encounters",
        metavar="DIR",
        help="what is rated: the folder that `curate` wrote (4 aspects of construction), or a results "
        "folder (6 aspects of encounters)",
    )
    of_encounters.add_argument(
        "--max-encounters", type=int, metavar="N", help="units on the sheet (default: all)"
    )


def _print_units(args: argparse.Namespace) -> int:
    """Print agreement on cases or encounters."""
    from medhelm_benchmarks.encounters.experts.agreement import read_unit_ratings, units_table
    from medhelm_benchmarks.encounters.experts.units import read_units

    form = chosen_format(args.format, args.out)
    units = read_units(Path(args.encounters))
    rated = read_unit_ratings([Path(p) for p in args.ratings], units)
    emit([units_table(rated, units)], form, args.out)
    return 0


def _write_units(args: argparse.Namespace) -> int:
    """Write the sheet and return the exit code."""
    from medhelm_benchmarks.encounters.experts.sheet import write_encounter_sheet
    from medhelm_benchmarks.encounters.experts.units import SCALE, read_units

    most = args.max_encounters
    if most is not None:
        most = least_of("--max-encounters", most, most, 1)
    units = read_units(Path(args.encounters))
    sheet = write_encounter_sheet(Path(args.template), units, most=most, seed=args.seed or 0)
    print(f"{sheet.path}: {len(units.aspects)} aspects of {sheet.units} units to rate")
    print(f"{sheet.page}: the units, to be read beside it")
    if units.left_out:
        print(f"left out, since their data are not public: {units.left_out} encounters")
    print("\nTwo raters or more fill a copy each, named as the rater is to be called. In `rating`:")
    for points, meaning in SCALE:
        print(f"  {points}  {meaning}")
    print(f"\nThen: medhelm agreement --encounters {args.encounters} RATER1.csv RATER2.csv")
    return 0


FORM = RatingForm(
    option="--encounters",
    about="encounters",
    help="raters' judgement of constructed cases and of encounters",
    add_options=_add_options,
    options={"max_encounters": SHEET},
    tables=("units",),
    print_tables=_print_units,
    write_sheet=_write_units,
)
