"""Actions that say the same in nearly the same words.

Two actions may differ by one figure and be right and wrong (5 mg and 2.5 mg), so that likeness of
letters is not a measure: prednisone is to prednisolone as a typing error is to its word. Texts are
read into words without spelling, synonym or filler, and into clinical facts. A pair is a
near-duplicate where its facts are the same, neither word replaces another (words may only be
added), and the shared words are most of all.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm_benchmarks.noharm.rules.wording import (
    DIRECTIONS,
    DRUG,
    FILLER,
    IGNORED,
    LIKE,
    NEGATIONS,
    ORDER,
    UNITS,
    same_words,
)

THRESHOLD = 0.8
"""Least share of words in common, a word of filler weighing a tenth."""

EMBEDDING_THRESHOLD = 0.92
"""Least cosine of two embeddings."""

_FILLER_WEIGHT = 0.1

Embed = Callable[[Sequence[str]], NDArray[np.float64]]


@dataclass(frozen=True)
class _Reading:
    """One text: its facts, which must be equal in a pair, and its other words."""

    facts: frozenset[str]
    """Figures with units, frequencies, negation, direction, side, drugs."""
    loose: dict[str, set[str]]
    """Route and urgency: two that are given must be equal."""
    words: tuple[str, ...]
    """Without filler, in order, each once."""
    filler: frozenset[str]
    is_ordered: bool
    """True if it names an order or a replacement."""
    plain: str


def near_duplicates(
    texts: Mapping[str, str], threshold: float = THRESHOLD
) -> list[tuple[str, str, float]]:
    """Return pairs of ids whose texts are near-duplicates by words, with their likeness (0 to 1).

    Ids are in natural order (a2 before a10), in a pair and from pair to pair.
    """
    read = {name: _read(texts[name]) for name in sorted(texts, key=natural)}
    found = []
    for (a, one), (b, other) in combinations(read.items(), 2):
        if one.facts == other.facts and (alike := _likeness(one, other)) >= threshold:
            found.append((a, b, round(alike, 4)))
    return found


def embedding_duplicates(
    texts: Mapping[str, str], embed: Embed, threshold: float = EMBEDDING_THRESHOLD
) -> list[tuple[str, str, float]]:
    """Return pairs of ids whose embeddings have a cosine of the threshold or more.

    Pairs whose clinical facts differ are left out, whatever their cosine: to an embedding,
    doses and negations are nearly the same.
    """
    names = sorted(texts, key=natural)
    if len(names) < 2:
        return []
    vectors = np.asarray(embed([texts[name] for name in names]), dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    cosines = unit @ unit.T
    read = [_read(texts[name]) for name in names]
    return [
        (names[i], names[j], round(float(cosines[i, j]), 4))
        for i, j in combinations(range(len(names)), 2)
        if cosines[i, j] >= threshold
        and read[i].facts == read[j].facts
        and _is_compatible(read[i], read[j])
    ]


def gist(text: str) -> Hashable:
    """Return what a text says, without spelling and order: equal for texts that say the same."""
    read = _read(text)
    return read.facts, frozenset(read.words), frozenset(read.filler)


def natural(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """Return a key that sorts numbers within names as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((0, int(p)) if p.isdecimal() else (1, p) for p in parts if p), name


def _likeness(one: _Reading, other: _Reading) -> float:
    """Return the weighted share of common words; 0 where a word replaces another."""
    if one.plain == other.plain:
        return 1.0
    a, b = set(one.words), set(other.words)
    if not (a <= b or b <= a) or not _is_compatible(one, other):
        return 0.0
    if (one.is_ordered or other.is_ordered) and not _same_order(one.words, other.words):
        return 0.0
    facts = len(one.facts - a - b)
    common = len(a & b) + facts + _FILLER_WEIGHT * len(one.filler & other.filler)
    total = len(a | b) + facts + _FILLER_WEIGHT * len(one.filler | other.filler)
    # "Arrange it" and "Do this" share nothing but filler: that says nothing
    return common / total if a & b or facts else 0.0


def _is_compatible(one: _Reading, other: _Reading) -> bool:
    return all(other.loose.get(key, value) == value for key, value in one.loose.items())


def _same_order(a: Sequence[str], b: Sequence[str]) -> bool:
    return [w for w in a if w in b] == [w for w in b if w in a]


def _read(text: str) -> _Reading:
    plain = unicodedata.normalize("NFKC", text).lower()
    plain = plain.translate(_SIGNS).rstrip(" .;!")
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    plain = " ".join(same_words(plain).split())
    facts = {_figure(m[1], m[2], m[3]) for m in _FIGURE.finditer(plain)}
    words = _WORD.findall(_FIGURE.sub(" ", plain))
    loose: dict[str, set[str]] = {}
    strong: dict[str, None] = {}
    filler: set[str] = set()
    for raw in words:
        word = _stem(raw)
        if raw in NEGATIONS:
            facts.add("not")
        elif (direction := _DIRECTIONS.get(word)) is not None:
            facts |= {direction} - {"do"}
        elif raw.startswith(("route_", "when_")):
            loose.setdefault(raw.partition("_")[0], set()).add(raw)
        elif raw.startswith(("freq_", "side_", "compare_")) or DRUG.fullmatch(raw):
            facts.add(word)
            strong.setdefault(word)
        elif word in _FILLER:
            filler.add(word)
        elif raw not in IGNORED:
            strong.setdefault(_LIKE.get(word, word))
    is_ordered = "switch" in facts or not ORDER.isdisjoint(words)
    return _Reading(frozenset(facts), loose, tuple(strong), frozenset(filler), is_ordered, plain)


_SIGNS = {ord(c): "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2212"} | {
    ord("μ"): "u",
    ord("<"): " below ",
    ord(">"): " above ",
    ord("≤"): " atmost ",
    ord("≥"): " atleast ",
}
_FIGURE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)(?:\s*-?\s*("
    + "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
    + r")(?![a-z])((?:/[a-z]+\d?)*))?(?!\w)"
)
_WORD = re.compile(r"[^\W_]+(?:_[^\W_]+)*")


def _figure(number: str, unit: str | None, per: str | None) -> str:
    """Return a figure in its basic unit: 1 g and 1000 mg are the same, 48 hours and 2 days."""
    factor, name = UNITS[unit] if unit else (1.0, "")
    value = float(number) * factor
    return f"{value:.10g}{name}{per or ''}" if math.isfinite(value) else number


_SPELLING = (("ae", "e"), ("oe", "e"), ("our", "or"), ("yse", "yze"), ("ph", "f"))


def _stem(word: str) -> str:
    """Return a word without plural, ending and British spelling."""
    if not word.isalpha() or len(word) < 4:
        return word
    for british, american in _SPELLING:
        word = word.replace(british, american)
    word = re.sub(r"is(e|ed|es|ing|ation)$", r"iz\1", word)
    word = re.sub(r"olog(?:y|ies|ists?|ical)$", "olog", word)
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            word = word[: -len(ending)]
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


_DIRECTIONS = {_stem(word): name for name, words in DIRECTIONS.items() for word in words.split()}
_LIKE = {_stem(word): name for name, words in LIKE.items() for word in words.split()}
_FILLER = frozenset(_stem(word) for word in FILLER)
