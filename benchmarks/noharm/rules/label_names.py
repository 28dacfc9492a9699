"""The actions of a menu by the names that a reply gives them, and the labels that are read of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from medhelm_benchmarks.noharm.rules.label_words import MOST_COMMENT

_RANGE = re.compile(
    r"\s*(?P<first>[A-Za-z]\w{0,15})\s{0,3}(?:[-\u2013\u2014]|\.\.\.?|to\s|through\s)\s{0,3}"
    r"(?P<last>[A-Za-z]\w{0,15})[\s.]{0,9}"
)
_PLAIN_RANGE = re.compile(r"(?<=\w)\s{1,3}(?:to|through|[-\u2013\u2014])\s{1,3}(?=\w)")
_ASIDE = re.compile(r"\([^()\n]{0,200}\)")
_BETWEEN_IDS = re.compile(r"(?:[\s,;&*_`.]|\band\b)+")


@dataclass
class Read:
    """Words by action, and the names with a label that are not on the menu."""

    words: dict[str, set[str]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, pairs: Iterable[tuple[str, str]], names: Names) -> None:
        """Add the labels of names, under the actions that they mean."""
        for name, word in pairs:
            actions = names.find_all(name)
            for action in actions:
                self.words.setdefault(action, set()).add(word)
            if word and not actions:
                self.unknown.add(name)

    def join(self, other: Read) -> None:
        """Add what another part of the reply says."""
        for action, words in other.words.items():
            self.words.setdefault(action, set()).update(words)
        self.unknown |= other.unknown


def valid(read: Read) -> int:
    """Return how many actions have one label that can be read."""
    return sum(len(words) == 1 and "" not in words for words in read.words.values())


class Names:
    """The actions of a menu by what a reply may call them: the id, with its text, or the text."""

    def __init__(self, menu: Mapping[str, str]) -> None:
        self._menu = menu
        self._folded = _unique((name.casefold(), name) for name in menu)
        self._texts = _unique((text.strip().casefold(), name) for name, text in menu.items())

    def find(self, name: str) -> str | None:
        """Return the id of the action that is meant, or None."""
        if name in self._menu:
            return name
        plain = name.strip(" \t\n*_`<>[]()\"'.,;:").casefold()
        if plain in self._folded:
            return self._folded[plain]
        head = re.match(r"(\w{1,16})\s{0,3}[.):\-\u2013\u2014]", plain)
        if head is not None and head[1] in self._folded:
            return self._folded[head[1]]
        return self._texts.get(plain)

    def find_all(self, name: str) -> tuple[str, ...]:
        """Return the ids that a name, a range or a list means; none if one part is unclear."""
        if (several := self._range(name)) is not None:
            return several
        if (action := self.find(name)) is not None:
            return (action,)
        if len(name) > MOST_COMMENT * 4:
            return ()
        found: list[str] = []
        plain = _PLAIN_RANGE.sub("-", _ASIDE.sub(" ", name))
        for part in _BETWEEN_IDS.split(plain):
            if not part.strip("()[]\"'"):
                continue
            several = self._range(part)
            if several is None:
                action = self.find(part)
                several = () if action is None else (action,)
            if not several:
                return ()
            found += several
        return tuple(found)

    def _range(self, name: str) -> tuple[str, ...] | None:
        """Return the ids of a range in the order of the menu, None where it is not a range."""
        match = _RANGE.fullmatch(name)
        if match is None:
            return None
        first, last = self.find(match["first"]), self.find(match["last"])
        if first is None or last is None:
            return None
        order = list(self._menu)
        return tuple(order[order.index(first) : order.index(last) + 1])


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a mapping without the keys that have several values."""
    found: dict[str, str | None] = {}
    for key, value in pairs:
        found[key] = None if key in found else value
    return {key: value for key, value in found.items() if value is not None}
