"""Asking one judge for one verdict: the request, its reading, and at most a few repairs."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from medhelm.data.rubrics import criteria_of
from medhelm.extract import visible_text
from medhelm.extract.json_reply import BadReply
from medhelm.grading.jury.gradelog import JudgeCall, Judgement, Parsed, judgement_key
from medhelm.grading.jury.prompt import judge_messages, repair_message
from medhelm.grading.jury.reply import Reply, read_reply, reply_schema
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Message, Request, Response, Usage
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JuryTerms
from medhelm.store.records import judge_budget

_NOTHING = "(no text)"
"""Stands for an empty reply, which some endpoints refuse as a turn."""


def is_judged(response: Response) -> bool:
    """Return whether a response holds an answer that can be rated."""
    return response.finish in ("stop", "length") and bool(visible_text(response.text))


def judge_request(judge: ModelSpec, terms: JuryTerms, episode: Episode, shown: str) -> Request:
    """Return what a judge is first sent for an answer, as it is shown."""
    messages = judge_messages(
        terms.rubric,
        episode.instance,
        shown,
        terms.instruction,
        reasons=terms.jury.reasons,
    )
    return _request(judge, terms, episode, messages)


def _request(
    judge: ModelSpec, terms: JuryTerms, episode: Episode, messages: tuple[Message, ...]
) -> Request:
    return Request(
        instance_id=episode.instance.id,
        repeat=episode.response.repeat,
        messages=messages,
        max_output_tokens=judge_budget(judge, terms.jury),
        sampling=judge.sampling,
        json_schema=held_schema(judge, terms, episode.instance),
    )


def held_schema(judge: ModelSpec, terms: JuryTerms, instance: Instance) -> dict[str, Any] | None:
    """Return the JSON Schema that a judge's requests carry; None where its endpoint holds to none."""
    rubric, reasons = terms.rubric, terms.jury.reasons
    criteria = criteria_of(rubric, instance)
    schema = reply_schema(criteria, rubric.minimum, rubric.maximum, reasons=reasons)
    return schema if judge.json_schema else None


async def conduct(
    judge: ModelSpec,
    terms: JuryTerms,
    episode: Episode,
    shown: str,
    request: Request,
    send: Callable[[Request], Awaitable[Response]],
    keep: Callable[[Judgement], None],
) -> None:
    """Ask a judge for its verdict on an answer, as it is shown, and hand it to `keep`.

    A reply that cannot be read is asked for again `terms.jury.repairs` times, with what is
    wrong with it; after that the judge has abstained. Where `send` ends the work before a repair
    (its budget is reached), what was paid for so far is kept as broken off.
    """
    calls: list[JudgeCall] = []
    messages = request.messages
    while True:
        try:
            response = await send(request)
        except BaseException:
            if calls:
                keep(_judgement(judge, episode, None, calls, is_final=False))
            raise
        call, said = _read(terms, episode, shown, request, response)
        calls.append(call)
        if call.parsed != "unreadable" or len(calls) > terms.jury.repairs:
            break
        reply = Message("assistant", response.text if response.text.strip() else _NOTHING)
        messages = (*messages, reply, repair_message(call.fault))
        request = _request(judge, terms, episode, messages)
    keep(_judgement(judge, episode, said, calls))


def _judgement(
    judge: ModelSpec,
    episode: Episode,
    said: Reply | None,
    calls: Sequence[JudgeCall],
    *,
    is_final: bool = True,
) -> Judgement:
    return Judgement(
        key=judgement_key(episode),
        instance_id=episode.instance.id,
        repeat=episode.response.repeat,
        judge=judge.name,
        scores=said.scores if said else None,
        reasons=said.reasons if said and any(said.reasons) else (),
        calls=tuple(calls),
        is_broken_off=not is_final,
    )


def _read(
    terms: JuryTerms, episode: Episode, shown: str, request: Request, response: Response
) -> tuple[JudgeCall, Reply | None]:
    """Return the record of one call, and what it says where its reply could be read."""
    parsed, fault = _ending(response)
    said: Reply | None = None
    if not parsed:
        rubric = terms.rubric
        criteria = criteria_of(rubric, episode.instance)
        try:
            said = read_reply(response.text, criteria, rubric.minimum, rubric.maximum, shown)
            parsed = "scored"
        except BadReply as e:
            parsed = "truncated" if response.finish == "length" else "unreadable"
            fault = str(e)
    call = JudgeCall(
        prompt_sha256=hashlib.sha256(msgspec.json.encode(request.messages)).hexdigest(),
        reply=response.text,
        finish=response.finish,
        parsed=parsed,
        fault=fault,
        usage=response.usage or Usage(),
        lost=response.lost,
        latency_s=response.latency_s,
        served_model=response.served_model,
        finished_at=response.finished_at,
    )
    return call, said


def _ending(response: Response) -> tuple[Parsed | None, str]:
    """Return how a call ended that has nothing to read; None where there is a reply."""
    if response.finish == "error":
        return "error", response.error
    if response.finish == "oversize":
        return "oversize", ""
    if response.finish == "refusal":
        return "refused", ""
    if not response.text.strip():
        return ("truncated" if response.finish == "length" else "unreadable"), "the reply is empty"
    return None, ""
