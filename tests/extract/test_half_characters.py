"""Halves of surrogate pairs in JSON, against Python's own reading of the escapes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extract import read_labels, without_halves

PIECES = ["a", "\\\\", "\\n", "\\u0041", "\\ud800", "\\uDBFF", "\\udc00", "\\uDFFF", "\\ud83d\\ude00", "ud800", "é", "😀"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_half_a_pair_becomes_a_replacement_character_and_nothing_else_changes(text: str) -> None:
    found = json.loads(f'"{text}"')
    expected = found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(without_halves(f'"{text}"')) == expected


@pytest.mark.parametrize("text", ['{"a": "\\ud8"}', 'C:\\\\ud800 and "\\\\ud800"', "ud800", ""])
def test_what_is_cut_or_escaped_is_left(text: str) -> None:
    assert without_halves(text) == text


def test_labels_of_a_reply_can_be_written() -> None:
    found = read_labels('["fever", "cou\\ud83dgh"]')
    assert found.value is not None and "cou\ufffdgh" in str(found.value)
