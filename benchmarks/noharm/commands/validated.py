"""`medhelm generate validated`: cases with experts' ratings in place of those that they came with."""

from __future__ import annotations

import argparse
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from medhelm.plugin import UsageError


def run(args: argparse.Namespace) -> int:
    """Write the cases that experts rated whole and return the exit code."""
    from medhelm_benchmarks.noharm.experts.ratings import read_action_ratings, rerate_cases
    from medhelm_benchmarks.noharm.rules.cases import Validation, read_cases, write_cases

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
