"""`medhelm agreement encounters`: raters of constructed cases and of encounters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import Asked, RatingForm

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table


def _sheet(asked: Asked) -> RatingSheet:
    from medhelm_benchmarks.encounters.experts.units import open_folder, unit_sheet

    return unit_sheet(open_folder(Path(asked.source)), asked.sample)


def _tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.ratings import read_units
    from medhelm_benchmarks.encounters.experts.agreement import units_table
    from medhelm_benchmarks.encounters.experts.units import open_folder

    folder = open_folder(Path(asked.source))
    return [units_table(read_units(asked.files, folder.units), folder)]


FORM = RatingForm(
    word="encounters",
    help="Raters' judgement of constructed cases (4 aspects) and of encounters (6 aspects).",
    source="DIR",
    source_help="the folder that `curate` wrote, or a results folder",
    tables=("units",),
    make_tables=_tables,
    make_sheet=_sheet,
    sample="cases or encounters on the sheet (default: all)",
)
add_arguments, run = FORM.add_arguments, FORM.run
