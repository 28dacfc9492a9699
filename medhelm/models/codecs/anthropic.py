"""Anthropic's Messages protocol as bytes: requests written, answers and refusals read. No network."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from medhelm.models.codecs.wire import (
    Answer,
    Codec,
    Failure,
    count,
    decoding,
    end_answer,
    parted,
    read_error,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_NAMED_FIELD = re.compile(r"`?([a-z_]+)\b")
"""Messages of the API begin with the field they are about ('temperature: ...', '`top_p` ...')."""
_FIELDS = ("model", "max_tokens", "temperature", "top_p", "stop_sequences", "thinking")


class _Message(msgspec.Struct):
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    model: str | None = None
    usage: Any = None


def _body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a request, which has no seed.

    A reasoning effort is a level, or a number: the tokens that the model may think.
    """
    system, turns = parted(request)
    body: dict[str, Any] = {
        **spec.extra_body,
        "model": spec.model,
        "max_tokens": request.max_output_tokens,
        "messages": turns,
    }
    if system:
        body["system"] = "\n\n".join(system)
    names = ("temperature", "top_p", "stop")
    body |= decoding(spec, request, *names, stop="stop_sequences")
    effort = request.sampling.reasoning_effort
    if effort is not None and effort.isdecimal():
        body["thinking"] = {"type": "enabled", "budget_tokens": int(effort)}
    elif effort is not None:
        body["output_config"] = {**body.get("output_config", {}), "effort": effort}
    if (schema := request.json_schema) is not None:
        wanted = {"type": "json_schema", "schema": schema}
        body["output_config"] = {**body.get("output_config", {}), "format": wanted}
    return body


def _answer(message: _Message) -> Answer | Failure:
    texts = [block.get("text") for block in message.content if block.get("type") == "text"]
    if message.stop_reason is None and not texts:
        return Failure("retry", "no message", 200, lost=True)
    return end_answer(
        "".join(text for text in texts if isinstance(text, str)),
        message.stop_reason or "",
        _read_usage(message.usage),
        message.model,
    )


def _detail(
    failure: Failure, spec: ModelSpec, payload: bytes, headers: Mapping[str, str]
) -> Failure:
    if failure.kind == "error" and failure.status in (400, 422):
        named = _NAMED_FIELD.match(read_error(payload)[2])
        effort = ("output_config",) * (spec.sampling.reasoning_effort is not None)
        if named and named[1] in (*_FIELDS, *effort, *spec.extra_body):
            return dataclasses.replace(failure, kind="model", param=named[1])
    return failure


def _read_usage(usage: Any) -> Usage:
    """Return the counts. The API counts cached input apart."""
    fresh = count(usage, "input_tokens")
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=None if fresh is None else fresh + (cached or 0) + (written or 0),
        cached_tokens=cached,
        output_tokens=count(usage, "output_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
    )


MESSAGES = Codec(
    _body, msgspec.json.Decoder(_Message), _answer, "output_config.format", detail=_detail
)
