"""A reply in the form in which the answer was asked for -> the answer alone, which metrics and judges are given.

Read strictly: what holds no answer in its form has none, however clear its words are. Only the form `text`
is read by metrics themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from medhelm.extract.marks import visible_text
from medhelm.extract.reply_form import BadReply, fit, read_object
from medhelm.grading.likelihoods import chosen_option
from medhelm.prompts.askings import ANSWER, MARK, REASONS
from medhelm.prompts.messages import option_labels
from medhelm.schema.asking import Asking
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric
from medhelm.store.records import Plan
from medhelm.store.runlog import read_episodes

_MARKED = re.compile(
    rf"^[^\w\n]{{0,8}}{MARK[:-1]}[*_`]{{0,3}}[ \t]*[:\uff1a][*_` \t]*", re.IGNORECASE | re.MULTILINE
)
_REPLY = {"properties": {REASONS: {}, ANSWER: {}}, "required": [ANSWER], "type": "object"}
"""Schema of every reply; its answer is looked at afterwards."""
_AROUND = " \t\r\n*_`()[]\"'.\u201c\u201d"
"""Signs around a letter that say nothing."""


def stated_episodes(
    run: Path,
    plan: Plan,
    metric: Metric | None,
    replaced: Callable[[Episode], None] | None = None,
) -> Iterator[Episode]:
    """Yield the episodes of a run as `read_episodes`, each with its answer alone as text.

    `metric`: the main one, which knows an answer that has parts of its own.
    """
    asking = plan.spec.asking
    if asking is None or asking.form == "text":
        return read_episodes(run, plan, replaced)
    note = replaced and (lambda episode: replaced(stated(episode, asking, metric)))
    return (stated(episode, asking, metric) for episode in read_episodes(run, plan, note))


def stated(episode: Episode, asking: Asking, metric: Metric | None) -> Episode:
    """Return an episode with the answer that its reply states in the form of an asking, or with why it has none."""
    if asking.form == "logprobs":
        return chosen_option(episode, asking)
    if episode.finish not in ("stop", "length") or not episode.text.strip():
        return episode
    try:
        text = visible_text(episode.text)
        is_cut = episode.finish == "length"
        if asking.form == "line":
            answer = _on_last_line(text, episode.instance, is_cut=is_cut)
        else:
            answer = _in_object(text, episode.instance, metric)
    except BadReply as e:
        return msgspec.structs.replace(episode, unread=str(e))
    response = msgspec.structs.replace(episode.response, text=answer, finish="stop")
    return msgspec.structs.replace(episode, response=response)


def _on_last_line(text: str, instance: Instance, *, is_cut: bool) -> str:
    """Return what stands behind the last mark: of options the one, of others all to the end."""
    if not (marks := [*_MARKED.finditer(text)]):
        raise BadReply(f"no line begins with {MARK}")
    behind = text[marks[-1].end() :]
    line, ended, _ = behind.partition("\n")
    if is_cut and not (ended and instance.choices):
        raise BadReply("the budget ended on the last line")
    if not instance.choices:
        answer = behind.strip().rstrip("*_`").rstrip()
    else:
        answer = _option(line, instance)
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


def _same(said: str, option: str) -> bool:
    folded = (
        " ".join(t.casefold().split()).strip(_AROUND + ":-\u2013\u2014") for t in (said, option)
    )
    return len({*folded}) == 1


def _in_object(text: str, instance: Instance, metric: Metric | None) -> str:
    """Return the answer of a reply that is one JSON object, as the text that metrics read."""
    value = read_object(text, _REPLY)[ANSWER]
    if metric is not None and metric.answer_schema is not None:
        return metric.write_answer(fit(value, metric.answer_schema, ANSWER))
    if instance.choices:
        if not isinstance(value, str):
            raise BadReply(f"{ANSWER} is no letter")
        return _option(value, instance)
    return _as_text(value)


def _as_text(value: Any) -> str:
    """Return a value with its unit, labels or a text as the reply that the published prompt asks for."""
    if isinstance(value, dict) and "value" in value and value.keys() <= {"value", "unit"}:
        unit = value.get("unit") or ""
        if not isinstance(unit, str):
            raise BadReply("the unit is no text")
        found = f"{_as_text(value['value'])} {unit}".strip()
    elif isinstance(value, list) and all(isinstance(v, str) for v in value):
        found = ", ".join(v.strip() for v in value) or "none"
    elif isinstance(value, bool | dict | list) or value is None:
        raise BadReply(f"{ANSWER} is of another kind than the one asked for")
    else:
        found = str(value).strip()
    if not found:
        raise BadReply(f"{ANSWER} is empty")
    return found
