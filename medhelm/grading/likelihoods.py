"""Log-probabilities of the options -> the one that is chosen, and scores of how sure the model is of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import msgspec

from medhelm.prompts.messages import option_labels
from medhelm.schema.asking import Asking
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score

BY_LENGTH, BRIER, CONFIDENCE = "acc_norm", "brier_score", "confidence"
_TIE = "two options are equally likely"


@dataclass(frozen=True, kw_only=True)
class OptionScore(Metric):
    """A score of the options' probabilities; an answer that is read from text has none."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return what `chosen_option` has found."""
        value = episode.state.get(self.name)
        if value is None:
            return Score(
                value=None, outcome="unparsed", reason=_TIE if episode.state else "no options"
            )
        return Score(value=value)


LIKELIHOOD_METRICS = (
    OptionScore(name=BY_LENGTH, source="lm-evaluation-harness"),
    OptionScore(
        name=BRIER,
        maximum=2.0,
        floor=None,
        higher_is_better=False,
        source="Brier 1950, Monthly Weather Review 78:1",
    ),
    OptionScore(name=CONFIDENCE, floor=None, source="Guo et al. 2017, arXiv 1706.04599"),
)
"""acc_norm: whether the likeliest option by log-probability a character is right. brier_score: the squared
error of the probabilities, summed over the options (several right ones count as one), from 0 to 2. confidence:
the probability of the chosen option, which is no merit."""


def metric_names_of(asking: Asking | None) -> tuple[str, ...]:
    """Return the metrics that a run has besides the benchmark's own, for the form of its asking."""
    is_rated = asking is not None and asking.form == "logprobs"
    return tuple(metric.name for metric in LIKELIHOOD_METRICS) if is_rated else ()


def chosen_option(episode: Episode, asking: Asking) -> Episode:
    """Return an episode with the label of its likeliest option as text, or with why it has none.

    All options need a number, and one of them the largest: no tie is broken by place. Its state holds the
    values of `LIKELIHOOD_METRICS`. Probabilities are those of the options among themselves.
    """
    instance, response = episode.instance, episode.response
    if response.finish != "stop":
        return episode
    labels, logprobs = option_labels(instance), [own.logprob for own in response.likelihoods]
    if len(logprobs) != len(labels) or not all(map(math.isfinite, logprobs)):
        why = response.error or "the options have no log-probabilities"
        response = msgspec.structs.replace(response, error=why)
        return msgspec.structs.replace(episode, response=response, unread=why)
    if (chosen := _likeliest(logprobs)) is None:
        return msgspec.structs.replace(episode, unread=_TIE)
    texts = instance.choices if asking.candidates == "texts" else labels
    by_length = _likeliest([own / len(text) for own, text in zip(logprobs, texts, strict=True)])
    weights = [math.exp(own - logprobs[chosen]) for own in logprobs]
    shares = [weight / math.fsum(weights) for weight in weights]
    golds = [letter in instance.references for letter in ascii_uppercase[: len(labels)]]
    right = math.fsum(share for share, is_gold in zip(shares, golds, strict=True) if is_gold)
    wrong = math.fsum(share**2 for share, is_gold in zip(shares, golds, strict=True) if not is_gold)
    state = {
        BY_LENGTH: None if by_length is None else float(golds[by_length]),
        BRIER: (1.0 - right) ** 2 + wrong,
        CONFIDENCE: shares[chosen],
    }
    response = msgspec.structs.replace(response, text=labels[chosen])
    return msgspec.structs.replace(episode, response=response, state=state)


def _likeliest(values: Sequence[float]) -> int | None:
    """Return the place of the largest value; None where another one equals it."""
    most = max(values)
    return values.index(most) if values.count(most) == 1 else None
