"""Replies that name an option without choosing it, and what is read then."""

from __future__ import annotations

import pytest

from medhelm import read_choice

DRUGS = ("Aspirin", "Heparin", "Warfarin", "Insulin")


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Heparin.", "B"),
        ("It is difficult to say: heparin.", None),
        ("Heparin, but I am unsure.", None),
        ("The patient needs heparin.", "B"),
        ("I am not sure. The patient needs heparin.", None),
        ("It depends on the weight. Start heparin.", None),
        ("Heparin is the best choice.", "B"),
        ("Heparin is the best choice. Actually, let me reconsider.", None),
        ("I would choose B. Hmm, wait, that is wrong.", None),
        ("Answer: B", "B"),
        ("Answer: B is incorrect", None),
        ("Answer: B) is wrong", None),
        ("Answer: F", None),
        ("Answer: Aspirin or Heparin", None),
        ("Answer: Heparin (A)", None),
        ("Answer: A\n\nAnswer: F", None),
        ("The answer is B. Wait, the answer is C.", None),
    ],
)
def test_what_is_named_and_not_chosen_is_no_answer(text: str, letter: str | None) -> None:
    assert read_choice(text, DRUGS).value == letter
