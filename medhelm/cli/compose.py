"""The command line of `medhelm run` -> the values of every job, composed by Hydra.

A sweep is taken apart here.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from medhelm.cli.env_file import OPTION
from medhelm.cli.overrides import (
    as_meant,
    first_line,
    meant_option,
    not_utf8,
    refuse_keys,
    refuse_lists,
    translate,
    unreadable,
)
from medhelm.errors import UsageError
from medhelm.files.yaml_bounds import refuse_many
from medhelm.models.catalogue import find_model, load_models, open_provider, plain_models
from medhelm.plugins.askings import SUFFIXES, find_asking, load_askings
from medhelm.plugins.registry import Registry
from medhelm.schema.asking import Asking
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec

_CONFIG = "medhelm.conf"
_VERSION = "1.3"
"""Of Hydra's behaviour."""
_GROUPS = ("model", "benchmark", "suite", "jury", "ask", "experiment")
_ADDED = tuple(f"+{group}=" for group in _GROUPS)
"""All groups are in the defaults list, so Hydra would refuse the + of `+experiment=NAME`."""
_LAUNCHERS = ("hydra/launcher=", "hydra.launcher.", "other_processes=")
_SEARCH_PATH = "hydra.searchpath="
_SHOWING = ("cfg", "info", "hydra_help", "shell_completion")


@dataclass(frozen=True, kw_only=True)
class Options:
    """A command line of `medhelm run`: its overrides, and Hydra's options."""

    words: tuple[str, ...]
    """As they were typed."""
    overrides: tuple[str, ...]
    """As Hydra reads them."""
    plugins: tuple[str, ...]
    """The files of plugins=[...], which must be known before Hydra composes."""
    folders: tuple[Path, ...]
    """The user's folders of configs, named by --config-dir or hydra.searchpath."""
    searchpath: tuple[str, ...]
    """These and packages, as Hydra takes them."""
    cfg: str | None
    info: str | None
    resolve: bool
    hydra_help: bool
    shell_completion: bool

    @property
    def shows(self) -> bool:
        """Return whether nothing is run."""
        return any(getattr(self, name) for name in _SHOWING)


def compose(typed: Options, registry: Registry) -> list[dict[str, Any]]:
    """Return the values of every job that a command line asks for; none where it only shows (--cfg)."""
    asked, names = fill_groups(typed, registry)
    if any(o.lstrip("+~").startswith(_LAUNCHERS) for o in asked.overrides):
        raise UsageError(
            "Hydra's launchers and other_processes know nothing of limits and budgets that jobs share: write workers=local:4, "
            "workers=slurm:16 or workers=ray:16"
        )
    found: list[dict[str, Any]] = []
    with _our_errors(asked, names):
        if asked.shows:
            _call_main(asked, [] if asked.hydra_help else asked.overrides)
        else:
            files = set().union(*(_options_below(f, "benchmark") for f in asked.folders))
            found = _compose_all(
                asked, _jobs(asked.overrides, names), registry.benchmarks.keys() - files
            )
    for values in found:
        if unread := set(listed(values["plugins"])) - set(asked.plugins):
            raise UsageError(
                f"plugins={sorted(unread)} is in a config file, but plugins are read before "
                "the configuration is: give plugins=[FILE] on the command line"
            )
    return found


def with_own_models(registry: Registry, typed: Options) -> Registry:
    """Return the registry with the models of the user's folders of configs, for judges and casts."""
    own = {
        name: spec
        for folder in typed.folders
        for name, spec in plain_models(folder / "model").items()
    }
    return replace(registry, models={**own, **registry.models}) if own else registry


def listed(plugins: Any) -> list[str]:
    """Return the files of a composed `plugins`, which may be one name."""
    return [plugins] if isinstance(plugins, str) else [str(p) for p in plugins or ()]


def completions(typed: Options, last: str, registry: Registry) -> list[str]:
    """Return how the word behind a command line can go on, by Hydra."""
    asked, names = fill_groups(replace(typed, shell_completion=True), registry)
    before, printed = os.environ.get("COMP_LINE", ""), io.StringIO()
    os.environ["COMP_LINE"] = " ".join(["medhelm", *typed.words, last])
    try:
        with redirect_stdout(printed), _our_errors(asked, names):
            _call_main(asked, ["query=bash"])
    finally:
        os.environ["COMP_LINE"] = before
    return printed.getvalue().split()


# Options --------------------------------------------------------------------------------------


_FLAG: dict[str, Any] = {"action": "store_true"}
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "--cfg": ("-c", {"choices": ["job", "hydra", "all"]}),
    "--info": ("-i", {"nargs": "?", "const": "all"}),
    "--config-dir": ("-cd", {}),
    OPTION: (OPTION, {"action": "append"}),  # read before
    "--shell-completion": ("-sc", _FLAG),
    "--multirun": ("-m", _FLAG),  # as is every run
    "--hydra-help": ("--hydra-help", _FLAG),
    "--resolve": ("--resolve", _FLAG),
}
"""The options of Hydra's parser, which it does not offer to others."""


def read_options(argv: Sequence[str]) -> Options:
    """Return Hydra's options and the overrides, which may be in any order. A key among them is refused."""
    refuse_keys(argv)
    printed = io.StringIO()
    parser = argparse.ArgumentParser("medhelm run", add_help=False)
    parser.add_argument("overrides", nargs="*")
    for name, (short, more) in _OPTIONS.items():
        parser.add_argument(name, short, **more)
    try:
        with redirect_stderr(printed):
            asked = parser.parse_intermixed_args(argv)
    except SystemExit:
        reason = printed.getvalue().strip().rpartition("error: ")[2]
        raise UsageError(
            f"{meant_option(argv, _OPTIONS) or reason}; see `medhelm run --help`"
        ) from None
    showing = [name for name in _SHOWING if getattr(asked, name)]
    if len(showing) > 1:
        raise UsageError(f"--{showing[0]} and --{showing[1]} exclude each other")
    if asked.resolve and not asked.cfg:
        raise UsageError("--resolve goes with --cfg only")
    for override in asked.overrides:
        if override.startswith("="):
            raise UsageError(unreadable(override))
        if override.startswith(_SEARCH_PATH) and not override.startswith(f"{_SEARCH_PATH}["):
            raise UsageError(f"{override} must be a list, write {_SEARCH_PATH}[FOLDER]")
    overrides = [o[1:] if o.startswith(_ADDED) else o for o in asked.overrides]
    if not asked.shell_completion:
        overrides = [as_meant(o) for o in overrides]
        _refuse_twice(overrides)
    lists = [o.removeprefix(_SEARCH_PATH) for o in overrides if o.startswith(_SEARCH_PATH)]
    searchpath = [place for text in lists for place in _items(text)]
    if asked.config_dir is not None:
        if not Path(asked.config_dir).is_dir():
            raise UsageError(f"--config-dir {asked.config_dir}: there is no such folder")
        searchpath.append(f"file://{Path(asked.config_dir).absolute()}")
    places = (p for p in searchpath if not p.startswith("pkg:"))
    plugins = (a.partition("=")[2] for a in asked.overrides if a.startswith("plugins="))
    return Options(
        words=tuple(argv),
        overrides=tuple(o for o in overrides if not o.startswith(_SEARCH_PATH)),
        plugins=tuple(_items(next(plugins, ""))),
        folders=tuple(Path(place.removeprefix("file://")) for place in places),
        searchpath=tuple(searchpath),
        cfg=asked.cfg,
        info=asked.info,
        resolve=asked.resolve,
        hydra_help=asked.hydra_help,
        shell_completion=asked.shell_completion,
    )


def _items(text: str) -> list[str]:
    """Return the items of a list as it is typed, without quotes."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    return [item.strip().strip("'\"") for item in inner.split(",") if item.strip()]


def _refuse_twice(overrides: Sequence[str]) -> None:
    """Refuse a key that is given twice, for Hydra would take the last one and say nothing."""
    seen: dict[str, str] = {}
    for key, equals, value in (o.lstrip("+").partition("=") for o in overrides):
        if equals and key in seen:
            both = ",".join(dict.fromkeys((seen[key], value))).replace("],[", ",")
            raise UsageError(f"{key} is given twice; write {key}={both}")
        seen[key] = value


# Config groups ----------------------------------------------------------------------------------


def group_names(asked: Options, registry: Registry) -> dict[str, list[str]]:
    """Return the names of every group: the registry's, the packaged and the user's own."""
    names: dict[str, list[str]] = {}
    for group in _GROUPS:
        packaged = packaged_options(group)
        known: Collection[str] = {
            "model": registry.models.keys(),
            "benchmark": registry.benchmarks.keys(),
            "ask": registry.askings.keys(),
        }.get(group, ())
        own = {folder: _options_below(folder, group) for folder in asked.folders}
        for folder, options in own.items():
            if group != "benchmark" and (hidden := options & packaged.union(known)):
                raise UsageError(
                    f"{folder / group / min(hidden)}.yaml has the name of a {group} that is "
                    "there already; rename it"
                )
        names[group] = sorted(packaged.union(known, *own.values()))
    return names


def fill_groups(typed: Options, registry: Registry) -> tuple[Options, dict[str, list[str]]]:
    """Put benchmarks and models into Hydra's config groups.

    Returns the options, files of askings replaced by their names there, and the names by group.
    """
    from hydra.core.config_store import ConfigStore

    refuse_lists(typed.folders)
    for file in (f for folder in typed.folders for f in folder.rglob("*.yaml")):
        refuse_many(file.read_bytes(), str(file))
    store = ConfigStore.instance()
    store.repo = _Uncopied(store.repo)
    nodes: dict[str, Any] = {
        "model_defaults": msgspec.to_builtins(ModelSpec(name="")) | {"name": None, "rename": False},
        "benchmark_defaults": {"name": None, "split": None, "instruction": None},
        "jury_defaults": msgspec.to_builtins(JurySpec(name="offline")) | {"name": None},
        "ask_defaults": dict.fromkeys(Asking.__struct_fields__),
        "suite_defaults": {"name": None, "benchmarks": []},
    }
    asked, own_askings = _take_askings(typed, registry)
    names = group_names(asked, registry)
    names["ask"] = sorted({*names["ask"], *own_askings})
    # What is a file stays a file, which may say more of a benchmark than its name (the split).
    files = set().union(*(_options_below(folder, "benchmark") for folder in asked.folders))
    plain, there = registry.benchmarks.keys() - files, store.repo.get("benchmark", {})
    _forget(there, {f"{name}.yaml" for name in plain})
    for group in ("model", "ask"):
        _forget(store.repo.get(group, {}), ())
    nodes |= {f"benchmark/{name}": {"name": name} for name in plain if f"{name}.yaml" not in there}
    packaged_askings = load_askings()
    askings = {n: a for n, a in registry.askings.items() if n not in packaged_askings}
    nodes |= {f"ask/{n}": msgspec.to_builtins(a) for n, a in (askings | own_askings).items()}
    packaged = load_models()
    models = {n: spec for n, spec in registry.models.items() if n not in packaged}
    for override in (o for o in asked.overrides if o.startswith("model=") and "(" not in o):
        for name in _items(override.partition("=")[2]):
            if name not in names["model"] and open_provider(name):
                models[name] = find_model(name)
    nodes |= {f"model/{name}": msgspec.to_builtins(spec) for name, spec in models.items()}
    for path, node in nodes.items():
        group, _, name = path.rpartition("/")
        store.store(group=group or None, name=name, node=node, provider="medhelm")
    return asked, names


def _take_askings(typed: Options, registry: Registry) -> tuple[Options, dict[str, Asking]]:
    """Return the options with stems in place of the files that `ask=FILE.yaml` names, and their askings by stem."""
    found: dict[str, Asking] = {}
    overrides = [*typed.overrides]
    for n, override in enumerate(overrides):
        key, _, value = override.partition("=")
        files = [item for item in _items(value) if item.endswith(SUFFIXES)] if key == "ask" else []
        for file in files:
            name = Path(file).stem
            if name in registry.askings or name in found:
                raise UsageError(f"ask={file}: there is an asking {name!r} already; rename one")
            found[name] = find_asking(file, registry.askings)
            overrides[n] = overrides[n].replace(file, name)
    return replace(typed, overrides=tuple(overrides)), found


class _Uncopied(dict[str, Any]):
    """Hydra's store of nodes, of which Hydra loads copies: copying all of it for each job is a fifth of a sweep's time."""

    def __deepcopy__(self, memo: object) -> _Uncopied:
        return self


def _forget(group: dict[str, Any], kept: Collection[str]) -> None:
    """Take out what an earlier command of this process has stored, but for these names."""
    for name, entry in list(group.items()):
        if isinstance(entry, dict):
            _forget(entry, ())
        elif entry.provider == "medhelm" and name not in kept:
            del group[name]


def packaged_options(group: str) -> set[str]:
    """Return the options of a group that come with medhelm."""
    return _options_below(Path(str(resources.files(_CONFIG))), group)


def _options_below(folder: Path, group: str) -> set[str]:
    own = folder / group
    return {path.relative_to(own).with_suffix("").as_posix() for path in own.rglob("*.yaml")}


# Jobs -------------------------------------------------------------------------------------------


def _jobs(overrides: Sequence[str], names: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """Return the overrides of each job of a sweep: the product of all values."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_overrides(list(overrides))
    return list(itertools.product(*(_spread(one, names) for one in parsed)))


def _spread(override: Any, names: Mapping[str, list[str]]) -> list[str]:
    """Return an override once for each of its values."""
    from hydra.core.override_parser.types import Glob

    if not override.is_sweep_override():
        return [override.input_line]
    value = override.value()
    if isinstance(value, Glob):
        values: Iterable[str] = value.filter(names.get(override.key_or_group, []))
        if not values:
            raise UsageError(f"{override.input_line} matches no name of that group")
    elif override.is_discrete_sweep():
        values = override.sweep_string_iterator()
    else:
        raise UsageError(f"{override.input_line} names no values one by one; write a,b")
    return [f"{override.get_key_element()}={value}" for value in values]


def _compose_all(
    asked: Options, jobs: Iterable[tuple[str, ...]], plain: Iterable[str]
) -> list[dict[str, Any]]:
    """Return the values of every job. Jobs that differ in the benchmark's name share one composition.

    It costs Hydra 0.2 s, and the option of a registered benchmark (`plain`) holds its name and nothing
    else. An option from a file of the user's is composed job by job.
    """
    import hydra
    from omegaconf import OmegaConf

    is_plain = {f"benchmark={name}": name for name in plain}
    composed: dict[tuple[str, ...], Any] = {}
    found = []
    with hydra.initialize_config_module(_CONFIG, job_name="medhelm", version_base=_VERSION):
        for job in jobs:
            name = next((is_plain[o] for o in job if o in is_plain), None)
            shared = tuple(o for o in job if o not in is_plain)
            if shared not in composed:
                overrides = [*_search_path(asked), *job]
                config = hydra.compose("config", overrides, True)
                composed[shared] = _named(config, config.hydra.runtime.choices)
            if name is not None:
                composed[shared].benchmark.name = name
            values: Any = OmegaConf.to_container(composed[shared], resolve=True)
            found.append(values)
    return found


def _search_path(asked: Options) -> list[str]:
    return [f"{_SEARCH_PATH}[{','.join(map(quoted, asked.searchpath))}]"] * bool(asked.searchpath)


def quoted(path: str) -> str:
    """Return a path as Hydra takes it."""
    return "'" + path.replace("'", "\\'") + "'"


def _named(config: Any, choices: Mapping[str, Any]) -> Any:
    """Return a job's config. A model or benchmark whose file does not name it has its option's name."""
    from omegaconf import OmegaConf, open_dict

    with open_dict(config):
        config.pop("hydra", None)
    for group in _GROUPS[:-1]:
        node = config.get(group)
        if OmegaConf.is_dict(node) and node.get("name") is None and choices.get(group):
            node.name = choices[group]
    return config


# Hydra's own main -------------------------------------------------------------------------------


def _call_main(asked: Options, overrides: Sequence[str]) -> None:
    import hydra

    line = []
    for name in ("cfg", "info"):
        if getattr(asked, name) is not None:
            line += [f"--{name}", getattr(asked, name)]
    for name in ("resolve", "hydra_help", "shell_completion"):
        line += [f"--{name.replace('_', '-')}"] if getattr(asked, name) else []
    if not (asked.hydra_help or asked.shell_completion):
        line += _search_path(asked)
    application = hydra.main(f"pkg://{_CONFIG}", "config", _VERSION)
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    # the name that completion is installed for has no subcommand
    sys.argv = ["medhelm" if asked.shell_completion else "medhelm run", *line, *overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints a traceback and exits by itself
    try:
        application(lambda config: None)()
    finally:
        sys.argv = before[0]
        os.environ.pop("HYDRA_FULL_ERROR")
        os.environ.update({"HYDRA_FULL_ERROR": before[1]} if before[1] is not None else {})


@contextmanager
def _our_errors(asked: Options, names: Mapping[str, list[str]]) -> Iterator[None]:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="provider=.*is not\\s+available")
        try:
            yield
        except HydraException as e:
            raise translate(e, names) from None
        except YAMLError as e:
            raise UsageError(f"a config file is not YAML: {' '.join(str(e).split())}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{not_utf8(asked.folders)}: a config file is UTF-8") from None
        except (OmegaConfBaseException, UserWarning, ValueError) as e:
            raise UsageError(first_line(e)) from None
        except SystemExit as e:
            if e.code not in (0, None):
                raise
