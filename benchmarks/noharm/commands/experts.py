"""Commands on experts' ratings of actions: against those that the cases hold, and in their place."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from medhelm import Table, UsageError
from medhelm.plugin import rating_forms
from medhelm_benchmarks.noharm.experts.agreement import LARGEST, actions_table, differences_table
from medhelm_benchmarks.noharm.experts.ratings import (
    action_sheet,
    read_action_ratings,
    rerate_cases,
)
from medhelm_benchmarks.noharm.experts.scores import read_rubrics, rubrics_table, sensitivity_table
from medhelm_benchmarks.noharm.rules.cases import Validation, read_cases, write_cases


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


AGREEMENT = rating_forms.RatingForm(
    word="actions",
    tables=("actions", "differences", "rubrics", "sensitivity"),
    on_request=("rubrics", "sensitivity"),
    make_tables=_tables,
    make_sheet=lambda asked: action_sheet(read_cases(Path(asked.source)), asked.sample),
    settings={
        "min_common": rating_forms.Setting(least=2),
        "min_experts": rating_forms.Setting(least=1),
    },
)
"""`medhelm agreement actions`."""


def write_validated(args: argparse.Namespace) -> int:
    """`medhelm generate validated`: write the cases that experts rated whole, with their ratings."""
    target = Path(args.out)
    if target.exists():
        raise UsageError(f"--out {target} is there already; name another file, or remove it")
    with suppress(ValueError):  # what is not a day is named where the cases are checked
        if date.fromisoformat(args.date) > date.today() + timedelta(days=1):  # or one zone ahead
            raise UsageError(f"--date {args.date} has not come yet; give the day of the validation")
    cases = read_cases(Path(args.cases))
    rated = read_action_ratings([Path(name) for name in args.files], cases)
    validation = Validation(by=" ".join(args.by.split()), date=args.date)
    found = rerate_cases(cases, rated.sheets, validation)
    write_cases(target, found.cases)
    print(f"{target}: {len(found.cases)} cases with experts' ratings")
    print(str(validation))
    for what, codes in (
        ("without any rating of an expert", found.unrated),
        ("with an action of fewer than three ratings", found.partly_rated),
    ):
        if codes:
            print(f"left out, {what}: {len(codes)} cases")
    print(f"\nNext: medhelm qc noharm {args.out}")
    return 0
