from __future__ import annotations

import re

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from tests.graded import grade

from .conftest import always, gold, mean, metric, said

FLAG, SENTENCE = metric("medec_flag_accuracy"), metric("medec_sentence_accuracy")
HELM_FLAG = metric("medec_flag_accuracy", "helm")
HELM_SENTENCE = metric("medec_sentence_accuracy", "helm")
KEY = {"error_flag": "1", "error_sentence_id": "8"}
WRONG = Instance(id="w", references=("8 He gets dexamethasone.",), answer_key=KEY)
KEY = {"error_flag": "0", "error_sentence_id": "-1"}
RIGHT = Instance(id="r", references=("CORRECT",), answer_key=KEY)

CORRECT, ERROR = "CORRECT", "error"
CLAIMS: list[tuple[str, str | None]] = [
    ("CORRECT", CORRECT),
    ("CORRECT.", CORRECT),
    ("Correct", CORRECT),
    ("**CORRECT**", CORRECT),
    ("The text is CORRECT", CORRECT),
    ("The note is correct.", CORRECT),
    ("This clinical note appears to be correct.", CORRECT),
    ("Answer: CORRECT", CORRECT),
    ("CORRECT\n\nAll sentences fit the diagnosis.", CORRECT),
    ("CORRECT\n\nActually, sentence 5 is wrong: it should say left.", None),
    ("CORRECT\n\n0 A man.\n1 He has pain.\n2 He gets aspirin.\n\nThe end.", CORRECT),
    ("4 He takes insulin.\n\nOn second thought, there is no error.", None),
    ("Der Text ist fehlerhaft: Satz 8 m\u00fcsste lauten: insulin.", "8"),
    ("La phrase 8 est fausse.", "8"),
    ("Satz 8 ist nicht falsch.", None),
    ("The dose fits the weight.\n\nCORRECT", CORRECT),
    ("There are no errors in this note.", CORRECT),
    ("The note contains no medical errors.", CORRECT),
    ("No errors found.", CORRECT),
    ("No medical error.", CORRECT),
    ("The text is CORRECT because the dose fits.", CORRECT),
    ('{"answer": "CORRECT"}', CORRECT),
    ("<think>Sentence 8 is wrong?</think>CORRECT", CORRECT),
    ("8 He gets dexamethasone.", "8"),
    ("8. He gets dexamethasone.", "8"),
    ("8: He gets dexamethasone.", "8"),
    ("8", "8"),
    ("(8) He gets dexamethasone.", "8"),
    ("**8** He gets dexamethasone.", "8"),
    ("Sentence 8: He gets dexamethasone.", "8"),
    ("Sentence ID: 8", "8"),
    ("Error in sentence 8: he needs dexamethasone", "8"),
    ("The error is in sentence 8. He should get dexamethasone.", "8"),
    ("There is an error in sentence 8.", "8"),
    ("There is an error. The wrong one is sentence 8.", "8"),
    ("The note contains an error. The wrong one is sentence 8.", "8"),
    ("The note contains an error. Sentence 7 is wrong. Sentence 8 is wrong.", None),
    ("Answer: 8 He gets dexamethasone.", "8"),
    ("The dose is wrong.\n\n8 He gets dexamethasone.", "8"),
    ("8 He gets dexamethasone.\n\nInsulin is not given for croup.", "8"),
    ("0 He has croup.", "0"),
    ("INCORRECT", ERROR),
    ("The note contains an error.", ERROR),
    ("10 He gets 8 mg.", "10"),
    ("8 He gets dexamethasone.\n10 He goes home.", None),
    ("CORRECT\n8 He gets dexamethasone.", None),
    ("The text is not CORRECT.", None),
    ("NOT CORRECT", None),
    ("No error in sentence 3, but sentence 8 is wrong.", None),
    ("There are no errors except in sentence 8.", None),
    ("-1", None),
    ("Error sentence ID: -1", None),
    ("- 8 He gets dexamethasone.", "8"),
    ("Error in sentence-8", "8"),
    ("Sentence 8 is not wrong.", None),
    ("12 The patient was given 5 mg.", "12"),
    ("8 he gets dexamethasone.", "8"),
    ('8 "He gets dexamethasone."', "8"),
    ("8 5 mg of dexamethasone are given.", "8"),
    ("8 - He gets dexamethasone.", "8"),
    ("8 Days later he goes home.", "8"),
    ("8 patient gets dexamethasone.", "8"),
    ("8 mmHg, pulse is 90/min.", "8"),
    ("12 mg was given", None),
    ("12 mg", None),
    ("12 mg.", None),
    ("12 mg/kg was given", None),
    ("12 mL of saline were given.", None),
    ("12 mcg twice daily", None),
    ("12 g daily", None),
    ("70 kg is his weight.", None),
    ("12 % of patients", None),
    ("12 hours after admission he is well.", None),
    ("3 days later", None),
    ("6 weeks, then 8 years", None),
    ("120 mmHg is too high.", None),
    ("2 of the findings fit.", None),
    ("1 error was looked for.", None),
    ("12 mg was given.\n8 He gets dexamethasone.", "8"),
    ("A 29-year-old man has croup.", None),
    ("29-year-old man with croup.", None),
    ("120/70 mm Hg", None),
    ("38.3 C is a fever.", None),
    # the number of a list, or the flag, before the claim that all is right
    ("1. The note is correct.", CORRECT),
    ("1. CORRECT", CORRECT),
    ("0 CORRECT", CORRECT),
    ("0. CORRECT", CORRECT),
    ("1) There are no errors.", CORRECT),
    ("8 CORRECT", None),
    ("Sentence 8: correct", None),
    ("8. No error.", None),
    ("1. CORRECT\n2. CORRECT\n3. He gets insulin.", None),
    # two claims, and a next note
    ("Answer: CORRECT\nAnswer: 8 He gets dexamethasone.", None),
    ("CORRECT\n\nPatient note: A man.\n8 He gets insulin.", CORRECT),
    ("[THINK]8 He gets dexamethasone.[/THINK]CORRECT", CORRECT),
    ("I cannot assess this note.", None),
    ("He gets dexamethasone.", None),
    # replies of a small model, word for word
    ("1. The note is correct. The sentence is numbered from 0 to 10, and the sentence is correct.", CORRECT),
    ("0\n\nThe sentence is correct.", None),
    ("The note is correct. All fits.", CORRECT),
    ("1. The note is correct. But sentence 5 is wrong.", None),
    ("5 The dose should be 10 mg.", "5"),
    ("Reply with CORRECT if there is no error, or with the number of the sentence.", None),
    ("I cannot say that there is no error.", None),
    ("I doubt that there is no error.", None),
    ("I don't see any medical errors in this note.", CORRECT),
    ("The text does not contain a medical error.", CORRECT),
    ("None of the sentences contain errors.", CORRECT),
    ("I don't see any errors in sentence 4.", None),
    ("This sentence does not contain an error.", None),
    ("The medical text appears correct; no changes needed.", CORRECT),
    ("The erroneous sentence is 5.", "5"),
    ('{"error_flag": 0, "error_sentence_id": -1, "corrected_sentence": "NA"}', CORRECT),
    ('{"error_flag": 0, "error_sentence_id": 4}', None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "claim"), CLAIMS)
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
