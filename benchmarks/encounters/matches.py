"""Compare texts by their words: what a text asks for, and what it copies from another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_WORD = re.compile(r"\w+")
NGRAM = 5
"""Words in a row that count as copied."""
_SAME = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)


@lru_cache(maxsize=1024)
def normal(text: str) -> str:
    """Return a text as it is compared: NFKC, straight quotation marks and dashes, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text.translate(_SAME)).split())


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


def has_run(text: str, run: str) -> bool:
    """Return whether a text holds the words of another one in a row; False where it has none."""
    return bool(folded(run)) and f" {folded(run)} " in f" {folded(text)} "


def copied_share(text: str, other: str) -> float:
    """Return the share of a text's runs of `NGRAM` words that another text holds.

    A shorter text of at least three words counts whole or not at all, a still shorter one never: one
    word ("aspirin") is not a sign of a leak.
    """
    parts, within = folded(text).split(), f" {folded(other)} "
    if len(parts) < 3:
        return 0.0
    size = min(NGRAM, len(parts))
    runs = [" ".join(parts[i : i + size]) for i in range(len(parts) - size + 1)]
    return sum(f" {run} " in within for run in runs) / len(runs)
