"""The default launcher and sweeper of `medhelm run`: every job in one process and event loop.

Hydra finds plugins in modules under `hydra_plugins.`; `medhelm run` imports this one by
itself, because an editable install is not on the path that Hydra scans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict


class MedhelmSweeper(BasicSweeper):
    """The basic sweeper; the launcher composes every job anyway, so none is composed twice."""

    def __init__(self) -> None:
        super().__init__(max_batch_size=None)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Leave the check to the launcher, which composes all jobs before it starts one."""


class MedhelmLauncher(Launcher):
    """Composes every job, then hands all of them at once to the task function's `run_all`."""

    def __init__(self) -> None:
        self.config: DictConfig | None = None
        self.task_function: TaskFunction | None = None
        self.hydra_context: HydraContext | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep what Hydra gives."""
        self.config = config
        self.task_function = task_function
        self.hydra_context = hydra_context

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs together; raises what the sweep raises."""
        self.task_function.run_all(list(self._compose(job_overrides)))  # type: ignore[union-attr]
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
        loader = self.hydra_context.config_loader
        composed: dict[tuple[str, ...], DictConfig] = {}
        for overrides in jobs:
            names = [o.partition("=")[2] for o in overrides if o.startswith("benchmark=")]
            shared = tuple(o for o in overrides if not o.startswith("benchmark="))
            if len(names) != 1 or not self._is_plain(names[0]):
                shared = tuple(overrides)
            if shared not in composed:
                composed[shared] = loader.load_sweep_config(self.config, list(overrides))
                with open_dict(composed[shared]):
                    del composed[shared]["hydra"]
            config = composed[shared]
            if shared != tuple(overrides):
                config.benchmark.name = names[0]
            values = OmegaConf.to_container(config, resolve=True)
            assert isinstance(values, dict)
            yield {str(key): value for key, value in values.items()}

    def _is_plain(self, benchmark: str) -> bool:
        """Return whether a benchmark's option is the registry's: a name and nothing else."""
        assert self.hydra_context is not None
        loader = self.hydra_context.config_loader
        sources = [s for s in loader.get_sources() if s.is_config(f"benchmark/{benchmark}")]
        return [s.scheme() for s in sources] == ["structured"]


def register() -> None:
    """Make launcher and sweeper known to Hydra."""
    store = ConfigStore.instance()
    for kind, plugin in (("launcher", MedhelmLauncher), ("sweeper", MedhelmSweeper)):
        node = {"_target_": f"hydra_plugins.medhelm_launcher.{plugin.__name__}"}
        store.store(group=f"hydra/{kind}", name="medhelm", node=node, provider="medhelm")
        Plugins.instance().register(plugin)
