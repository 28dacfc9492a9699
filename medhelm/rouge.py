"""ROUGE by the rouge-score package, each pair of texts compared once."""

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
    scores = _scorer().score(reference, text)
    return {kind: float(scores[kind].fmeasure) for kind in KINDS}


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(KINDS), use_stemmer=True)
