"""`medhelm qc simulation`: how true patient and surroundings of stored encounters are to their packets."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from medhelm import UsageError
from medhelm.plugin import model_calls, options, tables

if TYPE_CHECKING:
    from medhelm.plugin import own_runs, stored_decisions
    from medhelm_benchmarks.encounters.fidelity.stored import CheckedRun

_EXAMPLES = 20


def run(args: argparse.Namespace) -> int:
    """Print the table and return 0; else the code of what stopped the judge."""
    from medhelm.plugin import own_runs
    from medhelm_benchmarks.encounters.fidelity.judge import control_tallies, judged_faults
    from medhelm_benchmarks.encounters.fidelity.stored import check_run
    from medhelm_benchmarks.encounters.tables.simulation import simulation_table

    show = tables.printer(args)
    model_calls.check_estimate(args)
    if not 0 <= args.least <= 1:
        raise UsageError(f"--least must lie between 0 and 1, not {args.least:g}")
    if (args.controls or 0) < 0:
        raise UsageError(f"--controls must be 0 or more, not {args.controls}")
    graded = _runs(args)
    judgings = _judgings(graded, args) if args.judge else []
    if args.estimate:
        return model_calls.show_estimate(judgings, args)
    asked = model_calls.ask(judgings, args) if judgings else None
    judged = {name: own for run in judgings for name, own in judged_faults(run.path).items()}
    controls = [
        tally
        for run in judgings
        for tally in control_tallies(run.benchmark.name, own_runs.stored_episodes(run.path))
    ]
    runs = [check_run(one, judged) for one in graded]
    if args.examples:
        lines = b"".join(msgspec.json.encode(line) + b"\n" for line in _examples(runs))
        tables.write(Path(args.examples), lines)
    table = simulation_table(
        runs, args.least, controls=controls if judgings else None, level=args.level
    )
    show([table])
    if asked is not None:
        asked.raise_worst()
    return 0


def _runs(args: argparse.Namespace) -> list[stored_decisions.GradedRun]:
    """Return the graded runs of encounters, older gradings first."""
    from medhelm.plugin import stored_decisions
    from medhelm_benchmarks.encounters.fidelity.stored import PROTOCOLS

    runs, damaged = stored_decisions.graded_runs(Path(args.results_dir))
    for line in damaged:
        print(f"medhelm: left out, damaged: {line}", file=sys.stderr)
    own = [r for r in runs if r.record.spec.protocol in PROTOCOLS]
    if not own:
        raise UsageError(
            f"no run below {args.results_dir} has encounters; `medhelm run model=... "
            "benchmark=medsp1000 data=sample` makes one"
        )
    return stored_decisions.of_names(own, args.benchmark, args.model)


def _judgings(
    graded: Sequence[stored_decisions.GradedRun], args: argparse.Namespace
) -> list[own_runs.Run]:
    """Return the runs that ask the judge about encounters and controls, one a benchmark."""
    from medhelm.plugin import own_runs
    from medhelm_benchmarks.encounters.fidelity import judge as by_judge
    from medhelm_benchmarks.encounters.fidelity.stored import place_of

    (judge,) = options.find_models([args.judge], args.plugin)
    folders = {run.run_folder: run for run in graded}.values()
    runs = []
    for name, card in sorted({run.benchmark: run.record.card for run in folders}.items()):
        found = (
            by_judge.to_judge(place_of(run), episode)
            for run in folders
            if run.benchmark == name
            for episode in run.episodes()
        )
        if not (encounters := [*filter(None, found)]):
            continue
        runs.append(
            own_runs.own_run(
                name,
                [*encounters, *by_judge.controls_of(encounters, args.controls)],
                by_judge.FIDELITY,
                {by_judge.JUDGE: judge},
                by_judge.judge_folder(Path(args.results_dir), name, judge),
                data_class=card.data_class,
                environ=model_calls.environ_of(args),
                max_output_tokens=by_judge.BUDGET,
                reasoning_output_tokens=by_judge.REASONING_BUDGET,
            )
        )
    if not runs:
        raise UsageError("nobody says anything in these encounters; leave --judge out")
    return runs


def _examples(runs: Sequence[CheckedRun]) -> Iterator[dict[str, object]]:
    """Yield the first faults of each kind and role; their words only of public data."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for run in runs:
        is_public = run.run.record.card.data_class == "public"
        for encounter in run.encounters:
            for fault in encounter.faults:
                key = (run.model(fault.role), fault.role, fault.kind)
                seen[key] += 1
                if seen[key] > _EXAMPLES:
                    continue
                yield {
                    "run": run.run.folder,
                    "case": encounter.case,
                    "repeat": encounter.repeat,
                    "turn": fault.turn,
                    "line": fault.line,
                    "role": fault.role,
                    "model": run.model(fault.role),
                    "kind": fault.kind,
                    "by": fault.by,
                    **({"quote": fault.quote} if is_public else {}),
                }
