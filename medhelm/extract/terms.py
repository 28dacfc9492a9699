"""The words of a text that say what it is about."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]", re.IGNORECASE)
_SHORT = 4
"""Letters below which a Latin word says little; figures always count."""


def terms_of(text: str) -> set[str]:
    """Return the words of a text, and pairs of neighbours of Chinese characters."""
    found = [word.casefold() for word in _WORD.findall(text)]
    pairs = {a + b for a, b in zip(found, found[1:], strict=False) if _is_han(a) and _is_han(b)}
    words = {w for w in found if not _is_han(w) and (len(w) >= _SHORT or w.isdigit())}
    return words | pairs


def _is_han(word: str) -> bool:
    return "\u4e00" <= word[0] <= "\u9fff"
