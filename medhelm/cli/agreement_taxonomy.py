"""`medhelm agreement taxonomy`: the survey of clinicians on the taxonomy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import Asked, RatingForm

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table


def _sheet(asked: Asked) -> RatingSheet:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.taxonomy_survey import survey_sheet

    return survey_sheet(load_taxonomy(), asked.sample)


def _tables(asked: Asked) -> list[Table]:
    from medhelm.plugins.taxonomy import load_taxonomy
    from medhelm.tables.clinicians.ratings import read_units
    from medhelm.tables.clinicians.taxonomy_survey import survey_table, survey_units

    taxonomy = load_taxonomy()
    return [survey_table(read_units(asked.files, survey_units(taxonomy)), taxonomy, asked.settings)]


FORM = RatingForm(
    word="taxonomy",
    help="Clinicians on the taxonomy: the category of each subcategory, and what the tasks cover.",
    tables=("taxonomy",),
    make_tables=_tables,
    make_sheet=_sheet,
    sample="subcategories on the sheet (default: all)",
)
add_arguments, run = FORM.add_arguments, FORM.run
