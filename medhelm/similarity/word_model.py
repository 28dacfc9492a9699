"""A classifier that knows nothing but words: whether texts of a test separate right from wrong."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+")

Labelled = tuple[str, bool]
"""A text, and whether it is right."""


class WordModel:
    """Naive Bayes on word counts, with Laplace's rule, both classes equally likely beforehand.

    (McCallum and Nigam, A comparison of event models for naive Bayes text classification, 1998.)
    """

    def __init__(self) -> None:
        self._counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._totals = {True: 0, False: 0}
        self._vocabulary: Counter[str] = Counter()

    def learn(self, texts: Iterable[Labelled]) -> None:
        """Add texts to what the model knows."""
        for text, is_right in texts:
            words = _words(text)
            self._counts[is_right].update(words)
            self._totals[is_right] += len(words)
            self._vocabulary.update(words)

    def log_odds(self, texts: Iterable[str], without: Iterable[Labelled] = ()) -> list[float]:
        """Return how much likelier each text's words are in a right text than in a wrong one.

        Texts to leave out, which it has learned, count as never seen: a group of texts is scored by
        a model of the other groups. Words that the others do not have say nothing.
        """
        own: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for text, is_right in without:
            own[is_right].update(_words(text))
        both = own[True] + own[False]
        size = len(self._vocabulary) - sum(self._vocabulary[w] == n for w, n in both.items())
        whole = {c: self._totals[c] - own[c].total() + size for c in (True, False)}

        def weight(word: str) -> float:
            if self._vocabulary[word] <= both[word]:
                return 0.0
            seen = {c: self._counts[c][word] - own[c][word] + 1 for c in (True, False)}
            return math.log(seen[True] / whole[True]) - math.log(seen[False] / whole[False])

        return [math.fsum(map(weight, _words(text))) for text in texts]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
