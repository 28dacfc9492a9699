"""Near-duplicates: the same in other words, and never what differs by one decisive word."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from medhelm_benchmarks.noharm.rules.wording import (
    Embed,
    embedding_duplicates,
    natural,
    near_duplicates,
)

SAME = (
    ("Give the apixaban 5 mg", "give apixaban 5 MG."),
    ("Ask for MRI of the left knee", "Ask for MRI left knee"),
    ("Do not give aspirin", "Do not give aspirin!"),
    ("Measure  INR\u00a0today", "Measure INR today"),
    ("Anaemia work\u2011up", "Anaemia work-up"),
    ("Give 1,000 mL of balanced crystalloid", "Give 1000 mL balanced crystalloid"),
)

APART = (
    # figures, units and how often
    ("Start apixaban 5 mg twice daily", "Start apixaban 2.5 mg twice daily"),
    ("Start apixaban 5 mg twice daily", "Start apixaban 5 mg once daily"),
    ("Start levothyroxine 25 mcg daily", "Start levothyroxine 25 mg daily"),
    ("Repeat potassium in 6 hours", "Repeat potassium in 6 days"),
    ("Repeat potassium in six hours", "Repeat potassium in twelve hours"),
    ("Give vitamin D 500,000 units", "Give vitamin D 50,000 units"),
    ("Give enoxaparin 1 mg/kg once", "Give enoxaparin 1 mg once"),
    ("Give insulin 0.1 units/kg/h", "Give insulin 0.1 units/kg/day"),
    ("Start apixaban 5 mg twice daily", "Start apixaban 5 mg twice daily for 3 months"),
    ("Transfuse if haemoglobin is below 70 g/L", "Transfuse if haemoglobin is above 70 g/L"),
    ("Act if potassium <5 mmol/L", "Act if potassium >5 mmol/L"),
    ("Give methotrexate 15 mg weekly", "Give methotrexate 15 mg daily"),
    # drugs whose names look alike
    ("Start prednisone 40 mg daily", "Start prednisolone 40 mg daily"),
    ("Give cefotaxime 2 g IV", "Give ceftriaxone 2 g IV"),
    ("Start hydralazine 25 mg", "Start hydroxyzine 25 mg"),
    ("Start losartan 50 mg daily", "Start valsartan 50 mg daily"),
    ("Give calcium gluconate 10 mL IV", "Give calcium chloride 10 mL IV"),
    ("Stop aspirin, clopidogrel and ticagrelor", "Stop aspirin and clopidogrel"),
    (
        "Prescribe omeprazole 40 mg daily for as long as two antithrombotic drugs are taken",
        "Prescribe pantoprazole 40 mg daily for as long as two antithrombotic drugs are taken",
    ),
    (
        "Give aspirin and an anticoagulant together for a whole year after the coronary stent",
        "Give aspirin, clopidogrel and an anticoagulant together for a year after the stent",
    ),
    # what is done
    ("Give aspirin", "Do not give aspirin"),
    ("Stop metformin", "Start metformin"),
    ("Hold metformin", "Stop metformin"),
    ("Increase bisoprolol to 5 mg", "Reduce bisoprolol to 5 mg"),
    ("Continue warfarin", "Restart warfarin"),
    ("CT head with contrast", "CT head without contrast"),
    ("Switch ramipril to losartan", "Switch losartan to ramipril"),
    ("Give insulin before potassium", "Give potassium before insulin"),
    # where, how, when
    ("X-ray of the left knee", "X-ray of the right knee"),
    ("Give morphine 5 mg IV", "Give morphine 5 mg orally"),
    ("Refer to cardiology urgently", "Refer to cardiology routinely"),
    # words of one form
    ("Correct hypokalaemia", "Correct hyperkalaemia"),
    ("Treat hypoglycaemia", "Treat hyperglycaemia"),
    ("Request dengue NS1 antigen", "Request dengue virus PCR"),
    ("Check sodium and potassium", "Check sodium, potassium and creatinine"),
    ("Measure haemoglobin", "Measure haemoglobin and platelet count"),
    ("Refer to cardiology", "Refer to neurology"),
    ("Send hepatitis B serology", "Send hepatitis C serology"),
    ("Measure protein C", "Measure protein S"),
    ("CT of the chest", "MRI of the chest"),
    ("Perform CT angiography of the chest", "Perform CT angiography of chest and abdomen"),
    ("Order CT abdomen", "Order CT pelvis"),
    ("Arrange it", "Do this"),
    (  # one word in place of another, however long the rest
        "Ultrasound of the upper abdomen: portal vein, spleen size, ascites grade, Doppler flow",
        "Ultrasound of the upper abdomen: caval vein, spleen size, ascites grade, Doppler flow",
    ),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_words_are_a_near_duplicate(one: str, other: str) -> None:
    assert near_duplicates({"a1": one, "a2": other}) == [("a1", "a2")]


@pytest.mark.parametrize(("one", "other"), APART)
def test_one_word_keeps_two_actions_apart(one: str, other: str) -> None:
    assert near_duplicates({"a1": one, "a2": other}) == []


def test_all_pairs_of_a_menu_are_named_in_natural_order() -> None:
    texts = {"a10": "Measure INR", "a2": "measure INR", "b": "Stop aspirin", "a1": "Measure an INR"}
    assert near_duplicates(texts) == [("a1", "a2"), ("a1", "a10"), ("a2", "a10")]
    assert near_duplicates(dict(sorted(texts.items()))) == near_duplicates(texts)
    assert near_duplicates({}) == near_duplicates({"a": "Measure INR"}) == []


@pytest.mark.slow
@given(st.dictionaries(st.text(min_size=1, max_size=3), st.text(max_size=40), max_size=5))
def test_any_text_can_be_read(texts: dict[str, str]) -> None:
    for a, b in near_duplicates(texts):
        assert natural(a) <= natural(b)


def test_a_menu_of_fifty_is_fast() -> None:
    texts = {f"a{i}": f"Start drug{i} {i} mg twice daily after review {i}" for i in range(50)}
    near_duplicates(texts)
    start = time.perf_counter()
    near_duplicates(texts)
    assert time.perf_counter() - start < 0.2  # some 10 ms, with room for a busy machine


def along(**vectors: Sequence[float]) -> Embed:
    """Return an embedding that knows these texts by their first word."""

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([vectors[text.split()[0]] for text in texts])

    return embed


def test_embeddings_find_what_words_do_not() -> None:
    texts = {"a": "Listen for bruits", "b": "Auscultate the carotids", "c": "Weigh her"}
    embed = along(Listen=(1.0, 0.0), Auscultate=(2.0, 0.1), Weigh=(0.0, 1.0))
    assert near_duplicates(texts) == []
    assert embedding_duplicates(texts, embed) == [("a", "b")]
    assert embedding_duplicates(texts, embed, 0.999) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Start apixaban 5 mg", "Use apixaban 2.5 mg"),
        ("Start aspirin", "Stop aspirin"),
        ("Give morphine IV", "Administer morphine orally"),
    ],
)
def test_embeddings_do_not_merge_what_differs_by_a_fact(one: str, other: str) -> None:
    same = {text.split()[0]: (1.0, 0.0) for text in (one, other)}
    assert embedding_duplicates({"a": one, "b": other}, along(**same)) == []


def test_a_vector_of_nothing_is_like_nothing() -> None:
    embed = along(Weigh=(0.0, 0.0), Feel=(0.0, 0.0))
    assert embedding_duplicates({"a": "Weigh her", "b": "Feel the pulse"}, embed) == []
    assert embedding_duplicates({"a": "Weigh her"}, embed) == []
