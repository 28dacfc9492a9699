"""Reductions of repeats: laws for any scores, and values worked out by hand."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import UnknownName, UsageError
from medhelm.stats.reductions import read_reduction

GRADED = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-1, 1, allow_nan=False), min_size=n, max_size=n), min_size=1, max_size=5
    )
)
RATES = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=7)


def reduced(name: str, scores: Any, answers: Any = None, read: Any = None, up: bool = True) -> Any:
    """Return the values of instances; without answers each score is an answer of its own."""
    values = np.array(scores, dtype=np.float64)
    codes = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    said = codes if answers is None else np.array(answers)
    is_read = np.ones(values.shape, dtype=np.bool_) if read is None else np.array(read)
    return read_reduction(name).values(values, said, is_read, up).tolist()


@given(scores=GRADED, up=st.booleans())
def test_the_mean_lies_between_the_worst_and_the_best(scores: Any, up: bool) -> None:
    sign = 1 if up else -1
    for low, mean, high in zip(
        reduced("worst", scores, up=up),
        reduced("mean", scores, up=up),
        reduced("any", scores, up=up),
        strict=True,
    ):
        assert sign * low - 1e-12 <= sign * mean <= sign * high + 1e-12


@given(scores=GRADED)
def test_a_majority_lies_between_worst_and_best_and_of_equal_repeats_is_the_mean(
    scores: Any,
) -> None:
    votes = reduced("majority", scores)
    ends = zip(reduced("worst", scores), votes, reduced("any", scores), strict=True)
    assert all(low - 1e-12 <= vote <= high + 1e-12 for low, vote, high in ends)
    equal = [[row[0]] * len(row) for row in scores]
    assert reduced("majority", equal) == pytest.approx(reduced("mean", equal))


@given(scores=RATES)
def test_pass_at_k_is_the_share_of_the_k_subsets_with_a_right_repeat(scores: list[float]) -> None:
    for k in range(1, len(scores) + 1):
        subsets = [max(chosen) for chosen in combinations(scores, k)]
        assert reduced(f"pass@{k}", [scores]) == pytest.approx([np.mean(subsets)])
    assert reduced("pass@1", [scores]) == pytest.approx(reduced("mean", [scores]))
    assert reduced(f"pass@{len(scores)}", [scores]) == reduced("any", [scores])


def test_values_by_hand() -> None:
    assert reduced("pass@2", [[1, 0, 0, 0]]) == pytest.approx([0.5])  # 1 - C(3,2) / C(4,2)
    assert reduced("pass@3", [[1, 1, 0, 0, 0]]) == pytest.approx([0.9])  # 1 - C(3,3) / C(5,3)
    assert reduced("worst", [[2.0, 5.0]], up=False) == [5.0]
    assert reduced("any", [[2.0, 5.0]], up=False) == [2.0]
    assert reduced("majority", [[0, 0, 1, 1, 1]], [[1, 2, 0, 0, 3]]) == [1.0]
    # three wrong answers that differ do not outvote two right ones that agree
    assert reduced("majority", [[0, 0, 0, 1, 1]], [[1, 2, 3, 0, 0]]) == [1.0]
    # a tie of a right and a wrong answer, the fifth alone
    assert reduced("majority", [[1, 1, 0, 0, 1]], [[0, 0, 1, 1, 2]]) == [0.5]


def test_a_reply_that_could_not_be_read_has_no_vote() -> None:
    unread = [[False, False, False, True]]
    assert reduced("majority", [[0, 0, 0, 1]], [[9, 9, 9, 1]], unread) == [1.0]
    assert reduced("majority", [[-1, -1]], [[9, 9]], [[False, False]]) == [-1.0]  # the floor


def test_names_that_are_none_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="majority"):
        read_reduction("majorty")
    for name in ("pass@", "pass@0", "pass@K", "pass@-1", "pass@1.5"):
        with pytest.raises(UsageError, match="whole number"):
            read_reduction(name)
