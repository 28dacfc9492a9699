"""Recognise by its words that a text asks for something: for roles played by rule, and for fidelity."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"\w+")


@lru_cache(maxsize=1 << 14)
def words(text: str) -> frozenset[str]:
    """Return the words of a text without regard to case."""
    return frozenset(_WORD.findall(text.casefold()))


def is_asked(wordings: Iterable[str], text: str) -> bool:
    """Return whether a text has all words of one of the wordings."""
    found = words(text)
    return any(words(wording) <= found for wording in wordings if words(wording))


def folded(text: str) -> str:
    """Return a text's words in their order, so that spacing, case and punctuation do not count."""
    return " ".join(_WORD.findall(text.casefold()))
