"""`medhelm agreement actions`: experts' ratings of actions against those that the cases hold."""

from __future__ import annotations

from pathlib import Path

from medhelm import Table
from medhelm.plugin import rating_forms
from medhelm_benchmarks.noharm.experts.agreement import LARGEST, actions_table, differences_table
from medhelm_benchmarks.noharm.experts.ratings import action_sheet, read_action_ratings
from medhelm_benchmarks.noharm.experts.scores import read_rubrics, rubrics_table, sensitivity_table
from medhelm_benchmarks.noharm.rules.cases import read_cases


def _tables(asked: rating_forms.Asked) -> list[Table]:
    least, common = asked.number("min_experts"), asked.number("min_common") or 5
    cases = read_cases(Path(asked.source))
    rated = read_action_ratings(asked.files, cases)
    largest, with_text = LARGEST if asked.is_text else None, "text" in asked.show

    def make(name: str) -> Table:
        if name == "actions":
            return actions_table(rated, asked.settings, least=least, min_common=common)
        if name == "differences":
            return differences_table(rated, least=least, largest=largest, with_text=with_text)
        of_replies = rubrics_table if name == "rubrics" else sensitivity_table
        return of_replies(read_rubrics(asked.runs, cases, rated.sheets, least), asked.settings)

    return [make(name) for name in asked.tables]


FORM = rating_forms.RatingForm(
    word="actions",
    help="Experts' ratings of the actions of cases against the ratings that the cases hold.",
    source="FILE",
    source_help="the cases whose actions are rated, as JSON lines",
    tables=("actions", "differences", "rubrics", "sensitivity"),
    on_request=("rubrics", "sensitivity"),
    make_tables=_tables,
    make_sheet=lambda asked: action_sheet(read_cases(Path(asked.source)), asked.sample),
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
