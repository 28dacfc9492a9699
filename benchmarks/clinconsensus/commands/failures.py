"""`medhelm rubric failures BENCHMARK`: why criteria are not met, by hand-made labels or by a model's."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.plugin import UsageError, model_calls, options, tables


def run(args: argparse.Namespace) -> int:
    """Write the sheet, or print the table, and return the exit code."""
    from medhelm.plugin import sheet
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
    form, chosen = tables.chosen_format(args.format, args.out), tables.settings(args)
    answers = read_unmet(
        Path(args.results_dir),
        args.benchmark,
        data=args.data,
        latest=args.latest,
        models=args.model or (),
    )
    some = drawn(answers, args.answers, args.seed)
    if args.template:
        sheet.check_privacy([answers[0].record], args.text_of)
        made = failure_sheet(some, args.seed)
        then = ("rubric", "failures", args.benchmark, "--results-dir", args.results_dir, "--labels")
        files = sheet.write_sheet(Path(args.template), made, args.seed, then)
        count = sum(len(unit.items) for unit in made.units)
        print(f"{files[0]}: {count} unmet criteria of {len(some)} answers; fill `value`")
        print(f"{files[1]}: its key")
        return 0
    if args.labels:
        labels, by = read_labels([Path(name) for name in args.labels], answers), "hand"
        tables.emit([failures_table(answers, labels, by, chosen)], form, args.out)
        return 0
    model = options.find_model(args.judge, options.open_registry(args.plugin).models)
    environ = model_calls.environ_of(args)
    run = labelling_run(some or answers[:1], model, Path(args.results_dir), environ)
    if args.estimate:
        return model_calls.show_estimate([run], form)
    asked = model_calls.ask([run], args)
    labels = read_types(some, run.path)
    by = f"{args.judge}, which nobody has compared with people"
    tables.emit([failures_table(answers, labels, by, chosen)], form, args.out)
    asked.raise_worst()
    return 0
