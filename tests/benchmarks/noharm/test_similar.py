"""Near-duplicates: the same in other words, and never what differs by one decisive word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from medhelm_benchmarks.noharm.rules.wording import (
    Embed,
    embedding_duplicates,
    natural,
    near_duplicates,
)
from tests.cases import cases


@pytest.mark.parametrize(("one", "other"), cases(__file__, "same"))
def test_the_same_words_are_a_near_duplicate(one: str, other: str) -> None:
    assert near_duplicates({"a1": one, "a2": other}) == [("a1", "a2")]


@pytest.mark.parametrize(("one", "other"), cases(__file__, "apart"))
def test_one_word_keeps_two_actions_apart(one: str, other: str) -> None:
    assert near_duplicates({"a1": one, "a2": other}) == []


def test_all_pairs_of_a_menu_are_named_in_natural_order() -> None:
    texts = {"a10": "Measure INR", "a2": "measure INR", "b": "Stop aspirin", "a1": "Measure an INR"}
    assert near_duplicates(texts) == [("a1", "a2"), ("a1", "a10"), ("a2", "a10")]
    assert near_duplicates(dict(sorted(texts.items()))) == near_duplicates(texts)
    assert near_duplicates({}) == near_duplicates({"a": "Measure INR"}) == []


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=40), max_size=5))
def test_any_text_can_be_read(texts: dict[str, str]) -> None:
    for a, b in near_duplicates(texts):
        assert natural(a) <= natural(b)


def along(**vectors: Sequence[float]) -> Embed:
    """Return an embedding that knows these texts by their first word."""

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([vectors[text.split()[0]] for text in texts])

    return embed


def test_embeddings_find_what_words_do_not() -> None:
    texts = {"a": "Listen for bruits", "b": "Auscultate the carotids", "c": "Weigh her"}
    embed = along(Listen=(1.0, 0.0), Auscultate=(2.0, 0.1), Weigh=(0.0, 1.0))
    assert near_duplicates(texts) == []
    assert embedding_duplicates(texts, embed) == [("a", "b")]
    assert embedding_duplicates(texts, embed, 0.999) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Start apixaban 5 mg", "Use apixaban 2.5 mg"),
        ("Start aspirin", "Stop aspirin"),
        ("Give morphine IV", "Administer morphine orally"),
    ],
)
def test_embeddings_do_not_merge_what_differs_by_a_fact(one: str, other: str) -> None:
    same = {text.split()[0]: (1.0, 0.0) for text in (one, other)}
    assert embedding_duplicates({"a": one, "b": other}, along(**same)) == []


def test_a_vector_of_nothing_is_like_nothing() -> None:
    embed = along(Weigh=(0.0, 0.0), Feel=(0.0, 0.0))
    assert embedding_duplicates({"a": "Weigh her", "b": "Feel the pulse"}, embed) == []
    assert embedding_duplicates({"a": "Weigh her"}, embed) == []
