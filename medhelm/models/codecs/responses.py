"""OpenAI's Responses protocol as bytes: requests written, answers and refusals read. No network."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.models.codecs.wire import (
    Answer,
    Codec,
    Failure,
    FailureKind,
    count,
    decoding,
    end_answer,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_SCHEMA_FIELD = "text.format"
_BROKEN = ("failed", "cancelled", "queued", "in_progress")
_KINDS: dict[Any, FailureKind] = {"content_filter": "refusal", "invalid_prompt": "error"}
"""Codes of requests that were taken and failed, which no other try mends."""
_SENT = ("model", "max_output_tokens", "temperature", "top_p", "reasoning.effort")


class _Item(msgspec.Struct):
    type: str | None = None
    content: list[dict[str, Any]] | None = None
    phase: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    output: list[_Item] = []
    incomplete_details: Any = None
    error: Any = None
    model: str | None = None
    usage: Any = None


def check_responses(spec: ModelSpec) -> None:
    """Refuse stop sequences, for which the protocol has no field."""
    if spec.sampling.stop:
        raise UsageError(
            f"model {spec.name!r}: the Responses protocol has no stop sequences: "
            "leave out model.sampling.stop"
        )


def _body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body. The service is told not to keep the answer, unless `extra_body` says that it may."""
    body: dict[str, Any] = {
        "store": False,
        **spec.extra_body,
        "model": spec.model,
        "input": request.messages,
        "max_output_tokens": request.max_output_tokens,
    }
    body |= decoding(spec, request, "temperature", "top_p")
    if (effort := request.sampling.reasoning_effort) is not None:
        body["reasoning"] = {**body.get("reasoning", {}), "effort": effort}
    if (schema := request.json_schema) is not None:
        wanted = {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}
        body["text"] = {**body.get("text", {}), "format": wanted}
    return body


def _answer(response: _Response) -> Answer | Failure:
    """Return the text of an answer, without what the model said on its way to it."""
    if response.error or response.status in _BROKEN:
        code = str(response.error.get("code")) if isinstance(response.error, dict) else ""
        known = code if code in _KINDS else ""
        return Failure(_KINDS.get(known, "retry"), "response failed", 200, code=known)
    messages = [item for item in response.output if item.type == "message"]
    if response.status != "incomplete" and not messages:
        return Failure("retry", "no message", 200, lost=True)
    final = [item for item in messages if item.phase != "commentary"]
    parts = [part for item in final or messages for part in item.content or ()]
    texts = [part.get("text") for part in parts if part.get("type") == "output_text"]
    details = response.incomplete_details if isinstance(response.incomplete_details, dict) else {}
    reason = details.get("reason") or "unknown" if response.status == "incomplete" else ""
    return end_answer(
        "".join(text for text in texts if isinstance(text, str)),
        str(reason),
        _read_usage(response.usage),
        response.model,
        refused=any(part.get("type") == "refusal" for part in parts),
    )


def _detail(
    failure: Failure, spec: ModelSpec, payload: bytes, headers: Mapping[str, str]
) -> Failure:
    if failure.kind == "error" and failure.param.startswith(_SCHEMA_FIELD):
        return dataclasses.replace(failure, kind="model", param=_SCHEMA_FIELD)
    return failure


def _read_usage(usage: Any) -> Usage:
    return Usage(
        input_tokens=count(usage, "input_tokens") or None,
        cached_tokens=count(usage, "input_tokens_details", "cached_tokens"),
        output_tokens=count(usage, "output_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "reasoning_tokens"),
    )


RESPONSES = Codec(_body, msgspec.json.Decoder(_Response), _answer, _SCHEMA_FIELD, _SENT, _detail)
