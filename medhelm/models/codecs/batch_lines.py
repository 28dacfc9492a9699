"""Files of batches: a request becomes a line, and the line of a result is read. No network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from medhelm.models.codecs.wire import Answer, Codec, Failure, decode_answer
from medhelm.schema.model import ModelSpec

EXPIRED = Failure("retry", "batch expired")
"""A request that the service did not come to in time. It is not billed."""
CANCELLED = Failure("error", "batch cancelled")
"""A request of a batch that somebody has cancelled at the service."""
_UNSENT = {"expired": EXPIRED, "batch_expired": EXPIRED}
_UNSENT |= {"canceled": CANCELLED, "batch_cancelled": CANCELLED}
_STATUS = {
    **{"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402},
    **{"permission_error": 403, "not_found_error": 404, "request_too_large": 413},
    **{"rate_limit_error": 429, "timeout_error": 504, "overloaded_error": 529},
}
"""HTTP status that Anthropic's errors have where a request is sent alone."""
_LINES = msgspec.json.Decoder(dict[str, Any])


def openai_line(custom_id: str, path: str, body: bytes) -> bytes:
    """Return a request as a line of OpenAI's form, without its line break. `path`: of the API that answers."""
    line = {"custom_id": custom_id, "method": "POST", "url": path, "body": msgspec.Raw(body)}
    return msgspec.json.encode(line)


def anthropic_line(custom_id: str, body: bytes) -> bytes:
    """Return a request as Anthropic's message batches hold it."""
    return msgspec.json.encode({"custom_id": custom_id, "params": msgspec.Raw(body)})


def read_line(spec: ModelSpec, codec: Codec, line: bytes) -> tuple[str, Answer | Failure]:
    """Return the id of a request and what came of it, from a result of either form.

    The id is empty where the line cannot be read.
    """
    found = decode_answer(_LINES, line)
    if isinstance(found, Failure):
        return "", found
    custom_id, result = str(found.get("custom_id", "")), _part(found, "result")
    if result:
        error, body = _part(result, "error"), result.get("message")
        kind = result.get("type")
        is_error = kind == "errored"
        status = _STATUS.get(str(_part(error, "error").get("type")), 500) if is_error else 200
    else:
        reply, error = _part(found, "response"), _part(found, "error")
        status, body, kind = reply.get("status_code", 0), reply.get("body"), error.get("code")
    if unsent := _UNSENT.get(str(kind)):
        return custom_id, unsent
    payload = msgspec.json.encode(body or error)
    if isinstance(status, int) and 200 <= status < 300:
        return custom_id, codec.read(payload)
    failure = codec.read_failure(spec, status or 400, payload, {})
    return custom_id, failure if status else replace(failure, error="batch error", status=None)


def _part(values: dict[str, Any], name: str) -> dict[str, Any]:
    part = values.get(name)
    return part if isinstance(part, dict) else {}
