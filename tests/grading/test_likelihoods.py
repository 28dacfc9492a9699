"""What the options' log-probabilities say: the answer, and scores of how sure it is, worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from medhelm.grading.answer_form import LIKELIHOOD_METRICS, metric_names_of, stated
from medhelm.grading.grade import grade
from medhelm.plugins.registry import load_registry
from medhelm.schema.asking import Asking
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Likelihood, Response

BY_LABELS, BY_TEXTS = (
    Asking(name="l", form="logprobs"),
    Asking(name="t", form="logprobs", candidates="texts"),
)
CHOICES = ("a cow", "a very large dog", "no", "a cat")


def asked(
    logprobs: Sequence[float], golds: tuple[str, ...] = ("B",), by: Asking = BY_LABELS, **more: Any
) -> Episode:
    instance = Instance(id="i", question="Which?", choices=CHOICES, references=golds)
    found = tuple(Likelihood(logprob=own, tokens=1) for own in logprobs)
    response = Response(instance_id="i", likelihoods=found, **more)
    return stated(Episode(instance=instance, response=response), by, None, "choice")


def scores(episode: Episode) -> dict[str, float | None]:
    return {m.name: grade(m, episode.instance and episode).value for m in LIKELIHOOD_METRICS}


def test_the_likeliest_option_is_the_answer_that_the_benchmark_scores() -> None:
    episode = asked([-2.0, -1.0, -3.0, -4.0])
    assert (episode.text, episode.unread) == ("B", "")
    exact = load_registry().metric("exact_match")
    assert grade(exact, episode).value == 1.0
    assert grade(exact, asked([-1.0, -2.0, -3.0, -4.0])).value == 0.0


def test_length_is_counted_in_characters_of_what_was_rated() -> None:
    logprobs = [-4.0, -10.0, -3.0, -6.0]  # a character: -0.8, -0.625, -1.5, -1.2
    assert asked(logprobs, by=BY_TEXTS).text == "C"
    assert scores(asked(logprobs, by=BY_TEXTS))["acc_norm"] == 1.0
    assert asked(logprobs).text == "C" and scores(asked(logprobs))["acc_norm"] == 0.0


def test_confidence_and_brier_are_of_the_options_shares() -> None:
    rng = np.random.default_rng(3)
    losses = pytest.importorskip("sklearn.metrics").brier_score_loss
    for _ in range(50):
        logprobs = rng.normal(-600, 3, size=4).tolist()
        shares = np.exp(np.array(logprobs) - max(logprobs))
        shares /= shares.sum()
        found = scores(asked(logprobs))
        assert found["confidence"] == pytest.approx(shares.max())
        expected = losses([1], shares[None], labels=[0, 1, 2, 3], scale_by_half=False)
        assert found["brier_score"] == pytest.approx(expected)


def test_several_right_options_count_as_one() -> None:
    logprobs = [math.log(share) for share in (0.3, 0.4, 0.2, 0.1)]
    found = scores(asked(logprobs, golds=("A", "B")))
    assert found["brier_score"] == pytest.approx(0.3**2 + 0.2**2 + 0.1**2)
    assert found["acc_norm"] == 1.0


@pytest.mark.parametrize(
    ("logprobs", "more", "reason"),
    [
        ([-1.0, -1.0, -3.0, -4.0], {}, "equally likely"),
        ([-1.0, -2.0], {}, "no log-probabilities"),
        ([], {"error": "1 of 4 options"}, "1 of 4 options"),
        ([], {"text": "B"}, "no log-probabilities"),
        ([-1.0, math.nan, -3.0, -4.0], {}, "no log-probabilities"),
        ([-1.0, -2.0, -3.0, -math.inf], {}, "no log-probabilities"),
    ],
)
def test_without_one_likeliest_option_there_is_no_answer_and_no_guess(
    logprobs: list[float], more: dict[str, Any], reason: str
) -> None:
    episode = asked(logprobs, **more)
    exact = grade(load_registry().metric("exact_match"), episode)
    by_model = ("unparsed", 0.0)  # what an endpoint does not give is in no mean
    ended = by_model if "equally" in reason else ("unscored", None)
    assert (exact.outcome, exact.value) == ended and reason in exact.reason
    assert scores(episode) == {"acc_norm": ended[1], "brier_score": None, "confidence": None}


def test_a_tie_by_length_alone_leaves_the_answer_and_its_probabilities() -> None:
    episode = asked([-5.0, -16.0, -2.0, -5.5], golds=("C",), by=BY_TEXTS)
    found = scores(episode)
    assert episode.text == "C" and found["acc_norm"] == 0.0 and found["brier_score"] is not None
    norm = grade(LIKELIHOOD_METRICS[0], episode)
    assert norm.outcome == "unparsed" and "equally likely" in norm.reason


@pytest.mark.parametrize("finish", ["refusal", "error", "oversize"])
def test_what_was_not_answered_keeps_its_ending(finish: Any) -> None:
    episode = asked([], finish=finish, error="http 500" if finish == "error" else "")
    outcome = grade(load_registry().metric("exact_match"), episode).outcome
    assert outcome == {"refusal": "refused"}.get(finish, finish)


def test_only_runs_that_ask_for_them_have_these_metrics() -> None:
    assert metric_names_of(None) == metric_names_of(Asking(name="x", form="line")) == ()
    assert metric_names_of(BY_LABELS) == ("acc_norm", "brier_score", "confidence")
