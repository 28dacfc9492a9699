"""Settings that people type from memory of other tools, and what they are called here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medhelm.config import BenchmarkChoice, Job
from medhelm.errors import closest
from medhelm.schema.type_errors import field_names

TOP = ("benchmark", "suite", "plugins", "experiment", "examples", "form")
"""Keys of the command line beside those of a job."""

_WORDS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
_WITHOUT, _EXAMPLE = _WORDS["elsewhere"], _WORDS["examples"]
_NAMES = {word: key for key, words in _WORDS["synonyms"].items() for word in words.split()}


def keys_below(parent: str) -> list[str]:
    """Return the keys that the config has at a path."""
    if parent == "benchmark":
        return [*field_names(BenchmarkChoice, ""), "instruction"]
    if parent:
        return field_names(Job, parent)
    return [*(key for key in field_names(Job, "") if key != "benchmarks"), *TOP]


def meant_key(full_key: str) -> str:
    """Return the key that an unknown one probably means; empty where none is near."""
    parent, _, key = full_key.lower().replace("-", "_").rpartition(".")
    paths = [*_paths()]
    if same := [path for path in paths if path.rpartition(".")[2] == key]:
        return min(same, key=lambda path: (not path.startswith(parent), path.count(".")))
    if key in _NAMES:
        return _NAMES[key]
    above = f"{parent}." if parent else ""
    if near := closest(key, keys_below(parent), 1):
        return above + near[0]
    near = closest(key, [path.rpartition(".")[2] for path in paths], 1)
    return next((p for p in paths if near and p.rpartition(".")[2] == near[0]), "")


def explain_key(full_key: str) -> str:
    """Return what an error says of an unknown key beyond its name."""
    if why := _WITHOUT.get(full_key.replace("-", "_").rpartition(".")[2]):
        return f": {why}"
    meant = meant_key(full_key)
    if meant == full_key:  # it has a name, and nothing above it has a value
        above = full_key.rpartition(".")[0]
        inner = ", ".join(f"{key}: ..." for key in keys_below(above))
        return f": {above} has no value yet; give it whole, '{above}={{{inner}}}'"
    example = _EXAMPLE.get(meant, "")
    did = f"{meant}={example}" if example else meant
    return f"; did you mean {did!r}?" if meant else ""


def explain_option(option: str, value: str) -> str:
    """Return what to type in place of an option that `run` does not have; empty where unknown."""
    key = option.lstrip("-").replace("-", "_")
    if why := _WITHOUT.get(key):
        return f"there is no option {option}: {why}"
    meant = key if key in keys_below("") else meant_key(key)
    if not meant or len(key) < 2:
        return ""
    value = f"[{value}]" if meant == "plugins" and value else value
    written = f"{meant}={value or _EXAMPLE.get(meant, '...')}"
    return f"there is no option {option}: settings are KEY=VALUE, write {written}"


def explain_word(word: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return what to type in place of a word without `=`; empty where it is not a name."""
    groups = [group for group, known in names.items() if word in known]
    if groups:
        return f"{word!r} needs its key: write {groups[0]}={word}"
    if word in keys_below(""):
        return f"{word!r} needs a value: write {word}={_EXAMPLE.get(word, '...')}, without a space"
    return ""


def _paths(parent: str = "") -> Iterator[str]:
    above = f"{parent}." if parent else ""
    for key in keys_below(parent):
        path = above + key
        yield path
        if path not in TOP or path == "benchmark":
            yield from _paths(path)
