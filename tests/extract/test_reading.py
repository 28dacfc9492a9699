"""The readers of free text against all written replies at hand, and what holds for any reply.

The sets under `unseen/` are a benchmark (`perf/reading.py` prints it): what is held here is one threshold for
what is read wrongly, and one for what is read right.
"""

from __future__ import annotations

import itertools
import os
import re
import string
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medhelm import (
    Instance,
    Reading,
    is_code,
    read_choice,
    read_date,
    read_number,
    read_weeks_days,
)
from medhelm.data.dataset import open_dataset
from medhelm.extract import (
    extract_choice,
    extract_codes,
    extract_date,
    extract_labels,
    extract_number,
    extract_weeks_days,
    final_answer,
)
from medhelm.plugins.registry import load_registry
from medhelm_metrics.medcalc import glossary
from perf.reading import judged, read, written

COLITIS = ("Vancomycin", "Ceftriaxone", "Metronidazole", "Fidaxomicin")
NERVE = ("Axillary nerve", "Radial nerve", "Ulnar nerve", "Median nerve")
TRIAL = ("yes", "no", "maybe")
LUNG = ("pneumonia", "asthma", "Pulmonary embolism", "COPD")

MOST_WRONG = {"choices": 2, "numbers": 2, "Medec": 0, "labels": 0}
"""How many replies of each kind may be read wrongly."""
LEAST_RIGHT = {"choices": 1_570, "numbers": 2_970, "Medec": 230, "labels": 150}


@pytest.mark.slow
def test_hardly_any_reply_of_the_sets_is_read_wrongly() -> None:
    found: dict[str, Counter[str]] = {kind: Counter() for kind in MOST_WRONG}
    for reply in written():
        kind = reply.group.rpartition(": ")[2]
        found[kind][judged(reply.row, read(reply.row))] += 1
    for kind, counts in found.items():
        assert counts["wrong"] <= MOST_WRONG[kind], (kind, counts)
        assert counts["right"] >= LEAST_RIGHT[kind], (kind, counts)


@pytest.mark.parametrize(
    ("text", "is_cut", "reason"),
    [
        ("I do not know.", False, "no option is stated"),
        ("The answer is F.", False, "what is stated names no single option"),
        ("<think>Answer: A", True, "no answer of its own"),
        (" ", False, "the reply is empty"),
        ("Answer: B. Wait, that is wrong.", False, "an answer is stated and taken back"),
        ("A. Vancomycin B. Ceftriaxone", False, "the options are only listed"),
    ],
)
def test_reasons_name_no_words_of_the_reply(text: str, is_cut: bool, reason: str) -> None:
    assert read_choice(text, COLITIS, is_cut=is_cut) == Reading(None, reason)


def test_the_reasons_that_the_manual_lists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reading.md").read_text("utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for reason, reply in rows:
        is_cut = "cut" in reason
        assert read_choice(reply, COLITIS, is_cut=is_cut).reason == reason


FORMS = (
    *("{l}. {t}", "{l}) {t}", "({l}) {t}", "[{l}] {t}", "{l}: {t}", "{l} - {t}", "{l} {t}"),
    *("**{l}.** {t}", "- {l}. {t}", "| {l} | {t} |", '"{l}": "{t}"', "{t}", "- {t}"),
    "Option {l}: {t}",
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
    *("Option {l} is correct.", "{l} is the correct answer.", "I would choose {l}."),
    *("I choose option {l}: {t}", "\\boxed{{{l}}}", "The final answer is $\\boxed{{{l}}}$."),
    *('{{"answer": "{l}"}}', '{{"prediction": "{l}"}}', "<answer>{l}</answer>"),
    "Let us look at each.\n\nTherefore, the answer is {l}, which is {t}.",
    *("{l}\n\nThis fits the findings best.", "Step 1: read.\n\n### Answer\n{l}"),
    *("Respuesta: {l}", "La respuesta correcta es la {l}.", "A resposta correta é a letra {l}."),
    *("La bonne réponse est {l}.", "Die richtige Antwort ist {l}.", "La risposta corretta è {l}."),
    *("答案：{l}", "正确答案是{l}。", "选{l}", "正解は{l}です。", "정답은 {l}입니다."),
    *("Правильный ответ: {l}", "الإجابة الصحيحة هي {l}", "सही उत्तर {l} है।"),
    *("Jibu sahihi ni {l}.", "Die antwoord is {l}.", "Impendulo: {l}", "መልሱ {l} ነው።"),
)
DENIED = (
    *("The answer is not {l}.", "{l} is incorrect.", "{l}. {t} is wrong.", "It is not {l}."),
    *("I would avoid {l}.", "{l} is contraindicated.", "I doubt that {l} is correct.", "{l}?"),
    *("The wrong answer is {l}.", "Definitely not {l}.", "I would not choose {l}.", "Not {l}."),
    *("Option {l} can be ruled out.", "{l} is unlikely.", "Anything except {l}.", "{l}. Wrong."),
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


@pytest.mark.parametrize(
    "form", ["It's {}.", "The answer is {}, not {}.", "{}, {}", "She is allergic to {}. Give {}."]
)
def test_a_reply_in_words_is_read_by_its_words_alone(form: str) -> None:
    texts = form.format(*COLITIS[:2])
    read_as = {
        None if value is None else order[string.ascii_uppercase.index(value)]
        for order in itertools.permutations(COLITIS)
        for value in [read_choice(texts, order).value]
    }
    assert len(read_as) == 1


def real_instances(name: str) -> list[Instance]:
    """Return the instances of a real set, where its files are at hand."""
    root = os.environ.get("MEDHELM_DATA_DIR")
    if not root:
        pytest.skip("MEDHELM_DATA_DIR is not set")
    benchmark = load_registry().benchmark(name)
    return [*open_dataset(benchmark, "full", root=Path(root)).instances()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"), [("headqa", 160), ("medbullets", 60), ("pubmed_qa", 200)]
)
def test_options_of_real_questions(name: str, step: int) -> None:
    """A text of one character cannot be told from a letter, and is left out."""
    wrong, unread, total = [], 0, 0
    for item in real_instances(name)[::step]:
        for letter, choice in zip("ABCDE", item.choices, strict=False):
            text = choice.rstrip(". ")
            for form in (*STATED, *DENIED) if len(text) > 1 else ():
                reply = form.format(l=letter, t=text)
                found = read_choice(reply, item.choices).value
                expected = letter if form in STATED else None
                if found not in (expected, None):
                    wrong.append((item.id, reply, found))
                unread += found is None and expected is not None
                total += 1
    assert wrong == []
    assert unread <= total // 100


SPACE = st.text(alphabet=" \n\t\r", max_size=4)
TEMPLATES = ["{}", "({})", "**{}**", "{}.", "Answer: {}", "The answer is {}.", "I choose {}."]


@given(st.sampled_from(TEMPLATES), st.integers(2, 26), st.data(), SPACE, SPACE)
@example("{}", 26, None, "", "")
def test_every_decoration_of_a_letter_is_read_back(
    template: str, n: int, data: st.DataObject | None, before: str, after: str
) -> None:
    choices = tuple(f"Organ system {i}" for i in range(n))
    letter = data.draw(st.sampled_from(string.ascii_uppercase[:n])) if data else "I"
    assert extract_choice(before + template.format(letter) + after, choices) == letter


@given(st.sampled_from(TEMPLATES), st.integers(1, 25), st.data())
def test_a_letter_beyond_the_options_is_no_answer(
    template: str, n: int, data: st.DataObject
) -> None:
    beyond = data.draw(st.sampled_from(string.ascii_uppercase[n:]))
    choices = tuple(f"Organ system {i}" for i in range(n))
    assert extract_choice(template.format(beyond), choices) is None


FRAGMENTS = st.sampled_from(
    [
        *("A", "B", "c", "D.", "(E)", "I", "not", "or", "and", "answer", "Answer:", "is", "final"),
        *("**", "\n", " ", ",", ".", "pneumonia", "asthma", "correct", "<think>", "</think>", "{"),
        *('"', "\\boxed{"),
    ]
)


@given(st.lists(FRAGMENTS, max_size=30).map(" ".join) | st.text(max_size=200), st.integers(0, 5))
def test_what_is_read_is_an_option_whatever_the_text(text: str, n: int) -> None:
    choices = (*LUNG, "Asthma and pneumonia")[:n]
    letter = extract_choice(text, choices)
    assert letter is None or letter in "ABCDE"[:n]
    assert extract_choice(f" \n{text}\n\t", choices) == letter


def test_a_letter_that_is_the_text_of_another_option_is_read_as_neither() -> None:
    lymphocytes = ("Tc.", "Th.", "NK", "B.")  # an item of HeadQA; the gold is D, "B."
    assert read_choice("B.", lymphocytes).value is None
    assert read_choice("B", lymphocytes).value == "B"
    assert read_choice("D. B.", lymphocytes).value == "D"


@given(
    st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 4)),
    st.sampled_from(
        ["{}", "{} mg/dL", "Answer: {}", "**{}**", "The value is {} kg/m\u00b2.", "= {}"]
    ),
)
def test_any_number_is_read_back(number: float, template: str) -> None:
    assert extract_number(template.format(f"{number:.4f}")) == number
    assert extract_number(template.format(f"{number:,.4f}")) == number


@given(st.dates())
def test_any_date_is_read_back(date: object) -> None:
    for form in ("{:%m/%d/%Y}", "Answer: {:%m/%d/%Y}", "The date is {:%Y-%m-%d}."):
        assert extract_date(form.format(date)) in (date, None if "%Y" in form else date)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Answer: 24.9\n\nAnswer: 25.4", "two results are stated: 24.9 and 25.4"),
        ("The BMI is 24.9. The BMI is 25.4.", "two results are stated: 24.9 and 25.4"),
        ("12-15", "a range, no single number"),
        ("The score is at least 4.", "only a bound: at least 4"),
        ("Answer: 1:1", "a ratio (1:1) is not a number"),
        ("3/4", "a fraction (3/4) is not a number"),
        ("12,5", "12,5 can be read in two ways"),
        ("70 / 1.75^2", "a calculation without its result"),
        ("The BMI is 24.9. No wait, 25.4 is right.", "a result is stated and then taken back"),
        ("I do not know.", "no number is stated"),
    ],
)
def test_why_there_is_no_number(text: str, reason: str) -> None:
    reading = read_number(text)
    assert (reading.value, reading.reason) == (None, reason)


def test_the_form_of_a_code() -> None:
    assert all(map(is_code, ("I10", "E11.9", "S72.001A", "M1A.9XX0", "0DTJ4ZZ")))
    assert not any(map(is_code, ("B12", "A1C", "i10", "I1", "250.00", "cardiology", "")))


def test_the_final_answer_is_what_is_marked_or_all() -> None:
    assert final_answer("<think>no</think> 8 He gets insulin. ") == "8 He gets insulin."
    assert final_answer("Hm.\n**Answer:** CORRECT\nBye") == "CORRECT"
    assert final_answer("Final answer: 8 He gets insulin.") == "8 He gets insulin."


SEEDS = [
    "The patient has a cough and fever, so we think that it is B. ",
    *("a", "A ", "A.\n", "(A) ", "*", " ", "\n", "(", "- ", "\u00e9 ", "\uff21"),
    *("\\boxed{", "<think>", "</think>", "answer is ", "answer: ", "Answer: A\n", "option: "),
    *("the answer is B, ", "best most likely ", "I choose A. ", "C is correct. ", "pneumonia "),
    *("1,", "12 ", "= ", "I10 ", '["a",', "{", "1e5 ", "x10^", "09/23/2014 ", "14 weeks 1 day "),
    *("BMI = 1 + 1 = 2\n", "(1 + ", "} ", "\\frac{", "{{", "wait, 1 ", "| 1 ", "> ", "about "),
    *("a = 1, ", "1/", "1:", "-", "negative ", "**1", "1;2 ", "\u00bd", "1 or ", "one ", "......"),
    *("with it would ", "Score 1/2 ", "36+5 ", "| 1 + 1 | 2 |\n", "So 1. 2. ", ",5 mg "),
]
READERS: list[tuple[int, float, Callable[[str], object]]] = [
    (25_000, 0.4, lambda text: extract_choice(text, LUNG)),
    (25_000, 0.4, extract_labels),
    (25_000, 0.4, extract_codes),
    (15_000, 0.5, extract_number),
    (15_000, 0.5, extract_date),
    (15_000, 0.5, extract_weeks_days),
    (15_000, 0.5, partial(extract_number, is_cut=True)),
]


def _hostile(size: int) -> Iterator[str]:
    for seed in SEEDS:
        yield (seed * (size // len(seed) + 1))[:size] + "\nC"


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seconds", "reader"), READERS)
def test_long_replies_take_no_quadratic_time(
    size: int, seconds: float, reader: Callable[[str], object]
) -> None:
    for text in _hostile(size):
        spent = [spent_on(reader, text)]
        if spent[0] >= seconds:  # a busy machine is given a second try
            spent.append(spent_on(reader, text))
        assert min(spent) < seconds, repr(text[:30])  # quadratic would be some seconds


def spent_on(reader: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    reader(text)
    return time.process_time() - start


@given(st.lists(st.sampled_from(SEEDS), max_size=40).map("".join), st.booleans())
def test_whatever_the_text_there_is_a_value_or_a_reason(text: str, is_cut: bool) -> None:
    for reading in (
        read_number(text, is_cut=is_cut),
        read_date(text, is_cut=is_cut),
        read_weeks_days(text, is_cut=is_cut),
    ):
        assert (reading.value is None) == bool(reading.reason)


@pytest.mark.parametrize("space", ["\t", "\u200a", "\u3000"])
def test_any_white_space_is_a_space(space: str) -> None:
    assert read_number(f"The value is less than{space}(5 mg).").value is None
    asked = glossary().asked_by("What is the rate in mL/hr?")
    daily = f"The patient needs 2256{space}mL/day"
    assert read_number(f"{daily}.", asked=asked).value is None
    assert read_number(f"{daily}, i.e. 94{space}mL/hr.", asked=asked).value == 94


def test_a_letter_that_changes_when_it_is_folded_begins_an_option() -> None:
    options = ["\u0130nme", "Migren", "Menenjit"]
    assert read_choice("Migren is unlikely. \u0130nme is most likely.", options).value == "A"
    assert read_choice("Migren: hay\u0131r\n\u0130nme", options).value == "A"
