"""Turn a command's request into runs that are ready to start, refused here or not at all.

Everything that can be refused without a request is refused here: unknown names, missing
data, missing keys, data that may not go to an endpoint, a cap without a price.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from medhelm.config import BenchmarkChoice, Job, chosen_settings, data_root
from medhelm.data.dataset import Dataset, open_dataset
from medhelm.data.variants import (
    OF_PATIENT,
    can_vary,
    chosen_variants,
    refusals,
    vary,
    with_labels,
)
from medhelm.errors import DataError, MedhelmError, PrivacyRefused, UsageError
from medhelm.grading.graders.grader import graders_of
from medhelm.grading.jury.choice import choose_jury
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.reader import can_read, reader_terms, with_reader
from medhelm.models import check_model, privacy
from medhelm.models.identity import in_batches
from medhelm.models.tokens import output_budget
from medhelm.plugins.registry import Registry
from medhelm.plugins.trackers import find_trackers
from medhelm.prompts.messages import prompt_sha256, resolve_prompt
from medhelm.protocols.protocol import as_asked
from medhelm.runs.asking import AskedBenchmark, ask_benchmark, in_variant, why_not
from medhelm.runs.casting import (
    can_play,
    check_bare,
    choose_cast,
    named_by_strategy,
    named_model,
    refuse_unused,
    unplayed_note,
)
from medhelm.runs.refusals import (
    all_withheld,
    all_without,
    jury_note,
    refusal_notes,
    refuse_idle,
    refuse_other,
    refuse_useless,
    stored_otherwise,
    unasked_note,
    variants_note,
)
from medhelm.runs.run import Run, Tracking, benchmark_card, grading_of
from medhelm.schema.data import Benchmark, Variant
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    READER,
    JurySpec,
    RunSpec,
)
from medhelm.store.names import known_address, other_names
from medhelm.store.records import folder_name, run_path
from medhelm.store.remote_runs import is_url
from medhelm.store.shards import Shard, find_shard


@dataclass(frozen=True)
class PlannedSweep:
    """The runs of a command's jobs, each once, in the order asked for."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    """A line for each thing that differs from what was asked for."""
    refused: tuple[MedhelmError, ...] = ()
    """Refusals of runs that are planned all the same, as nothing is sent."""


def plan_runs(
    jobs: Iterable[Job],
    registry: Registry,
    environ: Mapping[str, str],
    *,
    is_sending: bool = True,
) -> PlannedSweep:
    """Return the runs of all jobs.

    Raises UsageError, DataError, ModelError or PrivacyRefused before any request. For those who send
    nothing, what privacy refuses, or is stored under another name, is planned all the same.
    """
    jobs = list(jobs)
    if any(is_url(job.results_dir) for job in jobs):
        raise UsageError(
            "results_dir must be a folder; `medhelm runs push URL` takes runs elsewhere"
        )
    return _Planner(registry, environ, is_sending=is_sending).plan(jobs)


class _Planner:
    """Makes runs of jobs: what several of them share, and all that is to be refused or noted."""

    def __init__(self, registry: Registry, environ: Mapping[str, str], *, is_sending: bool) -> None:
        self._registry, self._environ, self._is_sending = registry, environ, is_sending
        self._datasets: dict[tuple[str, str, str | None, Path], Dataset] = {}
        self._forms: dict[tuple[int, Variant, int], Dataset | None] = {}
        self._refusals: dict[tuple[str, Variant], Counter[str]] = {}
        self._without: dict[str, DataError] = {}
        self._withheld: dict[str, PrivacyRefused] = {}
        self._unplayed: list[tuple[ModelSpec, Benchmark]] = []
        self._unasked: dict[str, str] = {}
        self._refused: list[MedhelmError] = []
        self._runs: dict[tuple[str, str], Run] = {}

    def plan(self, jobs: Sequence[Job]) -> PlannedSweep:
        for one in jobs:
            job = msgspec.structs.replace(one, model=in_batches(one.model)) if one.batch else one
            refuse_unused(job, self._registry)
            check_model(job.model, self._environ)
            for choice in job.benchmarks:
                self._add(job, choice)
        if self._withheld:
            raise all_withheld(self._withheld, self._registry)
        if self._without:
            raise all_without(self._without, self._registry)
        runs = tuple(self._runs.values())
        refuse_idle(self._unplayed, runs, self._registry)
        refuse_useless(jobs, runs, self._refusals)
        notes = (
            unplayed_note(self._unplayed),
            unasked_note(self._unasked, runs),
            variants_note(jobs, runs, self._refusals),
            *refusal_notes(self._refusals),
            jury_note(jobs, runs, self._registry, self._environ),
        )
        runs = tuple(self._under_one_name(runs))
        return PlannedSweep(runs, tuple(filter(None, notes)), tuple(self._refused))

    def _add(self, job: Job, choice: BenchmarkChoice) -> None:
        benchmark = self._registry.benchmark(choice.name)
        protocol = self._registry.protocol(benchmark.protocol)
        if not can_play(job.model, protocol, protocol.roles[0]):
            self._unplayed.append((job.model, benchmark))
            return
        try:
            self._asked(job, benchmark, job.model)
            dataset = self._dataset(job, benchmark, choice.split if job.data == "full" else None)
        except PrivacyRefused as e:  # all that are withheld are named at once
            self._withheld.setdefault(benchmark.name, e)
            return
        except DataError as e:  # as are all that lack their data
            self._without.setdefault(benchmark.name, e)
            return
        cast = choose_cast(job, benchmark, self._registry)
        for role, model in cast.items():
            check_model(model, self._environ)
            cast[role] = self._asked(job, benchmark, model, role=role)
        if job.ask is not None and (why := why_not(job.ask, benchmark, dataset)):
            self._unasked.setdefault(benchmark.name, why)
            job = msgspec.structs.replace(job, ask=None)
        asked = ask_benchmark(job, benchmark, dataset, self._registry)
        jury = self._jury(job, benchmark)
        named = (job.track,) if isinstance(job.track, str) else job.track
        chosen = find_trackers(named, self._registry.trackers)
        tracking = Tracking(chosen, self._registry) if chosen else None
        run = _run(job, benchmark, dataset, self._registry, cast, jury, asked)
        run = replace(run, shard=self._shard(job), tracking=tracking)
        run = self._with_reader(run, job)
        if run.shard is not None and any(model.batch for model in run.models):
            raise UsageError(
                "batches hold thousands of requests: ask them from one process, without workers= and shard="
            )
        for form in (run, *self._in_other_forms(run, job)):
            name = (form.spec.benchmark, form.request_hash)
            refuse_other(self._runs.setdefault(name, form), form)

    def _shard(self, job: Job) -> Shard | None:
        """Return the part of the runs that a job asks; raises UsageError where it cannot ask a part."""
        shard = find_shard(job.shard, self._environ)
        for key in ("ask_again", "rename"):
            if shard is not None and getattr(job, key):
                part = "workers=" if job.workers else f"shard={job.shard}"
                raise UsageError(
                    f"{key} changes what all shards know: start it once without {part}"
                )
        return shard

    def _dataset(self, job: Job, benchmark: Benchmark, split: str | None) -> Dataset:
        root = data_root(job.data_dir, self._environ)
        key = (benchmark.name, job.data, split, root)
        if key not in self._datasets:
            self._datasets[key] = open_dataset(benchmark, job.data, split=split, root=root)
        return self._datasets[key]

    def _asked(self, job: Job, benchmark: Benchmark, model: ModelSpec, **part: str) -> ModelSpec:
        """Return a model as a job asks it; raises where it may not see the data. `part`: its role or jury."""
        data_class, where = benchmark.data_class, model.endpoint_class
        try:
            privacy.check(benchmark.name, data_class, model.name, where, job.privacy, **part)
        except PrivacyRefused as e:
            if self._is_sending:
                raise
            self._refused.append(e)
        return in_batches(model) if job.batch else model

    def _jury(self, job: Job, benchmark: Benchmark) -> JurySpec | None:
        """Return who rates a benchmark, each judge allowed to see its data; None if nobody does."""
        known = (self._registry.metrics.get((name, "fixed")) for name in benchmark.metrics)
        if JURY not in benchmark.metrics and not graders_of(m for m in known if m is not None):
            return None
        jury = choose_jury(
            job.jury,
            self._registry.models,
            self._environ,
            is_sample=job.data == "sample",
            default=benchmark.jury,
        )
        judges = [self._asked(job, benchmark, judge, jury=jury.name) for judge in jury.judges]
        return msgspec.structs.replace(jury, judges=tuple(judges))

    def _with_reader(self, run: Run, job: Job) -> Run:
        """Return a run with the job's reader, where it has one that can help."""
        if not job.reader or not can_read(run.metrics, run.protocol):
            return run
        if run.spec.asking is not None and run.spec.asking.form != "text":
            return run  # the form is read strictly, nothing is left to a reader
        if job.scoring != "fixed":
            raise UsageError("reader: published scorers read by their own rules; leave it out")
        reader = named_model(READER, job.reader, self._registry)
        check_bare(reader, "a reader", self._environ)
        reader = self._asked(job, run.benchmark, reader, role=READER)
        grading = msgspec.structs.replace(run.grading, reader=reader_terms(reader))
        return replace(run, metrics=with_reader(run.metrics), grading=grading)

    def _in_other_forms(self, run: Run, job: Job) -> Iterator[Run]:
        for how in chosen_variants(job.variants):
            if not can_vary(run.benchmark, how):
                continue
            key = (id(run.dataset), how, job.seed)
            if key not in self._forms:
                self._forms[key] = vary(run.dataset, how, job.seed)
                if how in OF_PATIENT:
                    self._refusals[run.spec.benchmark, how] = refusals(run.dataset, how, job.seed)
            if (dataset := self._forms[key]) is None:
                continue
            asked = in_variant(run.benchmark, how, job.seed, self._registry)
            benchmark = with_labels(asked, how)
            sha256 = prompt_sha256(benchmark, run.spec.model.system_prompt)
            spec = msgspec.structs.replace(run.spec, variant=how, prompt_sha256=sha256)
            path = run_path(Path(job.results_dir), spec)
            yield replace(run, benchmark=benchmark, dataset=dataset, spec=spec, path=path)

    def _under_one_name(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Yield the runs; those stored under other names of their models are to be renamed.

        Raises UsageError where the user does not say that these are the same models.
        """
        others: list[str] = []
        for run in runs:
            names = other_names(run.path, run.spec, run.grading)
            if names and not run.is_same_model:
                others.append(stored_otherwise(run, names))
            elif names and self._is_sending:
                to = run.path.parents[1] / folder_name(run.spec.model.name) / run.path.name
                said = ", ".join(
                    f"{then} is named {now} from now on" for then, now in names.items()
                )
                run = replace(run, path=to, found=run.path, renamed=said)  # noqa: PLW2901
            yield run
        if others and self._is_sending:
            more = f" (and so of {len(others) - 1} more runs)" if len(others) > 1 else ""
            raise UsageError(f"{others[0]}{more}")
        self._refused += map(UsageError, others)


def _run(
    job: Job,
    benchmark: Benchmark,
    dataset: Dataset,
    registry: Registry,
    cast: dict[str, ModelSpec],
    jury: JurySpec | None,
    asked: AskedBenchmark,
) -> Run:
    metrics, grading = grading_of(
        benchmark, registry, job.scoring, jury, job.grader, dataset.folder, asking=asked.asking
    )
    shown, protocol = asked.benchmark, asked.protocol
    prompt = resolve_prompt(shown)
    model = named_by_strategy(as_asked(protocol, job.model))
    players = {protocol.roles[0]: model, **cast}
    strategies = {
        role: registry.strategy(one.strategy) for role, one in players.items() if one.strategy
    }
    spec = RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        data=job.data,
        split=dataset.split,
        dataset_sha256=dataset.sha256,
        prompt_name=prompt.name,
        prompt_version=prompt.version,
        prompt_sha256=prompt_sha256(shown, model.system_prompt),
        model=model,
        max_output_tokens=output_budget(shown, model),
        repeats=job.repeats,
        seed=job.seed,
        max_instances=job.max_instances,
        protocol="" if protocol.is_one_call else protocol.name,
        protocol_version=protocol.version,
        cast=cast,
        settings=chosen_settings(job.protocol, protocol.settings, "protocol"),
        strategies={role: s.version for role, s in strategies.items() if s.version != "1"},
    )
    spec = known_address(Path(job.results_dir), asked.recorded(spec))
    return Run(
        benchmark=shown,
        protocol=protocol,
        dataset=dataset,
        spec=spec,
        strategies=strategies,
        metrics=metrics,
        grading=grading,
        card=benchmark_card(benchmark, registry, spec),
        path=run_path(Path(job.results_dir), spec),
        is_same_model=job.rename,
        ask_again=job.ask_again,
        controls=job.controls,
    )
