from __future__ import annotations

import re

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from tests.cases import cases
from tests.graded import grade, said

from .conftest import always, gold, mean, metric

FLAG, SENTENCE = metric("medec_flag_accuracy"), metric("medec_sentence_accuracy")
HELM_FLAG = metric("medec_flag_accuracy", "helm")
HELM_SENTENCE = metric("medec_sentence_accuracy", "helm")
KEY = {"error_flag": "1", "error_sentence_id": "8"}
WRONG = Instance(id="w", references=("8 He gets dexamethasone.",), answer_key=KEY)
KEY = {"error_flag": "0", "error_sentence_id": "-1"}
RIGHT = Instance(id="r", references=("CORRECT",), answer_key=KEY)

CORRECT = "CORRECT"


@pytest.mark.parametrize(("text", "claim"), cases(__file__, "claims"))
def test_claims(text: str, claim: str | None) -> None:
    on_wrong, on_right = grade(FLAG, WRONG, said(text)), grade(FLAG, RIGHT, said(text))
    if claim is None:
        assert {on_wrong.outcome, on_right.outcome} == {"unparsed"}
        assert {on_wrong.value, on_right.value} == {0.0}
        assert grade(SENTENCE, WRONG, said(text)).outcome == "unparsed"
        return
    assert on_wrong.extracted == on_right.extracted == claim
    assert on_wrong.value == (claim != CORRECT)
    assert on_right.value == (claim == CORRECT)
    assert grade(SENTENCE, WRONG, said(text)).value == (claim == "8")
    assert grade(SENTENCE, RIGHT, said(text)).value == (claim == CORRECT)


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("Answer: 8 He gets dexamethasone.\n\nInsulin is", "8"),
        ("CORRECT\n\nAll of", CORRECT),
        ("0 He has croup.\n1 He gets", None),
        ("0 He has croup.\n1 He gets insulin.\n2", None),
        ("0 He has", None),
        ("CORRECT", None),
        ("There is no error in the history. The dose", None),
    ],
)
def test_of_a_cut_reply_whole_lines_count(text: str, claim: str | None) -> None:
    score = grade(FLAG, WRONG, Response(instance_id="i", text=text, finish="length"))
    assert score.extracted == (claim or "")
    assert score.outcome == ("scored" if claim else "truncated")


@pytest.mark.parametrize(
    ("text", "flags", "sentences"),
    [
        ("CORRECT", (0, 1), (0, 1)),
        (" CORRECT\n", (0, 1), (0, 1)),
        ("CORRECT.", (1, 0), (0, 0)),
        ("I cannot say", (1, 0), (0, 0)),
        ("8 He gets dexamethasone.", (1, 0), (0, 0)),
    ],
)
def test_the_published_rule(text: str, flags: tuple[int, int], sentences: tuple[int, int]) -> None:
    assert tuple(grade(HELM_FLAG, i, said(text)).value for i in (WRONG, RIGHT)) == flags
    assert tuple(grade(HELM_SENTENCE, i, said(text)).value for i in (WRONG, RIGHT)) == sentences


@pytest.mark.parametrize(
    ("finish", "text", "outcome"),
    [("stop", "", "empty"), ("refusal", "I will not.", "refused"), ("length", " ", "truncated")],
)
def test_the_published_rule_reads_a_missing_answer_as_error(
    finish: str, text: str, outcome: str
) -> None:
    response = Response(instance_id="i", text=text, finish=finish)  # type: ignore[arg-type]
    assert [grade(HELM_FLAG, i, response).value for i in (WRONG, RIGHT)] == [1.0, 0.0]
    assert [grade(FLAG, i, response).value for i in (WRONG, RIGHT)] == [0.0, 0.0]
    for rule in (HELM_FLAG, FLAG, HELM_SENTENCE, SENTENCE):
        assert grade(rule, WRONG, response).outcome == outcome
    failed = Response(instance_id="i", finish="error", error="http 500")
    assert grade(HELM_FLAG, WRONG, failed).value is None


@pytest.mark.parametrize(
    "key",
    [{}, {"error_flag": "yes"}, {"error_flag": "1"}, {"error_flag": "1", "error_sentence_id": "x"}],
)
def test_instances_that_cannot_be_scored(key: dict[str, str]) -> None:
    with pytest.raises(DataError, match="'bad'"):
        grade(SENTENCE, Instance(id="bad", answer_key=key), said("CORRECT"))


@pytest.mark.slow
def test_the_real_file(medec: list[Instance]) -> None:
    assert len(medec) == 597
    for rule in (FLAG, SENTENCE):
        assert mean(rule, medec, gold) == 1.0
        assert mean(rule, medec, always("")) == 0.0
        assert mean(rule, medec, always("CORRECT")) == 286 / 597
    assert mean(FLAG, medec, always("8 He is well.")) == 311 / 597
    assert mean(SENTENCE, medec, always("8 He is well.")) == pytest.approx(0.064, abs=5e-4)
    assert mean(HELM_FLAG, medec, gold) == 1.0
    assert mean(HELM_FLAG, medec, always("")) == 311 / 597
    assert mean(HELM_FLAG, medec, always("CORRECT")) == 286 / 597
    assert mean(HELM_SENTENCE, medec, gold) == 286 / 597
    assert mean(HELM_SENTENCE, medec, always("")) == 0.0


@pytest.mark.slow
def test_every_sentence_of_the_real_notes_is_read_by_its_number(medec: list[Instance]) -> None:
    """Many begin with numbers of their own: `7 120/70 mm`, `3 120/min, respiratory rate`."""
    read = 0
    for item in medec:
        for line in re.split(r"\r\n(?=\d+ )", item.context):
            if number := re.match(r"\d+(?= )", line):
                read += 1
                assert grade(FLAG, item, said(line)).extracted == number[0], item.id
    assert read == 6921


@pytest.mark.parametrize(
    "template", ["Answer: {}", "**{}**", "The note was checked.\n\n{}", "{}\n\nWhy: x"]
)
def test_the_real_golds_as_a_model_would_write_them(medec: list[Instance], template: str) -> None:
    assert mean(SENTENCE, medec, lambda i: template.format(gold(i))) == 1.0
