"""Arguments `key=value` as a user means them -> as Hydra reads them, with nothing dropped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from medhelm.errors import UsageError

_ONE_OF = ("model", "benchmark", "suite", "jury")
"""Groups of which a job has one option: of a list Hydra would merge all and keep the last."""
_OPEN = ("cast.", "protocol.", "grader.", "reader.", "engine.", "model.headers")
"""Keys below which there may be any, which Hydra's config cannot list."""
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_ESCAPE = re.compile(r"\\(\\(?=[ntr])|[ntr])")
_MEANT = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_PLAIN = re.compile(r"[\w./:@+-]+")
_LITERAL = re.compile(r"\\[ntr]")


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
