"""A model's reply -> the label of every action."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

APPROPRIATE, INAPPROPRIATE = "Appropriate", "Inappropriate"

_MOST_WASTED = 4_000_000
"""Characters read in vain after which a reply is given up: half a second."""
_LEAST_WASTED = _MOST_WASTED // 200
"""What a beginning of JSON that comes to nothing counts at least: the decoder's error reads all
that stands before it."""

_START = re.compile(r'\{\s*"|\[\s*\{')


@dataclass(frozen=True)
class Labels:
    """What a reply says of the actions of a menu."""

    endorsed: tuple[str, ...]
    """Labelled appropriate, in the order of the menu."""
    rejected: tuple[str, ...]
    missing: tuple[str, ...]
    """Without a label; they count as not endorsed."""
    invalid: tuple[str, ...]
    """With a label that is neither, or two that differ; they count as not endorsed."""
    unknown: int
    """Labels of ids that are not on the menu."""


def read_labels(text: str, actions: Sequence[str]) -> Labels | None:
    """Return the labels in a reply, None where it holds no JSON object of labels.

    `{"labels": {"a1": "Appropriate", ...}}`, the inner object alone, or a list of objects with
    `id` and `label`; a fenced block and text around the object are passed over. The last object
    that labels an action of the menu counts.
    """
    found = None
    for value in _objects(text):
        pairs = _pairs(value)
        if pairs and any(name in actions for name, _ in pairs):
            found = pairs
    return None if found is None else _sort(found, actions)


def _objects(text: str) -> list[Any]:
    """Return every JSON object or list that stands in a text, from left to right."""
    decoder, found, at, wasted = json.JSONDecoder(object_pairs_hook=_Pairs), [], 0, 0
    while wasted < _MOST_WASTED and (start := _START.search(text, at)) is not None:
        begin = start.start()
        try:
            value, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as e:
            end = e.pos if isinstance(e, json.JSONDecodeError) else len(text)
            at, wasted = begin + 1, wasted + max(_LEAST_WASTED, end - begin)
            continue
        found.append(value)
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs: a name that stands twice is not lost."""


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, _Pairs):
        inner = [v for name, v in value if name == "labels" and isinstance(v, list)]
        return [pair for v in inner for pair in _pairs(v)] if inner else [*value]
    if isinstance(value, list):
        rows = [row for row in value if isinstance(row, _Pairs)]
        return [
            (str(own), label)
            for row in rows
            for own in (v for name, v in row if name == "id")
            for label in (v for name, v in row if name == "label")
        ]
    return []


def _sort(pairs: list[tuple[str, Any]], actions: Sequence[str]) -> Labels:
    said: dict[str, set[str]] = {}
    for name, label in pairs:
        word = label.strip().lower() if isinstance(label, str) else ""
        said.setdefault(name, set()).add(word)
    yes, no = APPROPRIATE.lower(), INAPPROPRIATE.lower()
    return Labels(
        endorsed=tuple(a for a in actions if said.get(a) == {yes}),
        rejected=tuple(a for a in actions if said.get(a) == {no}),
        missing=tuple(a for a in actions if a not in said),
        invalid=tuple(a for a in actions if a in said and said[a] not in ({yes}, {no})),
        unknown=sum(name not in actions for name in said),
    )
