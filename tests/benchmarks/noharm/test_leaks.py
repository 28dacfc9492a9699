"""Leaks: what tells the class of an action, and ordinary words that do not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm_benchmarks.noharm.rules.casefile import read_cases
from medhelm_benchmarks.noharm.rules.leaks import LEAKS, find_leaks, leak_phrases
from tests.benchmarks.noharm.action_texts import LEAKY, NEUTRAL

BUNDLED = Path(__file__).parents[3] / "benchmarks/noharm/samples/noharm.jsonl"


def test_the_labelled_texts_are_told_apart() -> None:
    assert len(set(LEAKY)) >= 60 and len(set(NEUTRAL)) >= 60
    assert not set(LEAKY) & set(NEUTRAL)
    found = {text for text in (*LEAKY, *NEUTRAL) if leak_phrases(text)}
    missed, wrong = set(LEAKY) - found, set(NEUTRAL) & found
    assert len(missed) <= 2, missed  # recall 196 of 198
    assert not wrong  # precision 1


@pytest.mark.parametrize("kind", LEAKS)
def test_every_kind_is_met(kind: str) -> None:
    assert any(leak.kind == kind for text in LEAKY for leak in find_leaks(text))


def test_bundled_cases_have_no_leak() -> None:
    actions = [action for case in read_cases(BUNDLED) for action in case.actions]
    assert len(actions) > 400
    assert not [(a.id, leak_phrases(a.text)) for a in actions if leak_phrases(a.text)]


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        (
            "Start first-line amoxicillin as indicated despite her allergy",
            ("first-line", "as indicated", "despite"),
        ),
        ("Give an inappropriate drug", ("inappropriate",)),  # and not `appropriate` within it
        ("Start lithium without baseline tests", ("without baseline tests",)),
        ("START DESPITE ASTHMA", ("DESPITE",)),
        ("Use first\u2011line\u00a0therapy", ("first-line",)),  # a hyphen that does not break
        ("Give it des\u00adpite asthma", ("despite",)),  # a hyphen that is not seen
        ("Give it in\n  spite   of asthma", ("in spite of",)),
        ("A trapeze and a distraction", ()),
        ("", ()),
    ],
)
def test_phrases_come_in_the_order_of_the_text(text: str, phrases: tuple[str, ...]) -> None:
    assert leak_phrases(text) == phrases


@pytest.mark.parametrize("text", ["if " * 5000 + "despite", "without " + "x-" * 5000 + "checks"])
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    assert len(leak_phrases(text)) <= 1


def test_a_text_of_many_leaks_is_no_slower() -> None:
    started = time.perf_counter()
    assert len(find_leaks("despite " * 10_000)) == 10_000
    assert time.perf_counter() - started < 5


@given(st.text(max_size=80))
def test_any_text_is_read_and_phrases_stand_in_it(text: str) -> None:
    for leak in find_leaks(text):
        assert leak.phrase and leak.kind in LEAKS


@given(st.sampled_from(LEAKY), st.sampled_from(["\n", "  ", "\t"]))
def test_white_space_hides_nothing(text: str, gap: str) -> None:
    assert leak_phrases(text.replace(" ", gap)) == leak_phrases(text)
