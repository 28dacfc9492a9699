"""`medhelm agreement encounters|items`: raters of cases and encounters, and people who tick items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.plugin import rating_forms

if TYPE_CHECKING:
    from medhelm import Table
    from medhelm.plugin import sheet


def _encounters_sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    from medhelm_benchmarks.encounters.experts.units import open_folder, unit_sheet

    return unit_sheet(open_folder(Path(asked.source)), asked.sample)


def _encounters_tables(asked: rating_forms.Asked) -> list[Table]:
    from medhelm.plugin import ratings
    from medhelm_benchmarks.encounters.experts.units import open_folder, units_table

    folder = open_folder(Path(asked.source))
    return [units_table(ratings.read_units(asked.files, folder.units), folder)]


ENCOUNTERS = rating_forms.RatingForm(
    word="encounters",
    help="Raters' judgement of constructed cases (4 aspects) and of encounters (6 aspects).",
    source="DIR",
    source_help="the folder that `curate` wrote, or a results folder",
    tables=("units",),
    make_tables=_encounters_tables,
    make_sheet=_encounters_sheet,
    sample="cases or encounters on the sheet (default: all)",
)


def _items_sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    from medhelm_benchmarks.encounters.experts.items import item_sheet, read_judged

    return item_sheet(*read_judged(Path(asked.source)), asked.sample)


def _items_tables(asked: rating_forms.Asked) -> list[Table]:
    from medhelm.plugin import ratings
    from medhelm_benchmarks.encounters.experts.items import items_table, read_judged

    judged, _ = read_judged(Path(asked.source))
    return [items_table(ratings.read_units(asked.files, [j.unit for j in judged]), judged)]


ITEMS = rating_forms.RatingForm(
    word="items",
    help="Items of encounters that people have ticked, against each other and the evaluators. The "
    "scores by a sheet: the same `medhelm run` with jury.name=by_hand jury.quorum=1 "
    "'jury.judges=[rater/SHEET.csv]'.",
    source="DIR",
    source_help="the results folder with the encounters",
    tables=("items",),
    make_tables=_items_tables,
    make_sheet=_items_sheet,
    sample="encounters on the sheet (default: all)",
)
