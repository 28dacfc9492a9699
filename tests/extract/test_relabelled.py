"""Replies to options labelled 1, 2, 3 or I, II, III: labels are read, in every wording of letters.

That other numbers and letters are not read is held by the sets under `unseen/`.
"""

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
        for name, text, gives_gold, is_cut in phrasings._wordings()["choice"]
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
