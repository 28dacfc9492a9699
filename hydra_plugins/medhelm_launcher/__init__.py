"""The default launcher and sweeper of `medhelm run`: every job in one process and event loop.

Hydra finds plugins in modules under `hydra_plugins.`; `medhelm run` imports this one by
itself, because an editable install is not on the path that Hydra scans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class LauncherConf:
    """Config of `hydra/launcher=medhelm`."""

    _target_: str = "hydra_plugins.medhelm_launcher.MedhelmLauncher"


@dataclass
class SweeperConf:
    """Config of `hydra/sweeper=medhelm`."""

    _target_: str = "hydra_plugins.medhelm_launcher.MedhelmSweeper"
    max_batch_size: int | None = None


class MedhelmSweeper(BasicSweeper):
    """The basic sweeper; the launcher composes every job anyway, so none is composed twice."""

    def __init__(self, max_batch_size: int | None = None) -> None:
        super().__init__(max_batch_size=max_batch_size)

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
        assert self.config is not None and self.hydra_context is not None
        loader = self.hydra_context.config_loader
        configs = [loader.load_sweep_config(self.config, list(o)) for o in job_overrides]
        self.task_function.run_all(configs)  # type: ignore[union-attr]
        return [
            JobReturn(overrides=overrides, cfg=config, status=JobStatus.COMPLETED)
            for overrides, config in zip(job_overrides, configs, strict=True)
        ]


def register() -> None:
    """Make launcher and sweeper known to Hydra."""
    store = ConfigStore.instance()
    store.store(group="hydra/launcher", name="medhelm", node=LauncherConf, provider="medhelm")
    store.store(group="hydra/sweeper", name="medhelm", node=SweeperConf, provider="medhelm")
    for plugin in (MedhelmLauncher, MedhelmSweeper):
        Plugins.instance().register(plugin)
