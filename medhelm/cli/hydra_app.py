"""The Hydra application: its call for one command line, and its errors as one line each."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medhelm.cli.other_tools import explain_key, explain_word
from medhelm.errors import MedhelmError, UnknownName, UsageError
from medhelm.files.yaml_bounds import refuse_many
from medhelm.models.catalogue import unknown_model

_CONFIG = "pkg://medhelm.conf"
_SEARCH_PATH = "hydra.searchpath="


def call_hydra(
    asked: argparse.Namespace,
    overrides: Sequence[str],
    names: Mapping[str, list[str]],
    task: Callable[[Any], None],
) -> None:
    """Let Hydra run the sweep, or show what is asked; its errors become UsageErrors."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="provider=.*is not\\s+available")
        try:
            if asked.shows:
                _show(asked, overrides, task)
            else:
                _sweep(asked, overrides, task)
        except HydraException as e:
            raise _translate(e, names) from None
        except YAMLError as e:
            raise UsageError(f"a config file is not YAML: {' '.join(str(e).split())}") from None
        except UnicodeDecodeError:
            raise UsageError(f"{_not_utf8(own_folders(asked))}: a config file is UTF-8") from None
        except (OmegaConfBaseException, UserWarning, ValueError) as e:
            raise UsageError(first_line(e)) from None
        except SystemExit as e:
            if e.code not in (0, None):
                raise


def _sweep(
    asked: argparse.Namespace, overrides: Sequence[str], task: Callable[[Any], None]
) -> None:
    """Run the sweep as Hydra's own main does, which would compose everything once more before it,
    to ask a config for the mode that is fixed here."""
    from hydra import version
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_automatic_config_search_path
    from hydra.core.global_hydra import GlobalHydra

    version.setbase("1.3")
    config_path = asked.config_path or _CONFIG
    for path in (p for folder in own_folders(asked) for p in folder.rglob("*.yaml")):
        refuse_many(path.read_bytes(), str(path))
    search_path = create_automatic_config_search_path(None, __name__, config_path)
    if asked.config_dir is not None:
        folder = Path(asked.config_dir).absolute()
        if not folder.is_dir():
            raise UsageError(f"--config-dir {asked.config_dir}: there is no such folder")
        search_path.prepend("command-line", f"file://{folder}")
    application = Hydra.create_main_hydra2(task_name="medhelm", config_search_path=search_path)
    try:
        application.multirun(
            config_name=asked.config_name or "config",
            task_function=task,
            overrides=[*overrides, "hydra.mode=MULTIRUN"],
        )
    finally:
        GlobalHydra.instance().clear()


def _show(asked: argparse.Namespace, overrides: Sequence[str], task: Callable[[Any], None]) -> None:
    """Let Hydra's main show the config, its own help or completions."""
    import hydra

    application = hydra.main(version_base="1.3", config_path=_CONFIG, config_name="config")
    with _hydra_arguments(asked, overrides):
        application(task)()


@contextmanager
def _hydra_arguments(asked: argparse.Namespace, overrides: Sequence[str]) -> Iterator[None]:
    """Hand Hydra its command line, options first as its parser wants them."""
    line = []
    for name in ("cfg", "info", "package", "config_dir", "config_name", "config_path"):
        if getattr(asked, name) is not None:
            line += [f"--{name.replace('_', '-')}", getattr(asked, name)]
    for name in ("resolve", "hydra_help", "shell_completion"):
        line += [f"--{name.replace('_', '-')}"] if getattr(asked, name) else []
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    # the name that completion is installed for has no subcommand
    sys.argv = ["medhelm" if asked.shell_completion else "medhelm run", *line, *overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints a traceback and exits by itself
    try:
        yield
    finally:
        sys.argv = before[0]
        if before[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before[1]


def own_folders(asked: argparse.Namespace) -> list[Path]:
    """Return the folders that --config-dir and hydra.searchpath name."""
    listed = [o.removeprefix(_SEARCH_PATH) for o in asked.overrides if o.startswith(_SEARCH_PATH)]
    places = [p.strip().strip("'\"") for o in listed for p in o.strip("[]").split(",")]
    folders = [Path(p.removeprefix("file://")) for p in places if not p.startswith("pkg:")]
    return folders + ([Path(asked.config_dir)] if asked.config_dir else [])


def _not_utf8(folders: Iterable[Path]) -> str:
    """Return the file that the decoder's error does not name."""
    for path in (p for folder in folders for p in sorted(folder.rglob("*.yaml"))):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return str(path)
    return "a file of the search path"


# Errors ------------------------------------------------------------------------------------


def _translate(e: Exception, names: Mapping[str, list[str]]) -> MedhelmError:
    """Return Hydra's error as one line with the nearest names."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

    if isinstance(e, MissingConfigException) and e.missing_cfg_file:
        missing = str(e.missing_cfg_file)
        group, _, name = missing.partition("/")
        if group == "hydra":
            group, _, name = missing.rpartition("/")
        if "/" not in missing:
            return UsageError(f"--config-name {missing}: there is no {missing}.yaml")
        known = names.get(group, [str(o) for o in e.options or ()])
        if group == "model":
            return unknown_model(name, known)
        if group == "benchmark" and name in ("all", "*"):
            return UsageError(f"there is no benchmark {name!r}: 'benchmark=glob(*)' takes all")
        hint = {
            "benchmark": "`medhelm list benchmarks` shows all.",
            "hydra/launcher": "Other launchers come with pip install '.[slurm]' or '.[ray]', from a "
            "checkout.",
        }.get(group, f"known: {', '.join(known)}." if known else "")
        return UnknownName(group, name, known, hint)
    if isinstance(e, OverrideParseException):
        return UsageError(explain_word(e.override, names) or unreadable(e.override))
    cause = e.__cause__
    if isinstance(cause, ConfigKeyError | ConfigAttributeError) and cause.full_key:
        return _unknown_key(cause.full_key)
    said = first_line(cause or e)
    if found := re.match(r"Could not override '([\w./-]+)'", said):
        return _unknown_key(found[1])
    if said.startswith(("Ambiguous value", "Sweep parameters")):
        given = said.partition("'")[2].rstrip("'")
        said = f"--cfg and --info show one job: give one value, not {given}"
    return UsageError(said)


def unreadable(argument: str) -> str:
    """Return what to say of an argument that is not an override, and how a shell must get it."""
    key, equals, value = argument.partition("=")
    for quote in "'\"":
        if value.count(quote) % 2 and not set("\\\"'") - {quote} & set(value):
            return (
                f"cannot read the argument {argument!r}: a quote {quote} in it is not closed, or "
                f"your shell has taken the other one; write {shlex.quote(f'{key}=VALUE')}"
            )
    if key and equals and value.isprintable() and not set("[]{}()\"'`$\\") & set(value):
        quoted = shlex.quote(f'{key}="{value}"')
        return f"cannot read the argument {argument!r}: its value needs quotes, write {quoted}"
    return (
        f"cannot read the argument {argument!r}: write key=value, with quotes around "
        "values that hold spaces, commas or letters beyond a-z"
    )


def _unknown_key(full_key: str) -> UsageError:
    said = f"unknown config key {full_key!r}{explain_key(full_key)}"
    return UsageError(f"{said} (`medhelm run --cfg job` shows all)")


def first_line(e: BaseException) -> str:
    """Return the first line of an error's text; its type's name where it has none."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[0] if lines else type(e).__name__
