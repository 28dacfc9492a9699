"""`medhelm agreement encounters`: raters of constructed cases and of encounters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.plugin import rating_forms

if TYPE_CHECKING:
    from medhelm import Table
    from medhelm.plugin import sheet


def _sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    from medhelm_benchmarks.encounters.experts.units import open_folder, unit_sheet

    return unit_sheet(open_folder(Path(asked.source)), asked.sample)


def _tables(asked: rating_forms.Asked) -> list[Table]:
    from medhelm.plugin import ratings
    from medhelm_benchmarks.encounters.experts.units import open_folder, units_table

    folder = open_folder(Path(asked.source))
    return [units_table(ratings.read_units(asked.files, folder.units), folder)]


FORM = rating_forms.RatingForm(
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
