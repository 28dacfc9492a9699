"""Define a request to a model for one instance, and its response.

`SCHEMA` is the version of the records; a reader of an older one migrates or refuses.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from medhelm.schema.data import Instance

SCHEMA = 1

Finish = Literal["stop", "length", "refusal", "oversize", "error"]
"""Names the end of a response: by itself, at the budget, by a refusal, or it never came."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configures how the model decodes. None leaves a setting to the endpoint."""

    temperature: float | None = 0.0
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Holds one request to a model. It never carries the gold."""

    instance_id: str
    repeat: int = 0
    messages: tuple[Message, ...]
    max_output_tokens: int
    sampling: Sampling = Sampling()
    seed: int | None = None
    json_schema: dict[str, Any] | None = None
    """JSON Schema of the object that the answer must be, where the endpoint holds answers to one;
    None: free text."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens as the endpoint counted them; None where it did not say.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds the answer to one request."""

    instance_id: str
    repeat: int = 0
    text: str = ""
    """The completion, without hidden reasoning."""
    finish: Finish = "stop"
    error: str = ""
    """Kind of the failure ('http 500', 'timeout'); never text of the prompt."""
    usage: Usage = Usage()
    attempts: int = 1
    lost: int = 0
    """Requests that were sent and whose answer was lost. They may be billed."""
    latency_s: float = 0.0
    """Seconds of the attempt that was answered."""
    served_model: str = ""
    fingerprint: str = ""
    finished_at: float = 0.0
    """Unix time; provenance only."""


class Episode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `responses.jsonl`: an instance, what was sent, what came back."""

    schema: int = SCHEMA
    instance: Instance
    messages: tuple[Message, ...] = ()
    """Empty for baselines, which are handed the instance itself."""
    response: Response
