"""Checks of cases by rule: what leaks to the clinician, items that repeat or are not in the source, lengths.

A flag is for a person to look at. It names places and shares and holds no text of a packet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from medhelm_benchmarks.encounters.data.layout import PacketRole
from medhelm_benchmarks.encounters.matches import copied_share, folded
from medhelm_benchmarks.encounters.packets import RubricItem

FlagKind = Literal[
    "leak_by_overlap",
    "leak_by_judge",
    "line_not_in_source",
    "item_not_in_source",
    "duplicate_item",
    "item_too_short",
    "item_too_long",
    "packet_too_short",
    "packet_too_long",
    "rubric_too_short",
    "rubric_too_long",
    "source_changed",
    "file_not_read",
]

LEAKED = 0.6
"""The share of an item's words in a row that is in the clinician's packet, from which it leaks."""
LEAST_WORDS: Mapping[PacketRole, int] = {
    "clinician": 15,
    "patient": 20,
    "controller": 10,
    "evaluator": 10,
}
MOST_WORDS: Mapping[PacketRole, int] = {
    "clinician": 1_500,
    "patient": 12_000,
    "controller": 20_000,
    "evaluator": 20_000,
}
ITEM_WORDS = (2, 150)
RUBRIC_ITEMS = (3, 120)


class Flag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in a scenario that a person should look at."""

    scenario: str
    kind: FlagKind
    where: str = ""
    """A role, an item by its number, a document with its line."""
    measure: float | None = None
    """Words, items, or the share that overlaps."""


def leak_flags(scenario: str, clinician: str, items: Sequence[RubricItem]) -> Iterator[Flag]:
    """Yield the items whose words are in the clinician's packet."""
    for number, item in enumerate(items, 1):
        share = copied_share(item.text, clinician)
        if share >= LEAKED:
            yield Flag(
                scenario=scenario,
                kind="leak_by_overlap",
                where=f"item {number}",
                measure=round(share, 3),
            )


def item_flags(scenario: str, items: Sequence[RubricItem], evaluator: str) -> Iterator[Flag]:
    """Yield items that repeat, are not in the evaluator's packet word by word, or are short or long."""
    source = f" {folded(evaluator)} "
    first: dict[str, int] = {}
    least, most = ITEM_WORDS

    def flag(kind: FlagKind, number: int, measure: float) -> Flag:
        return Flag(scenario=scenario, kind=kind, where=f"item {number}", measure=measure)

    for number, item in enumerate(items, 1):
        text = folded(item.text)
        count = len(text.split())
        if f" {text} " not in source:
            yield flag("item_not_in_source", number, round(copied_share(item.text, evaluator), 3))
        if (other := first.setdefault(text, number)) != number:
            yield flag("duplicate_item", number, other)
        if count < least:
            yield flag("item_too_short", number, count)
        if count > most:
            yield flag("item_too_long", number, count)
    if items and len(items) < RUBRIC_ITEMS[0]:
        yield Flag(scenario=scenario, kind="rubric_too_short", measure=len(items))
    if len(items) > RUBRIC_ITEMS[1]:
        yield Flag(scenario=scenario, kind="rubric_too_long", measure=len(items))


def length_flags(scenario: str, texts: Mapping[PacketRole, str]) -> Iterator[Flag]:
    """Yield packets that are too short to play from, or longer than a packet is."""
    for role, text in texts.items():
        count = len(text.split())
        if count < LEAST_WORDS[role]:
            yield Flag(scenario=scenario, kind="packet_too_short", where=role, measure=count)
        if count > MOST_WORDS[role]:
            yield Flag(scenario=scenario, kind="packet_too_long", where=role, measure=count)
