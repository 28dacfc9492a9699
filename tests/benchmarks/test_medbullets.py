import hashlib
from collections import Counter
from collections.abc import Callable

import pytest

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW = {
    "link": "https://step2.medbullets.com/testview?qid=1",
    "question": "A man has a headache.\nWhat helps?",
    "opa": "Rest",
    "opb": "Water",
    "opc": "Salt",
    "opd": "Sugar",
    "ope": "Tea ",
    "answer_idx": "E",
    "answer": "Tea",
    "explanation": "Only tea helps here.",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("medbullets")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="https://step2.medbullets.com/testview?qid=1",
        question="A man has a headache.\nWhat helps?",
        choices=("Rest", "Water", "Salt", "Sugar", "Tea"),
        references=("E",),
        cluster=hashlib.sha256(b"a man has a headache. what helps?").hexdigest()[:16],
        metadata={"figure": "none"},
    )
    assert prompt(benchmark, instance) == (
        "This is a clinical case with a question about it. Choose the best option.\n\n"
        "A man has a headache.\nWhat helps?\n\n"
        "A. Rest\nB. Water\nC. Salt\nD. Sugar\nE. Tea\n\n"
        "Exactly one option is right. Reply with its letter alone (A, B, C, D or E)."
    )


@pytest.mark.parametrize(
    ("question", "letters", "figure"),
    [
        ("His film is shown in Figure A. What is it?", False, "referenced"),
        ("His films are shown in Figures A and B. What is it?", False, "referenced"),
        ("Which film in Figure A fits?", True, "only_letters"),
        ("He figures a cure is near. What is it?", False, "none"),
    ],
)
def test_questions_about_figures_are_marked(question: str, letters: bool, figure: str) -> None:
    options = {f"op{c.lower()}": c for c in "ABCDE"} if letters else {}
    instance = load("medbullets").to_instance(ROW | options | {"question": question})
    assert instance is not None
    assert instance.metadata == {"figure": figure}


def test_the_real_file(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("medbullets")
    assert len(instances) == 308
    golds = Counter(i.references[0] for i in instances)
    assert golds == {"A": 61, "B": 74, "C": 53, "D": 67, "E": 53}
    figures = Counter(i.metadata["figure"] for i in instances)
    assert figures == {"none": 192, "referenced": 113, "only_letters": 3}
    assert [n for n, i in enumerate(instances) if i.metadata["figure"] == "only_letters"] == [
        56,
        107,
        281,
    ]
    clusters = Counter(i.cluster for i in instances)
    assert Counter(clusters.values()) == {1: 288, 2: 10}
    for cluster, n in clusters.items():
        if n == 2:
            pair = [i for i in instances if i.cluster == cluster]
            assert pair[0].choices == pair[1].choices
            assert pair[0].references == pair[1].references
