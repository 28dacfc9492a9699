"""Check a reply before the next stage sees it. Each fault is worded so that it can be mended.

Minimum coverage of kinds and categories, wording that gives an answer away, actions that say the
same, and text of the guideline in what the second stage will see. In a fault, words of a model
appear between quotation marks and nowhere else: terminals show what is around them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from medhelm_benchmarks.noharm.generation import stages
from medhelm_benchmarks.noharm.generation.guideline import Guideline, words
from medhelm_benchmarks.noharm.rules.cases import circle, hidden_character
from medhelm_benchmarks.noharm.rules.wording import find_leaks, gist, near_duplicates

LEAST_WORDS, MOST_WORDS = 60, 450
"""Of a vignette."""
LEAST_BLIND, MOST_BLIND = 20, 40
LEAST_KINDS: dict[stages.Kind, int] = {
    "first_line": 2,
    "conditional": 2,
    "dose": 1,
    "interaction": 1,
    "contraindication": 1,
    "prerequisite": 1,
    "monitoring": 1,
}
"""Actions that the menu lacks: of what the guideline puts first it may hold most already."""
LEAST_TRAPS, MOST_HARDENED = 8, 30
"""Traps of all kinds together; actions of stage 3."""
LEAST_CATEGORIES = 6
MOST_OF_ONE = 0.6
"""Largest share of one category among the options of stage 2."""
LONGEST = 240
SHORTEST_QUOTE, LONGEST_QUOTE = 3, 40
"""Words of a quote that counts as a reference."""
MOST_FAULTS = 12
COPIED_RUN = 7
"""Words in a row that a patient may not share with the guideline."""
_BELOW = (
    r"below|under|less than|fewer than|lower than|at most|no more than|up to|not above|<=?|\u2264"
)
_ABOVE = r"above|over|more than|greater than|higher than|at least|exceed\w*|>=?|\u2265"
_LIMIT = re.compile(
    rf"(?:\b|(?=[<>\u2264\u2265]))(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE}))\s*"
    r"(?P<number>\d+(?:[.,]\d+)?)(?:\s*(?P<unit>%|[a-z\u00b5/]+))?",
    re.IGNORECASE,
)
"""A comparison with a number and the word behind it."""
_MENTION = re.compile(r"\bguidelines?\b", re.IGNORECASE)


def scene_faults(
    reply: stages.SceneReply, guideline: Guideline, asked: Collection[str] = ()
) -> list[str]:
    """Return what is wrong with a patient; `asked`: words of the setting, which it may hold."""
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
    faults += [f"it holds the character {c}" for c in filter(None, map(hidden_character, parts))]
    for part in parts:
        if guideline.shares_run(_without(part, asked), COPIED_RUN):
            faults.append(f"it copies {COPIED_RUN} or more words in a row from the guideline")
        limits = {} if part in said else _limits(_without(part, asked))  # a flag may be a limit
        faults += [
            f"{limits[limit]!r} is a limit of the guideline: give the patient's own value, without a "
            "comparison"
            for limit in limits.keys() & _limits(guideline.text).keys()
        ]
    name_words = " ".join(words(guideline.name))
    if any(f" {name_words} " in f" {' '.join(words(part))} " for part in parts):
        faults.append("it names the guideline")
    if any(_MENTION.search(part) for part in parts):
        faults.append("it speaks of a guideline")
    return list(dict.fromkeys(faults))[:MOST_FAULTS]


def _limits(text: str) -> dict[tuple[str, str, str], str]:
    """Return the limits of a text as direction, number and unit, with their words."""
    return {
        (
            "below" if found["below"] else "above",
            found["number"].replace(",", "."),
            (found["unit"] or "").lower().removesuffix("s"),
        ): found[0].strip()
        for found in _LIMIT.finditer(text)
    }


def _without(text: str, own: Collection[str]) -> str:
    for part in own:
        text = text.replace(part, "\n")
    return text


def option_faults(reply: stages.OptionsReply) -> list[str]:
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
    return [*faults, *_text_faults(reply.options)][:MOST_FAULTS]


def trap_faults(reply: stages.TrapsReply, there: tuple[str, ...]) -> list[str]:
    """Return what is wrong with the actions of stage 3; what the menu has already counts as nothing."""
    faults = []
    if len(reply.options) > MOST_HARDENED:
        faults.append(f"there are {len(reply.options)} actions; {MOST_HARDENED} are the most")
    again = repeated(reply, there)
    counts = Counter(o.kind for n, o in enumerate(reply.options, 1) if n not in again)
    faults += [
        f"there are {counts[kind]} actions of kind {kind}; {least} is the least"
        for kind, least in LEAST_KINDS.items()
        if counts[kind] < least
    ]
    traps = sum(n for kind, n in counts.items() if kind not in ("first_line", "conditional"))
    if traps < LEAST_TRAPS:
        faults.append(f"there are {traps} traps; {LEAST_TRAPS} are the least")
    if faults and again:
        shown = ", ".join(map(str, sorted(again)))
        faults.append(f"these actions say what is on the menu already: {shown}")
    return [*faults, *_text_faults(reply.options)][:MOST_FAULTS]


def repeated(reply: stages.TrapsReply, there: tuple[str, ...]) -> set[int]:
    """Return the places, from 1, of actions of stage 3 that say what the menu has already."""
    known = {gist(text) for text in there} - {()}
    return {n for n, option in enumerate(reply.options, 1) if gist(option.text) in known}


def _text_faults(options: Sequence[stages.OptionReply | stages.TrapReply]) -> list[str]:
    faults = []
    for place, option in enumerate(options, 1):
        text = option.text.strip()
        if not words(text):
            faults.append(f"action {place} is empty")
        if len(text) > LONGEST or "\n" in text:
            faults.append(f"action {place} is longer than one line of {LONGEST} characters")
        if found := hidden_character(text):
            faults.append(f"action {place} holds the character {found}")
        if phrases := find_leaks(text):
            faults.append(
                f"the words {phrases[0].phrase!r} in action {place} give away whether it is right"
            )
    pairs = near_duplicates({str(n): option.text for n, option in enumerate(options, 1)})
    return faults + [f"actions {a} and {b} say the same" for a, b in pairs]


def group_faults(reply: stages.GroupsReply, items: Collection[str]) -> list[str]:
    """Return what is wrong with the groups of a menu."""
    faults = []
    links = [(link.broad, *link.specific) for link in reply.broad]
    for name, groups in (("alternatives", reply.alternatives), ("broad", links)):
        for group in groups:
            if unknown := [i for i in group if i not in items]:
                faults.append(f"{name}: {unknown[0][:20]!r} is not on the menu")
            if len(set(group)) < max(2, len(group)):
                faults.append(f"{name}: {', '.join(group)[:60]!r} is no group of different actions")
    several = [i for i, n in Counter(i for g in reply.alternatives for i in g).items() if n > 1]
    several += [i for i, n in Counter(link.broad for link in reply.broad).items() if n > 1]
    faults += [f"action {i[:20]!r} is in two groups" for i in several]
    if held := circle((b.broad, b.specific) for b in reply.broad if b.broad not in b.specific):
        faults.append(f"broad: {', '.join(held)[:60]!r} hold each other in a circle")
    return faults[:MOST_FAULTS]


def rating_faults(reply: stages.RatingsReply, items: Collection[str]) -> list[str]:
    """Return what is wrong with a rater's sheet."""
    if faults := id_faults(items, [r.id for r in reply.ratings], "rating"):
        return faults
    wrong = [r.id for r in reply.ratings if not 1 <= r.rating <= 9]
    return [f"the rating of {', '.join(wrong[:10])} is not from 1 to 9"] if wrong else []


def quote_doubts(reply: stages.RatingsReply, guideline: Guideline) -> list[str]:
    """Return what is wrong with the quotes of a sheet, whose ratings can be used all the same."""
    doubts = []
    for line in reply.ratings:
        has_quote = bool(line.quote.strip())
        if line.covered and not has_quote:
            doubts.append(f"{line.id[:20]!r} is covered and has no quote: quote, or say false")
        elif has_quote and not line.covered:
            doubts.append(f"{line.id[:20]!r} is not covered and has a quote: leave it empty")
        elif has_quote and not is_founded(line.quote, guideline):
            doubts.append(
                f"the quote of {line.id[:20]!r} does not stand in the guideline, {SHORTEST_QUOTE} to "
                f"{LONGEST_QUOTE} words in a row: copy it exactly, or leave it empty with covered "
                "false"
            )
    return doubts[:MOST_FAULTS]


def id_faults(asked: Collection[str], given: Sequence[str], what: str) -> list[str]:
    """Return what is wrong with the ids of a reply that has a line for each that was asked."""
    if missing := [i for i in asked if i not in set(given)]:
        return [f"no {what} of {_some(missing)}"]
    if unknown := [i for i in given if i not in set(asked)]:
        return [f"a {what} of {_some(unknown)!r}, which is not on the list"]
    return [f"some ids have two {what}s"] if len(given) > len(asked) else []


def _some(names: Sequence[str]) -> str:
    shown = [name[:20] for name in names][:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def is_founded(quote: str, guideline: Guideline) -> bool:
    """Return whether a quote is of a length that says something and is in the guideline."""
    return SHORTEST_QUOTE <= len(words(quote)) <= LONGEST_QUOTE and guideline.contains(quote)
