"""Whose text is read, and what marks an answer as final, by maker and by language."""

from __future__ import annotations

import time

import pytest

from medhelm.extract import own_text, read_answer, visible_text
from medhelm.extract.languages import LANGUAGES
from medhelm.extract.marks import all_marks, unify
from tests.cases import cases


@pytest.mark.parametrize(("text", "visible"), cases(__file__, "thoughts_of_every_maker_are_hidden"))
def test_thoughts_of_every_maker_are_hidden(text: str, visible: str) -> None:
    assert visible_text(text) == visible


@pytest.mark.parametrize(
    ("text", "own"), cases(__file__, "what_a_completion_runs_on_into_is_not_its_own")
)
def test_what_a_completion_runs_on_into_is_not_its_own(text: str, own: str) -> None:
    assert own_text(text).strip() == own


@pytest.mark.parametrize(
    "text",
    [
        *("Answer: x", "**Answer:** x", "Final answer is x", "My answer: x", "ANSWER = x"),
        *('{"answer": "x"}', '{"prediction": "x"}', '{"final_answer": "x"}', "<option>x</option>"),
        *(
            "<answer>x</answer>",
            "\\boxed{x}",
            "Respuesta: x",
            "Respuesta correcta: x",
            "R\u00e9ponse : x",
        ),
        *(
            "Antwort: x",
            "Resposta final: x",
            "Risposta: x",
            "\u7b54\u6848\uff1ax",
            "\u6b63\u89e3\uff1ax",
        ),
        *(
            "\u041e\u0442\u0432\u0435\u0442: x",
            "Jibu: x",
            "Antwoord: x",
            "Impendulo: x",
            "Cevap: x",
        ),
        "\u1218\u120d\u1235\u1366 x",
    ],
)
def test_marks_of_a_final_answer(text: str) -> None:
    assert [mark.value for mark in all_marks(unify(text))] == ["x"]
    assert [mark.value for mark in all_marks(unify(f"First this.\n{text}"))] == ["x"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_marks_an_answer_by_its_words(language: str) -> None:
    for word in LANGUAGES[language].answer:
        for text in (f"{word}: 7", f"**{word}:** 7", f"{word.capitalize()}: 7"):
            assert [mark.value for mark in all_marks(text)] == ["7"], text


@pytest.mark.parametrize(
    ("text", "is_cut", "value", "reason"),
    [
        ("croup", False, "croup", ""),
        ("Answer: croup\nBye.", False, "croup", ""),
        ("Answer: croup\nFinal answer: Croup", False, "Croup", ""),
        ("Answer: croup\nAnswer: asthma", False, None, "several answers are marked as final"),
        ("croup is", True, None, "the reply was cut before its answer was whole"),
        ("Answer: giant", True, None, "the reply was cut before its answer was whole"),
        ("Answer: croup\n\nThe cough", True, "croup", ""),
        ("<think>croup", False, None, "no answer of its own"),
    ],
)
def test_a_free_answer(text: str, is_cut: bool, value: str | None, reason: str) -> None:
    reading = read_answer(text, is_cut=is_cut)
    assert (reading.value, reading.reason) == (value, reason)


@pytest.mark.slow
def test_marks_of_a_megabyte_take_time_in_proportion() -> None:
    for seed in (
        "answer",
        "Question:\n",
        "respuesta ",
        "<think>",
        "~~a",
        "analysis",
        "option option ",
    ):
        text = (seed * 200_000)[:1_000_000]
        start = time.process_time()
        all_marks(own_text(text))
        assert time.process_time() - start < 6.0, seed
