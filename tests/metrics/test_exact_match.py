from __future__ import annotations

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from medhelm.schema.score import Scoring
from tests.graded import grade, said

from .conftest import always, mean, metric, outcomes

CHOICES = ("Aspirin", "Heparin", "Aspirin", "Warfarin")
CHOICE = Instance(id="i", choices=CHOICES, references=("A",))
TEXT = Instance(id="t", references=("Giant cell arteritis", "Temporal arteritis"))


@pytest.mark.parametrize(
    ("text", "fixed", "published"),
    [
        ("A", (1.0, "scored"), (1.0, "scored")),
        (" A\n", (1.0, "scored"), (1.0, "scored")),
        ("B", (0.0, "scored"), (0.0, "scored")),
        ("A.", (1.0, "scored"), (0.0, "unparsed")),
        ("Answer: A", (1.0, "scored"), (0.0, "unparsed")),
        ("a", (1.0, "scored"), (0.0, "unparsed")),
        ("E", (0.0, "unparsed"), (0.0, "unparsed")),
        ("AB", (0.0, "unparsed"), (0.0, "unparsed")),
        ("heparin", (0.0, "scored"), (0.0, "unparsed")),
        # the published rule compares texts of options, so that a twin of the gold is right too
        ("C", (0.0, "scored"), (1.0, "scored")),
        ("", (0.0, "empty"), (0.0, "empty")),
    ],
)
def test_choices(text: str, fixed: tuple[float, str], published: tuple[float, str]) -> None:
    for exact, expected in (
        (metric("exact_match"), fixed),
        (metric("exact_match", "helm"), published),
    ):
        score = grade(exact, CHOICE, said(text))
        assert (score.value, score.outcome) == expected
        assert score.sums == {}


@pytest.mark.parametrize(
    ("text", "fixed", "published"),
    [
        ("Giant cell arteritis", 1, 1),
        ("temporal  arteritis.", 1, 0),
        ("Final answer: giant cell arteritis", 1, 0),
        ("arteritis", 0, 0),
    ],
)
def test_texts(text: str, fixed: float, published: float) -> None:
    assert grade(metric("exact_match"), TEXT, said(text)).value == fixed
    assert grade(metric("exact_match", "helm"), TEXT, said(text)).value == published


@pytest.mark.parametrize(
    ("instance", "text", "value", "outcome", "reason"),
    [
        (
            CHOICE,
            "The patient took aspirin last",
            0.0,
            "truncated",
            "the reply was cut before it chose",
        ),
        (CHOICE, "The answer is A. It is", 1.0, "scored", ""),
        (CHOICE, "A. Aspirin\nB. Hep", 0.0, "truncated", "the options are only listed"),
        (
            TEXT,
            "Giant cell arteritis",
            0.0,
            "truncated",
            "the reply was cut before its answer was whole",
        ),
        (TEXT, "Answer: giant cell arteritis\n\nThe", 1.0, "scored", ""),
    ],
)
def test_a_reply_that_was_cut_is_read_by_what_it_states(
    instance: Instance, text: str, value: float, outcome: str, reason: str
) -> None:
    response = Response(instance_id="i", text=text, finish="length")
    score = grade(metric("exact_match"), instance, response)
    assert (score.value, score.outcome, score.reason) == (value, outcome, reason)


def test_a_score_says_why_nothing_is_read() -> None:
    score = grade(metric("exact_match"), CHOICE, said("Answer: A\nAnswer: B"))
    assert (score.outcome, score.reason) == ("unparsed", "two options are stated: A and B")
    score = grade(metric("exact_match"), TEXT, said("Answer: croup\nAnswer: temporal arteritis"))
    assert (score.outcome, score.reason) == ("unparsed", "several answers are marked as final")


def test_an_answer_without_a_word_never_matches() -> None:
    dots = Instance(id="d", references=("...", "Croup"))
    assert grade(metric("exact_match"), dots, said("...")).value == 0.0
    assert grade(metric("exact_match"), dots, said("**")).value == 0.0
    assert grade(metric("exact_match"), dots, said("croup.")).value == 1.0


@pytest.mark.parametrize("references", [(), ("",), (" ", "")])
def test_a_text_without_a_gold_cannot_be_graded(references: tuple[str, ...]) -> None:
    instance = Instance(id="bad-2", references=references)
    for exact in (metric("exact_match"), metric("exact_match", "helm")):
        with pytest.raises(DataError, match="'bad-2' has no reference"):
            grade(exact, instance, said("..."))


@pytest.mark.parametrize("text", ["yes, maybe", "Yes; no.", "no, perhaps maybe", "Answer: yes, no"])
def test_two_options_by_their_texts_are_no_answer(text: str) -> None:
    question = Instance(id="q", choices=("yes", "no", "maybe"), references=("A",))
    assert grade(metric("exact_match"), question, said(text)).outcome == "unparsed"


@pytest.mark.parametrize("references", [(), ("E",), ("Aspirin",), ("AB",), ("",)])
def test_references_that_are_no_letters_of_options(references: tuple[str, ...]) -> None:
    instance = Instance(id="bad-1", choices=CHOICES, references=references)
    for exact in (metric("exact_match"), metric("exact_match", "helm")):
        with pytest.raises(DataError, match="'bad-1'.*(letter|no reference)"):
            grade(exact, instance, said("A"))


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["fixed", "helm"])
@pytest.mark.parametrize(
    ("name", "count", "constants"),
    [
        ("headqa", 2675, {"A": 0.2434, "C": 0.2688}),
        ("medbullets", 308, {"A": 0.1981, "B": 0.2403}),
        ("pubmed_qa", 1000, {"A": 0.552, "B": 0.338, "C": 0.110}),
    ],
)
def test_the_real_questions(
    scoring: Scoring,
    name: str,
    count: int,
    constants: dict[str, float],
    request: pytest.FixtureRequest,
) -> None:
    instances: list[Instance] = request.getfixturevalue(name)
    exact = metric("exact_match", scoring)
    assert len(instances) == count
    assert mean(exact, instances, lambda i: i.references[0]) == 1.0
    assert mean(exact, instances, always("")) == 0.0
    for letter, share in constants.items():
        assert mean(exact, instances, always(letter)) == pytest.approx(share, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["headqa", "medbullets", "pubmed_qa"])
@pytest.mark.parametrize(
    "template",
    ["{letter}. {text}", "Answer: {letter}. {text}", "**{letter}) {text}**\n\nBecause.", "{text}"]
    + ["The correct answer is {letter}.", "The answer is ({letter}) {text}.", "Answer: {text}"]
    + ["The answer is {text}", "Final answer: **{text}**"],
)
def test_real_options_are_read_in_usual_words(
    name: str, template: str, request: pytest.FixtureRequest
) -> None:
    """Every option is read back, but texts that are another option's letter.

    Of some questions: `medhelm validate --data full` tries all of them, in these words and others.
    """
    missed = []
    instances = request.getfixturevalue(name)
    for instance in instances[:: {"headqa": 15, "pubmed_qa": 5, "medbullets": 3}[name]]:
        letters = "ABCDE"[: len(instance.choices)]
        for letter, text in zip(letters, instance.choices, strict=True):
            if "{letter}" not in template and text.strip(". ") in letters:
                continue
            answered = Instance(id=instance.id, choices=instance.choices, references=(letter,))
            score = grade(
                metric("exact_match"), answered, said(template.format(letter=letter, text=text))
            )
            if score.value != 1.0:
                missed.append((instance.id, letter, score.extracted, text))
    assert missed == []


def test_outcomes_of_a_constant(pubmed_qa: list[Instance]) -> None:
    exact = metric("exact_match")
    assert outcomes(exact, pubmed_qa, always("I cannot say.")) == {"unparsed"}
    assert mean(exact, pubmed_qa, always("Yes.")) == 0.552
    assert mean(metric("exact_match", "helm"), pubmed_qa, always("Yes.")) == 0.0
