"""The default launcher and sweeper of `medhelm run`: all jobs belong to one process and event loop.

Hydra finds plugins in modules under `hydra_plugins.`; `medhelm run` imports this one by
itself, because an editable install is not on the path that Hydra scans.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, ValueType
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict

_COLLECTED: ContextVar[list[dict[str, Any]]] = ContextVar("medhelm_jobs")


@contextmanager
def collected_jobs() -> Iterator[list[dict[str, Any]]]:
    """Give the list that the launcher fills with the values of every job of a sweep."""
    token = _COLLECTED.set([])
    try:
        yield _COLLECTED.get()
    finally:
        _COLLECTED.reset(token)


class JobsFailed(Exception):
    """Jobs of a launcher with processes of its own ended with an error."""

    def __init__(self, failed: Sequence[tuple[Sequence[str], BaseException]], jobs: int) -> None:
        super().__init__(f"{len(failed)} of {jobs} jobs failed")
        self.failed, self.jobs = failed, jobs


class MedhelmSweeper(Sweeper):
    """The basic sweeper, but: glob(...) also sees names with a slash, nothing is written, no
    job is composed before the launcher does, and all failed jobs are reported."""

    def __init__(self) -> None:
        self.launcher: Launcher | None = None
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra gives and make the launcher."""
        self.config, self.hydra_context = config, hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Launch the product of all values; raises JobsFailed."""
        assert self.launcher is not None
        assert self.config is not None and self.hydra_context is not None
        loader = self.hydra_context.config_loader
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
        if any(isinstance(_value(o), Glob) for o in overrides):  # a repository costs a copy
            repository = _repository(self.hydra_context, self.config)
            overrides = [_spell_out(o, repository) for o in overrides]
        jobs = [arguments]
        if any(o.is_sweep_override() for o in overrides):
            jobs = BasicSweeper.split_arguments(overrides, None)[0]
        results = self.launcher.launch(jobs, initial_job_idx=0)
        failed = [r for r in results if r.status is not JobStatus.COMPLETED]
        if failed:
            # not `return_value`: it prints before it raises, and stops at the first
            raise JobsFailed([(r.overrides or (), r._return_value) for r in failed], len(results))
        return [results]


class MedhelmLauncher(Launcher):
    """Composes every job and adds its values to `collected_jobs`."""

    def __init__(self) -> None:
        self.config: DictConfig | None = None
        self.hydra_context: HydraContext | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra gives; its task function is for launchers with other processes."""
        self.config, self.hydra_context = config, hydra_context

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Compose all jobs; raises what composing raises."""
        _COLLECTED.get().extend(self._compose(job_overrides))
        return [
            JobReturn(overrides=overrides, status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]

    def _compose(self, jobs: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
        """Yield each job's values. Jobs that differ in the benchmark's name share one composition.

        Composing costs Hydra some 0.2 s; the option of a registered benchmark holds its name and
        nothing else. An option from a file of the user's is composed job by job.
        """
        assert self.config is not None and self.hydra_context is not None
        task = list(self.config.hydra.overrides.task)
        repository = _repository(self.hydra_context, self.config) if len(jobs) > 1 else None
        composed: dict[tuple[str, ...], DictConfig] = {}
        for overrides in jobs:
            names = [o.partition("=")[2] for o in overrides if o.startswith("benchmark=")]
            shared = tuple(o for o in overrides if not o.startswith("benchmark="))
            if len(names) != 1 or repository is None or not _is_plain(repository, names[0]):
                shared = tuple(overrides)
            if shared not in composed:
                is_whole = list(overrides) == task  # nothing is swept: Hydra has composed this job
                composed[shared] = _bare(self.config if is_whole else self._load(overrides))
            config = composed[shared]
            if shared != tuple(overrides):
                config.benchmark.name = names[0]
            values = OmegaConf.to_container(config, resolve=True)
            assert isinstance(values, dict)
            yield {str(key): value for key, value in values.items()}

    def _load(self, overrides: Sequence[str]) -> DictConfig:
        assert self.config is not None and self.hydra_context is not None
        return self.hydra_context.config_loader.load_sweep_config(self.config, list(overrides))


def _bare(config: DictConfig) -> DictConfig:
    """Return a job's config with its names and without Hydra's own part."""
    choices = config.hydra.runtime.choices
    config = copy.copy(config)
    name_options(config, choices)
    with open_dict(config):
        del config["hydra"]
    return config


def name_options(config: DictConfig, choices: Mapping[str, Any]) -> None:
    """Name a model, benchmark or suite after its option where its file does not name it."""
    for group in ("model", "benchmark", "suite", "jury"):
        node = config.get(group)
        if isinstance(node, DictConfig) and node.get("name") is None and choices.get(group):
            node.name = choices[group]


def _repository(context: HydraContext, config: DictConfig) -> CachingConfigRepository:
    """Return all options of all groups, those of hydra.searchpath too."""
    given: Any = OmegaConf.to_container(config.hydra.overrides.hydra)
    loader: Any = context.config_loader
    _, repository = loader._parse_overrides_and_create_caching_repo(
        config.hydra.job.config_name, given
    )
    assert isinstance(repository, CachingConfigRepository)
    return repository


def _value(override: Override) -> Any:
    return override.value()


def _spell_out(override: Override, repository: CachingConfigRepository) -> Override:
    """Replace glob(...) by the names that it matches, at any depth of the group."""
    glob = _value(override)
    if not isinstance(glob, Glob):
        return override
    chosen = glob.filter(_names(repository, override.key_or_group))
    if not chosen:
        raise HydraException(f"{override.input_line} matches no name of that group")
    return dataclasses.replace(
        override, value_type=ValueType.CHOICE_SWEEP, _value=ChoiceSweep(list=list(chosen))
    )


def _names(repository: CachingConfigRepository, group: str, folder: str = "") -> list[str]:
    """Return the options of a group, those of its folders as FOLDER/NAME."""
    path = f"{group}/{folder}".rstrip("/")
    names = [folder + name for name in repository.get_group_options(path, ObjectType.CONFIG)]
    for below in repository.get_group_options(path, ObjectType.GROUP):
        names += _names(repository, group, f"{folder}{below}/")
    return sorted(names)


def _is_plain(repository: CachingConfigRepository, benchmark: str) -> bool:
    """Return whether a benchmark's option is the registry's: a name and nothing else."""
    path = f"benchmark/{benchmark}"
    return [s.scheme() for s in repository.get_sources() if s.is_config(path)] == ["structured"]


def register() -> None:
    """Make launcher and sweeper known to Hydra."""
    store = ConfigStore.instance()
    for kind, plugin in (("launcher", MedhelmLauncher), ("sweeper", MedhelmSweeper)):
        node = {"_target_": f"hydra_plugins.medhelm_launcher.{plugin.__name__}"}
        store.store(group=f"hydra/{kind}", name="medhelm", node=node, provider="medhelm")
        Plugins.instance().register(plugin)
