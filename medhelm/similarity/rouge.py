"""ROUGE as the rouge-score package gives it, each text read and each pair compared once.

ROUGE-1 and -2 are the package's own. For ROUGE-L it fills a table of n x m cells in Python (4 s
for two notes of 1,500 words). The same length of the longest common subsequence comes from
rapidfuzz at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

KINDS = ("rouge1", "rouge2", "rougeL")


@lru_cache(maxsize=8)  # several metrics and graders ask for the same pair, one after the other
def rouge_scores(reference: str, text: str) -> Mapping[str, float]:
    """Return the F-measures (0 to 1) of ROUGE-1, -2 and -L with the Porter stemmer.

    Lin, ROUGE: a package for automatic evaluation of summaries, 2004; implementation rouge-score.
    """
    from rapidfuzz.distance import LCSseq
    from rouge_score.scoring import fmeasure

    scores = _scorer().score(reference, text)
    found = {kind: float(scores[kind].fmeasure) for kind in KINDS[:2]}
    gold, own = _tokens(reference), _tokens(text)
    shared = LCSseq.similarity(gold, own) if gold and own else 0
    found["rougeL"] = fmeasure(shared / len(own), shared / len(gold)) if shared else 0.0
    return found


@lru_cache(maxsize=16)
def _tokens(text: str) -> tuple[str, ...]:
    from rouge_score.tokenize import tokenize

    return tuple(tokenize(text, _stemmer()))


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


class _Tokenizer:
    """Splits texts into words for the package's scorer."""

    def tokenize(self, text: str) -> list[str]:
        return list(_tokens(text))


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(KINDS[:2]), tokenizer=_Tokenizer())
