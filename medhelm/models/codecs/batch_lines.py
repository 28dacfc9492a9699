"""Files of batches: a request becomes a line, and the line of a result is read. No network.

A line of OpenAI's form names the path that it is for; Anthropic's form names its own field for the body.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from medhelm.models.codecs.wire import Answer, Codec, Failure, decode_answer
from medhelm.schema.model import ModelSpec

EXPIRED = Failure("retry", "batch expired")
"""A request that the service did not come to within its time. It is not billed."""
CANCELLED = Failure("error", "batch cancelled")
"""A request of a batch that somebody has cancelled at the service."""
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP status that Anthropic's errors have where a request is sent alone."""


class _Reply(msgspec.Struct):
    status_code: int = 0
    body: msgspec.Raw = msgspec.Raw()


class _Result(msgspec.Struct):
    custom_id: str = ""
    response: _Reply | None = None
    error: msgspec.Raw = msgspec.Raw()


class _Code(msgspec.Struct):
    code: str | int | None = None


class _Message(msgspec.Struct):
    type: str = ""
    message: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _OfMessage(msgspec.Struct):
    custom_id: str = ""
    result: _Message | None = None


class _Typed(msgspec.Struct):
    type: str = ""


class _Error(msgspec.Struct):
    error: _Typed = msgspec.field(default_factory=_Typed)


Read = tuple[str, Answer | Failure]
"""The id of a request, and what came of it; an empty id where a line cannot be read."""
_RESULTS = msgspec.json.Decoder(_Result)
_MESSAGES = msgspec.json.Decoder(_OfMessage)
_CODES = msgspec.json.Decoder(_Code)
_ERRORS = msgspec.json.Decoder(_Error)
_NO_RAW = (b"", b"null")


@dataclasses.dataclass(frozen=True)
class BatchForm:
    """The form in which a service has the requests and the results of a batch."""

    line: Callable[[str, str, bytes], bytes]
    """Of an id, the path of the API that answers, and the body of a request."""
    read: Callable[[ModelSpec, Codec, bytes], Read]


def openai_line(custom_id: str, path: str, body: bytes) -> bytes:
    """Return a request as a line of a batch file in OpenAI's form, without its line break."""
    return msgspec.json.encode(
        {"custom_id": custom_id, "method": "POST", "url": path, "body": msgspec.Raw(body)}
    )


def anthropic_line(custom_id: str, path: str, body: bytes) -> bytes:
    """Return a request as Anthropic's batches hold it; they have but one path."""
    return msgspec.json.encode({"custom_id": custom_id, "params": msgspec.Raw(body)})


def read_openai(spec: ModelSpec, codec: Codec, line: bytes) -> Read:
    """Return the result that a line of an output file, or of an error file, holds."""
    result = decode_answer(_RESULTS, line)
    if isinstance(result, Failure):
        return "", result
    reply, error = result.response, bytes(result.error)
    if reply is not None and 200 <= reply.status_code < 300:
        return result.custom_id, codec.read(bytes(reply.body))
    if reply is not None and reply.status_code:
        said = bytes(reply.body)
        if said in _NO_RAW:
            said = error
        return result.custom_id, codec.read_failure(spec, reply.status_code, said, {})
    if error in _NO_RAW:
        return result.custom_id, Failure("retry", "no response in the batch")
    found = decode_answer(_CODES, error)
    code = "" if isinstance(found, Failure) else found.code
    if code in ("batch_expired", "batch_cancelled"):
        return result.custom_id, EXPIRED if code == "batch_expired" else CANCELLED
    failure = codec.read_failure(spec, 400, error, {})
    return result.custom_id, dataclasses.replace(failure, error="batch error", status=None)


def read_anthropic(spec: ModelSpec, codec: Codec, line: bytes) -> Read:
    """Return the result that a line of Anthropic's results holds."""
    found = decode_answer(_MESSAGES, line)
    if isinstance(found, Failure):
        return "", found
    result = found.result or _Message()
    if result.type == "succeeded":
        return found.custom_id, codec.read(bytes(result.message))
    if result.type != "errored":
        return found.custom_id, CANCELLED if result.type == "canceled" else EXPIRED
    error = decode_answer(_ERRORS, bytes(result.error))
    kind = "" if isinstance(error, Failure) else error.error.type
    status = _STATUS.get(kind, 500)
    return found.custom_id, codec.read_failure(spec, status, bytes(result.error), {})


OPENAI_FORM = BatchForm(openai_line, read_openai)
ANTHROPIC_FORM = BatchForm(anthropic_line, read_anthropic)
