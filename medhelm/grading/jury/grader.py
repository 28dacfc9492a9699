"""The grader of a jury: one call to a judge rates an answer by all criteria of a rubric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from medhelm.data.rubrics import criteria_of
from medhelm.extract.json_reply import BadReply
from medhelm.grading.graders.controls import Controls, Item, answer, gold_answer
from medhelm.grading.graders.grader import JUDGE, REPAIRS, Grader, Shown
from medhelm.grading.jury.metric import NAME
from medhelm.grading.jury.prompt import (
    Reply,
    judge_messages,
    read_reply,
    repair_message,
    reply_schema,
)
from medhelm.models.tokens import estimate_tokens
from medhelm.protocols.protocol import FinalAnswer, Forecast, Send, Terms
from medhelm.protocols.questions import followed_by, one_call, send_until_read
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Message
from medhelm.schema.run import JuryTerms

RATING = "rating"
"""The step of a judge's call."""
_REASON = 40
"""Tokens of a judge's reason for one score."""
_REPAIR = repair_message("there are other keys than those of the rubric, or a score is missing")


def jury_grader(jury: JuryTerms) -> Grader:
    """Return the grader by which the judges of a jury rate an answer."""
    return Grader(
        name=NAME,
        version=jury.version,
        grade=partial(_grade, jury),
        forecast=partial(_forecast, jury),
        controls=Controls(
            items=lambda instance, settings: [Item()],
            decide=partial(_decided, (jury.rubric.minimum + jury.rubric.maximum) / 2),
            empty=partial(answer, text=""),
            right=gold_answer,
            least=20,  # with one verdict an answer, fewer could not show that a judge is right
        ),
        marks=lambda state: state["scores"],
        listed=lambda instance, _: criteria_of(jury.rubric, instance),
        is_brief=True,
    )


def _decided(middle: float, state: Mapping[str, Any]) -> Sequence[bool]:
    """Return whether a judge's mean rating is above the middle of the scale: an answer of some worth."""
    return [fmean(state["scores"]) > middle]


async def _grade(
    jury: JuryTerms, benchmark: Benchmark, shown: Shown, terms: Terms, send: Send
) -> FinalAnswer:
    """Return one judge's scores of an answer, with its reasons; else why it abstains."""
    rubric, instance = jury.rubric, shown.instance
    criteria = criteria_of(rubric, instance)

    def read(text: str) -> Reply:
        if not text.strip():
            raise BadReply("the reply is empty")
        return read_reply(text, criteria, rubric.minimum, rubric.maximum, shown.text)

    found = await send_until_read(
        partial(send, JUDGE, step=RATING),
        partial(
            terms.request, instance, JUDGE, json_schema=_schema(jury, instance), is_seeded=False
        ),
        _messages(jury, instance, shown.text),
        read,
        followed_by(repair_message),
        terms.settings[REPAIRS],
        ends_when_cut=True,
    )
    if found.value is None:
        return found.answer({})
    state: dict[str, Any] = {"scores": [*found.value.scores]}
    if any(found.value.reasons):
        state["reasons"] = [*found.value.reasons]
    return found.answer(state)


def _messages(jury: JuryTerms, instance: Instance, answer: str) -> tuple[Message, ...]:
    reasons = jury.jury.reasons
    return judge_messages(jury.rubric, instance, answer, jury.instruction, reasons=reasons)


def _schema(jury: JuryTerms, instance: Instance) -> dict[str, Any]:
    rubric = jury.rubric
    criteria = criteria_of(rubric, instance)
    return reply_schema(criteria, rubric.minimum, rubric.maximum, reasons=jury.jury.reasons)


def _forecast(
    jury: JuryTerms, benchmark: Benchmark, instance: Instance, terms: Terms, answer: int
) -> Iterator[Forecast]:
    """Yield the one call to a judge: at most it has to be repeated as often as the jury allows."""
    prompt = estimate_tokens(_messages(jury, instance, "")) + answer
    if terms.roles[JUDGE].json_schema:
        prompt += estimate_tokens(json.dumps(_schema(jury, instance)))
    scores = {c.name: 0 for c in criteria_of(jury.rubric, instance)}
    reply = estimate_tokens(json.dumps(scores)) + _REASON * len(scores) * jury.jury.reasons
    again = estimate_tokens([_REPAIR])
    yield one_call(terms, JUDGE, prompt, reply, again, terms.settings[REPAIRS])
