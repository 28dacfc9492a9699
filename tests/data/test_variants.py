"""Forms of multiple-choice questions: what changes, what stays, and what is left out."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from string import ascii_uppercase

import pytest

from medhelm import Instance
from medhelm.data.dataset import open_dataset
from medhelm.data.variants import (
    OF_OPTIONS,
    ORDER,
    RIGHT,
    as_shown,
    can_vary,
    original_letter,
    rewrite,
    varied,
)
from medhelm.plugins.registry import load_registry
from medhelm.prompts.messages import letter_choices, list_letters
from medhelm.schema.data import Variant
from tests.cases import cases

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
    ("part", "none"),
    [
        ("en", "None of these"),
        ("pt", "Nenhuma destas"),
        ("es", "Ninguna de estas"),
        ("am", None),
    ],
)
def test_the_right_option_is_replaced_in_its_place_in_the_language_of_the_part(
    part: str, none: str | None
) -> None:
    languages = {name: name for name in ("pt", "es", "am")}
    one = varied(question(metadata={"part": part}), "none_of_these", 0, languages)
    if none is None:
        assert one is None
        return
    assert one is not None and one.references == ("B",)
    assert one.choices == ("aspirin", none, "heparin", "warfarin")


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


def test_several_right_options_and_facts_that_may_be_of_letters() -> None:
    assert varied(question(answer_key={"B": "0.5"}), "shuffled", 0, {}) is None
    one = Instance(id="q", question="Which?", choices=DRUGS, references=("A", "C"))
    found = changed(one, "shuffled")
    assert {found.choices["ABCD".index(r)] for r in found.references} == {"aspirin", "heparin"}
    assert varied(one, "none_of_these", 0, {}) is None


MAN = (
    "A 45-year-old man comes to his physician with his wife. He says that the rash bothers him and that "
    "the itch is worse than his wife's. Examination of the man shows red skin; the pain is his."
)


@pytest.mark.parametrize(
    ("how", "before", "after"),
    [
        (
            "patient_female",
            MAN,
            "A 45-year-old woman comes to her physician with her husband. She says that the rash bothers her and that "
            "the itch is worse than her husband's. Examination of the woman shows red skin; the pain is hers.",
        ),
        (
            "patient_male",
            "A 9-year-old girl hurt her knee. She says it hurts her. Her brother took her to the clinic.",
            "A 9-year-old boy hurt his knee. He says it hurts him. His brother took him to the clinic.",
        ),
        (
            "patient_pronoun",
            "A 61-year-old woman lost her keys. It worries her, and she asks for help.",
            "A 61-year-old woman lost the patient's keys. It worries the patient, and the patient asks for help.",
        ),
        (
            "patient_black",
            "A 61-year-old, retired woman lost her keys.",
            "A 61-year-old, retired Black woman lost her keys.",
        ),
    ],
)
def test_another_patient(how: Variant, before: str, after: str) -> None:
    one = question("rest", "ice", context=before)
    found = changed(one, how)
    assert found.context == after
    assert (found.id, found.choices, found.references) == (one.id, one.choices, one.references)
    assert original_letter(found.metadata, "B") == "B"


def test_a_name_fits_the_sex_and_is_drawn_by_seed() -> None:
    one = question(context="A 7-year-old girl has a cough. She sleeps well.")
    names = {changed(one, "patient_name", seed).context.split(" has")[0] for seed in range(99)}
    assert len(names) > 20
    assert all(name.startswith("A 7-year-old girl named ") for name in names)
    assert not any("James" in name for name in names)


@pytest.mark.parametrize(
    ("how", "text", "reason"), cases(__file__, "what_cannot_be_told_or_may_decide_is_refused")
)
def test_what_cannot_be_told_or_may_decide_is_refused(how: Variant, text: str, reason: str) -> None:
    found = rewrite(question(context=text), how, 0, {})
    assert isinstance(found, str)
    assert reason in found


def test_other_languages_and_numbers_have_no_other_patient() -> None:
    spanish = question(context=MAN, metadata={"part": "es"})
    assert rewrite(spanish, "patient_female", 0, {"es": "es"}) == "not in English"
    benchmarks = load_registry().benchmarks
    assert not can_vary(benchmarks["medcalc_bench"], "patient_female")
    assert can_vary(benchmarks["medcalc_bench"], "patient_name")
    assert not can_vary(benchmarks["noharm"], "patient_name")


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("MEDHELM_DATA_DIR"), reason="needs the real files of med_qa")
def test_real_vignettes_come_back() -> None:
    """A man who is asked as a woman and back is the same man: `her` is read right in each of his sentences."""
    benchmark = load_registry().benchmarks["med_qa"]
    men, others = 0, []
    root = Path(os.environ["MEDHELM_DATA_DIR"])
    for one in open_dataset(benchmark, "full", root=root).instances():
        if isinstance(woman := rewrite(one, "patient_female", 0, {}), str):
            continue
        back = rewrite(woman, "patient_male", 0, {})
        if isinstance(back, str):  # a `her` that may be two things
            continue
        men += 1
        if (back.context, back.question, back.choices) != (one.context, one.question, one.choices):
            others.append(one.question)
    assert men > 100
    assert len(others) == 1
    assert "His is unresponsive" in others[0], "a slip of the source"
