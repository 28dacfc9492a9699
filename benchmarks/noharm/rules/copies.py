"""Cases that repeat each other: in the words of their vignettes, or in the actions of their menus.

A case that is there twice counts twice in every mean, and a model that learns from examples has
seen one of them. Vignettes are compared by runs of three words, menus by what their actions say
(`similar`): nothing here finds one story in other words.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

import msgspec
import numpy as np

from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.wording import gist

MOST_ALIKE = 0.5
"""Largest share of runs of words, or of actions, that two cases may have in common."""
_RUN = 3
_WORD = re.compile(r"[^\W_]+")


class Copy(msgspec.Struct, frozen=True):
    """Two cases that repeat each other, by their places."""

    one: int
    other: int
    what: str
    """`case` (all texts are equal), `vignette` or `menu`."""
    alike: float


def find_copies(cases: Sequence[Case]) -> list[Copy]:
    """Return the pairs of cases that are identical, or nearly so in vignette or menu."""
    whole = [_whole(case) for case in cases]
    found = [
        Copy(one, other, "case" if whole[one] == whole[other] else what, alike)
        for what, sets in (
            ("vignette", [_runs(case.vignette) for case in cases]),
            ("menu", [frozenset(gist(a.text) for a in case.actions) for case in cases]),
        )
        for one, other, alike in _alike(sets)
    ]
    identical = {(c.one, c.other) for c in found if c.what == "case"}
    kept = [c for c in found if c.what != "case" and (c.one, c.other) not in identical]
    kept += [Copy(one, other, "case", 1.0) for one, other in identical]
    return sorted(kept, key=lambda c: (c.one, c.other, c.what))


def likeness(one: str, other: str) -> float:
    """Return the share of runs of three words that two texts have in common."""
    a, b = _runs(one), _runs(other)
    return len(a & b) / len(a | b)


def _whole(case: Case) -> Hashable:
    texts = (case.vignette, case.question, *sorted(action.text for action in case.actions))
    return tuple(" ".join(_WORD.findall(text.casefold())) for text in texts)


def _runs(text: str) -> frozenset[Hashable]:
    words = _WORD.findall(text.casefold())
    return frozenset(tuple(words[i : i + _RUN]) for i in range(max(1, len(words) - _RUN + 1)))


def _alike(sets: Sequence[frozenset[Hashable]]) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs that share more than half of what both have (Jaccard), and how much."""
    from scipy.sparse import csr_array  # slow to import

    places = {member: n for n, member in enumerate({m for own in sets for m in own})}
    columns = [places[member] for own in sets for member in own]
    ends = np.cumsum([0, *map(len, sets)])
    shape = (len(sets), len(places))
    has = csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), shape=shape)
    shared = (has @ has.T).tocoo()
    for one, other, n in zip(shared.row, shared.col, shared.data, strict=True):
        alike = int(n) / (len(sets[one]) + len(sets[other]) - int(n))
        if one < other and alike > MOST_ALIKE:
            yield int(one), int(other), alike
