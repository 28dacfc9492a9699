"""Stored responses graded again with the installed metrics, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from medhelm.data import dataset
from medhelm.errors import MedhelmError, RecordError, UnknownName, UsageError
from medhelm.files.durable import lock_file
from medhelm.grading.jury.choice import OFFLINE
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.reader import reader_terms, with_reader
from medhelm.models import check_model, privacy
from medhelm.plugins.registry import Registry
from medhelm.prompts.askings import asked_otherwise
from medhelm.runs.run import Run, benchmark_card, grading_of
from medhelm.schema.run import GradingSpec, RunRecord
from medhelm.schema.score import Scoring, Unread
from medhelm.store.records import (
    Plan,
    find_runs,
    find_unreadable,
    judge_folders,
    read_plan,
    stored_jury,
    stored_reader,
    stored_settings,
)
from medhelm.store.shards import gather


@dataclass(frozen=True, kw_only=True)
class Regraded:
    """The outcome of one stored run: a record, or the reason why there is none."""

    where: str
    """Benchmark, model and folder, for people; empty where the reason names the folder."""
    record: RunRecord | None = None
    path: Path | None = None
    """The run's folder; None where the run could not be read."""
    reason: str = ""
    is_skipped: bool = False
    """True if it was passed over (its benchmark is not installed) and did not fail."""
    note: str = ""
    """A warning about a run that was graded all the same."""

    @property
    def problem(self) -> str:
        """Return the run with its reason or note as one line; empty where there is neither."""
        text = self.reason or self.note
        return f"{self.where}: {text}" if self.where and text else text


def regrade(
    results: Path,
    registry: Registry,
    scoring: Scoring = "fixed",
    further: Sequence[str] = (),
    *,
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
    root: Path,
) -> Iterator[Regraded]:
    """Yield what comes of grading each run below a results folder again.

    Only runs of `benchmarks` and `models`, where names are given. `further` metrics come behind
    each benchmark's own; `root` is the data folder. Raises UsageError where there is no run,
    UnknownName for a metric, and for a benchmark or model of which there is no run.
    """
    for name in further:
        registry.metric(name, scoring)
    plans, unread = _read_plans(results)
    chosen = _choose(plans, benchmarks, models)
    yield from unread
    for path, plan in chosen:
        spec = plan.spec
        where = f"{spec.column} x {spec.model.name} ({path})"
        benchmark = registry.benchmarks.get(spec.benchmark)
        if benchmark is None:
            reason = "skipped, this benchmark is not installed; --plugin names its file"
            yield Regraded(where=where, reason=reason, is_skipped=True)
            continue
        note = ""
        if benchmark.version != spec.benchmark_version:
            note = (
                f"asked under version {spec.benchmark_version} of the benchmark, now "
                f"{benchmark.version}; graded with today's metrics, the prompts as stored"
            )
        try:
            run = stored_run(path, plan, registry, scoring, further, root=root)
            record = score_stored(run, plan)
        except MedhelmError as e:
            yield Regraded(where=where, reason=str(e))
            continue
        yield Regraded(where=where, record=record, path=path, note=note)


def score_stored(run: Run, plan: Plan) -> RunRecord:
    """Return the record of what a run and its shards hold; raises RunLocked where one is at work."""
    with lock_file(run.path / "lock"):
        for folder in (run.path, *(folder for own in run.judgings for folder in own.folders)):
            gather(folder)
        return run.score(plan)


def _read_plans(results: Path) -> tuple[list[tuple[Path, Plan]], list[Regraded]]:
    paths = find_runs(results)
    hidden = [Regraded(where=str(path), reason=why) for path, why in find_unreadable(results)]
    # a grading without its summary is what grading again mends
    hidden = [run for run in hidden if "`medhelm score`" not in run.reason]
    if not paths:
        seen = f" ({hidden[0].problem})" if hidden else ""
        raise UsageError(
            f"there is no run below {results}{seen}; --results-dir DIR names another folder"
        )
    plans, unread = [], hidden
    for path in paths:
        try:
            plans.append((path, read_plan(path)))
        except RecordError as e:
            unread.append(Regraded(where="", reason=str(e)))
    return plans, unread


def _choose(
    plans: Sequence[tuple[Path, Plan]], benchmarks: Sequence[str], models: Sequence[str]
) -> list[tuple[Path, Plan]]:
    for kind, wanted, known in (
        ("benchmark", benchmarks, {n for _, plan in plans for n in plan.spec.names}),
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
        if (not benchmarks or {*plan.spec.names} & {*benchmarks})
        and (not models or plan.spec.model.name in models)
    ]


def _refuse_other_judges(path: Path, grading: GradingSpec) -> None:
    """Refuse to grade a judged run as if nobody had rated it.

    Its verdicts are by a rubric or prompt that is no longer today's, or no grading names them.
    """
    asked = [folder for terms in grading.judged_by for folder in judge_folders(path, terms)]
    for place in ("judges", "graders"):
        wanted = {folder for folder in asked if folder.parent.name == place}
        is_needed = grading.jury is not None if place == "judges" else grading.graders
        there = {*(path / place).glob("*")}
        if is_needed and there and not wanted & there:
            raise RecordError(
                f"the verdicts in {path / place} are not of the judges, rubric and prompt of today; "
                "ask them with `medhelm run ... jury=NAME`, answers are kept"
            )


def runs_to_judge(
    results: Path,
    registry: Registry,
    scoring: Scoring,
    environ: Mapping[str, str],
    again: tuple[Unread, ...],
    *,
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
    root: Path,
) -> list[Run]:
    """Return the runs below a results folder that models have judged, ready to ask these once more.

    Those that cannot be graded are left to `regrade`. Raises UsageError where no run was judged,
    ModelError and PrivacyRefused where a judge may not be asked.
    """
    found = []
    for path, plan in _choose(_read_plans(results)[0], benchmarks, models):
        if plan.spec.benchmark not in registry.benchmarks:
            continue
        with suppress(RecordError):
            run = stored_run(path, plan, registry, scoring, root=root)
            if run.grading.judges:
                found.append(replace(run, judge_again=again))
    for run in found:
        asked = [(terms.jury.name, j) for terms in run.grading.judged_by for j in terms.jury.judges]
        for jury, judge in asked:
            check_model(judge, environ)
            name, where = run.spec.benchmark, judge.endpoint_class
            privacy.check(name, run.card.data_class, judge.name, where, jury=jury)
    if not found:
        raise UsageError(f"no run below {results} was judged by models, so nobody is asked again")
    return found


def stored_run(
    path: Path,
    plan: Plan,
    registry: Registry,
    scoring: Scoring,
    further: Sequence[str] = (),
    *,
    root: Path,
) -> Run:
    """Return a run as it is stored, to be graded by the metrics of today; it has no rows to ask."""
    benchmark = registry.benchmark(plan.spec.benchmark)
    if JURY in further and JURY not in benchmark.metrics:
        raise UsageError(
            f"--metric {JURY}: {benchmark.name} names no rubric, so nobody can rate it"
        )
    jury, settings = stored_jury(path) or OFFLINE, stored_settings(path)
    folder, asking = dataset.data_folder(benchmark, plan.spec.data, root), plan.spec.asking
    metrics, grading = grading_of(
        benchmark, registry, scoring, jury, settings, folder, asking=asking, further=further
    )
    if scoring == "fixed" and (reader := stored_reader(path, scoring)) is not None:
        grading = msgspec.structs.replace(grading, reader=reader_terms(*reader.jury.judges))
        metrics = with_reader(metrics)
    if asking is not None:
        benchmark = asked_otherwise(benchmark, asking, (), metrics[0].answer_schema)
    _refuse_other_judges(path, grading)
    spec = plan.spec
    return Run(
        benchmark=benchmark,
        protocol=registry.protocol(benchmark.protocol),
        dataset=dataset.Dataset(
            benchmark=benchmark,
            data=spec.data,
            split=spec.split,
            sha256=spec.dataset_sha256,
            folder=folder,
            read=lambda: iter(()),
        ),
        spec=spec,
        metrics=metrics,
        grading=grading,
        card=benchmark_card(benchmark, registry, spec),
        path=path,
    )
