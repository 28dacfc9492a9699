"""Label sets against scikit-learn, which works on the same sets as a 0/1 matrix."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import DataError
from medhelm.grading.grade import summands
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from medhelm.stats.aggregation import Pooling
from tests.graded import grade, said
from tests.poolings import pooled

from .conftest import metric

LABELS = ("cardiology", "neurology", "renal medicine", "urology")
NOTES = st.lists(
    st.tuples(st.sets(st.sampled_from(LABELS)), st.sets(st.sampled_from(LABELS))),
    min_size=1,
    max_size=8,
)


def note(gold: set[str] | tuple[str, ...], *, listed: bool = True) -> Instance:
    key = {"labels": json.dumps(LABELS)} if listed else {}
    return Instance(id="n", references=tuple(sorted(gold)), answer_key=key)


def answer(labels: set[str]) -> Response:
    return said(", ".join(sorted(labels)) or "none")


def run_value(name: str, notes: list[tuple[set[str], set[str]]]) -> float:
    """The run's value as the tables compute it: the aggregation of summed statistics."""
    rule = metric(name)
    scores = [summands(grade(rule, note(gold), answer(found))) for gold, found in notes]
    names = tuple(scores[0])
    sums = np.array([sum(score[name] for score in scores) for name in names])
    return float(Pooling(rule.aggregation, names)(sums))


def matrix(sets: list[set[str]]) -> np.ndarray[tuple[int, int], np.dtype[np.int_]]:
    return np.array([[int(label in s) for label in LABELS] for s in sets])


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(NOTES)
def test_pooled_counts_agree_with_scikit_learn(notes: list[tuple[set[str], set[str]]]) -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score

    gold, found = matrix([g for g, _ in notes]), matrix([f for _, f in notes])
    if not gold.any() and not found.any():
        return  # undefined everywhere: the tables show no value
    for name, function in (
        ("micro_precision", precision_score),
        ("micro_recall", recall_score),
        ("micro_f1", f1_score),
    ):
        expected = function(gold, found, average="micro", zero_division=0)
        assert run_value(name, notes) == pytest.approx(expected), name
    seen = [i for i in range(len(LABELS)) if gold[:, i].any() or found[:, i].any()]
    expected = f1_score(gold, found, average="macro", labels=seen, zero_division=0)
    assert run_value("macro_f1", notes) == pytest.approx(expected)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(NOTES)
def test_means_over_notes_agree_with_scikit_learn(notes: list[tuple[set[str], set[str]]]) -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score

    gold, found = matrix([g for g, _ in notes]), matrix([f for _, f in notes])
    both_empty = float(np.mean(~gold.any(axis=1) & ~found.any(axis=1)))
    for name, function in (
        ("label_precision", precision_score),
        ("label_recall", recall_score),
        ("mean_f1", f1_score),
    ):
        # scikit-learn's 0 for undefined, but 1 where nothing was to be found and nothing claimed
        expected = function(gold, found, average="samples", zero_division=0) + both_empty
        assert run_value(name, notes) == pytest.approx(expected), name


@pytest.mark.slow
@given(st.sets(st.sampled_from(LABELS)), st.sets(st.sampled_from(LABELS)))
def test_a_better_answer_never_scores_less(gold: set[str], found: set[str]) -> None:
    for name in ("mean_f1", "label_precision", "label_recall"):
        given_value = grade(metric(name), note(gold), answer(found)).value
        right = grade(metric(name), note(gold), answer(gold)).value
        assert given_value is not None
        assert right == 1.0
        assert 0.0 <= given_value <= 1.0


def test_counts_by_hand() -> None:
    item, response = note({"cardiology", "neurology"}), said("Neurology, urology")
    assert grade(metric("micro_f1"), item, response).sums == {"tp": 1, "fp": 1, "fn": 1}
    by_label = grade(metric("macro_f1"), item, response).sums
    assert tuple(by_label.values()) == (0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0)
    assert list(by_label) == [f"{n}/{label}" for label in LABELS for n in ("tp", "fp", "fn")]
    score = grade(metric("mean_f1"), item, response)
    assert (score.value, score.sums) == (0.5, {})
    assert score.extracted == "neurology, urology"


def test_micro_is_not_the_mean_of_notes() -> None:
    """One note of four labels all found, one of one label missed: 8/9 pooled, 1/2 by note."""
    notes: list[tuple[set[str], set[str]]] = [(set(LABELS), set(LABELS)), ({"urology"}, set())]
    assert run_value("micro_f1", notes) == pytest.approx(8 / 9)
    assert run_value("mean_f1", notes) == 0.5


def test_billing_codes_by_hand() -> None:
    """Note F1: 2 right of 3 claimed and 4 billed, 4/7; nothing right, 0; all right, 1; unread, 0.

    Pooled: 4 right, 2 too many, 4 missed, 8/14; the notes' mean is (4/7 + 0 + 1 + 0) / 4.
    """
    notes = [
        (("I10", "E119", "N1830", "Z7984"), "I10, E11.9, J45.909", (2, 1, 2)),
        (("M1A0710",), "M1A.0711", (0, 1, 1)),
        (("K3580", "0DTJ4ZZ"), "K35.80: appendicitis\n0DTJ4ZZ: appendectomy", (2, 0, 0)),
        (("R079",), "I would rather not say.", (0, 0, 1)),
    ]
    items = [
        (Instance(id=str(n), references=r), said(text)) for n, (r, text, _) in enumerate(notes)
    ]
    counts = [tuple(grade(metric("micro_f1"), *item).sums.values()) for item in items]
    assert counts == [wanted for _, _, wanted in notes]
    assert pooled("micro_f1", np.sum(counts, axis=0)) == pytest.approx(8 / 14)
    per_note = [grade(metric("mean_f1"), *item) for item in items]
    assert [score.value for score in per_note] == pytest.approx([4 / 7, 0, 1, 0])
    assert np.mean([score.value for score in per_note]) == pytest.approx((4 / 7 + 1) / 4)
    assert grade(metric("label_precision"), *items[0]).value == pytest.approx(2 / 3)
    assert grade(metric("label_recall"), *items[0]).value == pytest.approx(2 / 4)


@pytest.mark.parametrize(
    ("text", "finish", "outcome"),
    [
        ("", "stop", "empty"),
        ("I am not sure what you mean.", "stop", "unparsed"),
        ("I am not", "length", "truncated"),
        ("No.", "refusal", "refused"),
    ],
)
def test_an_unreadable_note_counts_as_predicting_nothing(
    text: str, finish: str, outcome: str
) -> None:
    item = note({"cardiology", "neurology"})
    response = Response(instance_id="n", text=text, finish=finish)  # type: ignore[arg-type]
    score = grade(metric("micro_f1"), item, response)
    assert (score.value, score.outcome, tuple(score.sums.values())) == (0.0, outcome, (0, 0, 2))
    assert sum(grade(metric("macro_f1"), item, response).sums.values()) == 2
    assert grade(metric("mean_f1"), item, response).sums == {}
    empty_gold = grade(metric("mean_f1"), note(()), response)
    assert empty_gold.value == 0.0, "an unreadable answer is not the right empty answer"


def test_codes_are_read_as_codes() -> None:
    item = Instance(id="c", references=("I10", "E11.9", "M1A.9XX0"))
    assert grade(metric("mean_f1"), item, said("I10: hypertension\ne119, M1A.9XX0")).value == 1.0
    assert grade(metric("label_recall"), item, said("I10, E11.8")).value == pytest.approx(1 / 3)
    assert grade(metric("label_precision"), item, said("I10, E11.8")).value == 0.5
    assert grade(metric("mean_f1"), item, said("none")).value == 0.0


def test_open_labels_are_the_items_of_the_list() -> None:
    item = Instance(id="o", references=("Croup", "Fever"))
    assert grade(metric("mean_f1"), item, said("1. fever\n2. croup")).value == 1.0
    assert grade(metric("label_precision"), item, said("fever, gout")).value == 0.5


def test_the_published_code_scorer() -> None:
    helm = metric("mean_f1", "helm")
    item = Instance(id="c", references=("I10", "E11.9"))
    assert grade(helm, item, said("**I10** and E11.9.")).value == 1.0
    assert grade(helm, item, said("i10")).value == 0.0
    assert grade(helm, item, said("I10, J45.909")).value == pytest.approx(0.5)
    assert grade(helm, item, said("no codes")).value == 0.0
    letters = Instance(id="m", references=("M1A.9XX0",))
    assert grade(helm, letters, said("M1A.9XX0")).value == 0.0, "the pattern loses the gold itself"
    assert grade(metric("mean_f1"), letters, said("M1A.9XX0")).value == 1.0


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({}, "no list of all labels"),
        ({"labels": "cardiology"}, "must be a JSON list"),
        ({"labels": "[]"}, "must be a JSON list"),
        ({"labels": '["a", 1]'}, "must be a JSON list"),
        ({"labels": '["a", "A"]'}, "must be a JSON list"),
        ({"labels": '["neurology"]'}, "1 gold labels that are not in"),
    ],
)
def test_instances_that_cannot_be_scored(key: dict[str, str], message: str) -> None:
    item = Instance(id="bad", references=("cardiology",), answer_key=key)
    with pytest.raises(DataError, match=message) as caught:
        grade(metric("macro_f1"), item, said("cardiology"))
    assert "'bad'" in str(caught.value)
    assert "cardiology" not in str(caught.value)


def test_a_list_that_was_cut_counts_without_its_last_item() -> None:
    item = note({"cardiology", "neurology"})
    cut = Response(instance_id="n", text="Cardiology, neurology, ur", finish="length")
    assert grade(metric("micro_f1"), item, cut).sums == {"tp": 2, "fp": 0, "fn": 0}
    prose = Response(instance_id="n", text="She saw cardiology last year, so", finish="length")
    score = grade(metric("micro_f1"), item, prose)
    assert (score.outcome, score.reason) == ("truncated", "the reply was cut before its list")


@pytest.mark.parametrize(
    ("gold", "labels", "text"),
    [
        (("renal medicine", "Urology"), None, "Renal  Medicine, urology"),
        (("cardiology",), ["Cardiology", "Neurology"], "Cardiology"),
        (("E119", "I10"), None, "e11.9, I10"),
    ],
)
def test_labels_are_the_same_whatever_their_case_spaces_and_points(
    gold: tuple[str, ...], labels: list[str] | None, text: str
) -> None:
    key = {"labels": json.dumps(labels)} if labels else {}
    own = Instance(id="n", references=gold, answer_key=key)
    found = grade(metric("micro_f1"), own, said(text))
    assert found.value == 1.0 and found.sums == {"tp": len(gold), "fp": 0.0, "fn": 0.0}
