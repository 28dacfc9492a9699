"""Arguments `key=value` as a user means them; mistyped ones, and Hydra's errors, as one line with the nearest names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.cli.other_tools import explain_key, explain_option, explain_word
from medhelm.errors import MedhelmError, UnknownName, UsageError
from medhelm.models.access import HEADER_FORM, header_variable, key_parameter
from medhelm.models.catalogue import unknown_model
from medhelm.models.hosts import KEY_NAME

_ONE_OF = ("model", "benchmark", "suite", "jury")
"""Groups of which a job has one option: of a list Hydra would merge all and keep the last."""
_OPEN = ("cast.", "protocol.", "grader.", "reader.", "engine.", "model.headers")
"""Keys below which there may be any, which Hydra's config cannot list."""
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_ESCAPE = re.compile(r"\\(\\(?=[ntr])|[ntr])")
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_PLAIN = re.compile(r"[\w./:@+-]+")
_LITERAL = re.compile(r"\\[ntr]")
_NAME_INSIDE = re.compile(r"[{,]\s*['\"]?([\w.-]+)['\"]?\s*:")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONG = 20
"""Names of variables that are longer and mix a-z with digits look like keys."""


def refuse_keys(argv: Sequence[str]) -> None:
    """Refuse anything that looks like a key on the command line, without repeating it."""
    for argument in argv:
        name, _, value = argument.partition("=")
        name = name.lstrip("+~")
        if ".headers" in name:
            values = [v.rpartition(":")[2].strip(" '\"") for v in value.strip("{} ").split(",")]
            if value.strip("{} ") and not all(map(header_variable, values)):
                raise UsageError(f"{name} {HEADER_FORM}")
            continue
        if name.endswith("api_key_env"):
            held = value.strip("'\"")
            is_like_key = (
                len(held) > _LONG and re.search("[a-z]", held) and re.search("[0-9]", held)
            )
            if held not in ("null", "") and (is_like_key or not _ENV_NAME.fullmatch(held)):
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


def as_meant(override: str) -> str:
    """Return an override with its line breaks and sweeps as Hydra reads them; raises UsageError."""
    key, equals, value = override.partition("=")
    if not equals:
        return override
    key = "reader.name" if key == "reader" else key
    if key.startswith(_OPEN):
        key = f"++{key}.name" if key.count(".") == 1 and key.startswith("cast.") else f"++{key}"
    if key.endswith("sampling.stop") and _LITERAL.search(_QUOTED.sub(_single_only, value)):
        raise UsageError(
            f"{key}: a backslash and a letter are not a line break here; in double quotes they are: "
            f"'{key}=[\"\\n\\n\"]'"
        )
    if key.endswith(".serve") and value[:1] not in ("'", '"'):  # a command, as a shell takes it
        quote = "'" if set(value) & set('"\\') else '"'
        value = quote + value.replace(quote, f"\\{quote}") + quote
    value = _QUOTED.sub(_unescaped, value)
    return f"{key}={_sweep(key, value) if key in _ONE_OF else value}"


def _single_only(quoted: re.Match[str]) -> str:
    return "" if quoted[0].startswith('"') else quoted[0]


def _unescaped(quoted: re.Match[str]) -> str:
    if quoted[0].startswith("'"):
        return quoted[0]
    return _ESCAPE.sub(lambda found: _MEANT[found[1]], quoted[0])


def _sweep(key: str, value: str) -> str:
    """Return the value of a group as a sweep where it is a list."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import ChoiceSweep
    from hydra.errors import HydraException

    if "[" not in value:
        return value
    try:
        parsed = OverridesParser.create().parse_override(f"{key}={value}").value()
    except HydraException:  # said where all overrides are read
        return value
    if isinstance(parsed, list) and parsed and not any(isinstance(p, list) for p in parsed):
        if all(isinstance(name, str) for name in parsed):
            return ",".join(map(_quoted, parsed))
        return value.strip()[1:-1].strip()
    if isinstance(parsed, list):
        raise UsageError(f"{key}={value} names no {key}: write {key}=NAME or {key}=NAME,NAME")
    if isinstance(parsed, ChoiceSweep) and any(isinstance(p, list) for p in parsed.list):
        raise UsageError(f"{key}={value}: a job has one {key}; write {key}={_flat(parsed.list)}")
    return value


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


def refuse_lists(folders: Iterable[Path]) -> None:
    """Refuse a file of the user's whose defaults list chooses several options of one group."""
    import yaml

    for path in (p for folder in folders for p in sorted(folder.rglob("*.yaml"))):
        try:
            text = path.read_text(encoding="utf-8")
            values = yaml.safe_load(text) if "defaults" in text else None
        except (OSError, UnicodeDecodeError, yaml.YAMLError):  # said where Hydra reads it
            continue
        chosen = values.get("defaults") if isinstance(values, dict) else None
        for key, several in (pair for one in chosen or () for pair in _pairs(one)):
            group = key.removeprefix("override ").strip().lstrip("/")
            if group in _ONE_OF and isinstance(several, list):
                raise UsageError(
                    f"{path} chooses {key}: [{', '.join(map(str, several))}], but a job has one "
                    f"{group}; leave it out and write {group}={','.join(map(str, several))} on "
                    "the command line"
                )


def _pairs(default: object) -> Iterable[tuple[str, object]]:
    if not isinstance(default, dict):
        return ()
    return ((str(key), value) for key, value in default.items())


def _flat(values: Sequence[Any]) -> str:
    names = [n for value in values for n in (value if isinstance(value, list) else [value])]
    return ",".join(map(str, names))


def translate(e: Exception, names: Mapping[str, list[str]]) -> MedhelmError:
    """Return Hydra's error as one line with the nearest names."""
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import ConfigAttributeError, ConfigKeyError

    if isinstance(e, MissingConfigException) and e.missing_cfg_file:
        missing = str(e.missing_cfg_file)
        group, _, name = missing.partition("/")
        if group == "hydra":
            group, _, name = missing.rpartition("/")
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
