import pytest

import medhelm_metrics.rouge
from medhelm.schema.data import Instance
from medhelm.schema.score import Metric
from tests.graded import grade, said

pytestmark = pytest.mark.parametrize("name", ["rouge_l", "rouge_1", "rouge_2"])


def metric(name: str) -> Metric:
    (found,) = [m for m in medhelm_metrics.rouge.medhelm_metrics() if m.name == name]
    assert isinstance(found, Metric)
    return found


def test_the_gold_is_best_and_no_answer_has_the_floor(name: str) -> None:
    """What was thought is no part of the answer."""
    gold = "Rest and fluids for two days."
    instance = Instance(id="1", context="x", references=(gold,))
    for text, ended in (
        (gold, (1.0, "scored")),
        (" ", (0.0, "empty")),
        (f"<think>Or antibiotics?</think>\n{gold}", (1.0, "scored")),
        (f"<think>{gold}", (0.0, "unparsed")),
    ):
        score = grade(metric(name), instance, said(text))
        assert (score.value, score.outcome) == ended


@pytest.mark.parametrize("text", ["Rest.", ""])
def test_without_a_reference_no_answer_counts(name: str, text: str) -> None:
    score = grade(metric(name), Instance(id="1", context="x"), said(text))
    assert (score.value, score.outcome) == (None, "uninformative")
