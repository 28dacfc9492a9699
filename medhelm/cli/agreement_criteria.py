"""`medhelm agreement criteria`: raters' decisions on the criteria of stored answers against the judges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medhelm.cli.rating_forms import Asked, RatingForm

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet
    from medhelm.tables.format.table import Table


def _sheet(asked: Asked) -> RatingSheet:
    from medhelm.tables.clinicians.stored_decisions import criteria_sheet

    return criteria_sheet(asked.runs, asked.source, asked.sample, asked.text_of)


def _tables(asked: Asked) -> list[Table]:
    from medhelm.tables.clinicians.fidelity import Comparison, alignment_table, fidelity_table
    from medhelm.tables.clinicians.stored_decisions import read_raters, read_stored

    stored = read_stored(asked.runs, asked.source)
    compared = Comparison(read_raters(asked.files, stored), stored.judges)
    makers = {
        "fidelity": lambda: fidelity_table(compared, asked.settings),
        "alignment": lambda: alignment_table(compared),
    }
    return [makers[name]() for name in asked.tables]


FORM = RatingForm(
    word="criteria",
    help="Raters' decisions on the criteria of stored answers against the judges of the runs and "
    "against each other. In groups, and from other files: `medhelm fidelity`.",
    source="BENCHMARK",
    source_help="whose stored answers are decided on, criterion by criterion",
    tables=("fidelity", "alignment"),
    make_tables=_tables,
    make_sheet=_sheet,
    takes_runs=True,
    sample="answers on the sheet (default: 30)",
)
add_arguments, run = FORM.add_arguments, FORM.run
