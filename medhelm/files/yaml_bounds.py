"""YAML files of users, plugins and of medhelm: data alone, and never more than fits into memory.

A file of a few lines whose aliases multiply would fill it, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from medhelm.errors import MedhelmError, UsageError

MOST = 100_000
"""Values in one file, each counted as often as aliases repeat it."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def packaged_files(folder: str, package: str = "medhelm.conf") -> dict[str, Traversable]:
    """Return the YAML files of a folder of a package by name, in the order of their names."""
    return dict(sorted(yaml_files(resources.files(package) / folder)))


def yaml_files(folder: Traversable | Path, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the YAML files of a folder and those below it, by their paths without `.yaml`."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from yaml_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield prefix + entry.name.removesuffix(".yaml"), entry


def read_yaml(
    text: str | bytes,
    place: str,
    raised: type[MedhelmError] = UsageError,
    loader: Any = _LOADER,
) -> Any:
    """Return the values of a YAML text; raises `raised` with place and line where it cannot be read."""
    refuse_many(text, place)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        mark = getattr(e, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise raised(f"{place}: not readable as YAML{line}") from None


def refuse_many(text: str | bytes, place: str) -> None:
    """Raise UsageError where aliases repeat values too often; what cannot be read is passed over."""
    amp, star = ("&", "*") if isinstance(text, str) else (b"&", b"*")
    if amp not in text or star not in text:  # type: ignore[operator]
        return
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return  # whoever reads it names what is wrong
    if _count(root, {}) > MOST:
        raise UsageError(
            f"{place}: its aliases (*name) repeat values more than {MOST:,} times; write them out"
        )


def _count(node: yaml.Node | None, known: dict[int, float]) -> float:
    """Return how many values a node has; one that contains itself has no end of them."""
    if id(node) not in known:
        known[id(node)] = float("inf")
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        flat = (c for child in children for c in (child if isinstance(child, tuple) else (child,)))
        known[id(node)] = 1 + sum(_count(child, known) for child in flat)
    return known[id(node)]
