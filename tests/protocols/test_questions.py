"""Questions put to one role: what is sent and read, and that the forecast is of what is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from medhelm.extract.json_reply import BadReply
from medhelm.models.tokens import request_tokens
from medhelm.protocols.protocol import FinalAnswer, Protocol, RoleTerms, Terms
from medhelm.protocols.questions import Question, Readout, asking, followed_by
from medhelm.schema.data import Benchmark, FileDataset, Instance
from medhelm.schema.episode import Message, Request, Response, Sampling

BENCHMARK = Benchmark(
    name="b",
    subcategory="",
    dataset=FileDataset(files=()),
    to_instance=lambda row: None,
    metrics=(),
    answer="text",
)
CASE = Instance(id="case", context="Which dose?")


def read(text: str) -> str:
    if text != "yes":
        raise BadReply("it is not yes")
    return text


def questions(_: Benchmark, instance: Instance, again: int | None) -> list[Question[str]]:
    repair = followed_by(lambda fault: Message("user", fault)) if again else lambda sent, *_: sent
    return [
        Question(
            step=step,
            messages=(Message("user", f"{instance.context} {step}"),),
            schema={"enum": ["yes"]},
            read=read,
            repair=repair,
            expected=1,
            again=again,
        )
        for step in ("first", "second")
    ]


def answer(instance: Instance, *found: Readout[str]) -> FinalAnswer:
    return FinalAnswer(state={"ends": [one.end for one in found]})


def put(protocol: Protocol, terms: Terms, reply: str) -> tuple[list[str], list[Request]]:
    """Return how the questions ended where every reply is this one, and the requests."""
    sent: list[Request] = []

    async def send(role: str, request: Request, **step: Any) -> Response:
        sent.append(request)
        return Response(instance_id="case", text=reply)

    ended = asyncio.run(protocol.conduct(BENCHMARK, CASE, terms, send))
    return ended.state["ends"], sent


@pytest.mark.parametrize("again", [20, None])
@pytest.mark.parametrize("has_schema", [True, False])
def test_the_forecast_is_of_what_is_sent_and_its_limit_holds_with_every_repair(
    has_schema: bool, again: int | None
) -> None:
    protocol = asking("p", "judge", lambda b, i: questions(b, i, again), answer)
    role = RoleTerms(max_output_tokens=50, json_schema=has_schema, sampling=Sampling(temperature=1))
    terms = Terms(roles={"judge": role})
    (forecast,) = protocol.forecast(BENCHMARK, CASE, terms)
    ends, sent = put(protocol, terms, "yes")
    assert (ends, len(sent)) == (["", ""], forecast.calls)
    assert all((request.json_schema is not None) == has_schema for request in sent)
    assert sum(map(request_tokens, sent)) == forecast.input_tokens
    ends, sent = put(protocol, terms, "never")
    assert (ends, len(sent)) == (["unreadable"] * 2, forecast.calls_limit)
    assert sum(map(request_tokens, sent)) <= forecast.input_tokens_limit


def test_a_repair_repeats_what_is_shown_of_a_reply() -> None:
    first = (Message("user", "Which?"),)
    repair = followed_by(lambda fault: Message("user", f"No: {fault}"), str.upper)
    assert repair(first, "a", "x") == (*first, Message("assistant", "A"), Message("user", "No: x"))
    assert repair(first, "\n", "x")[1].content == "(no text)"
