"""Ids of instances whose rows have none, and what to say of rows that repeat each other."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter

from medhelm.schema.data import Instance


def text_key(text: str) -> str:
    """Return 16 hex digits that name a text whatever its case and blanks: the cluster of its repeats."""
    words = " ".join(text.split()).casefold()
    return hashlib.sha256(words.encode()).hexdigest()[:16]


class SmallHashSet:
    """A set of 64-bit hashes in an open-addressing table: 10 to 20 bytes a member."""

    def __init__(self) -> None:
        self._table = array("Q", [0]) * 1024
        self._used = 0

    def add(self, key: int) -> bool:
        """Add a hash; return False if it was there."""
        key = key or 1  # 0 marks a free place
        if self._used * 5 > len(self._table) * 4:
            self._grow()
        place = self._place(key)
        if self._table[place] == key:
            return False
        self._table[place] = key
        self._used += 1
        return True

    def _place(self, key: int) -> int:
        table, mask = self._table, len(self._table) - 1
        place = key & mask
        while table[place] not in (0, key):
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        old = self._table
        self._table = array("Q", [0]) * (2 * len(old))
        for key in old:
            if key:
                self._table[self._place(key)] = key


class ContentIds:
    """Names instances by their content; remembers only hashes and what repeated."""

    def __init__(self) -> None:
        self._seen = SmallHashSet()
        self._copies: dict[str, int] = {}

    def name(self, instance: Instance) -> tuple[str, int]:
        """Return the name of a content, and the how-manyth copy of it this is (0: the first)."""
        digest = hashlib.sha256()
        parts = (instance.context, instance.question, *instance.choices)
        for part in (str(len(instance.choices)), *parts, *instance.references):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
        name = digest.hexdigest()[:16]
        if self._seen.add(int(name, 16)):
            return name, 0
        self._copies[name] = self._copies.get(name, 0) + 1
        return name, self._copies[name]


def hash64(data: bytes) -> int:
    """Return a 64-bit hash."""
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def copies_note(copies: Counter[str]) -> str:
    """Return what to say of rows without ids that repeat others; empty where none does."""
    if not (count := copies.total()):
        return ""
    return (
        f"{count:,} row(s) repeat the content of {len(copies):,} other(s) and have no ids of their "
        "own; each counts as an instance that is independent of the others, so intervals are too "
        "narrow: remove them, or give the rows ids or a common cluster"
    )
