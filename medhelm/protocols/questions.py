"""One question to a role, which is asked again until its reply can be read, and what that may need.

All who want a reply of a form ask by it: judges, readers, authors of cases, roles of a conversation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from medhelm.extract.json_reply import BadReply
from medhelm.models.tokens import request_tokens
from medhelm.protocols.protocol import FinalAnswer, Forecast, Protocol, Send, Terms, together
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Message, Request, Response
from medhelm.schema.model import ModelSpec

_T = TypeVar("_T")
Messages = tuple[Message, ...]
Repair = Callable[[Messages, str, str], Messages]
"""Makes the messages that come next: of those that were sent, the reply, and what is wrong with it."""
SendStep = Callable[..., Awaitable[Response]]
"""Sends a request of one role and step: `partial(send, role, step=step)`."""
REASONING_BUDGET = 24_576
"""Of an author that thinks before it answers."""
_NOTHING = "(no text)"
"""Sent in place of an empty reply, which some endpoints refuse as a turn."""


@dataclass(frozen=True)
class Readout(Generic[_T]):
    """The value that was read of a model's replies to one question."""

    value: _T | None
    end: Literal["", "error", "oversize", "refused", "truncated", "unreadable"]
    """The reason for no value; empty where there is one."""
    fault: str
    """The fault of the last reply, or the kind of its failure."""
    response: Response
    """The last one."""

    def answer(self, state: dict[str, Any], ending: str = "") -> FinalAnswer:
        """Return the end of an episode with this state, or without one where nothing was read."""
        if self.end == "error" or self.end == "oversize":
            return FinalAnswer(finish=self.end, error=self.fault)
        if self.value is None:
            return FinalAnswer(ending=self.end, error=self.fault)
        return FinalAnswer(state=state, ending=ending)


def followed_by(words: Callable[[str], Message], shown: Callable[[str], str] = str) -> Repair:
    """Return the repair that repeats what is `shown` of a reply, and then says of its fault what `words` does."""

    def repair(sent: Messages, reply: str, fault: str) -> Messages:
        said = shown(reply)
        return (*sent, Message("assistant", said if said.strip() else _NOTHING), words(fault))

    return repair


async def send_until_read(
    send: SendStep,
    request: Callable[[Messages], Request],
    messages: Messages,
    read: Callable[[str], _T],
    repair: Repair,
    repairs: int,
    *,
    check: Callable[[_T, int], Awaitable[None]] | None = None,
    ends_when_cut: bool = False,
) -> Readout[_T]:
    """Return what `read` makes of a reply; one that it refuses is asked for again `repairs` times.

    `read` raises BadReply, and so may `check`, which is given the value and the number of the attempt.
    At temperature 0 the same correction is not sent a second time. `ends_when_cut`: a reply that its budget has cut, and that cannot be read, is not asked for again.
    """
    for attempt in range(1 + repairs):
        asked = request(messages)
        response = await send(asked, attempt=attempt)
        if response.finish in ("error", "oversize"):
            return Readout(None, response.finish, response.error or response.finish, response)
        if response.finish == "refusal":
            return Readout(None, "refused", "", response)
        try:
            value = read(response.text)
            if check is not None:
                await check(value, attempt)
            return Readout(value, "", "", response)
        except BadReply as e:
            fault = str(e)
        is_cut = response.finish == "length"
        if is_cut and ends_when_cut:
            break
        sent, messages = messages, repair(messages, response.text, fault)
        if attempt and messages == sent and asked.sampling.temperature == 0:
            break  # the same correction would get the same reply
    return Readout(None, "truncated" if is_cut else "unreadable", fault, response)


def one_call(
    terms: Terms,
    role: str,
    prompt: int,
    expected: int,
    again: int | None,
    repairs: int,
    *,
    most: int = 0,
    budget: int | None = None,
) -> Forecast:
    """Return the forecast of one call, which may have to be repeated.

    `prompt` and `expected`: tokens of the request and of the reply. `again`: of the message that asks for
    it again, behind the reply; None: the same is sent once more. `most`: of the request at most, if that is
    more. `budget`: of one reply, if it is not the role's.
    """
    tries = 1 + repairs
    reply = terms.roles[role].max_output_tokens if budget is None else budget
    grown = 0 if again is None else repairs * tries // 2 * (reply + again)
    return Forecast(
        role=role,
        calls=1,
        calls_limit=tries,
        input_tokens=prompt,
        input_tokens_limit=tries * max(prompt, most) + grown,
        output_tokens=expected,
        output_tokens_limit=None if budget is None else tries * budget,
    )


@dataclass(frozen=True, kw_only=True)
class Question(Generic[_T]):
    """One question about an instance, and how the reply to it is read."""

    step: str
    messages: Messages
    schema: dict[str, Any] | type[Any]
    read: Callable[[str], _T]
    repair: Repair
    expected: int
    """Tokens of a reply in the form that is asked for."""
    again: int | None = 0
    """Tokens of the message that asks for it again; None: the same is sent once more."""
    repairs: int = 2
    is_seeded: bool = True
    ends_when_cut: bool = False

    def _request(self, terms: Terms, instance: Instance, role: str, messages: Messages) -> Request:
        return terms.request(instance, role, messages, self.schema, is_seeded=self.is_seeded)

    async def put(self, instance: Instance, role: str, terms: Terms, send: Send) -> Readout[_T]:
        """Return what is read of a role's reply."""
        return await send_until_read(
            partial(send, role, step=self.step),
            partial(self._request, terms, instance, role),
            self.messages,
            self.read,
            self.repair,
            self.repairs,
            ends_when_cut=self.ends_when_cut,
        )

    def forecast(self, instance: Instance, role: str, terms: Terms) -> Forecast:
        """Return the forecast of the question."""
        prompt = request_tokens(self._request(terms, instance, role, self.messages))
        return one_call(terms, role, prompt, self.expected, self.again, self.repairs)


def asking(
    name: str,
    role: str,
    questions: Callable[[Benchmark, Instance], Iterable[Question[Any]]],
    answer: Callable[..., FinalAnswer],
    version: str = "1",
) -> Protocol:
    """Return the protocol that puts questions about an instance to one role, all at the same time.

    `answer` makes the end of the episode of the instance and what was read of each reply.
    """

    async def conduct(
        benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
    ) -> FinalAnswer:
        own = questions(benchmark, instance)
        found = await together(question.put(instance, role, terms, send) for question in own)
        return answer(instance, *found)

    def forecast(benchmark: Benchmark, instance: Instance, terms: Terms) -> Iterator[Forecast]:
        if own := [q.forecast(instance, role, terms) for q in questions(benchmark, instance)]:
            yield Forecast.total(own)

    return Protocol(
        name=name,
        version=version,
        roles=(role,),
        conduct=conduct,
        forecast=forecast,
        sends_schema=True,
    )


@dataclass(frozen=True)
class Stage:
    """One request to an author, and what may come back."""

    form: type[Any]
    """The form of the reply."""
    budget: int
    """Output tokens of one reply."""
    expected: int
    """Tokens of a reply as asked for, with the signs of its JSON."""
    sees: tuple[str, ...] = ()
    """Names of the parts that the author is shown, in order, where a prompt is made of them."""
    repairs: int = 2
    """Times that the author is asked again."""

    def budget_of(self, model: ModelSpec) -> int:
        """Return the output tokens that a model may use for one reply."""
        if model.max_output_tokens is not None:
            return model.max_output_tokens
        return REASONING_BUDGET if model.reasoning else self.budget


class Unwritten(Exception):
    """An author has no usable reply: why, and whether the next start may ask again (`has_failed`)."""

    def __init__(self, stage: str, reasons: Sequence[str], *, has_failed: bool = False) -> None:
        super().__init__("; ".join(reasons))
        self.stage, self.reasons, self.has_failed = stage, tuple(reasons), has_failed


async def send_until_written(
    send: SendStep,
    request: Callable[[Messages], Request],
    messages: Messages,
    read: Callable[[str], _T],
    repair: Repair,
    repairs: int,
    *,
    stage: str,
    find_faults: Callable[[_T], Sequence[str]],
    find_doubts: Callable[[_T], Sequence[str]] = lambda _: (),
    most_doubts: int = 0,
    check: Callable[[_T, int], Awaitable[None]] | None = None,
) -> _T:
    """Return an author's reply without faults, as `read` makes it of a text; raises Unwritten.

    Faults go back to the author, one a line. So do doubts, at most `most_doubts` times. They discard
    nothing: where no reply without them comes, the last that had doubts alone counts.
    """
    usable: _T | None = None
    doubted, is_cut = 0, False

    async def once(asked: Request, attempt: int) -> Response:
        nonlocal is_cut
        response = await send(asked, attempt=attempt)
        is_cut = response.finish == "length"
        return response

    def faultless(text: str) -> _T:
        try:
            reply = read(text)
        except BadReply:
            if is_cut:
                raise BadReply("it was cut at the limit of its tokens: write less") from None
            raise
        if faults := find_faults(reply):
            raise BadReply("\n".join(faults))
        return reply

    async def look(reply: _T, attempt: int) -> None:
        nonlocal usable, doubted
        if check is not None:
            await check(reply, attempt)
        if doubted < most_doubts and (doubts := find_doubts(reply)):
            usable, doubted = reply, doubted + 1
            raise BadReply("\n".join(doubts))

    found = await send_until_read(once, request, messages, faultless, repair, repairs, check=look)
    if found.end in ("error", "oversize"):
        raise Unwritten(stage, [found.fault], has_failed=True)
    if found.end == "refused":
        raise Unwritten(stage, ["the model refused"])
    reply = usable if found.value is None else found.value
    if reply is None:
        raise Unwritten(stage, found.fault.splitlines())
    return reply
