"""`medhelm score`: stored responses graded again with the installed metrics, without a model."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medhelm.cli.options import (
    add_data_dir,
    add_format,
    add_plugins,
    data_folder,
    open_registry,
    print_json,
)
from medhelm.config import DEFAULT_RESULTS
from medhelm.data import dataset
from medhelm.durable import lock_file
from medhelm.errors import MedhelmError, RecordError, UnknownName, UsageError
from medhelm.jury.metric import NAME as JURY
from medhelm.jury.terms import OFFLINE, jury_terms
from medhelm.planning import benchmark_card, grading_metrics, grading_spec
from medhelm.records import Plan, find_runs, judge_hash, read_plan, stored_jury
from medhelm.registry import Registry
from medhelm.schema import JuryTerms, RunRecord, Scoring
from medhelm.scoring import score_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--results-dir", metavar="DIR", default=DEFAULT_RESULTS)
    for name, text in (("benchmark", "of this benchmark"), ("model", "of this model")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"only runs {text}; may be given several times",
        )
    parser.add_argument("--scoring", choices=("fixed", "helm"), default="fixed")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="a metric besides the benchmark's own; may be given several times",
    )
    add_data_dir(parser)
    add_plugins(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0, or 4 where a run could not be graded; the others are graded all the same.

    Runs of a benchmark that is not installed are named and passed over.
    """
    registry = open_registry(args.plugin)
    for name in args.metric:
        registry.metric(name, args.scoring)
    results = Path(args.results_dir)
    root = data_folder(args)
    session = _Session(registry, args.scoring, args.metric, root, is_quiet=args.format == "json")
    for path, plan in _choose(session.read(results), args.benchmark, args.model):
        session.grade(path, plan)
    if args.format == "json":
        content = {"runs": session.graded, "failed": session.failed, "skipped": session.skipped}
        print_json("scores", content)
    else:
        shown = "medhelm tables" + (f" --scoring {args.scoring}" if args.scoring != "fixed" else "")
        print(
            f"{len(session.graded)} graded, {len(session.failed)} failed, "
            f"{len(session.skipped)} skipped; see "
            f"`{shown} --results-dir {shlex.quote(str(results))}`"
        )
    return RecordError.exit_code if session.failed else 0


@dataclass
class _Session:
    """Grades one run after the other and keeps what came of each."""

    registry: Registry
    scoring: Scoring
    further: Sequence[str]
    root: Path
    is_quiet: bool
    graded: list[RunRecord] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def read(self, results: Path) -> list[tuple[Path, Plan]]:
        """Return the runs below a results folder; what cannot be read counts as failed."""
        paths = find_runs(results)
        if not paths:
            raise UsageError(
                f"there is no run below {results}; --results-dir DIR names another folder"
            )
        plans = []
        for path in paths:
            try:
                plans.append((path, read_plan(path)))
            except RecordError as e:
                self._note(self.failed, str(e))
        return plans

    def grade(self, path: Path, plan: Plan) -> None:
        """Grade one run and say what came of it."""
        spec = plan.spec
        where = f"{spec.benchmark} x {spec.model.name} ({path})"
        benchmark = self.registry.benchmarks.get(spec.benchmark)
        if benchmark is None:
            self._note(self.skipped, f"{where}: skipped, this benchmark is not installed")
            return
        try:
            record = grade_run(
                path, plan, self.registry, self.scoring, self.further, root=self.root
            )
        except MedhelmError as e:
            self._note(self.failed, f"{where}: {e}")
            return
        self.graded.append(record)
        if benchmark.version != spec.benchmark_version:
            print(
                f"medhelm: {where}: asked under version {spec.benchmark_version} of the benchmark, "
                f"now {benchmark.version}; graded with today's metrics, the prompts as stored",
                file=sys.stderr,
            )
        if not self.is_quiet:
            main = record.results[0]
            value = "no value" if main.value is None else f"{main.value:.4f}"
            asked = record.instances * spec.repeats
            state = "" if record.state == "complete" else ", partial"
            terms = record.grading.jury
            if terms is not None and not terms.jury.judges:
                state += "; rated by the offline jury, a stand-in"
            print(f"{where}: {main.metric} {value}, {main.scored} of {asked} scored{state}")

    @staticmethod
    def _note(kept: list[str], reason: str) -> None:
        kept.append(reason)
        print(f"medhelm: {reason}", file=sys.stderr)


def _choose(
    plans: Sequence[tuple[Path, Plan]], benchmarks: Sequence[str], models: Sequence[str]
) -> list[tuple[Path, Plan]]:
    for kind, wanted, known in (
        ("benchmark", benchmarks, {plan.spec.benchmark for _, plan in plans}),
        ("model", models, {plan.spec.model.name for _, plan in plans}),
    ):
        for name in wanted:
            if name not in known:
                raise UnknownName(
                    kind, name, known, f"Runs were found of {', '.join(sorted(known))}."
                )
    return [
        (path, plan)
        for path, plan in plans
        if (not benchmarks or plan.spec.benchmark in benchmarks)
        and (not models or plan.spec.model.name in models)
    ]


def _refuse_other_judges(path: Path, terms: JuryTerms | None) -> None:
    """Refuse to grade a judged run as if nobody had rated it.

    Its judgements are by a rubric or prompt that is no longer today's, or no grading names them.
    """
    there = {folder.name for folder in (path / "judges").glob("*")}
    if terms is None or not there:
        return
    wanted = {judge_hash(judge, terms) for judge in terms.jury.judges}
    if not wanted & there:
        raise RecordError(
            f"the judgements in {path / 'judges'} are not of the jury, rubric and prompt of today; "
            "ask the jury with `medhelm run ... jury=NAME`, answers are kept"
        )


def grade_run(
    path: Path,
    plan: Plan,
    registry: Registry,
    scoring: Scoring,
    further: Sequence[str] = (),
    *,
    root: Path,
) -> RunRecord:
    """Grade the stored responses of one run and return its record.

    `further` metrics come behind the benchmark's own; `root` is the data folder. Raises RunLocked
    while a process works on the run, UnknownName for a benchmark or metric that is not installed.
    """
    benchmark = registry.benchmark(plan.spec.benchmark)
    names = dict.fromkeys([*benchmark.metrics, *further])
    if JURY in further and JURY not in benchmark.metrics:
        raise UsageError(
            f"--metric {JURY}: {benchmark.name} names no rubric, so nobody can rate it"
        )
    terms = jury_terms(benchmark, stored_jury(path) or OFFLINE)
    _refuse_other_judges(path, terms)
    folder = dataset.data_folder(benchmark, plan.spec.data, root)
    metrics = grading_metrics(names, registry, scoring, terms, folder=folder)
    with lock_file(path / "lock"):
        return score_run(
            path,
            plan,
            grading_spec(metrics, scoring, benchmark.parts, terms),
            metrics,
            benchmark_card(benchmark, registry),
        )
