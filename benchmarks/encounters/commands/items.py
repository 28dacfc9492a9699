"""`medhelm agreement items`: people tick the items of stored encounters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.plugin import rating_forms

if TYPE_CHECKING:
    from medhelm import Table
    from medhelm.plugin import sheet


def _sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    from medhelm_benchmarks.encounters.experts.items import item_sheet, read_judged

    return item_sheet(*read_judged(Path(asked.source)), asked.sample)


def _tables(asked: rating_forms.Asked) -> list[Table]:
    from medhelm.plugin import ratings
    from medhelm_benchmarks.encounters.experts.items import items_table, read_judged

    judged, _ = read_judged(Path(asked.source))
    return [items_table(ratings.read_units(asked.files, [j.unit for j in judged]), judged)]


FORM = rating_forms.RatingForm(
    word="items",
    help="Items of encounters that people have ticked, against each other and the evaluators. The "
    "scores by a sheet: the same `medhelm run` with jury.name=by_hand jury.quorum=1 "
    "'jury.judges=[rater/SHEET.csv]'.",
    source="DIR",
    source_help="the results folder with the encounters",
    tables=("items",),
    make_tables=_tables,
    make_sheet=_sheet,
    sample="encounters on the sheet (default: all)",
)
add_arguments, run = FORM.add_arguments, FORM.run
