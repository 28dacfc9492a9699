"""Hydra's errors and mistyped arguments as one line each, with the nearest names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from medhelm.cli.other_tools import explain_key, explain_option, explain_word
from medhelm.errors import MedhelmError, UnknownName, UsageError
from medhelm.models.catalogue import unknown_model


def translate(e: Exception, names: Mapping[str, list[str]]) -> MedhelmError:
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
        hint = f"known: {', '.join(known)}." if known else ""
        if group == "benchmark":
            hint = "`medhelm list benchmarks` shows all."
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


def not_utf8(folders: Iterable[Path]) -> str:
    """Return the file that the decoder's error does not name."""
    for path in (p for folder in folders for p in sorted(folder.rglob("*.yaml"))):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            return str(path)
    return "a file of the search path"


def meant_option(argv: Sequence[str], known: Collection[str]) -> str:
    """Return what to type for the first option that only other tools have; empty without one."""
    for n, argument in enumerate(argv):
        option, _, value = argument.partition("=")
        if option.startswith("--") and option not in known:
            behind = [] if value else [a for a in argv[n + 1 :][:1] if not a.startswith("-")]
            if said := explain_option(option, "".join(behind) or value):
                return said
    return ""
