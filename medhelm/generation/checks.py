"""What a reply must hold before the next stage sees it; each fault is said so that it can be mended.

Minimum coverage of kinds and categories, wording that gives an answer away, and text of the
guideline in what the second stage will see.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from medhelm.generation.guideline import Guideline, words
from medhelm.generation.replies import (
    BadReply,
    GroupsReply,
    OptionReply,
    OptionsReply,
    RatingsReply,
    SceneReply,
    TrapReply,
    TrapsReply,
    check_ids,
)
from medhelm.generation.views import Item, Kind, TrapView
from medhelm.noharm.leaks import leak_phrases

LEAST_WORDS, MOST_WORDS = 60, 450
"""Of a vignette."""
COPIED_RUN = 12
"""Words in a row that a vignette may not share with the guideline: they would pass the barrier."""
LEAST_BLIND, MOST_BLIND = 20, 40
LEAST_KINDS: dict[Kind, int] = {
    "first_line": 4,
    "conditional": 2,
    "dose": 1,
    "interaction": 1,
    "contraindication": 1,
    "prerequisite": 1,
    "monitoring": 1,
}
MOST_TRAPS = 30
LEAST_CATEGORIES = 6
MOST_OF_ONE = 0.6
"""Largest share of one category among the options of stage 2."""
LONGEST = 240
"""Characters of an action."""
MOST_FAULTS = 12
"""Faults that are said at once."""


def scene_faults(reply: SceneReply, guideline: Guideline) -> list[str]:
    """Return what is wrong with a patient."""
    faults = []
    n = len(words(reply.vignette))
    if not LEAST_WORDS <= n <= MOST_WORDS:
        faults.append(f"the vignette has {n} words, not {LEAST_WORDS} to {MOST_WORDS}")
    if not reply.question.strip():
        faults.append("the question is empty")
    for name, values, least in (
        ("knowns", reply.knowns, 3),
        ("unknowns", reply.unknowns, 2),
        ("red_flags", reply.red_flags, 2),
    ):
        if len(values) < least:
            faults.append(f"{name} has {len(values)} entries; {least} are the least")
    said = [f.text for f in reply.red_flags]
    parts = [reply.vignette, reply.question, *reply.knowns, *reply.unknowns, *said]
    if any(not part.strip() for part in parts):
        faults.append("an entry is empty")
    if any(guideline.shares_run(part, COPIED_RUN) for part in parts):
        faults.append(f"it copies {COPIED_RUN} or more words in a row from the guideline")
    name_words = " ".join(words(guideline.name))
    if any(name_words in " ".join(words(part)) for part in parts):
        faults.append("it names the guideline")
    return faults


def option_faults(reply: OptionsReply) -> list[str]:
    """Return what is wrong with the options of stage 2."""
    n = len(reply.options)
    faults = []
    if not LEAST_BLIND <= n <= MOST_BLIND:
        faults.append(f"there are {n} actions, not {LEAST_BLIND} to {MOST_BLIND}")
    counts = Counter(o.category for o in reply.options)
    if len(counts) < LEAST_CATEGORIES:
        faults.append(f"there are {len(counts)} categories; {LEAST_CATEGORIES} are the least")
    for category, count in counts.items():
        if count > MOST_OF_ONE * n:
            faults.append(f"{count} of {n} actions are {category}; {MOST_OF_ONE:.0%} is the most")
    return [*faults, *_text_faults(reply.options, ())][:MOST_FAULTS]


def trap_faults(reply: TrapsReply, view: TrapView) -> list[str]:
    """Return what is wrong with the actions of stage 3."""
    faults = []
    if len(reply.options) > MOST_TRAPS:
        faults.append(f"there are {len(reply.options)} actions; {MOST_TRAPS} are the most")
    counts = Counter(o.kind for o in reply.options)
    faults += [
        f"there are {counts[kind]} actions of kind {kind}; {least} is the least"
        for kind, least in LEAST_KINDS.items()
        if counts[kind] < least
    ]
    return [*faults, *_text_faults(reply.options, view.there)][:MOST_FAULTS]


def _text_faults(options: Sequence[OptionReply | TrapReply], there: Collection[str]) -> list[str]:
    faults, seen = [], {plain(text) for text in there}
    for place, option in enumerate(options, 1):
        text = option.text.strip()
        if not words(text):
            faults.append(f"action {place} is empty")
        if len(text) > LONGEST or "\n" in text:
            faults.append(f"action {place} is longer than one line of {LONGEST} characters")
        if phrases := leak_phrases(text):
            faults.append(
                f"the words {phrases[0]!r} in action {place} give away whether it is right"
            )
        if plain(text) in seen:
            faults.append(f"action {place} says what another one says")
        seen.add(plain(text))
    return faults


def plain(text: str) -> str:
    """Return what makes two actions the same: words, numbers and decimal points."""
    return " ".join(re.findall(r"\d+(?:[.,]\d+)*|\w+", text.lower()))


def group_faults(reply: GroupsReply, items: Sequence[Item]) -> list[str]:
    """Return what is wrong with the groups of a menu."""
    known, faults = {item.id for item in items}, []
    links = [(link.broad, *link.specific) for link in reply.broad]
    for name, groups in (("alternatives", reply.alternatives), ("broad", links)):
        for group in groups:
            if unknown := [i for i in group if i not in known]:
                faults.append(f"{name}: {unknown[0][:20]!r} is not on the menu")
            if len(set(group)) < max(2, len(group)):
                faults.append(f"{name}: {', '.join(group)[:60]!r} is no group of different actions")
    several = [i for i, n in Counter(i for g in reply.alternatives for i in g).items() if n > 1]
    several += [i for i, n in Counter(link.broad for link in reply.broad).items() if n > 1]
    faults += [f"action {i[:20]!r} is in two groups" for i in several]
    return faults[:MOST_FAULTS]


def rating_faults(reply: RatingsReply, items: Sequence[Item]) -> list[str]:
    """Return what is wrong with a rater's sheet."""
    try:
        check_ids([i.id for i in items], [r.id for r in reply.ratings], "rating")
    except BadReply as e:
        return [str(e)]
    wrong = [r.id for r in reply.ratings if not 1 <= r.rating <= 9]
    return [f"the rating of {', '.join(wrong[:10])} is not from 1 to 9"] if wrong else []
