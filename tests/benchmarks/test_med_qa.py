from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "realidx": 19,
    "question": "A man has a rash after a tick bite. Which drug is best?\n",
    "answer": "Doxycycline",
    "options": {"A": "Penicillin V", "B": " Doxycycline", "C": '"""Wait"""', "D": 'Aspirin\n"'},
    "meta_info": "step2&3",
    "answer_idx": "B",
    "metamap_phrases": ["rash", "tick bite"],
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("med_qa")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="test-00019",
        question="A man has a rash after a tick bite. Which drug is best?",
        choices=("Penicillin V", "Doxycycline", '"Wait"', "Aspirin"),
        references=("B",),
        metadata={"step": "step2&3", "picture": "none"},
    )
    assert "metamap" not in prompt(benchmark, instance)
    assert prompt(benchmark, instance).endswith(
        'A. Penicillin V\nB. Doxycycline\nC. "Wait"\nD. Aspirin\n\n'
        "Exactly one option is right. Reply with its letter alone (A, B, C or D)."
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("A photograph of the rash is shown.", "named"),
        ("The histology of the tissue is shown below. What is it?", "named"),
        ("Name the structure marked with arrow", "named"),
        ("Laboratory values are obtained and shown below. Serum: Na+ 139", "none"),
        ("The biopsy has abundant mitotic figures.", "none"),
        ("What fits this clinical picture?", "none"),
    ],
)
def test_a_question_that_needs_a_picture_is_named(question: str, expected: str) -> None:
    instance = load("med_qa").to_instance(ROW | {"question": question})
    assert instance is not None and instance.metadata["picture"] == expected


def test_the_real_files(real_instances: Callable[..., list[Instance]]) -> None:
    four, five = real_instances("med_qa"), real_instances("med_qa", "five_options")
    golds = Counter(i.references[0] for i in four)
    assert golds == {"A": 353, "B": 309, "C": 346, "D": 265}
    assert Counter(i.metadata["step"] for i in four) == {"step1": 679, "step2&3": 594}
    assert Counter(i.metadata["picture"] for i in four)["named"] == 62
    assert {len(i.choices) for i in four} == {4} and {len(i.choices) for i in five} == {5}
    assert len({i.question for i in four}) == 1273 and all(
        len(set(i.choices)) == len(i.choices) for i in [*four, *five]
    )
    assert not any(c != c.strip() or "\n" in c or '"""' in c for i in four for c in i.choices)
    assert [i.question for i in four] == [i.question for i in five]
    longest = sum(max(i.choices, key=len) == i.choices[ord(i.references[0]) - 65] for i in four)
    assert (round(golds["A"] / 1273, 4), round(longest / 1273, 3)) == (0.2773, 0.271)
    assert round(Counter(i.references[0] for i in five)["B"] / 1273, 4) == 0.2176
