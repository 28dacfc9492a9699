"""What a letter may not take over from the guideline: leaks are found, honest letters pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm_benchmarks.noharm.generation import carried_content
from medhelm_benchmarks.noharm.generation.advice_words import measures
from medhelm_benchmarks.noharm.generation.carried_content import carried
from medhelm_benchmarks.noharm.generation.guideline import Guideline, words
from medhelm_benchmarks.noharm.rules.casefile import read_cases
from tests.benchmarks.noharm.generation.carrying import (
    FRESH,
    GUIDELINES,
    HONEST,
    LEAKS,
    PARAPHRASED,
)
from tests.benchmarks.noharm.generation.ordinary import ORDINARY, ORDINARY_AFTER

SAMPLES = Path(__file__).parents[4] / "benchmarks" / "noharm" / "samples" / "noharm.jsonl"
KNOWN = {name: Guideline(text.split("\n")[0], text) for name, text in GUIDELINES.items()}


def faults(text: str, name: str, **more: object) -> list[str]:
    return list(carried(text, KNOWN[name], **more))  # type: ignore[arg-type]


def test_nine_of_ten_leaks_are_found_of_which_twelve_words_in_a_row_find_none() -> None:
    leaks = [(name, text) for name, own in LEAKS.items() for text in own]
    found = [text for name, text in leaks if faults(text, name)]
    assert len(found) >= 0.9 * len(leaks)
    assert not [text for name, text in leaks if KNOWN[name].shares_run(text, 12)]


def test_advice_in_other_words_is_found_by_judgement_expectation_and_dose() -> None:
    leaks = [(name, text) for name, own in PARAPHRASED.items() for text in own]
    missed = [text for name, text in leaks if not faults(text, name)]
    assert [text.split()[0] for text in missed] == ["Omeprazole,", "The"]  # other names for both
    assert len(leaks) == 34


def test_fewer_leaks_are_found_that_the_rules_were_not_written_for() -> None:
    leaks = [(name, text) for name, own in FRESH.items() for text in own]
    assert (sum(bool(faults(text, name)) for name, text in leaks), len(leaks)) == (8, 20)
    assert not [text for name, text in leaks if KNOWN[name].shares_run(text, 12)]


def test_ordinary_letters_on_the_subjects_of_guidelines_pass_but_for_three() -> None:
    stopped = [
        text for text in (*ORDINARY, *ORDINARY_AFTER) if any(faults(text, name) for name in KNOWN)
    ]
    assert [text[:24] for text in stopped] == [
        "Insulin 10 units with 25",  # eight words of a guideline, though of a drug that was given
        "Her long-acting insulin ",
        "Calcium tablets are of n",
    ]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("The plan will be apixaban 5 mg twice daily.", True),
        ("He takes bisoprolol 2.5 mg; apixaban 5 mg twice daily is next.", True),
        ("Apixaban 5 mg twice daily is the way on.", True),
        ("He takes apixaban 5 mg twice daily.", False),
        ("Apixaban 5 mg twice daily was begun in spring.", False),
        ("History: atrial fibrillation (apixaban 5 mg twice daily), gout.", False),
        ("Medicines:\n- apixaban 5 mg twice daily\n- ramipril 5 mg", False),
    ],
)
def test_a_dose_counts_without_advice_where_the_patient_does_not_take_it(
    text: str, is_found: bool
) -> None:
    assert bool(faults(text, "AFPCI")) == is_found


def test_medicines_of_the_letter_are_the_patients_own_in_its_other_parts() -> None:
    text = "The heart clinic will go on with apixaban 5 mg twice daily."
    assert faults(text, "AFPCI")
    assert faults(text, "AFPCI", letter="He takes apixaban 5 mg twice daily.") == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Glucose 10 % comes once glucose falls to less than 14.", True),
        ("Her pressure is over 160 and she is over 80.", False),
        ("The cough settled within 1 or 2 hours.", False),
    ],
)
def test_a_limit_without_a_unit_counts_beside_its_subject(text: str, is_found: bool) -> None:
    assert any("limit" in fault for name in KNOWN for fault in faults(text, name)) == is_found


def test_measures_are_what_a_guideline_orders_or_makes_the_subject() -> None:
    text = (
        "Offer aspirin 300 mg. Do not use oxygen as a routine. In people with a stent, a pump "
        "inhibitor is given. Calcium lowers pressure."
    )
    named = " ".join(measures(text)).split()
    assert {"aspirin", "oxygen", "pump", "Calcium"} <= set(named)
    assert not {"people", "stent,", "pressure."} & set(named)


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


def test_a_long_guideline_is_not_read_again_for_each_dose(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(f"Drug{n} {n} mg is given." for n in range(2000))
    read = []
    monkeypatch.setattr(
        carried_content, "words", lambda text: read.append(len(text)) or words(text)
    )
    assert list(carried("She takes drug12 12 mg.", Guideline("Long 2024", text))) == []
    assert sum(read) < 20 * len(text)
