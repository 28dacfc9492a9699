"""`medhelm agreement items`: people tick the items of stored encounters.

A filled sheet scores them too: `medhelm run` with `jury.judges=[rater/SHEET.csv]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import Asked, RatingForm

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table


def _sheet(asked: Asked) -> RatingSheet:
    from medhelm_benchmarks.encounters.experts.items import item_sheet, read_judged

    return item_sheet(*read_judged(Path(asked.source)), asked.sample)


def _tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.ratings import read_units
    from medhelm_benchmarks.encounters.experts.items import items_table, read_judged

    judged, _ = read_judged(Path(asked.source))
    return [items_table(read_units(asked.files, [j.unit for j in judged]), judged)]


FORM = RatingForm(
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
