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
    tables=("actions", "differences", "rubrics", "sensitivity"),
    on_request=("rubrics", "sensitivity"),
    make_tables=_tables,
    make_sheet=lambda asked: action_sheet(read_cases(Path(asked.source)), asked.sample),
    settings={
        "min_common": rating_forms.MIN_COMMON,
        "min_experts": rating_forms.Setting(least=1),
    },
)
