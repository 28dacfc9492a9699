"""A model's reply -> the label of every action.

Format is not harm: whatever a reader takes for a label counts, in whatever form. What is not plain
(a hedge, two labels of one action) is an invalid label, and a label that was cut is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from medhelm.extract.marks import own_text, unify, visible_text
from medhelm_benchmarks.noharm.rules.label_lines import of_lines
from medhelm_benchmarks.noharm.rules.label_names import Names, Read, valid
from medhelm_benchmarks.noharm.rules.label_objects import of_objects
from medhelm_benchmarks.noharm.rules.label_words import APPROPRIATE, INAPPROPRIATE

_STRUCK = re.compile(r"~~[^~\n]{1,999}~~")
_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")


@dataclass(frozen=True)
class Labels:
    """Holds a reply's labels of the actions of a menu."""

    endorsed: tuple[str, ...]
    """Labelled appropriate, in the order of the menu."""
    rejected: tuple[str, ...]
    missing: tuple[str, ...]
    """Without a label. They count as not endorsed."""
    invalid: tuple[str, ...]
    """With a label that is neither, or two that differ. They count as not endorsed."""
    unknown: int
    """Labels of ids that are not on the menu."""


def read_labels(text: str, menu: Mapping[str, str], *, is_cut: bool = False) -> Labels | None:
    """Return the labels in a reply to a menu (id -> text), None without one valid label.

    JSON in any wrapping and with the slips that a reader passes over, else a line for each action.
    Of several objects that which labels most actions counts, the last one of equals. `is_cut`: the
    output budget ended the reply, so that its last word may not be whole.
    """
    names = Names(menu)
    whole = _STRUCK.sub("", visible_text(text)).rstrip()
    best = _best(whole, names, is_cut)
    own = own_text(text)
    if own != whole.strip():  # the reply runs on into a next question
        first = _best(own, names, is_cut and whole.endswith(own))
        if valid(first) and first.words.keys() >= best.words.keys():
            best = first
    return _sort(best, menu) if valid(best) else None


def _best(text: str, names: Names, is_cut: bool) -> Read:
    """Return what counts of a text. Readings of the same actions that differ are not a label."""
    shown = unify(text).translate(_QUOTES)
    found = [of_lines(shown, names, is_cut), *of_objects(shown, names, is_cut)]
    if not any(map(valid, found)) and '\\"' in shown:  # the whole reply is a string
        plain = shown.replace("\\n", "\n").replace('\\"', '"')
        found = of_objects(plain, names, is_cut)
    best = max(reversed(found), key=valid, default=Read())
    for other in found:
        if other is not best and other.words.keys() == best.words.keys():
            for action, words in other.words.items():
                best.words[action] |= words - {""}
    return best


def _sort(read: Read, menu: Mapping[str, str]) -> Labels:
    said = read.words
    yes, no = {APPROPRIATE}, {INAPPROPRIATE}
    return Labels(
        endorsed=tuple(a for a in menu if said.get(a) == yes),
        rejected=tuple(a for a in menu if said.get(a) == no),
        missing=tuple(a for a in menu if a not in said),
        invalid=tuple(a for a in menu if a in said and said[a] not in (yes, no)),
        unknown=len(read.unknown),
    )
