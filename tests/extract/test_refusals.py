"""Refusals in words are told from answers, and counted beside what could not be read."""

from __future__ import annotations

from pathlib import Path

import pytest

import medhelm
from medhelm.extract.refusals import looks_like_refusal
from medhelm.schema.model import ModelSpec
from tests.server import serve_in_thread


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, but I can’t assist with this request.",
        "As an AI language model, I am not able to provide medical advice. Please see a doctor.",
        "I cannot, in good conscience, recommend a dose here.",
        "Unfortunately I must decline to answer this question.",
        "I won't be able to choose one of these options.",
        "<think>Is this safe?</think>I'm not comfortable giving a diagnosis.",
        "Lo siento, pero no puedo ayudar con esa solicitud.",
        "Desculpe, não posso responder a essa pergunta.",
        "Je suis désolé, je ne peux pas vous aider.",
        "Das kann ich leider nicht beantworten.",
        "抱歉,我无法提供医疗建议。",
    ],
)
def test_a_refusal(reply: str) -> None:
    assert looks_like_refusal(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "The patient cannot give consent, so the answer is B.",
        "This cannot be the answer, because the graft is not perfused.",
        "Sorry to hear that. Paracetamol helps.",
        "We cannot exclude an infarction without a second troponin.",
        "El paciente no puede caminar; responda B.",
        "Der Patient kann nicht schlucken. Geben Sie nichts oral.",
        "患者无法站立,应行头颅CT检查。",
        "",
    ],
)
def test_no_refusal(reply: str) -> None:
    assert not looks_like_refusal(reply)


def test_a_note_counts_them(tmp_path: Path) -> None:
    replies = iter(["I'm sorry, but I can't help with that.", "Both seem right."] * 20)
    with serve_in_thread(lambda _: next(replies)) as server:
        spec = ModelSpec(name="ward/a", model="a", base_url=server.base_url, endpoint_class="local")
        results = medhelm.evaluate(spec, "headqa", data="sample", results_dir=tmp_path)
    table = results.typed("benchmarks")
    assert [r["refused_in_words"] for r in table.rows] == [4]
    (note,) = [n for n in table.notes if "refusals" in n]
    assert "ward/a 4 of 8" in note
