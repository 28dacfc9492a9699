import pytest

import medhelm_metrics.rouge
from medhelm.schema.data import Instance
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric
from tests.graded import grade

pytestmark = pytest.mark.parametrize("name", ["rouge_l", "rouge_1", "rouge_2"])


def metric(name: str) -> Metric:
    (found,) = [m for m in medhelm_metrics.rouge.medhelm_metrics() if m.name == name]
    assert isinstance(found, Metric)
    return found


def said(text: str) -> Response:
    return Response(instance_id="1", text=text)


def test_the_gold_is_best_and_an_empty_answer_has_the_floor(name: str) -> None:
    instance = Instance(id="1", context="x", references=("Rest and fluids for two days.",))
    assert grade(metric(name), instance, said("Rest and fluids for two days.")).value == 1.0
    empty = grade(metric(name), instance, said(" "))
    assert (empty.value, empty.outcome) == (0.0, "empty")


def test_what_was_thought_is_no_part_of_the_answer(name: str) -> None:
    instance = Instance(id="1", context="x", references=("Rest and fluids for two days.",))
    answer = "<think>Or antibiotics?</think>\nRest and fluids for two days."
    assert grade(metric(name), instance, said(answer)).value == 1.0
    nothing = grade(metric(name), instance, said("<think>Rest and fluids for two days."))
    assert (nothing.value, nothing.outcome) == (0.0, "unparsed")


@pytest.mark.parametrize("text", ["Rest.", ""])
def test_without_a_reference_no_answer_counts(name: str, text: str) -> None:
    score = grade(metric(name), Instance(id="1", context="x"), said(text))
    assert (score.value, score.outcome) == (None, "uninformative")
