"""Replies in many styles, and what must hold of any reply."""

from __future__ import annotations

import itertools
import random
import re
import string
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.extract import Reading, extract_choice, read_choice
from medhelm.schema.data import Instance
from tests.metrics.conftest import data as data
from tests.metrics.conftest import headqa as headqa
from tests.metrics.conftest import medbullets as medbullets
from tests.metrics.conftest import pubmed_qa as pubmed_qa

from .more_replies import CUT_MORE, WHOLE_MORE
from .replies import COLITIS, CUT, NERVE, TRIAL, WHOLE, Row


def _rows(
    replies: dict[tuple[str, ...], list[Row]],
) -> list[tuple[str, tuple[str, ...], str | None]]:
    return [(text, choices, letter) for choices, rows in replies.items() for text, letter in rows]


@pytest.mark.parametrize(("text", "choices", "letter"), [*_rows(WHOLE), *_rows(WHOLE_MORE)])
def test_whole_replies(text: str, choices: tuple[str, ...], letter: str | None) -> None:
    assert read_choice(text, choices).value == letter
    assert extract_choice(f"\n {text} \n\n", choices) == letter


@pytest.mark.parametrize(("text", "choices", "letter"), [*_rows(CUT), *_rows(CUT_MORE)])
def test_cut_replies(text: str, choices: tuple[str, ...], letter: str | None) -> None:
    assert read_choice(text, choices, is_cut=True).value == letter
    assert extract_choice(text, choices, is_cut=True) == letter


@pytest.mark.parametrize(
    ("text", "is_cut", "reason"),
    [
        ("Answer: B\nAnswer: C", False, "two options are stated: B and C"),
        (
            "The answer is C. The answer is A. I choose B.",
            False,
            "several options are stated: A, B and C",
        ),
        ("Answer: B. No wait, it's C.", False, "two options are stated: B and C"),
        ("Answer: B. Wait, that is wrong.", False, "an answer is stated and taken back"),
        ("A. Vancomycin B. Ceftriaxone C. Metronidazole", False, "the options are only listed"),
        ("A: 10%, B: 20%, C: 60%", False, "probabilities of several options"),
        ("Metronidazole is contraindicated.", False, "an option is mentioned, not chosen"),
        ("She took metronidazole, so we need to", True, "the reply was cut before it chose"),
        ("I do not know.", False, "no option is stated"),
        ("The answer is F.", False, "what is stated names no single option"),
        ("<think>Answer: A", True, "no answer of its own"),
        (" ", False, "the reply is empty"),
    ],
)
def test_reasons_name_no_words_of_the_reply(text: str, is_cut: bool, reason: str) -> None:
    assert read_choice(text, COLITIS, is_cut=is_cut) == Reading(None, reason)


def test_the_reasons_that_the_manual_lists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reading.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 8
    for reason, reply in rows:
        is_cut = "cut" in reason
        assert read_choice(reply, COLITIS, is_cut=is_cut).reason == reason


FORMS = (
    *("{l}. {t}", "{l}) {t}", "({l}) {t}", "[{l}] {t}", "{l}: {t}", "{l} - {t}", "{l} {t}"),
    *(
        "**{l}.** {t}",
        "- {l}. {t}",
        "| {l} | {t} |",
        '"{l}": "{t}"',
        "{t}",
        "- {t}",
        "Option {l}: {t}",
    ),
)
GAPS = ("\n", "\n\n", " ", ", ", "; ", " / ", " | ")
SHARES = ("{l}: {n}%", "{l} ({n}%)", "{l} = 0.{n}", "{l}) {n}%", "{l} - {n}%", '"{l}": 0.{n}')


def _echo(form: str, gap: str, choices: tuple[str, ...]) -> str:
    lettered = zip(string.ascii_uppercase, choices, strict=False)
    return gap.join(form.format(l=letter, t=t, n=10 + i) for i, (letter, t) in enumerate(lettered))


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("form", FORMS)
def test_a_list_of_the_options_chooses_none(form: str, gap: str) -> None:
    for choices in (COLITIS, NERVE, TRIAL):
        echo = _echo(form, gap, choices)
        for text in (echo, f"Answer: {echo}", f"Answer:\n{echo}", f"The options are:\n{echo}"):
            assert read_choice(text, choices).value is None, text
        for end in range(10, len(echo), 7):
            assert read_choice(echo[:end], choices, is_cut=True).value is None, echo[:end]


@pytest.mark.parametrize("gap", ["\n", ", ", "; "])
@pytest.mark.parametrize("form", SHARES)
def test_probabilities_choose_none(form: str, gap: str) -> None:
    text = _echo(form, gap, COLITIS)
    assert read_choice(text, COLITIS).reason == "probabilities of several options", text
    assert read_choice(f"{text}\n\nAnswer: C", COLITIS).value == "C"


STATED = (
    *("{l}", "({l})", "{l}. {t}", "{l}) {t}", "{l}: {t}", "{l} - {t}", "**{l}. {t}**", "{t}"),
    *("Answer: {l}", "Answer: {l}. {t}", "**Answer: {l}**", "Answer: {t}", "Final Answer: {l}"),
    *("The answer is {l}.", "The correct answer is ({l}) {t}.", "The answer is {t}."),
    *("The best answer is **{l}. {t}**.", "Therefore, the correct option is {l}. {t}."),
    *(
        "Option {l} is correct.",
        "{l} is the correct answer.",
        "I would choose {l}.",
        "I prefer {l}.",
    ),
    *("I choose option {l}: {t}", "\\boxed{{{l}}}", "The final answer is $\\boxed{{{l}}}$."),
    *(
        '{{"answer": "{l}"}}',
        '{{"prediction": "{l}"}}',
        "<answer>{l}</answer>",
        "<option>{l}</option>",
    ),
    "Let us look at each.\n\nTherefore, the answer is {l}, which is {t}.",
    "{l}\n\nThis fits the findings best.",
    "Step 1: read.\nStep 2: choose.\n\n### Answer\n{l}",
    *("Respuesta: {l}", "La respuesta correcta es la {l}.", "A resposta correta é a letra {l}."),
    *("La bonne réponse est {l}.", "Die richtige Antwort ist {l}.", "La risposta corretta è {l}."),
    *("答案：{l}", "正确答案是{l}。", "选{l}", "正解は{l}です。", "정답은 {l}입니다."),
    *("Правильный ответ: {l}", "الإجابة الصحيحة هي {l}", "सही उत्तर {l} है।"),
    *("Jibu sahihi ni {l}.", "Die antwoord is {l}.", "Impendulo: {l}", "መልሱ {l} ነው።"),
)
DENIED = (
    *(
        "The answer is not {l}.",
        "{l} is incorrect.",
        "{l}. {t} is wrong.",
        "It is not {l}.",
        "{l}?",
    ),
    *(
        "I would avoid {l}.",
        "{l} is contraindicated.",
        "I doubt that {l} is correct.",
        "{l}. Wrong.",
    ),
    *("The wrong answer is {l}.", "Definitely not {l}.", "I would not choose {l}.", "Not {l}."),
    *(
        "Option {l} can be ruled out.",
        "{l} is unlikely.",
        "Anything except {l}.",
        "{l} (incorrect)",
    ),
    *("If {l} is correct, we would see it.", "Is the answer {l}?", "It could be {l}."),
    *("{t} is contraindicated here.", "The patient is allergic to {t}.", "{t} failed last year."),
    *("I would avoid {t}.", "The patient had {t} before.", "Some say the answer is {l}."),
    *("La respuesta no es {l}.", "答案不是{l}", "Die Antwort ist nicht {l}.", "सही उत्तर {l} नहीं है"),
)


@given(
    st.permutations(["Vancomycin", "Ceftriaxone", "Metronidazole", "Fidaxomicin", "Rifaximin"]),
    st.sampled_from(range(5)),
    st.sampled_from([*STATED, *DENIED]),
)
def test_permuted_options_permute_the_reading(order: list[str], which: int, form: str) -> None:
    letter = string.ascii_uppercase[which]
    text = form.format(l=letter, t=order[which])
    assert read_choice(text, order).value == (letter if form in STATED else None)


REPLIES_ABOUT_TEXTS = [
    "It's {}.",
    "The patient should be given {}.",
    "The answer is {}, not {}.",
    "{} is contraindicated, so give {}.",
    "{}, {}",
    "She is allergic to {}. Give {}.",
]


@pytest.mark.parametrize("form", REPLIES_ABOUT_TEXTS)
def test_a_reply_in_words_is_read_by_its_words_alone(form: str) -> None:
    texts = form.format(*COLITIS[:2])
    read = {
        None if value is None else order[string.ascii_uppercase.index(value)]
        for order in itertools.permutations(COLITIS)
        for value in [read_choice(texts, order).value]
    }
    assert len(read) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), [("headqa", 80), ("medbullets", 30), ("pubmed_qa", 200)])
def test_options_of_real_questions(name: str, step: int, request: pytest.FixtureRequest) -> None:
    """Texts that are another option's letter, and the text `B.`, cannot be told from letters."""
    items: list[Instance] = request.getfixturevalue(name)[::step]
    wrong, unread, total = [], 0, 0
    for item in items:
        for letter, choice in zip("ABCDE", item.choices, strict=False):
            text = choice.rstrip(". ")
            if len(text) < 2:
                continue
            for form in (*STATED, *DENIED):
                reply = form.format(l=letter, t=text)
                found = read_choice(reply, item.choices).value
                expected = letter if form in STATED else None
                if found not in (expected, None):
                    wrong.append((item.id, reply, found))
                unread += found is None and expected is not None
                total += 1
    assert wrong == []
    assert unread <= total // 1000


@pytest.mark.slow
def test_no_list_of_a_real_question_chooses(headqa: list[Instance]) -> None:
    """Each of many questions in two of the forms, whole and cut at every tenth character."""
    shuffled = random.Random(11)
    for item in headqa[::16]:
        for form, gap in shuffled.sample(list(itertools.product(FORMS, GAPS)), 2):
            echo = _echo(form, gap, item.choices)
            assert read_choice(echo, item.choices).value is None, echo
            for end in range(10, len(echo), 10):
                found = read_choice(echo[:end], item.choices, is_cut=True)
                assert found.value is None, (item.id, echo[:end])


@pytest.mark.slow
def test_a_long_reply_takes_time_in_proportion() -> None:
    for seed in ("A. Vancomycin B. ", "answer is ", "选A ", "A: 1% ", "vancomycin, ", "?\nA. x\n"):
        spent = []
        for size in (50_000, 500_000):
            text = seed * (size // len(seed))
            start = time.process_time()
            read_choice(text, COLITIS, is_cut=True)
            spent.append(time.process_time() - start)
        assert spent[1] < 40 * max(spent[0], 0.02), seed


def test_a_letter_that_is_the_text_of_another_option_is_read_as_neither() -> None:
    lymphocytes = ("Tc.", "Th.", "NK", "B.")  # an item of HeadQA; the gold is D, "B."
    assert read_choice("B.", lymphocytes).value is None
    assert read_choice("B", lymphocytes).value == "B"
    assert read_choice("D. B.", lymphocytes).value == "D"


FOUR = ("Vancomycin", "Ceftriaxone", "Azithromycin", "Watchful waiting")


@pytest.mark.parametrize(
    "text",
    [
        "A. Ceftriaxone",
        "A: Ceftriaxone is first line here.",
        "The answer is A: ceftriaxone 2 g IV daily.",
        "The answer is A which is ceftriaxone.",
        "Option A, i.e. ceftriaxone",
        "The answer is ceftriaxone, option A.",
        '{"answer": "A", "text": "Ceftriaxone"}',
        "One argument favors A.",
    ],
)
def test_a_letter_with_the_text_of_another_option_and_a_weak_form_state_none(text: str) -> None:
    reading = read_choice(text, FOUR)
    assert reading.value is None
    assert reading.reason


ASKING = (
    "immune globulin to the patient. What is this treatment most likely to prevent?",
    "Development of natural killer cells",
    "a = g (cos? - sin?) .",
    "... no change?",
)


@pytest.mark.parametrize("letter", "ACD")
@pytest.mark.parametrize(
    "reply",
    [
        "{text}",
        "{letter}. {text}",
        "The answer is {letter}. {text}",
        "**{letter}. {text}**\n\nIt fits.",
    ],
)
def test_an_option_that_asks_is_no_question_of_the_reply(letter: str, reply: str) -> None:
    """MMLU's professional medicine has such an option, its African translations and HeadQA others."""
    text = reply.format(letter=letter, text=ASKING["ABCD".index(letter)])
    assert read_choice(text, ASKING).value == letter


@pytest.mark.parametrize("text", ["Is it A?", "B? Or A?", "Could it be natural killer cells?"])
def test_a_question_of_the_reply_stays_one(text: str) -> None:
    assert read_choice(text, ASKING).value is None


@pytest.mark.parametrize(
    ("marked", "value"),
    [("A", None), ("B", "B"), ("C", None)],
)
def test_marks_with_the_options_once_more_behind_each(marked: str, value: str | None) -> None:
    """A base model (Gemma-3-270M) runs on: it marks one letter after the other, or the same again."""
    listed = "A. Milk\nB. Ice-cream\nC. Skimmed milk\nD. Yoghurt"
    text = f"Answer: B\n\n{listed}\n\nAnswer: {marked}\n\n{listed[:21]}"
    choices = ("Milk", "Ice-cream", "Skimmed milk", "Yoghurt")
    assert read_choice(text, choices, is_cut=True).value == value
    assert read_choice(text.replace(listed[:21], listed), choices).value == value
