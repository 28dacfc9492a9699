"""A reply in the form in which the answer was asked for -> the answer alone, which metrics and judges are given.

Read strictly: what holds no answer in its form has none, however clear its words are. Only the form `text`
is read by metrics themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import msgspec

from medhelm.extract.marks import visible_text
from medhelm.extract.reply_form import BadReply, fit, read_object
from medhelm.prompts.askings import ANSWER, MARK, REASONS
from medhelm.prompts.messages import option_labels
from medhelm.schema.asking import Asking
from medhelm.schema.data import AnswerKind, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score
from medhelm.store.records import Plan
from medhelm.store.runlog import Retried, read_episodes

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


_MARKED = re.compile(
    rf"^[^\w\n]{{0,8}}{MARK[:-1]}[*_`]{{0,3}}[ \t]*[:\uff1a][*_` \t]*", re.IGNORECASE | re.MULTILINE
)
_REPLY = {"properties": {REASONS: {}, ANSWER: {}}, "required": [ANSWER], "type": "object"}
"""Schema of every reply; its answer is looked at afterwards."""
_AROUND = " \t\r\n*_`()[]\"'.,\u201c\u201d\u3002\uff0c"
"""Signs around a letter that say nothing."""
_VALUE = re.compile(
    r"[^\w\n+\u2212-]{0,4}(?:[+\u2212-]?\d[\d.,]*(?:[ \t]*[^\d\s][^\s]*){0,3}"
    r"|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|\(?'?\d+ weeks?'?,?(?: and)? '?\d+ days?'?\)?)\W{0,3}"
)
"""Matches a value with at most a unit of three words, a date, or weeks and days."""


def stated_episodes(
    run: Path,
    plan: Plan,
    metric: Metric | None,
    replaced: Callable[[Episode], None] | None = None,
    retried: Retried | None = None,
) -> Iterator[Episode]:
    """Yield the episodes of a run as `read_episodes`, each with its answer alone as text.

    `metric`: the main one, which knows an answer that has parts of its own.
    """
    asking = plan.spec.asking
    if asking is None or asking.form == "text":
        return read_episodes(run, plan, replaced, retried)
    kind = plan.spec.answer
    note = replaced and (lambda episode: replaced(stated(episode, asking, metric, kind)))
    episodes = read_episodes(run, plan, note, retried)
    return (stated(episode, asking, metric, kind) for episode in episodes)


def stated(
    episode: Episode, asking: Asking, metric: Metric | None, kind: AnswerKind | None
) -> Episode:
    """Return an episode with the answer that its reply states in the form of an asking, or with why it has none.

    `kind`: of the benchmark's answers; `metric`: its main one. Of the form `text` nothing is changed.
    """
    if asking.form == "text":
        return episode
    if asking.form == "logprobs":
        return chosen_option(episode, asking)
    if episode.finish not in ("stop", "length") or not episode.text.strip():
        return episode
    try:
        text = visible_text(episode.text)
        is_cut = episode.finish == "length"
        if asking.form == "line":
            answer = _on_last_line(text, episode.instance, asking, kind, is_cut=is_cut)
        else:
            answer = _in_object(text, episode.instance, metric, kind)
    except ValueError as e:  # a bad reply, also one whose parts contradict each other
        return msgspec.structs.replace(episode, unread=str(e))
    response = msgspec.structs.replace(episode.response, text=answer)
    return msgspec.structs.replace(episode, response=response)


def _on_last_line(
    text: str, instance: Instance, asking: Asking, kind: AnswerKind | None, *, is_cut: bool
) -> str:
    """Return what stands behind the mark: on the last line alone, of a text all to the end.

    Raises BadReply where something follows that line, or where a text may begin at several marks.
    """
    if not (marks := [*_MARKED.finditer(text)]):
        raise BadReply(f"no line begins with {MARK}")
    if not instance.choices and kind not in ("number", "labels"):
        if len(marks) > 1 and asking.reasons:
            raise BadReply(f"several lines begin with {MARK}")
        answer = text[marks[0].end() :].strip().rstrip("*_`").rstrip()
    else:
        line, _, after = text[marks[-1].end() :].partition("\n")
        if is_cut:
            raise BadReply("the budget ended the reply")
        if after.strip(_AROUND):
            raise BadReply("something follows the last line")
        answer = _option(line, instance) if instance.choices else line.strip().strip("*`_ ")
        if kind == "number" and not _VALUE.fullmatch(answer):
            raise BadReply("the last line is not one value")
    if not answer:
        raise BadReply(f"nothing stands behind {MARK}")
    return answer


def _option(text: str, instance: Instance) -> str:
    """Return the label that a line is, alone or with the text of its option; raises BadReply."""
    said = text.strip(_AROUND)
    labels = option_labels(instance)
    for label, option in zip(labels, instance.choices, strict=False):
        if said == label or said.casefold() == label.casefold():
            return label
        head, _, rest = said.partition(label)
        if not head and rest[:1] in (".", ")", ":", " ", "]") and _same(rest, option):
            return label
    raise BadReply(f"the last line is not one of {', '.join(labels)}")


def _same(text: str, option: str) -> bool:
    folded = (
        " ".join(t.casefold().split()).strip(_AROUND + ":-\u2013\u2014") for t in (text, option)
    )
    return len({*folded}) == 1


def _in_object(
    text: str, instance: Instance, metric: Metric | None, kind: AnswerKind | None
) -> str:
    """Return the answer of a reply that is one JSON object, as the text that metrics read."""
    value = read_object(text, _REPLY)[ANSWER]
    if metric is not None and metric.answer_schema is not None:
        return metric.write_answer(fit(value, metric.answer_schema, ANSWER))
    if instance.choices:
        if not isinstance(value, str):
            raise BadReply(f"{ANSWER} is no letter")
        return _option(value, instance)
    return _as_text(value, kind)


def _as_text(value: Any, kind: AnswerKind | None) -> str:
    """Return a value of a kind as the reply that the published prompt asks for; raises BadReply for another kind."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "labels" and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return ", ".join(v.strip() for v in value) or "none"
    if kind == "number" and isinstance(value, dict) and value.keys() == {"value", "unit"}:
        unit = value["unit"]
        if not isinstance(unit, str):
            raise BadReply("the unit is no text")
        return f"{_as_text(value['value'], kind)} {unit}".strip()
    if kind != "labels" and (isinstance(value, str) or (is_number and kind == "number")):
        if found := str(value).strip():
            return found
        raise BadReply(f"{ANSWER} is empty")
    raise BadReply(f"{ANSWER} is of another kind than the one asked for")
