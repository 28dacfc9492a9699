"""YAML whose aliases multiply: a file of a few lines that would fill the memory is refused."""

from __future__ import annotations

from typing import Any

import yaml

from medhelm.errors import UsageError

MOST = 100_000
"""Values in one file, each counted as often as aliases repeat it."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
