"""The Python entry points: the same power as the commands, the same files on disk."""

from __future__ import annotations

import asyncio
import fnmatch
import os
import signal
import threading
import warnings
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from medhelm.config import (
    DEFAULT_ASKING,
    DEFAULT_RESULTS,
    BenchmarkChoice,
    Job,
    PrivacyPolicy,
    chosen_asking,
    convert,
    data_root,
)
from medhelm.data.fetch import FileStatus, fetch, verify
from medhelm.errors import Interrupted, UsageError
from medhelm.grading.jury.choice import packaged_jury, with_named_judges
from medhelm.listing.description import Description, describe_name
from medhelm.listing.listed import BenchmarkEntry, Listing, benchmark_list, model_list
from medhelm.models import ModelPool
from medhelm.models.catalogue import find_model
from medhelm.models.costs import capped_ledger
from medhelm.plugins.askings import find_asking
from medhelm.plugins.registry import Registry, load_registry
from medhelm.proof.validation import Data, Report
from medhelm.proof.validation import validate as prove_benchmark
from medhelm.runs.estimates import RunEstimate
from medhelm.runs.estimation import estimate_runs, without_keys
from medhelm.runs.planning import plan_runs
from medhelm.runs.progress import Display, has_viewer
from medhelm.runs.regrading import regrade
from medhelm.runs.runner import SweepEnd, run_sweep
from medhelm.schema.asking import Asking, Form
from medhelm.schema.data import Variant
from medhelm.schema.model import ModelSpec, Order
from medhelm.schema.run import JurySpec
from medhelm.schema.score import Scoring, Unread
from medhelm.store.remote_runs import results_folder
from medhelm.tables.loading import load_gradings
from medhelm.tables.results import Results


def evaluate(
    models: str | ModelSpec | Iterable[str | ModelSpec],
    benchmarks: str | Iterable[str],
    *,
    data: Literal["sample", "full"] = "full",
    split: str | None = None,
    data_dir: str | Path | None = None,
    results_dir: str | Path = DEFAULT_RESULTS,
    max_instances: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    ask: str | Asking = DEFAULT_ASKING,
    examples: int | None = None,
    form: Form | None = None,
    variants: str | Sequence[Variant] = (),
    scoring: Scoring = "fixed",
    jury: str | JurySpec | None = None,
    cast: Mapping[str, str | ModelSpec] | None = None,
    protocol: Mapping[str, Any] | None = None,
    grader: Mapping[str, Any] | None = None,
    reader: str | ModelSpec = "",
    controls: float = 0.05,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    privacy: PrivacyPolicy | None = None,
    rename: bool = False,
    ask_again: Sequence[Unread] = (),
    track: str | Sequence[str] = (),
    batch: bool = False,
    order: Order | None = None,
    servers: str = "",
    progress: bool = True,
    plugins: str | Path | Iterable[str | Path] = (),
) -> Results:
    """Return the results of every model on every benchmark, asking only what is not stored yet.

    `models` and `benchmarks` are names (`medhelm list`), patterns like `baseline/*` or `*`, or `ModelSpec`s. The
    others are the settings of `medhelm run` by the same names (docs/commands.md): `jury` a name or a `JurySpec`,
    `ask` a name, a file or an `Asking`. `progress` is shown on a terminal and in a notebook alone. Raises
    MedhelmError before any request, or after all runs where one failed; KeyboardInterrupt once what came is graded.
    """
    registry = _registry(plugins)
    specs, chosen = _models(models, registry), _choices(benchmarks, split, registry)
    job = Job(
        model=specs[0], benchmarks=chosen, data=data, max_instances=max_instances, repeats=repeats
    )
    job = replace(job, seed=seed, data_dir=_place(data_dir), results_dir=str(results_dir))
    job = replace(job, ask=_asking(ask, examples, form, registry), variants=_plain(variants))
    job = replace(job, jury=_jury(jury, registry), reader=_plain(reader), controls=controls)
    job = replace(job, cast=_settings(cast), protocol=_settings(protocol), grader=_settings(grader))
    job = replace(job, scoring=scoring, budget_usd=budget_usd, budget_tokens=budget_tokens)
    job = replace(job, privacy=_settings(privacy), rename=rename, ask_again=tuple(ask_again))
    job = replace(
        job, batch=batch, order=order, servers=servers, track=tuple(_several(track, "track"))
    )
    jobs = _checked("evaluate", (replace(job, model=spec) for spec in specs))
    return _run(jobs, registry, is_shown=progress and has_viewer())


def estimate(
    models: str | ModelSpec | Iterable[str | ModelSpec],
    benchmarks: str | Iterable[str],
    *,
    data: Literal["sample", "full"] = "full",
    split: str | None = None,
    data_dir: str | Path | None = None,
    results_dir: str | Path = DEFAULT_RESULTS,
    max_instances: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    ask: str | Asking = DEFAULT_ASKING,
    examples: int | None = None,
    form: Form | None = None,
    variants: str | Sequence[Variant] = (),
    jury: str | JurySpec | None = None,
    cast: Mapping[str, str | ModelSpec] | None = None,
    protocol: Mapping[str, Any] | None = None,
    grader: Mapping[str, Any] | None = None,
    reader: str | ModelSpec = "",
    controls: float = 0.05,
    plugins: str | Path | Iterable[str | Path] = (),
) -> list[RunEstimate]:
    """Return what `evaluate` with the same arguments would cost, one estimate a run.

    Nothing is sent and no key is needed. What would be refused, by privacy or because it is
    stored under another name, is estimated all the same, and the refusal is a warning. Raises MedhelmError where a name or the data is missing.
    """
    registry = _registry(plugins)
    specs, chosen = _models(models, registry), _choices(benchmarks, split, registry)
    job = Job(
        model=specs[0], benchmarks=chosen, data=data, max_instances=max_instances, repeats=repeats
    )
    job = replace(job, seed=seed, data_dir=_place(data_dir), results_dir=str(results_dir))
    job = replace(job, ask=_asking(ask, examples, form, registry), variants=_plain(variants))
    job = replace(job, jury=_jury(jury, registry), reader=_plain(reader), controls=controls)
    job = replace(job, cast=_settings(cast), protocol=_settings(protocol), grader=_settings(grader))
    jobs = _checked("estimate", (replace(job, model=spec) for spec in specs))
    environ = without_keys(os.environ, jobs, registry)
    planned = plan_runs(jobs, registry, environ, is_sending=False)
    for refusal in planned.refused:
        warnings.warn(f"would be refused: {refusal}", stacklevel=2)
    return estimate_runs(planned.runs, Path(results_dir))


def validate(
    benchmarks: str | Iterable[str] = "*",
    *,
    data: Literal["sample", "full"] = "sample",
    data_dir: str | Path | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
) -> list[Report]:
    """Return what is found wrong with benchmarks on their own instances, one report each.

    The state of a report is `passed`, `failed` or `no data`. Nothing is written.
    """
    convert(data, Data, "validate: data")
    registry = _registry(plugins)
    root = data_root(data_dir)
    return [
        prove_benchmark(registry.benchmark(name), data, registry, root)
        for name in _benchmark_names(benchmarks, registry)
    ]


def list_benchmarks(
    *, data_dir: str | Path | None = None, plugins: str | Path | Iterable[str | Path] = ()
) -> Listing[BenchmarkEntry]:
    """Return all benchmarks, in the order of their names: a tuple that shows itself as a table."""
    return benchmark_list(_registry(plugins), data_root(data_dir))


def list_models(*, plugins: str | Path | Iterable[str | Path] = ()) -> Listing[ModelSpec]:
    """Return the models that have a config file or come from a plugin, as `evaluate` takes them."""
    return model_list(_registry(plugins))


def describe(
    name: str,
    *,
    data_dir: str | Path | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
) -> Description:
    """Return all facts of what bears a name: a benchmark, model, metric, rubric, jury and so on.

    Raises UnknownName with the nearest names.
    """
    return describe_name(name, _registry(plugins), data_root(data_dir))


def score(
    results_dir: str | Path = DEFAULT_RESULTS,
    *,
    benchmarks: str | Iterable[str] = (),
    models: str | Iterable[str] = (),
    scoring: Scoring = "fixed",
    metrics: str | Iterable[str] = (),
    data_dir: str | Path | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
) -> Results:
    """Return the stored responses graded again, without a model; `metrics` come besides the own.

    Of a URL a copy is graded. Only runs of `benchmarks` and `models`, where names are given. A run that cannot be graded is
    a warning, the others are graded. Raises UsageError where there is no run or none is graded.
    """
    convert(scoring, Scoring, "score: scoring")
    graded: list[Path] = []
    registry = _registry(plugins)
    found = regrade(
        results_folder(results_dir, is_graded=True),
        registry,
        scoring,
        [str(name) for name in _several(metrics, "metrics")],
        benchmarks=[str(name) for name in _several(benchmarks, "benchmarks")],
        models=[str(name) for name in _several(models, "models")],
        root=data_root(data_dir),
    )
    for run in found:
        if run.record is not None and run.path is not None:
            graded.append(run.path / "gradings" / run.record.grading_hash)
        if run.problem:
            warnings.warn(run.problem, stacklevel=2)
    if not graded:
        raise UsageError(f"score: no run below {results_dir} could be graded")
    return load_gradings(graded, plugins=registry)


def fetch_data(
    benchmarks: str | Iterable[str],
    *,
    data_dir: str | Path | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
) -> list[FileStatus]:
    """Return the files of benchmarks after fetching those that are missing or wrong.

    Raises DataError where a file cannot be had or is not the pinned one.
    """
    registry = _registry(plugins)
    names = _benchmark_names(benchmarks, registry)
    return [s for n in names for s in fetch(registry.benchmark(n), data_root(data_dir))]


def verify_data(
    benchmarks: str | Iterable[str] = "*",
    *,
    data_dir: str | Path | None = None,
    plugins: str | Path | Iterable[str | Path] = (),
) -> list[FileStatus]:
    """Return the files of benchmarks, each read and compared with its sha256."""
    registry = _registry(plugins)
    names = _benchmark_names(benchmarks, registry)
    return [s for n in names for s in verify(registry.benchmark(n), data_root(data_dir))]


def _registry(plugins: Any) -> Registry:
    return load_registry([str(p) for p in _several(plugins, "plugins")])


def _benchmark_names(benchmarks: Any, registry: Registry) -> list[str]:
    known = list(registry.benchmarks)
    several = _several(benchmarks, "benchmarks")
    return [name for b in several for name in _matching(b, known, "benchmark")]


def _models(models: Any, registry: Registry) -> list[ModelSpec]:
    found = [spec for model in _several(models, "models") for spec in _specs(model, registry)]
    if not found:
        raise UsageError("models is empty")
    return found


def _choices(benchmarks: Any, split: str | None, registry: Registry) -> tuple[BenchmarkChoice, ...]:
    names = _benchmark_names(benchmarks, registry)
    if not names:
        raise UsageError("benchmarks is empty")
    return tuple(BenchmarkChoice(name=name, split=split) for name in names)


def _asking(
    ask: str | Asking, examples: int | None, form: Form | None, registry: Registry
) -> Asking | None:
    named = ask if isinstance(ask, Asking) else find_asking(ask, registry.askings)
    return chosen_asking(named, examples=examples, form=form)


def _place(folder: str | Path | None) -> str | None:
    return None if folder is None else str(folder)


def _settings(given: Mapping[Any, Any] | None) -> dict[Any, Any]:
    return dict(given) if isinstance(given, Mapping) else given or {}


def _plain(value: Any) -> Any:
    """Return a value without types of its own, as a config has it, to be checked with the job."""
    return msgspec.to_builtins(value)


def _checked(caller: str, jobs: Iterable[Job]) -> list[Job]:
    """Return jobs whose values all fit their types; raises UsageError naming one that does not."""
    return [convert(_plain(job), Job, caller) for job in jobs]


def _jury(jury: str | JurySpec | None, registry: Registry) -> JurySpec | None:
    if isinstance(jury, str):
        return packaged_jury(jury, registry.models)
    if jury is None:
        return None
    named: JurySpec = convert(
        with_named_judges(msgspec.to_builtins(jury), registry.models), JurySpec, "jury"
    )
    return named


def _run(jobs: Sequence[Job], registry: Registry, *, is_shown: bool) -> Results:
    planned = plan_runs(jobs, registry, os.environ)
    models = (model for run in planned.runs for model in run.models)
    ledger = capped_ledger(models, jobs[0].budget_usd, jobs[0].budget_tokens)
    for note in planned.notes:
        warnings.warn(note, stacklevel=3)
    pool = ModelPool(os.environ, order=jobs[0].order, servers=jobs[0].servers)
    with Display(planned.runs, pool.statuses, is_shown=is_shown) as display:
        end = _in_own_loop(run_sweep(planned.runs, ledger, display, pool))
    for line in display.oversize():
        warnings.warn(line, stacklevel=3)
    for ending in end.endings:
        if ending.error is not None:
            raise ending.error
    for line in dict.fromkeys(judge.line for e in end.endings for judge in e.missing):
        warnings.warn(line, stacklevel=3)
    if isinstance(end.stopped, Interrupted):
        raise KeyboardInterrupt(f"{end.stopped}, and the same call goes on")
    if end.stopped is not None:
        raise end.stopped
    graded = [ending.run for ending in end.endings if ending.record is not None]
    gradings = [run.grading_path for run in graded]
    return load_gradings(gradings, plugins=registry)


def _several(values: Any, what: str) -> list[Any]:
    if isinstance(values, str | Path | ModelSpec):
        return [values]
    if not isinstance(values, Iterable):
        raise UsageError(f"{what} takes one or several, not {type(values).__name__}")
    return list(values)


def _matching(name: Any, known: Sequence[str], what: str) -> list[str]:
    """Return the known names that a pattern matches; a plain name as it is."""
    if not isinstance(name, str):
        raise UsageError(f"a {what} is a name, not {type(name).__name__}")
    if "*" not in name:
        return [name]
    if not (found := fnmatch.filter(known, name)):
        raise UsageError(f"{name!r} matches no {what} (`medhelm list {what}s` shows all)")
    return found


def _specs(model: str | ModelSpec, registry: Registry) -> list[ModelSpec]:
    if isinstance(model, ModelSpec):
        return [model]
    names = _matching(model, list(registry.models), "model")
    return [find_model(name, registry.models) for name in names]


def _in_own_loop(sweep: Coroutine[Any, Any, SweepEnd]) -> SweepEnd:
    """Run the sweep in a loop of its own, in a thread where the caller's loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(sweep)
    loop = asyncio.new_event_loop()
    task = loop.create_task(sweep)

    async def ended() -> SweepEnd:
        return await task

    def work() -> SweepEnd:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(ended())

    with ThreadPoolExecutor(1) as thread:  # a notebook: its loop cannot be entered again
        done = thread.submit(work)
        with _keyboard_interrupts():
            while True:
                try:
                    return done.result()
                except KeyboardInterrupt:  # it comes here, not to the thread, which would ask on
                    with suppress(RuntimeError):  # the loop has ended meanwhile
                        loop.call_soon_threadsafe(task.cancel)


@contextmanager
def _keyboard_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise at once: the waiting loop's own handler would act only after the wait."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
