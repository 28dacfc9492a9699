"""Runs of instances that no benchmark declares: briefs, articles, whatever a command makes of its input.

    own_run -> Run -> runner.run_sweep -> stored_episodes -> the command's own files

Such a run has no metric. It ends with its episodes and what each role used; the files of a command are
made of the episodes alone, so that they can be made again without a model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from medhelm.data.dataset import Dataset
from medhelm.errors import PrivacyRefused, RecordError, UsageError
from medhelm.models import privacy
from medhelm.models.identity import identity as identity
from medhelm.models.tokens import output_budget
from medhelm.protocols.protocol import Protocol, as_asked
from medhelm.runs.casting import check_bare
from medhelm.runs.run import Run as Run
from medhelm.schema.data import Benchmark, FileDataset, Instance, Row
from medhelm.schema.data import DataClass as DataClass
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import BenchmarkCard, GradingSpec, RunSpec
from medhelm.store.records import one_spelling, read_plan, request_hash
from medhelm.store.runlog import read_episodes

stored_episodes = read_episodes
"""Yields the last episode of every instance that has ended, from the log of a folder."""
_DECIDING = {
    "dataset_sha256": "other data",
    "benchmark": "other data",
    "protocol": "another protocol",
    "protocol_version": "another version of the prompts",
    "model": "another model",
    "cast": "another model",
    "settings": "other settings",
    "seed": "another seed",
}
"""Fields that decide a run, and the name of each where a folder holds another run."""


def own_run(
    name: str,
    instances: Iterable[Instance],
    protocol: Protocol,
    players: Mapping[str, ModelSpec],
    folder: Path,
    *,
    data_class: DataClass,
    environ: Mapping[str, str] | None,
    decides: str = "",
    max_output_tokens: int = 1024,
    reasoning_output_tokens: int = 8192,
    seed: int = 0,
) -> Run:
    """Return a run of these instances by a protocol, stored in `folder` itself.

    `players` has the model of each role of the protocol. `decides` is the hash of what decides the
    instances, but not how many there are; a folder that holds a run with another one is refused. An
    instance that is not given and has ended before stays among the run's. `instances` that are no iterator
    are gone through anew each time, so that many need not be in memory. `max_output_tokens` is the budget
    of the first role, `reasoning_output_tokens` that of any role whose model thinks before it answers.
    `environ` holds the keys; None: nothing will be asked, as for an estimate. Raises UsageError,
    ModelError and PrivacyRefused before any request.
    """
    _check_players(name, protocol, players, data_class, environ)
    benchmark = Benchmark(
        name=name,
        subcategory="",
        dataset=FileDataset(files=()),
        to_instance=lambda row: row["instance"],
        metrics=(),
        answer="text",
        protocol=protocol.name,
        data_class=data_class,
        max_output_tokens=max_output_tokens,
        reasoning_output_tokens=reasoning_output_tokens,
    )
    spec = _spec(benchmark, protocol, players, decides, seed)
    _refuse_other(folder, spec)
    return Run(
        benchmark=benchmark,
        protocol=protocol,
        dataset=_dataset(benchmark, spec.dataset_sha256, instances, folder),
        spec=spec,
        metrics=(),
        grading=GradingSpec(scoring="fixed", metrics=()),
        card=BenchmarkCard(name=name, title=name, data_class=data_class),
        path=folder,
        is_own=True,
    )


def _spec(
    benchmark: Benchmark,
    protocol: Protocol,
    players: Mapping[str, ModelSpec],
    decides: str,
    seed: int,
) -> RunSpec:
    first, *others = protocol.roles
    model = as_asked(protocol, players[first])
    return RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        data="full",
        dataset_sha256=hashlib.sha256(decides.encode()).hexdigest(),
        model=model,
        max_output_tokens=output_budget(benchmark, model),
        seed=seed,
        protocol="" if protocol.is_one_call else protocol.name,
        protocol_version=protocol.version,
        cast={role: _with_budget(benchmark, protocol, players[role], role) for role in others},
    )


def _check_players(
    name: str,
    protocol: Protocol,
    players: Mapping[str, ModelSpec],
    data_class: DataClass,
    environ: Mapping[str, str] | None,
) -> None:
    for role in protocol.roles:
        check_player(players[role], role, name, data_class, environ)
    for model in players.values():
        if any(other.name == model.name and other != model for other in players.values()):
            raise UsageError(
                f"two different models are called {model.name!r}; give each file a `name` of its own"
            )


def has_instances(run: Run) -> bool:
    """Return whether a run of one's own has anything to ask or to keep; without, it would be refused."""
    return not run.is_own or any(True for _ in run.dataset.read())


def check_player(
    model: ModelSpec,
    role: str,
    what: str,
    data_class: DataClass,
    environ: Mapping[str, str] | None,
) -> None:
    """Refuse a model that cannot be asked in a role, may not see the data, or lacks its key.

    `environ`: where the key is; None: none is needed, as nothing is asked. Raises UsageError, ModelError
    and PrivacyRefused.
    """
    check_bare(model, f"the {role} of {what}", environ)
    try:
        privacy.check(what, data_class, model.name, model.endpoint_class)
    except PrivacyRefused:
        allowed = " or ".join(privacy.POLICY[data_class])
        raise PrivacyRefused(
            f"{what}: the data are {data_class} and the {role} {model.name!r} is "
            f"{model.endpoint_class}; name a model whose endpoint_class is {allowed}"
        ) from None


def _with_budget(
    benchmark: Benchmark, protocol: Protocol, model: ModelSpec, role: str
) -> ModelSpec:
    budget = protocol.budgets[role]
    if model.reasoning:
        budget = max(budget, benchmark.reasoning_output_tokens)
    own = model.max_output_tokens or budget
    return msgspec.structs.replace(as_asked(protocol, model), max_output_tokens=own)


def _refuse_other(folder: Path, spec: RunSpec) -> None:
    """Refuse a folder that holds a run which was asked otherwise; raises UsageError."""
    try:
        stored = read_plan(folder).spec
    except RecordError:
        return  # there is none, or the run itself says what is wrong with it
    if request_hash(stored) == request_hash(spec):
        return
    then, now = one_spelling(stored), one_spelling(spec)
    differ = (what for name, what in _DECIDING.items() if getattr(then, name) != getattr(now, name))
    other = next(differ, "other settings")
    raise UsageError(f"{folder} holds what was asked with {other}; name another folder")


def _dataset(
    benchmark: Benchmark, sha256: str, instances: Iterable[Instance], folder: Path
) -> Dataset:
    """Return the instances, and those of the folder's episodes that have ended and are not given."""

    given = tuple(instances) if isinstance(instances, Iterator) else instances

    def read() -> Iterator[tuple[str, Row]]:
        names: set[str] = set()
        for instance in given:
            names.add(instance.id)
            yield instance.id, {"instance": instance}
        for episode in stored_episodes(folder):
            if episode.instance_id not in names:
                yield episode.instance_id, {"instance": episode.instance}

    return Dataset(
        benchmark=benchmark, data="full", split="", sha256=sha256, folder=folder, read=read
    )
