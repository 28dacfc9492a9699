"""`medhelm run`: a Hydra application whose jobs all run in this process, or in those of `workers`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.cli.completion import complete as complete
from medhelm.cli.completion import print_completions
from medhelm.cli.compose import compose, plugin_files, with_own_models
from medhelm.cli.jobs import command, to_job
from medhelm.cli.options import open_registry
from medhelm.errors import UsageError
from medhelm.plugins.registry import Registry

_COMPLETION = {"-sc", "--shell-completion"}
_NAME_INSIDE = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG = 20
"""Names of variables that are longer and mix a-z with digits look like keys."""


def run(argv: list[str]) -> int:
    """Return the exit code of one sweep; without arguments, of the offline demo."""
    is_demo = not argv
    if is_demo:
        from medhelm.cli import demo

        print(demo.TITLE)
    if _COMPLETION & set(argv):
        return print_completions([a for a in argv if a not in _COMPLETION])
    registry = load_plugins(argv)
    if is_demo:
        argv = demo.options(registry)
    if {"-h", "--help"} & set(argv):
        from medhelm.cli.run_help import print_help

        print_help(registry)
    else:
        own = with_own_models(registry, argv)
        if configs := compose(argv, registry):
            from medhelm.cli.sweep import run_jobs

            jobs = [to_job(config) for config in configs]
            if any(job.workers for job in jobs):
                from medhelm.cli.workers import run_with_workers

                run_with_workers(jobs, own, argv)
            else:
                run_jobs(jobs, own, command(argv), is_demo=is_demo)
        if is_demo:
            demo.show_site(registry)
    return 0


def load_plugins(argv: Sequence[str]) -> Registry:
    """Return the registry that a command line asks for. A key on it is refused."""
    _refuse_keys(argv)
    return open_registry(plugin_files(argv))


def _refuse_keys(argv: Sequence[str]) -> None:
    """Refuse anything that looks like a key on the command line, without repeating it."""
    from medhelm.models.access import HEADER_FORM, header_variable, key_parameter
    from medhelm.models.hosts import KEY_NAME

    for argument in argv:
        name, _, value = argument.partition("=")
        name = name.lstrip("+~")
        if ".headers" in name:
            held = [v.rpartition(":")[2].strip(" '\"") for v in value.strip("{} ").split(",")]
            if value.strip("{} ") and not all(map(header_variable, held)):
                raise UsageError(f"{name} {HEADER_FORM}")
            continue
        if name.endswith("api_key_env"):
            if value.strip("'\"") not in ("null", "") and not _is_env_name(value.strip("'\"")):
                raise UsageError(
                    f"{name} takes the name of an environment variable, not a key; "
                    f"put the key into the environment and give {name}=ITS_NAME"
                )
        elif key_parameter(value) or any(
            map(KEY_NAME.search, [name, *_NAME_INSIDE.findall(value)])
        ):
            raise UsageError(
                f"{name}=... is refused: keys are read from the environment only; "
                "export the key and name its variable with model.api_key_env=NAME"
            )


def _is_env_name(value: str) -> bool:
    has_both = re.search("[a-z]", value) and re.search("[0-9]", value)
    return _ENV_NAME.fullmatch(value) is not None and not (len(value) > _LONG and has_both)
