"""ROUGE equals the rouge-score package, whatever the texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from medhelm.similarity.rouge import KINDS, rouge_scores

WORDS = st.lists(
    st.sampled_from(["fever", "fevers", "rest", "resting", "fluids", "and", "the", "3", "of"])
)
THEIRS = RougeScorer(list(KINDS), use_stemmer=True)


@pytest.mark.slow
@given(WORDS.map(" ".join) | st.text(max_size=60), WORDS.map(" ".join) | st.text(max_size=60))
def test_it_is_what_the_package_gives(reference: str, text: str) -> None:
    theirs = THEIRS.score(reference, text)
    for kind, value in rouge_scores(reference, text).items():
        assert value == theirs[kind].fmeasure


def test_by_hand() -> None:
    """Common in order: give, fluids, rest: 3 of 4 and of 5 words, F = 2*3/9. Of the bigrams one is
    shared (and rest is none of the gold's): give fluids; 3 and 4 bigrams, F = 2*1/7."""
    found = rouge_scores("Give fluids, watch, and rest.", "give fluids, then rest")
    assert found["rougeL"] == pytest.approx(6 / 9)
    assert found["rouge1"] == pytest.approx(6 / 9)
    assert found["rouge2"] == pytest.approx(2 / 7)
    assert set(rouge_scores("", "rest").values()) == {0.0}
