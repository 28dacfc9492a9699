"""Vary the patients of one guideline by a seed: the same number gives the same patient."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import product

import msgspec

_BLOCK = 100
"""Settings that are drawn at once."""
_FILE = resources.files("medhelm_benchmarks.noharm") / "texts" / "settings.json"
_PLACES, _COMPLICATIONS, _GAPS = msgspec.json.decode(
    _FILE.read_bytes(), type=dict[str, tuple[str, ...]]
).values()


@dataclass(frozen=True)
class Setting:
    """Separates this patient from the last. It is drawn, never chosen by a model."""

    place: str
    complication: str
    gap: str
    """Names the fact that is not known yet."""
    passage: str
    """Words of the guideline on whose subject the case turns, so that not all are on one."""


def most_settings(passages: Sequence[str]) -> int:
    """Return how many settings differ, which is the most cases of one guideline."""
    return len(_PLACES) * len(_COMPLICATIONS) * len(_GAPS) * len(passages)


def draw_setting(seed: int, name: str, number: int, passages: Sequence[str]) -> Setting:
    """Return the setting of case `number` (from 1) of a named series; no two numbers share one.

    Complications come once each before one comes again; so do places, gaps and the guideline's
    passages, in other orders, but where all four would be those of a lower number. `passages`
    differ; `number` is at most `most_settings`.
    """
    upto = min(-(-number // _BLOCK) * _BLOCK, most_settings(passages))
    return _draw(seed, name, tuple(passages), upto)[number - 1]


@lru_cache(maxsize=16)
def _draw(seed: int, name: str, passages: tuple[str, ...], count: int) -> tuple[Setting, ...]:
    """Return the settings of the first cases of a series."""
    lists = (_PLACES, _COMPLICATIONS, _GAPS, passages)
    orders = [
        _order(seed, name, what, len(values), count)
        for what, values in zip(("place", "complication", "gap", "passage"), lists, strict=True)
    ]
    seen: dict[tuple[int, ...], None] = {}  # in the order of the numbers
    for drawn in zip(*orders, strict=True):
        seen[next(own for own in _nearest(drawn, lists) if own not in seen)] = None
    return tuple(
        Setting(*(values[i] for values, i in zip(lists, own, strict=True))) for own in seen
    )


def _order(seed: int, name: str, what: str, size: int, count: int) -> list[int]:
    """Return the places of `count` values, each once before one comes again."""
    found: list[int] = []
    for turn in range(-(-count // size)):
        found += random.Random(f"{seed}\0{name}\0{what}\0{turn}").sample(range(size), size)  # noqa: S311
    return found[:count]


def _nearest(drawn: tuple[int, ...], lists: Sequence[Sequence[str]]) -> Iterator[tuple[int, ...]]:
    """Yield what was drawn, then with another gap, another place, passage, complication."""
    place, complication, gap, passage = drawn
    for c, p, at, g in product(*(range(len(lists[i])) for i in (1, 3, 0, 2))):
        yield (
            (place + at) % len(lists[0]),
            (complication + c) % len(lists[1]),
            (gap + g) % len(lists[2]),
            (passage + p) % len(lists[3]),
        )
