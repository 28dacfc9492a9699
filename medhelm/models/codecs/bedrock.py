"""Amazon Bedrock's Converse protocol as bytes, which nearly all of its models take. No network."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from medhelm.errors import UsageError
from medhelm.models.access import has_key
from medhelm.models.codecs.wire import (
    Answer,
    Codec,
    Failure,
    count,
    decoding,
    end_answer,
    parted,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_REGION = re.compile(r"\bbedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")
_NAMED = re.compile(r"\b(temperature|top_?p)\b", re.IGNORECASE)
"""Settings that messages of the service name in words."""
ENDED = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
_REFUSED = ENDED | {"InvalidSignatureException", "MissingAuthenticationTokenException"}
"""Codes of a refusal of all requests; others with the status 403 are about one model."""


class _Converse(msgspec.Struct):
    output: dict[str, Any] = {}
    stopReason: str | None = None
    usage: Any = None


def check_converse(spec: ModelSpec) -> None:
    """Refuse a setting that the protocol has no field for, and an address without a region."""
    if spec.sampling.reasoning_effort is not None:
        raise UsageError(
            f"model {spec.name!r}: Converse has no reasoning effort: give what the model takes in "
            "model.extra_body.additionalModelRequestFields"
        )
    if spec.address and not has_key(spec):
        region_of(spec)


def region_of(spec: ModelSpec) -> str:
    """Return the AWS region that requests are signed for; raises UsageError where none is named."""
    if found := _REGION.search(urlsplit(spec.address or "").netloc):
        return found[1]
    raise UsageError(
        f"model {spec.name!r}: base_url names no AWS region: give "
        "https://bedrock-runtime.REGION.amazonaws.com, or a key in model.api_key_env"
    )


def _body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    names = ("temperature", "top_p", "stop")
    limits = decoding(spec, request, *names, top_p="topP", stop="stopSequences")
    system, turns = parted(request)
    body: dict[str, Any] = {
        **spec.extra_body,
        "inferenceConfig": {"maxTokens": request.max_output_tokens, **limits},
        "messages": [{"role": m.role, "content": [{"text": m.content}]} for m in turns],
    }
    if system:
        body["system"] = [{"text": text} for text in system]
    if request.json_schema is not None:
        schema = {"name": "answer", "schema": msgspec.json.encode(request.json_schema).decode()}
        wanted = {"type": "json_schema", "structure": {"jsonSchema": schema}}
        body["outputConfig"] = {**body.get("outputConfig", {}), "textFormat": wanted}
    return body


def _answer(answer: _Converse) -> Answer | Failure:
    """Return the text of an answer. No model's name comes with it."""
    message = answer.output.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if answer.stopReason is None and not content:
        return Failure("retry", "no message", 200, lost=True)
    blocks = [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []
    texts = [b["text"] for b in blocks if isinstance(b.get("text"), str)]
    return end_answer("".join(texts), answer.stopReason or "", _read_usage(answer.usage), None)


def _detail(
    failure: Failure, spec: ModelSpec, payload: bytes, headers: Mapping[str, str]
) -> Failure:
    """Return what a status means; the kind of an error is in a header."""
    code = headers.get("x-amzn-ErrorType", "").partition(":")[0]
    failure = dataclasses.replace(failure, code=code if code.isalnum() else failure.code)
    if failure.code in _REFUSED:
        return dataclasses.replace(failure, kind="endpoint")
    if failure.status == 424:
        return dataclasses.replace(failure, kind="retry")
    named = _NAMED.search(failure.words) if failure.code == "ValidationException" else None
    if named and failure.kind == "error":
        param = "temperature" if named[1].lower() == "temperature" else "top_p"
        return dataclasses.replace(failure, kind="model", param=param)
    return failure


def _read_usage(usage: Any) -> Usage:
    """Return the counts. The service counts cached input apart, and all of it in the total."""
    fresh, written = count(usage, "inputTokens"), count(usage, "outputTokens")
    cached = count(usage, "cacheReadInputTokens")
    stored = count(usage, "cacheWriteInputTokens")
    return Usage(
        input_tokens=None if fresh is None else fresh + (cached or 0) + (stored or 0),
        cached_tokens=cached,
        output_tokens=written,
    )


CONVERSE = Codec(
    _body, msgspec.json.Decoder(_Converse), _answer, "outputConfig.textFormat", detail=_detail
)
