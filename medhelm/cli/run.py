"""`medhelm run`: a Hydra application whose jobs all run in this process.

The only module that knows Hydra, beside the launcher. It fills the config groups from the
registry, lets Hydra compose the jobs, and turns Hydra's errors into one line each.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from medhelm.cli.options import open_registry
from medhelm.config import Job, convert
from medhelm.errors import MedhelmError, UnknownName, UsageError, closest
from medhelm.models.catalogue import find_model, load_models
from medhelm.registry import Registry
from medhelm.schema import ModelSpec

DEMO = ("model=glob(baseline/*)", "benchmark=glob(*)", "data=sample")
_HYDRA_OPTIONS = ("--cfg", "-c", "--info", "-i", "--help", "-h", "--hydra-help", "-sc")
_HYDRA_OPTIONS += ("--shell-completion", "--shell_completion", "--package", "-p")
_KEYLIKE = re.compile(r"(^|[._])(api_?key|key|token|secret|password)$", re.IGNORECASE)
_MODEL_GLOB = re.compile(r"model=glob\(['\"]?([^'\",()]+)['\"]?\)")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def run(argv: list[str]) -> int:
    """Return the exit code of one sweep; without arguments, of the offline demo."""
    if not argv:
        print(
            "Offline demo: embedded baselines (they are not language models) on the bundled\n"
            "samples (synthetic, written for this package): its scores say nothing about any "
            "model.\n"
        )
        argv = list(DEMO)
    registry = load_plugins(argv)
    compose(argv, registry, lambda configs: execute(configs, registry, argv))
    return 0


def load_plugins(argv: Sequence[str]) -> Registry:
    """Return the registry that a command line asks for; a key on it is refused."""
    _refuse_keys(argv)
    return open_registry(_plugin_files(argv))


def execute(configs: Sequence[Any], registry: Registry, argv: Sequence[str]) -> None:
    """Run the composed jobs together and show the tables; raises the gravest error of a run."""
    from medhelm.cli.sweep import run_jobs

    if not configs:
        raise UsageError("the sweep is empty: a glob(...) on the command line matches nothing")
    run_jobs([to_job(config) for config in configs], registry, "medhelm run " + shlex.join(argv))


def to_job(config: Mapping[str, Any]) -> Job:
    """Return the job that a composed config asks for; raises UsageError naming what is missing."""
    values = dict(config)
    for ours in ("hydra", "plugins", "experiment"):
        values.pop(ours, None)
    benchmark, suite = values.pop("benchmark"), values.pop("suite")
    chosen = [benchmark] if benchmark["name"] else []
    chosen += [{"name": name} for name in suite["benchmarks"]]
    if not values["model"]["name"]:
        raise UsageError(
            "the model is missing: add model=NAME (`medhelm list models`), "
            "for example model=openai/gpt-4o"
        )
    if not chosen:
        raise UsageError(
            "the benchmark is missing: add benchmark=NAME (`medhelm list benchmarks`), "
            "'benchmark=glob(*)' or suite=NAME"
        )
    return convert(values | {"benchmarks": chosen}, Job, "config")


def _refuse_keys(argv: Sequence[str]) -> None:
    """Refuse anything that looks like a key on the command line, without repeating it."""
    for argument in argv:
        name, _, value = argument.partition("=")
        name = name.lstrip("+~")
        if name.endswith("api_key_env"):
            if value not in ("null", "") and not _ENV_NAME.fullmatch(value):
                raise UsageError(
                    f"{name} takes the name of an environment variable, not a key; "
                    f"put the key into the environment and give {name}=ITS_NAME"
                )
        elif _KEYLIKE.search(name):
            raise UsageError(
                f"{name}=... is refused: keys are read from the environment only; "
                "export the key and name its variable with model.api_key_env=NAME"
            )


def _plugin_files(argv: Sequence[str]) -> list[str]:
    """Return the files of plugins=[...], which must be known before Hydra composes."""
    for argument in argv:
        if argument.startswith("plugins="):
            listed = argument.partition("=")[2].strip().removeprefix("[").removesuffix("]")
            return [p.strip().strip("'\"") for p in listed.split(",") if p.strip()]
    return []


def compose(argv: list[str], registry: Registry, run_all: Callable[[Sequence[Any]], None]) -> None:
    """Let Hydra compose the jobs and call `run_all` with them."""
    import hydra
    from hydra.core.plugins import Plugins
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    Plugins.instance()  # its scan imports Hydra's own plugins anew: ours build on the new ones
    from hydra_plugins.medhelm_launcher import register

    register()
    names = _fill_groups(argv, registry)

    def task(config: Any) -> None:  # one job: what other launchers call, each in its process
        run_all([OmegaConf.to_container(config, resolve=True)])

    task.run_all = run_all  # type: ignore[attr-defined]
    argv = [_expand_glob(a, names["model"]) for a in argv]
    application = hydra.main(
        version_base="1.3", config_path="pkg://medhelm.conf", config_name="config"
    )
    shown = any(a.partition("=")[0] in _HYDRA_OPTIONS for a in argv)
    if not shown:  # argparse takes options before or behind all overrides, not between them
        argv = ["--multirun", *(a for a in argv if a not in ("-m", "--multirun"))]
    with tempfile.TemporaryDirectory() as scratch, _arguments(argv, scratch):
        try:
            application(task)()
        except HydraException as e:
            raise _translate(e, names) from None
        except OmegaConfBaseException as e:
            raise UsageError(_first_line(e)) from None
        except SystemExit as e:
            if e.code not in (0, None):
                raise


@contextmanager
def _arguments(argv: list[str], scratch: str) -> Iterator[None]:
    """Hand Hydra its command line; what its sweeper writes goes to a scratch folder."""
    is_ours = not any(a.startswith(("hydra/launcher=", "hydra.sweep.dir=")) for a in argv)
    if is_ours and argv[0] == "--multirun":
        argv = [*argv, f"hydra.sweep.dir={scratch}"]
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = ["medhelm run", *argv]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints a traceback and exits by itself
    try:
        yield
    finally:
        sys.argv = before[0]
        if before[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before[1]


def _fill_groups(argv: Sequence[str], registry: Registry) -> dict[str, list[str]]:
    """Put benchmarks and models into Hydra's config groups; returns the names by group."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    empty: dict[str, Any] = msgspec.to_builtins(ModelSpec(name=""))
    store.store(name="model_defaults", node=empty | {"name": None}, provider="medhelm")
    store.store(name="benchmark_defaults", node={"name": None, "split": None}, provider="medhelm")
    store.store(name="suite_defaults", node={"name": None, "benchmarks": []}, provider="medhelm")
    for name in registry.benchmarks:
        store.store(group="benchmark", name=name, node={"name": name}, provider="medhelm")
    models, packaged = dict(registry.models), load_models()
    for name in _asked(argv, "model"):
        if name not in models and name.startswith("openai/"):
            models[name] = find_model(name, models)
    for name, spec in models.items():
        if name not in packaged:  # those Hydra finds as files; it copies all nodes for each job
            node = msgspec.to_builtins(spec)
            vendor, slash, short = name.rpartition("/")
            store.store(group=f"model{slash}{vendor}", name=short, node=node, provider="medhelm")
    return {"benchmark": list(registry.benchmarks), "model": list(models)}


def _expand_glob(argument: str, models: Sequence[str]) -> str:
    """Spell out model=glob(PATTERN): Hydra's own glob does not see names with a slash."""
    match = _MODEL_GLOB.fullmatch(argument)
    if match is None:
        return argument
    chosen = fnmatch.filter(models, match[1])
    if not chosen:
        raise UsageError(f"{argument} matches no model (`medhelm list models` shows all)")
    return f"model={','.join(chosen)}"


def _asked(argv: Sequence[str], group: str) -> list[str]:
    """Return the plain names that GROUP=a,b asks for."""
    values = [a.partition("=")[2] for a in argv if a.startswith(f"{group}=")]
    return [v.strip().strip("'\"") for value in values for v in value.split(",") if "(" not in v]


def _translate(e: Exception, names: Mapping[str, list[str]]) -> MedhelmError:
    """Return Hydra's error as one line with the nearest names."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigKeyError

    if isinstance(e, MissingConfigException) and e.missing_cfg_file:
        group, _, name = str(e.missing_cfg_file).partition("/")
        options = e.options or ()
        known = names.get(group, [str(o) for o in options])
        hint = {
            "model": "`medhelm list models` shows all; openai/ANY-NAME needs no file.",
            "benchmark": "`medhelm list benchmarks` shows all.",
        }.get(group, f"known: {', '.join(known)}." if known else "")
        return UnknownName(group, name, known, hint)
    if isinstance(e, OverrideParseException):
        return UsageError(
            f"cannot read the argument {e.override!r}: write key=value, with quotes around "
            "values that hold spaces or commas"
        )
    cause = e.__cause__
    if isinstance(cause, ConfigKeyError) and cause.full_key:
        parent, _, key = str(cause.full_key).rpartition(".")
        known = [str(k) for k in (getattr(cause, "parent_node", None) or {})] or _keys(parent)
        nearest = closest(key, known)
        did = (
            f"; did you mean {(parent + '.' if parent else '') + nearest[0]!r}?" if nearest else ""
        )
        return UsageError(
            f"unknown config key {cause.full_key!r}{did} (`medhelm run --cfg job` shows all)"
        )
    return UsageError(_first_line(cause or e))


def _keys(parent: str) -> list[str]:
    if parent == "model":
        return list(ModelSpec.__struct_fields__)
    return [*Job.__struct_fields__, "benchmark", "suite", "plugins", "experiment"]


def _first_line(e: BaseException) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[0] if lines else type(e).__name__
