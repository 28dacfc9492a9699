"""Forms of multiple-choice questions: what changes, what stays, and what is left out."""

from __future__ import annotations

from collections import Counter
from string import ascii_uppercase

import pytest

from medhelm import Instance
from medhelm.data.variants import (
    OF_OPTIONS,
    ORDER,
    RIGHT,
    as_shown,
    original_letter,
    varied,
)
from medhelm.prompts.messages import letter_choices, list_letters
from medhelm.schema.data import Variant

DRUGS = ("aspirin", "insulin", "heparin", "warfarin")


def question(*choices: str, gold: str = "B", **fields: object) -> Instance:
    return Instance(
        id="q1", question="Which drug?", choices=choices or DRUGS, references=(gold,), **fields
    )  # type: ignore[arg-type]


def changed(instance: Instance, how: Variant, seed: int = 0, language: str = "en") -> Instance:
    found = varied(instance, how, seed, {"": language})
    assert found is not None
    return found


def test_shuffled_options_are_the_same_options_in_another_order() -> None:
    one = changed(question(), "shuffled")
    assert sorted(one.choices) == sorted(DRUGS)
    assert one.choices != DRUGS
    assert one.choices[ascii_uppercase.index(one.references[0])] == "insulin"
    assert one == changed(question(), "shuffled"), "the same each time"
    assert (one.id, one.metadata[RIGHT]) == ("q1", "B")
    for shown, letter in zip(one.choices, "ABCD", strict=True):
        assert DRUGS["ABCD".index(original_letter(one.metadata, letter))] == shown


def test_every_other_order_is_as_likely_and_the_seed_decides() -> None:
    orders = Counter(changed(question(), "shuffled", seed).metadata[ORDER] for seed in range(4600))
    assert len(orders) == 23, "all but the one that the question has"
    assert all(140 < n < 260 for n in orders.values())


@pytest.mark.parametrize(
    ("how", "labels", "shown"),
    [
        ("digits", ("1", "2", "3", "4"), "2. insulin"),
        ("roman", ("I", "II", "III", "IV"), "II. insulin"),
    ],
)
def test_other_labels(how: Variant, labels: tuple[str, ...], shown: str) -> None:
    one = changed(question(), how)
    assert (one.choices, one.references, one.option_labels) == (DRUGS, ("B",), labels)
    assert shown in letter_choices(one.choices, one.option_labels).splitlines()
    assert list_letters(4, one.option_labels) == f"{', '.join(labels[:-1])} or {labels[-1]}"
    assert (as_shown(one, "B"), as_shown(one, "no idea")) == (labels[1], "no idea")


@pytest.mark.parametrize(
    ("language", "none"),
    [("en", "None of these"), ("pt", "Nenhuma destas"), ("es", "Ninguna de estas")],
)
def test_the_right_option_is_replaced_in_its_place(language: str, none: str) -> None:
    one = changed(question(), "none_of_these", language=language)
    assert one.choices == ("aspirin", none, "heparin", "warfarin")
    assert one.references == ("B",)


def test_the_language_is_that_of_the_part() -> None:
    languages = {"es": "es", "am": "am"}
    for part, expected in (("es", "Ninguna de estas"), ("en", "None of these")):
        found = varied(question(metadata={"part": part}), "none_of_these", 0, languages)
        assert found is not None
        assert found.choices[1] == expected
    assert varied(question(metadata={"part": "am"}), "none_of_these", 0, languages) is None


def test_all_of_the_above_stays_last() -> None:
    one = question("aspirin", "insulin", "heparin", "All of the above", gold="D")
    found = changed(one, "shuffled")
    assert found.choices[3] == "All of the above"
    assert found.references == ("D",)
    assert varied(one, "none_of_these", 0, {}) is None


@pytest.mark.parametrize(
    ("choices", "without"),
    [
        (("aspirin", "insulin", "A and B", "heparin"), OF_OPTIONS),
        (("aspirin", "insulin", "1 y 2 son correctas", "heparin"), OF_OPTIONS),
        (("1, 2", "1, 3", "2, 3", "all"), OF_OPTIONS),
        (("2", "4", "6", "8"), ("digits", "roman")),
        (("X", "aspirin", "insulin"), ("digits", "roman")),
        (("yes", "no"), ("none_of_these",)),
        (("aspirin", "Aspirin", "insulin"), ("none_of_these",)),
        (("aspirin", "None of the above"), ("shuffled", "none_of_these")),
        (("aspirin",), OF_OPTIONS),
    ],
)
def test_what_has_no_such_form(choices: tuple[str, ...], without: tuple[Variant, ...]) -> None:
    one = question(*choices, gold="A")
    assert tuple(how for how in OF_OPTIONS if varied(one, how, 0, {}) is None) == without


def test_facts_that_may_be_of_letters_keep_a_question_as_it_is() -> None:
    assert varied(question(answer_key={"B": "0.5"}), "shuffled", 0, {}) is None


def test_several_right_options() -> None:
    one = Instance(id="q", question="Which?", choices=DRUGS, references=("A", "C"))
    found = changed(one, "shuffled")
    assert {found.choices["ABCD".index(r)] for r in found.references} == {"aspirin", "heparin"}
    assert varied(one, "none_of_these", 0, {}) is None
