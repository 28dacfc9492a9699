"""Leaks: what tells the class of an action, and ordinary words that do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm_benchmarks.noharm.rules.wording import LEAKS, find_leaks
from medhelm_benchmarks.noharm.tables.quality import NOT_JUDGED
from tests.cases import cases


def leak_phrases(text: str) -> tuple[str, ...]:
    return tuple(leak.phrase for leak in find_leaks(text))


def test_few_wordings_have_one_meaning_and_those_are_never_wrong() -> None:
    leaky = cases(__file__, "leaky")
    assert (sum(bool(find_leaks(text)) for text in leaky), len(leaky)) == (41, 198)
    assert "41 of 198" in NOT_JUDGED
    assert not [text for text in cases(__file__, "neutral") if find_leaks(text)]


@pytest.mark.parametrize(
    "text", ["A dose trap", "The decoy", "Rated 8/9", "first_line", "Contraindicated in asthma"]
)
def test_tags_of_the_writer_are_found(text: str) -> None:
    assert find_leaks(text)


@pytest.mark.parametrize(
    ("text", "phrases"), cases(__file__, "phrases_come_in_the_order_of_the_text")
)
def test_phrases_come_in_the_order_of_the_text(text: str, phrases: list[str]) -> None:
    assert [*leak_phrases(text)] == phrases


@pytest.mark.parametrize("text", ["is " * 5000 + "contraindicated", "evidence-" + "x-" * 5000])
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    assert len(leak_phrases(text)) <= 1


@given(st.text(max_size=80))
def test_any_text_is_read_and_phrases_stand_in_it(text: str) -> None:
    for leak in find_leaks(text):
        assert leak.phrase and leak.kind in LEAKS


@given(st.sampled_from(cases(__file__, "leaky")), st.sampled_from(["\n", "  ", "\t"]))
def test_white_space_hides_nothing(text: str, gap: str) -> None:
    assert leak_phrases(text.replace(" ", gap)) == leak_phrases(text)
