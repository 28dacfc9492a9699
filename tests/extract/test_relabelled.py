"""Replies to options labelled 1, 2, 3 or I, II, III: labels are read, other numbers and letters not."""

from __future__ import annotations

import pytest

from medhelm import Instance, read_choice
from medhelm.proof import phrasings

CHOICES = (
    "Start metformin 500 mg",
    "Type 2 diabetes",
    "Vitamin C",
    "Refer within 2 weeks",
    "Hepatitis B",
    "IV fluids",
)
LABELS = {"digits": tuple("123456"), "roman": ("I", "II", "III", "IV", "V", "VI")}


def replies(gold: str, labels: tuple[str, ...]) -> list[tuple[str, str, bool, bool]]:
    """Return the wordings by which the reading of letters is tried, with labels in their place."""
    instance = Instance(id="q", question="Which?", choices=CHOICES, references=(gold,))
    fields = phrasings._of_choices(instance)
    names = dict(zip("ABCDEF", labels, strict=True))
    shown = [f"{label}. {text}" for label, text in zip(labels, CHOICES, strict=True)]
    fields |= {name: names[fields[name]] for name in ("letter", "other_letter")}
    fields |= {"echo_lines": "\n".join(shown), "echo_line": " ".join(shown)}
    fields["probabilities"] = ", ".join(f"{label}: 16%" for label in labels)
    return [
        (name, phrasings._FIELD.sub(lambda m: fields[m[1]], text), gives_gold, is_cut)
        for name, text, gives_gold, is_cut in phrasings._wordings(phrasings._FILE)["choice"]
    ]


@pytest.mark.parametrize("how", LABELS)
@pytest.mark.parametrize("gold", "ABCDEF")
def test_all_wordings_of_letters_are_read_by_labels(how: str, gold: str) -> None:
    wrong = []
    for name, text, gives_gold, is_cut in replies(gold, LABELS[how]):
        letter = read_choice(text, CHOICES, is_cut=is_cut, labels=LABELS[how]).value
        if letter != (gold if gives_gold else None):
            wrong.append((name, text, letter))
    assert not wrong


@pytest.mark.parametrize("how", LABELS)
@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "Answer: {}",
        "answer: {}",
        "The correct answer is {}.",
        "({})",
        "**{}**",
        "I choose {}.",
    ],
)
def test_letters_are_no_labels(how: str, reply: str) -> None:
    for letter in "ABCDE":
        assert read_choice(reply.format(letter), CHOICES, labels=LABELS[how]).value is None
        assert read_choice(reply.format(letter), CHOICES).value in (letter, None)


@pytest.mark.parametrize(
    "text",
    [
        *("He needs 2 mg.", "Answer: 2 mg", "The dose is 2.5 mg", "I think 3 months of therapy"),
        *(
            "Stage 2 disease",
            "It is 2 weeks",
            "2 of 3 patients",
            "The ratio is 1:100",
            "A 3-year-old",
        ),
        *("7", "Answer: 0", "1 or 2", "12"),
    ],
)
def test_numbers_that_are_no_labels(text: str) -> None:
    assert read_choice(text, CHOICES, labels=LABELS["digits"]).value is None


@pytest.mark.parametrize(
    "text",
    [
        "I think so.",
        "I am not sure",
        "I, as a doctor, would wait.",
        "Give IV antibiotics (IV)",
        "VII",
    ],
)
def test_words_that_are_no_roman_labels(text: str) -> None:
    assert read_choice(text, CHOICES, labels=LABELS["roman"]).value is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("2 Type 2 diabetes", "B"),
        ("Type 2 diabetes", "B"),
        ("Vitamin C", "C"),
        ("Hepatitis B (5)", "E"),
        ("(4)", "D"),
        ("4) Refer within 2 weeks", "D"),
        ("The patient took 2 mg for 3 weeks.\n\nAnswer: 6", "F"),
        ("\uff12", "B"),
    ],
)
def test_labels_and_texts(text: str, letter: str) -> None:
    assert read_choice(text, CHOICES, labels=LABELS["digits"]).value == letter
