"""`medhelm rubric failures BENCHMARK`: why criteria are not met, by hand-made labels or by a model's."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm import UsageError
from medhelm.plugin import model_calls, options, tables


def run(args: argparse.Namespace) -> int:
    """Write the sheet, or print the table, and return the exit code."""
    from medhelm.plugin import sheet, stored_decisions
    from medhelm_benchmarks.clinconsensus.failures.labelling import labelling_run, read_types
    from medhelm_benchmarks.clinconsensus.failures.labels import (
        drawn,
        failure_sheet,
        failures_table,
        read_labels,
        read_unmet,
    )

    if sum(map(bool, (args.template, args.labels, args.judge))) != 1:
        raise UsageError(
            "rubric failures: name one of --template FILE, --labels FILE, --judge MODEL"
        )
    model_calls.check_estimate(args)
    if args.answers < 1:
        raise UsageError("--answers must be at least 1")
    show, chosen = tables.printer(args), tables.settings(args)
    choice = stored_decisions.RunChoice(
        results_dir=Path(args.results_dir),
        data=args.data,
        latest=args.latest,
        models=tuple(args.model or ()),
    )
    answers = read_unmet(choice, args.benchmark)
    some = drawn(answers, args.answers, args.seed)
    if args.template:
        sheet.check_privacy([answers[0].run.record], args.text_of)
        made = failure_sheet(some, args.seed)
        then = ("rubric", "failures", args.benchmark, "--results-dir", args.results_dir, "--labels")
        files = made.write(Path(args.template), args.seed, then)
        count = sum(len(unit.items) for unit in made.units)
        print(f"{files[0]}: {count} unmet criteria of {len(some)} answers; fill `value`")
        print(f"{files[1]}: its key")
        return 0
    if args.labels:
        labels, by = read_labels([Path(name) for name in args.labels], answers), "hand"
        show([failures_table(answers, labels, by, chosen)])
        return 0
    (model,) = options.find_models([args.judge], args.plugin)
    environ = model_calls.environ_of(args)
    run = labelling_run(some or answers[:1], model, Path(args.results_dir), environ)
    if args.estimate:
        return model_calls.show_estimate([run], args)
    asked = model_calls.ask([run], args)
    labels = read_types(some, model, run.path)
    by = f"{args.judge}, which nobody has compared with people"
    show([failures_table(answers, labels, by, chosen)])
    asked.raise_worst()
    return 0
