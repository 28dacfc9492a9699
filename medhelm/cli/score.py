"""`medhelm score`: stored responses graded again with the installed metrics, without a model."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import Any

from medhelm.cli.options import data_folder, open_registry, print_json
from medhelm.errors import RecordError
from medhelm.runs.regrading import regrade, runs_to_judge
from medhelm.schema.run import RunRecord
from medhelm.store.remote_runs import is_url, results_folder


def run(args: argparse.Namespace) -> int:
    """Return 0, or 4 where a run could not be graded. The others are graded all the same."""
    results = results_folder(args.results_dir, is_graded=True)
    registry = open_registry(args.plugin)
    chosen: dict[str, Any] = {"benchmarks": args.benchmark, "models": args.model}
    chosen["root"] = data_folder(args)
    if args.ask_again:
        from medhelm.cli.model_calls import ask

        ends = tuple(args.ask_again)
        runs = runs_to_judge(results, registry, args.scoring, os.environ, ends, **chosen)
        ask(runs, args).raise_worst()
    graded: list[RunRecord] = []
    failed: list[str] = []
    skipped: list[str] = []
    for run in regrade(results, registry, args.scoring, args.metric, **chosen):
        if run.record is not None:
            graded.append(run.record)
            if args.format != "json":
                print(graded_line(run.where, run.record))
        else:
            (skipped if run.is_skipped else failed).append(run.problem)
        if run.problem:
            print(f"medhelm: {run.problem}", file=sys.stderr)
    if args.format == "json":
        print_json("scores", {"runs": graded, "failed": failed, "skipped": skipped})
    else:
        shown = "medhelm tables" + (f" --scoring {args.scoring}" if args.scoring != "fixed" else "")
        print(
            f"{len(graded)} graded, {len(failed)} failed, {len(skipped)} skipped; see "
            f"`{shown} --results-dir {shlex.quote(str(results))}`"
        )
        if is_url(args.results_dir):
            print(
                "This is a copy; `medhelm runs push URL --results-dir DIR --replace` takes it there"
            )
    return RecordError.exit_code if failed else 0


def graded_line(where: str, record: RunRecord) -> str:
    """Return the score of a run that was graded, and what a reader must know of it, in a line."""
    main = record.results[0]
    value = "no value" if main.value is None else f"{main.value:.4f}"
    asked = record.instances * record.spec.repeats
    state = "" if record.state == "complete" else ", partial"
    raters = record.grading.raters
    if raters is not None and not raters.judges:
        state += "; rated by the offline jury, a stand-in"
    return f"{where}: {main.metric} {value}, {main.scored} of {asked} scored{state}"
