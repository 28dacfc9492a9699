"""Reductions of repeats: one value of an instance, made of the values of all its repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from medhelm.errors import UnknownName, UsageError
from medhelm.stats.aggregation import Floats, Ints

REDUCTIONS = {
    "mean": "the mean of the repeats",
    "majority": "the score of the answer that most repeats gave; tied answers count their mean",
    "worst": "the worst repeat",
    "any": "the best repeat",
    "pass@K": "the chance that one of K repeats is right, 1 - C(n - c, K) / C(n, K)",
}
"""Name of a reduction -> the value of an instance."""
_PASS = re.compile(r"pass@([1-9]\d{0,8})")


@dataclass(frozen=True)
class Reduction:
    """A named rule, as `read_reduction` reads it."""

    name: str
    k: int = 0
    """Of pass@K; 0 for the others."""

    @property
    def is_mean(self) -> bool:
        """Return whether this is the default, which every metric has."""
        return self.name == "mean"

    @property
    def described(self) -> str:
        """Return the value of an instance in words."""
        return REDUCTIONS["pass@K"].replace("K", str(self.k)) if self.k else REDUCTIONS[self.name]

    def values(
        self, scores: Floats, answers: Ints, is_read: NDArray[np.bool_], higher_is_better: bool
    ) -> Floats:
        """Return the values (n,) of instances from the scores (n, repeats) of their repeats.

        `answers`: codes of what was read, and `is_read`: repeats that have a vote, for `majority`.
        """
        if self.name == "mean":
            return np.asarray(scores.mean(axis=1))
        if self.k:
            repeats = scores.shape[1]
            right = np.count_nonzero(scores == 1.0, axis=1)
            failing = [
                comb(repeats - c, self.k) / comb(repeats, self.k) for c in range(repeats + 1)
            ]
            return np.asarray(1.0 - np.array(failing)[right])
        if self.name == "majority":
            return _majority(scores, answers, is_read)
        lowest = (self.name == "worst") == higher_is_better
        return np.asarray(scores.min(axis=1) if lowest else scores.max(axis=1))


def _majority(scores: Floats, answers: Ints, is_read: NDArray[np.bool_]) -> Floats:
    """Return the mean score of the repeats whose answer has the most votes; of all where none has one.

    Tied answers have as many repeats each, so that they weigh the same.
    """
    votes = np.empty(scores.shape, dtype=np.int64)
    for repeat in range(scores.shape[1]):
        same = (answers == answers[:, repeat, None]) & is_read
        votes[:, repeat] = same.sum(axis=1) * is_read[:, repeat]
    wins = votes == votes.max(axis=1, keepdims=True)
    return np.asarray(np.where(wins, scores, 0.0).sum(axis=1) / wins.sum(axis=1))


def read_reduction(name: str) -> Reduction:
    """Return the reduction of a name (`pass@3` is one); raises UnknownName, UsageError."""
    if found := _PASS.fullmatch(name):
        return Reduction(name, int(found[1]))
    if name.startswith("pass@"):
        raise UsageError(f"reduce={name}: K of pass@K is a whole number from 1, like pass@3")
    if name not in REDUCTIONS:
        raise UnknownName("reduction", name, REDUCTIONS)
    return Reduction(name)
