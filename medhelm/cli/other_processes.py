"""Jobs of a sweep in other processes: launchers such as submitit and Ray, which know no event loop.

All that the jobs share is the results folder.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from medhelm.cli.compose import (
    compose,
    job_values,
    launch,
    listed,
    plugin_files,
    quoted,
    with_own_models,
)
from medhelm.cli.jobs import command, to_job
from medhelm.cli.options import open_registry
from medhelm.config import Job
from medhelm.errors import Interrupted, MedhelmError, RecordError, RunLocked, UsageError
from medhelm.files.durable import lock_file, make_private, why
from medhelm.models.identity import each_address, endpoint_of
from medhelm.models.pacing.limits import CEILING
from medhelm.plugins.registry import Registry
from medhelm.runs.planning import Run, plan_runs
from medhelm.schema.model import ModelSpec
from medhelm.store.records import read_plan

_SWEEP = "MEDHELM_SWEEP"
"""Environment variable of a job: the name of the file that its sweep has put into the results."""
_AT_ONCE = ("hydra.launcher.array_parallelism=", "hydra.launcher.n_jobs=")
_PATHS = ("results_dir", "data_dir", "plugins")

_ENDING_S = 12.0
"""Longest wait for interrupted jobs, which give requests in flight ten seconds."""


class JobFailure(NamedTuple):
    """A job or run that has failed."""

    job: str
    reason: str
    exit_code: int


class SweepNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A note in the results folder of a sweep, so that its jobs know that they see it."""

    at_once: dict[str, int]
    """Jobs that may ask an endpoint at once, by endpoint. Each has a part of `max_concurrency`."""
    models: dict[str, ModelSpec] = {}
    """Models of the user's folder of configs, which judges and casts may name."""


def run_one(config: Any) -> None:
    """Run one job in a process of its own: what launchers other than ours call.

    An error is left beside the sweep's note. One that the sweep would not see there goes back to the
    process that launched the job, so it must survive pickling.
    """
    from medhelm.cli.sweep import run_alone

    values = job_values(config)
    job = to_job(values)
    try:
        note = _read_note(Path(job.results_dir))
    except MedhelmError as e:
        sent = MedhelmError(str(e))
        sent.exit_code = e.exit_code
        raise sent from None
    try:
        registry = open_registry(listed(values["plugins"]))
        known = {**note.models, **registry.models}
        run_alone(job, replace(registry, models=known), note.at_once)
    except MedhelmError as e:
        names = [f"benchmark={b.name}" for b in job.benchmarks]
        name = " ".join([f"model={job.model.name}", *(names if len(names) == 1 else ())])
        failed = JobFailure(name, str(e), e.exit_code)
        own = f"{os.environ[_SWEEP]}.{secrets.token_hex(4)}.failed"
        (Path(job.results_dir) / "jobs" / own).write_bytes(msgspec.json.encode(failed))


def run_elsewhere(argv: list[str], registry: Registry, launcher: str) -> None:
    """Check all jobs here, let the launcher run each in its process, show what came of them."""
    from medhelm.cli.sweep import failed_error, make_results, refuse_swept, show_tables
    from medhelm.runs.estimation import without_keys

    jobs = [to_job(config) for config in compose(argv, registry)]
    if not jobs:  # --cfg and the like
        return
    packaged, registry = registry.models, with_own_models(registry, argv)
    own = {name: spec for name, spec in registry.models.items() if name not in packaged}
    if any(job.budget_usd is not None or job.budget_tokens is not None for job in jobs):
        raise UsageError(
            f"a cap on the whole sweep needs one process, hydra/launcher={launcher} starts one "
            "for each job: leave out budget_usd and budget_tokens, or the launcher"
        )
    refuse_swept(jobs)
    results = Path(os.path.abspath(jobs[0].results_dir))
    jobs = [msgspec.structs.replace(job, results_dir=str(results)) for job in jobs]
    runs = plan_runs(jobs, registry, without_keys(os.environ, jobs, registry)).runs
    at_once = _at_once(argv, jobs, runs, launcher)
    make_results(results)
    make_private(results / "jobs")  # what hydra.sweep.dir names: the launcher's own files
    print(
        f"{len(jobs)} job(s) go to hydra/launcher={launcher}; it keeps its files in "
        f"{results / 'jobs'}",
        file=sys.stderr,
    )
    go_on = f"To go on where it stopped: {command(argv)}"
    try:
        with _noted(results, SweepNote(at_once, own)) as note:
            launch(_placed(argv, jobs[0], note), registry, launcher, run_one)
            failed = _failures(results, note)
    except UsageError:  # nothing was started
        raise
    except (KeyboardInterrupt, MedhelmError) as e:
        _grade(runs)
        show_tables(_graded(runs), results, registry)
        print(
            f"Jobs that hydra/launcher={launcher} has started may still be at work; what they "
            "answer is kept.",
            file=sys.stderr,
        )
        print(go_on, file=sys.stderr)
        if isinstance(e, MedhelmError):
            raise
        raise Interrupted("interrupted") from None
    show_tables(_graded(runs), results, registry)
    lost = _lost(runs, failed)
    for reason, n in Counter(reason for _, reason, _ in failed).most_common():
        first = next(job for job, why, _ in failed if why == reason)
        more = f" and {n - 1} more job(s)" if n > 1 else ""
        print(f"medhelm: {first}{more}: {reason}", file=sys.stderr)
    for name, reason, _ in lost:
        print(f"medhelm: {name}: {reason}", file=sys.stderr)
    if failed or lost:
        print(go_on, file=sys.stderr)
        total = len(jobs) if failed else len(runs)
        raise failed_error((failed or lost)[0][2], len(failed or lost), total)


def _placed(argv: Sequence[str], job: Job, note: str) -> list[str]:
    """Return the command line for jobs in other folders: with absolute paths, and its sweep."""
    kept = [a for a in argv if a.lstrip("+").partition("=")[0] not in _PATHS]
    kept.append(f"results_dir={quoted(job.results_dir)}")
    if job.data_dir is not None:
        kept.append(f"data_dir={quoted(os.path.abspath(Path(job.data_dir).expanduser()))}")
    if files := plugin_files(argv):
        kept.append(f"plugins=[{','.join(quoted(os.path.abspath(f)) for f in files)}]")
    return [*kept, f"+hydra.job.env_set.{_SWEEP}={note}"]


@contextmanager
def _noted(results: Path, note: SweepNote) -> Iterator[str]:
    """Put a note into the results folder while the jobs run; give its name."""
    path = results / "jobs" / f"sweep-{secrets.token_hex(8)}.json"
    try:
        path.write_bytes(msgspec.json.encode(note))
        yield path.name
    except OSError as e:
        raise RecordError(f"cannot write {path}: {why(e)}") from None
    finally:
        path.unlink(missing_ok=True)


def _failures(results: Path, note: str) -> list[JobFailure]:
    """Return what the jobs of a sweep have left behind, in the order of their names."""
    found = []
    for path in (results / "jobs").glob(f"{note}.*.failed"):
        found.append(msgspec.json.decode(path.read_bytes(), type=JobFailure))
        path.unlink()
    return sorted(found)


def _read_note(results: Path) -> SweepNote:
    """Return what the sweep has left for this job; raises RecordError where it is not here."""
    name = os.environ.get(_SWEEP, "")
    path = results / "jobs" / name
    try:
        return msgspec.json.decode(path.read_bytes(), type=SweepNote)
    except (OSError, msgspec.DecodeError):
        raise RecordError(
            f"results_dir={results} on {os.uname().nodename} is not the folder of the command that "
            "started this job, its answers would be lost; name a folder that all workers share"
        ) from None


def _at_once(
    argv: Sequence[str], jobs: Sequence[Job], runs: Sequence[Run], launcher: str
) -> dict[str, int]:
    """Return how many jobs may ask each endpoint at once; raises UsageError where it is too many."""
    bounds = [a.partition("=")[2] for a in argv if a.startswith(_AT_ONCE)]
    bound = min((int(b) for b in bounds if b.isdigit() and int(b)), default=len(jobs))
    asking: Counter[str] = Counter()
    limits: dict[str, set[int]] = defaultdict(set)
    for job in jobs:
        names = {choice.name for choice in job.benchmarks}
        own = [r for r in runs if r.spec.benchmark in names]
        own = [r for r in own if r.spec.model.name == job.model.name]
        judges = [judge for r in own for judge in r.grading.judges]
        specs = [
            (endpoint_of(way), s)
            for s in (job.model, *judges)
            for way in each_address(s)
            if endpoint_of(way) and not s.serve
        ]
        asking.update({key for key, _ in specs})
        for key, spec in specs:
            if spec.max_concurrency is not None:
                limits[key].add(spec.max_concurrency)
    found = {key: min(n, bound) for key, n in asking.items()}
    for key, n in found.items():
        limit = min(limits[key], default=CEILING)
        if n > limit:
            said = f"={limit}" if limits[key] else f", by default {limit},"
            raise UsageError(
                f"hydra/launcher={launcher} may run {n} jobs at once that ask {key}, each at least "
                f"one request, and max_concurrency{said} holds for all of them: give "
                f"hydra.launcher.array_parallelism={limit} where the launcher takes it, raise "
                "model.max_concurrency, or leave the launcher out"
            )
    return found


def _graded(runs: Sequence[Run]) -> list[Path]:
    gradings = (run.path / "gradings" / run.grading_hash for run in runs)
    return [path for path in gradings if (path / "summary.json").exists()]


def _grade(runs: Sequence[Run]) -> None:
    """Grade what stopped jobs have answered. Those that stay at work are left alone."""
    from medhelm.grading.scoring import score_run

    until = time.monotonic() + _ENDING_S
    for run in runs:
        if not (run.path / "spec.json").exists():
            continue
        while True:
            try:
                plan = read_plan(run.path)
                with lock_file(run.path / "lock"):
                    score_run(run.path, plan, run.grading, run.metrics, run.card, run.protocol)
            except MedhelmError as e:
                if isinstance(e, RunLocked) and time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                print(f"medhelm: not graded: {e}", file=sys.stderr)
            break


def _lost(runs: Sequence[Run], failed: Sequence[JobFailure]) -> list[JobFailure]:
    """Return the runs without a summary although no error was reported of their job."""
    lost: list[JobFailure] = []
    for run in runs:
        spec, path = run.spec, run.path / "gradings" / run.grading_hash / "summary.json"
        names = {f"model={spec.model.name}", f"benchmark={spec.benchmark}"}
        if path.exists() or any(names.issuperset(job.split()) for job, *_ in failed):
            continue
        reason = (
            f"its job ended without an error and left no {path}; results_dir must be a folder "
            "that all workers share"
        )
        cell = f"{spec.benchmark} x {spec.model.name}"
        lost.append(JobFailure(cell, reason, RecordError.exit_code))
    return lost
