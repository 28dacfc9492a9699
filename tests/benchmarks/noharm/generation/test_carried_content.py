"""What a letter may not take over from the guideline: leaks are found, honest letters pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm_benchmarks.noharm.generation.carried_content import carried
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.rules.casefile import read_cases
from tests.benchmarks.noharm.generation.carrying import GUIDELINES, HONEST, LEAKS

SAMPLES = Path(__file__).parents[4] / "benchmarks" / "noharm" / "samples" / "noharm.jsonl"
KNOWN = {name: Guideline(text.split("\n")[0], text) for name, text in GUIDELINES.items()}


def faults(text: str, name: str, **more: object) -> list[str]:
    return list(carried(text, KNOWN[name], **more))  # type: ignore[arg-type]


def test_nine_of_ten_leaks_are_found_of_which_twelve_words_in_a_row_find_none() -> None:
    leaks = [(name, text) for name, own in LEAKS.items() for text in own]
    found = [text for name, text in leaks if faults(text, name)]
    assert len(found) >= 0.9 * len(leaks)
    assert not [text for name, text in leaks if KNOWN[name].shares_run(text, 12)]


@pytest.mark.parametrize("name", HONEST)
def test_facts_in_the_words_of_a_guideline_pass(name: str) -> None:
    assert [faults(text, name) for text in HONEST[name]] == [[]] * len(HONEST[name])


@pytest.mark.parametrize("name", KNOWN)
def test_the_bundled_cases_pass_beside_a_guideline_on_their_subject(name: str) -> None:
    for case in read_cases(SAMPLES):
        for part in (case.vignette, case.question, *case.knowns, *case.unknowns):
            assert faults(part, name) == [], case.code
        for flag in case.red_flags:
            assert faults(flag.text, name, is_flag=True) == [], case.code


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Her potassium is above 6.5 mmol/L.", "'above 6.5 mmol' is a limit"),
        ("Her potassium is > 6.5 mmol/L.", "is a limit"),
        ("Salbutamol 10 mg by nebuliser should be added.", "'should' says what should be done"),
        ("Should salbutamol 10 mg be given?", "'Should' says what should be done"),
        ("glucose is checked hourly for six hours and so on", "copies 7 or more words"),
    ],
)
def test_what_is_found_is_named_so_that_it_can_be_mended(text: str, said: str) -> None:
    assert any(said in fault for fault in faults(text, "HYPERK"))


@pytest.mark.parametrize(
    "text",
    [
        "Her potassium is 6.5 mmol/L.",
        "Her potassium is above 6.8 mmol/L.",
        "Should trimethoprim and other medicines be stopped?",
        "She takes salbutamol 10 mg at home.",
        "She was told that she should walk more.",
    ],
)
def test_values_questions_and_medicines_are_facts(text: str) -> None:
    assert faults(text, "HYPERK") == []


def test_words_of_the_setting_are_no_fault() -> None:
    own = "a potassium above 6.5 mmol for a week"
    assert faults(f"She has {own}.", "HYPERK")
    assert faults(f"She has {own}.", "HYPERK", own=[own]) == []
    assert faults("A potassium above 6.5 mmol", "HYPERK", is_flag=True) == []
