"""Hydra: the command line -> the values of every job, or the jobs in other processes.

It reads the options, fills the config groups from the registry and lets Hydra compose the jobs.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from medhelm.cli.hydra_app import call_hydra, first_line, own_folders, unreadable
from medhelm.cli.other_tools import explain_option
from medhelm.cli.overrides import as_meant, refuse_lists
from medhelm.config import JuryChoice
from medhelm.errors import MedhelmError, UsageError
from medhelm.models.catalogue import find_model, load_models, open_provider, plain_models
from medhelm.plugins.registry import Registry
from medhelm.schema.model import ModelSpec

_LAUNCHER = "hydra/launcher="
_OF_LAUNCHER = (_LAUNCHER, "hydra.launcher.")
_OPTIONS = frozenset(
    ("--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run")
    + ("--multirun", "--shell-completion", "--config-path", "--config-name", "--config-dir")
    + ("--experimental-rerun", "--info")
)
"""The options of Hydra's parser."""
_GROUPS = ("model", "benchmark", "suite", "jury", "experiment")
_ADDED = tuple(f"+{group}=" for group in _GROUPS)
"""All groups are in the defaults list, so Hydra would refuse the + of `+experiment=NAME`."""


def compose(
    argv: Sequence[str], registry: Registry, run_all: Callable[[Sequence[Any]], None]
) -> None:
    """Let Hydra compose the jobs, then call `run_all` with all of them, in this process.

    With an option that only shows something (--cfg, --info), Hydra shows it and no more.
    """
    _load_hydra()
    from hydra_plugins.medhelm_launcher import collected_jobs

    asked = read_options(argv)
    refuse_lists(own_folders(asked))
    overrides = [] if asked.hydra_help else asked.overrides  # its help knows no config of medhelm
    if other_launcher(overrides):
        overrides = [o for o in overrides if not o.lstrip("+~").startswith(_OF_LAUNCHER)]
    with collected_jobs() as configs:
        call_hydra(asked, overrides, _fill_groups(asked, registry), _unused)
    for config in configs:
        unread = set(listed(config["plugins"])) - set(plugin_files(argv))
        if unread:
            raise UsageError(
                f"plugins={sorted(unread)} is in a config file, but plugins are read before "
                "the configuration is: give plugins=[FILE] on the command line"
            )
    if not asked.shows:
        run_all(configs)


def with_own_models(registry: Registry, argv: Sequence[str]) -> Registry:
    """Return the registry with the models of the user's folders of configs, for judges and casts."""
    own = {
        name: spec
        for folder in own_folders(read_options(argv))
        for name, spec in plain_models(folder / "model").items()
    }
    return replace(registry, models={**own, **registry.models}) if own else registry


def launch(
    argv: Sequence[str], registry: Registry, launcher: str, task: Callable[[Any], None]
) -> list[tuple[str, str, int]]:
    """Give each job to `task` in a process of its own; return (job, reason, exit code) of failures.

    `task` must be a function of a module, for the other processes import it.
    """
    _load_hydra()
    from hydra_plugins.medhelm_launcher import JobsFailed

    asked = read_options(argv)
    try:
        call_hydra(asked, asked.overrides, _fill_groups(asked, registry), task)
    except JobsFailed as e:
        return [(_job_name(overrides), *_reason(error)) for overrides, error in e.failed]
    except MedhelmError:
        raise
    except Exception as e:  # a boundary: a scheduler has its own failures (no sbatch, job killed)
        raise MedhelmError(f"hydra/launcher={launcher}: {_reason(e)[0]}") from None
    return []


def _job_name(overrides: Sequence[str]) -> str:
    return " ".join(o for o in overrides if o.startswith(("model=", "benchmark=", "suite=")))


def _reason(e: BaseException) -> tuple[str, int]:
    if isinstance(e, MedhelmError):
        return str(e), e.exit_code
    return f"{type(e).__name__}: {first_line(e)}", 1


def plain(config: Any) -> dict[str, Any]:
    """Return the values of what Hydra hands to a task."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from hydra_plugins.medhelm_launcher import name_options

    name_options(config, HydraConfig.get().runtime.choices)
    values: Any = OmegaConf.to_container(config, resolve=True)
    return dict(values)


def other_launcher(argv: Sequence[str]) -> str:
    """Return the launcher that hydra/launcher=NAME asks for; empty where it is ours."""
    names = [a.removeprefix(_LAUNCHER) for a in argv if a.startswith(_LAUNCHER)]
    return names[-1] if names and names[-1] != "medhelm" else ""


def plugin_files(argv: Sequence[str]) -> list[str]:
    """Return the files of plugins=[...], which must be known before Hydra composes."""
    for argument in argv:
        if argument.startswith("plugins="):
            listed = argument.partition("=")[2].strip().removeprefix("[").removesuffix("]")
            return [p.strip().strip("'\"") for p in listed.split(",") if p.strip()]
    return []


def listed(plugins: Any) -> list[str]:
    """Return the files of a composed `plugins`, which may be one name."""
    return [plugins] if isinstance(plugins, str) else [str(p) for p in plugins or ()]


def completions(words: Sequence[str], registry: Registry) -> list[str]:
    """Return how the last of the words behind `medhelm run` can go on, by Hydra."""
    _load_hydra()
    asked = read_options([*words[:-1], "--shell-completion"])
    names = _fill_groups(asked, registry)
    before = os.environ.get("COMP_LINE")
    said = io.StringIO()
    os.environ["COMP_LINE"] = " ".join(["medhelm", *words])
    try:
        with redirect_stdout(said):
            call_hydra(asked, ["query=bash"], names, _unused)
    finally:
        os.environ["COMP_LINE"] = before or ""
    return said.getvalue().split()


def _unused(config: Any) -> None:
    """Stand for the task function, which the launcher of this process never calls."""


def _load_hydra() -> None:
    from hydra.core.plugins import Plugins

    Plugins.instance()  # its scan imports plugins anew: whoever imports ours first has old classes
    from hydra_plugins.medhelm_launcher import register

    register()


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    """Return Hydra's options and the overrides, which may be in any order."""
    from hydra._internal.utils import get_args_parser

    said = io.StringIO()
    try:
        with redirect_stderr(said):
            asked = get_args_parser().parse_intermixed_args(argv)
    except SystemExit as e:
        if not e.code:
            raise
        reason = said.getvalue().strip().rpartition("error: ")[2]
        raise UsageError(f"{_meant(argv) or reason}; see `medhelm run --help`") from None
    if asked.experimental_rerun:
        raise UsageError("--experimental-rerun is refused: it reads a pickle, which can run code")
    showing = [n for n in ("cfg", "info", "hydra_help", "shell_completion") if getattr(asked, n)]
    if len(showing) > 1:
        raise UsageError(f"--{showing[0]} and --{showing[1]} exclude each other")
    if (asked.resolve or asked.package) and not asked.cfg:
        raise UsageError("--resolve and --package go with --cfg only")
    asked.shows = bool(showing)
    for override in asked.overrides:
        if override.startswith("="):
            raise UsageError(unreadable(override))
    asked.overrides = [o[1:] if o.startswith(_ADDED) else o for o in asked.overrides]
    if not asked.shell_completion:
        asked.overrides = [as_meant(o) for o in asked.overrides]
    _refuse_twice([] if asked.shell_completion else asked.overrides)
    return asked


def _meant(argv: Sequence[str]) -> str:
    """Return what to type for the first option that only other tools have; empty without one."""
    for n, argument in enumerate(argv):
        option, _, value = argument.partition("=")
        if option.startswith("--") and option not in _OPTIONS:
            behind = [] if value else [a for a in argv[n + 1 :][:1] if not a.startswith("-")]
            if said := explain_option(option, "".join(behind) or value):
                return said
    return ""


def _refuse_twice(overrides: Sequence[str]) -> None:
    """Refuse a key that is given twice, for Hydra would take the last one and say nothing."""
    seen: dict[str, str] = {}
    for key, equals, value in (o.lstrip("+").partition("=") for o in overrides):
        if equals and key in seen:
            both = ",".join(dict.fromkeys((seen[key], value))).replace("],[", ",")
            raise UsageError(f"{key} is given twice; write {key}={both}")
        seen[key] = value


def group_names(asked: argparse.Namespace, registry: Registry) -> dict[str, list[str]]:
    """Return the names of every group: the registry's, the packaged and the user's own.

    Raises UsageError where a file of the user's would be hidden by a packaged one.
    """
    folders = [Path(str(resources.files("medhelm.conf"))), *own_folders(asked)]
    names: dict[str, list[str]] = {}
    for group in _GROUPS:
        packaged, *own = [_options_below(folder, group) for folder in folders]
        known = {"model": registry.models, "benchmark": registry.benchmarks}.get(group, {})
        for folder, options in zip(folders[1:], own, strict=True):
            if group != "benchmark" and (hidden := options & (packaged | known.keys())):
                raise UsageError(
                    f"{folder / group / min(hidden)}.yaml has the name of a {group} that is "
                    "there already; rename it"
                )
        names[group] = sorted(packaged.union(known, *own))
    return names


def _fill_groups(asked: argparse.Namespace, registry: Registry) -> dict[str, list[str]]:
    """Put benchmarks and models into Hydra's config groups; returns the names by group."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for group in ("model", "benchmark"):
        _forget(store.repo.get(group, {}))
    empty: dict[str, Any] = msgspec.to_builtins(ModelSpec(name=""))
    own = {"name": None, "rename": False}
    store.store(name="model_defaults", node=empty | own, provider="medhelm")
    store.store(name="benchmark_defaults", node={"name": None, "split": None}, provider="medhelm")
    jury: dict[str, Any] = msgspec.to_builtins(JuryChoice(name="offline"))
    store.store(name="jury_defaults", node=jury | {"name": None}, provider="medhelm")
    store.store(name="suite_defaults", node={"name": None, "benchmarks": []}, provider="medhelm")
    names = group_names(asked, registry)
    # What is a file stays a file: Hydra copies all nodes for each job, and a file of the user's
    # may say more of a benchmark than its name (the split).
    files = {
        group: set().union(*(_options_below(f, group) for f in own_folders(asked)))
        for group in ("model", "benchmark")
    }
    for name in registry.benchmarks.keys() - files["benchmark"]:
        store.store(group="benchmark", name=name, node={"name": name}, provider="medhelm")
    packaged = load_models()
    models = {n: spec for n, spec in registry.models.items() if n not in packaged}
    for name in _asked_names(asked.overrides, "model"):
        if name not in names["model"] and open_provider(name):
            models[name] = find_model(name)
    for name, spec in models.items():
        vendor, slash, short = name.rpartition("/")
        node = msgspec.to_builtins(spec)
        store.store(group=f"model{slash}{vendor}", name=short, node=node, provider="medhelm")
    return names


def _forget(group: dict[str, Any]) -> None:
    """Take out what an earlier command of this process has stored."""
    for name, entry in list(group.items()):
        if isinstance(entry, dict):
            _forget(entry)
        elif entry.provider == "medhelm":
            del group[name]


def _asked_names(overrides: Sequence[str], group: str) -> list[str]:
    """Return the plain names that GROUP=a,b asks for."""
    values = [a.partition("=")[2] for a in overrides if a.startswith(f"{group}=")]
    return [v.strip().strip("'\"") for value in values for v in value.split(",") if "(" not in v]


def _options_below(folder: Path, group: str) -> set[str]:
    return {
        path.relative_to(folder / group).with_suffix("").as_posix()
        for path in (folder / group).rglob("*.yaml")
    }
