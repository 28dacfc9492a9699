"""Checks of cases by rule: what leaks to the clinician, items that repeat or are not in the source, lengths.

A flag is for a person to look at. It names places and shares and holds no text of a packet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from medhelm_benchmarks.encounters.data.layout import PacketRole
from medhelm_benchmarks.encounters.matches import copied_share, folded, has_run
from medhelm_benchmarks.encounters.packets import RubricItem

LEAKED = 0.6
"""The share of an item's words in a row that is in the clinician's packet, from which it leaks."""
PACKET_WORDS: Mapping[PacketRole, tuple[int, int]] = {
    "clinician": (15, 1_500),
    "patient": (20, 12_000),
    "controller": (10, 20_000),
    "evaluator": (10, 20_000),
}
"""The fewest words that can be played from, and the most that a packet has."""
ITEM_WORDS = (2, 150)
RUBRIC_ITEMS = (3, 120)


class Flag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in a scenario that a person should look at."""

    scenario: str
    kind: str
    """`docs/encounters.md` lists them."""
    where: str = ""
    """A role, an item by its number, a document with its line."""
    measure: float | None = None
    """Words, items, or the share that overlaps."""


def scenario_flags(
    scenario: str, texts: Mapping[PacketRole, str], items: Sequence[RubricItem]
) -> Iterator[Flag]:
    """Yield what is flagged in a scenario: lengths, items that leak, repeat or are not in the source."""

    def flag(kind: str, where: str = "", measure: float | None = None) -> Flag:
        return Flag(scenario=scenario, kind=kind, where=where, measure=measure)

    for role, text in texts.items():
        yield from _outside(flag, "packet", len(text.split()), PACKET_WORDS[role], role)
    if items:
        yield from _outside(flag, "rubric", len(items), RUBRIC_ITEMS)
    first: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        where, words = f"item {number}", folded(item.text)
        if (share := copied_share(item.text, texts["clinician"])) >= LEAKED:
            yield flag("leak_by_overlap", where, round(share, 3))
        if not has_run(texts["evaluator"], item.text):
            share = copied_share(item.text, texts["evaluator"])
            yield flag("item_not_in_source", where, round(share, 3))
        if (other := first.setdefault(words, number)) != number:
            yield flag("duplicate_item", where, other)
        yield from _outside(flag, "item", len(words.split()), ITEM_WORDS, where)


def _outside(
    flag: Callable[[str, str, float], Flag],
    what: str,
    count: int,
    limits: tuple[int, int],
    where: str = "",
) -> Iterator[Flag]:
    """Yield a flag for what is shorter or longer than its limits."""
    least, most = limits
    if not least <= count <= most:
        yield flag(f"{what}_too_{'short' if count < least else 'long'}", where, count)
