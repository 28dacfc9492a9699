"""`medhelm agreement actions`: experts' ratings of actions against those that the cases hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.plugin import rating_forms

if TYPE_CHECKING:
    from medhelm import Table
    from medhelm.plugin import sheet

_OF_REPLIES = ("rubrics", "sensitivity")
"""Tables that score stored replies."""


def _sheet(asked: rating_forms.Asked) -> sheet.RatingSheet:
    from medhelm_benchmarks.noharm.experts.ratings import action_sheet
    from medhelm_benchmarks.noharm.rules.cases import read_cases

    return action_sheet(read_cases(Path(asked.source)), asked.sample)


def _tables(asked: rating_forms.Asked) -> list[Table]:
    from medhelm_benchmarks.noharm.experts.agreement import (
        LARGEST,
        actions_table,
        differences_table,
    )
    from medhelm_benchmarks.noharm.experts.ratings import read_action_ratings
    from medhelm_benchmarks.noharm.experts.scores import (
        read_rubrics,
        rubrics_table,
        sensitivity_table,
    )
    from medhelm_benchmarks.noharm.rules.cases import read_cases

    least, common = asked.number("min_experts"), asked.number("min_common")
    cases = read_cases(Path(asked.source))
    rated = read_action_ratings(asked.files, cases)

    def of_replies() -> Table:
        make = rubrics_table if "rubrics" in asked.tables else sensitivity_table
        return make(read_rubrics(asked.runs, cases, rated.sheets, least), asked.settings)

    makers = {
        "actions": lambda: actions_table(
            rated, asked.settings, least=least, min_common=common or 5
        ),
        "differences": lambda: differences_table(
            rated,
            least=least,
            largest=LARGEST if asked.is_text else None,
            with_text="text" in asked.show,
        ),
        **dict.fromkeys(_OF_REPLIES, of_replies),
    }
    return [makers[name]() for name in asked.tables]


FORM = rating_forms.RatingForm(
    word="actions",
    help="Experts' ratings of the actions of cases against the ratings that the cases hold.",
    source="FILE",
    source_help="the cases whose actions are rated, as JSON lines",
    tables=("actions", "differences", *_OF_REPLIES),
    on_request=_OF_REPLIES,
    make_tables=_tables,
    make_sheet=_sheet,
    settings={
        "min_common": rating_forms.MIN_COMMON,
        "min_experts": rating_forms.Setting(
            help="ratings of an action that make an experts' median (2, of one expert 1; of rubrics "
            "and sensitivity 3)",
            least=1,
        ),
    },
    show="text: the text of the actions in --table differences",
    takes_runs=True,
    sample="cases on the sheet, or NxM: M actions of each (default: all)",
)
add_arguments, run = FORM.add_arguments, FORM.run
