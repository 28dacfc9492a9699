"""Define a request to a model for one instance, and its response.

`SCHEMA` is the version of the records; a reader of an older one refuses.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any, Literal, TypeVar

import msgspec

from medhelm.schema.data import Instance

SCHEMA = 1

MODEL = "model"
"""The role of the model under test, where a protocol gives it no other name."""

Finish = Literal["stop", "length", "refusal", "oversize", "error"]
"""The end of a response: by itself, at the budget, by a refusal, or it never came."""

_Record = TypeVar("_Record", bound=type[msgspec.Struct])


def of_threads(kind: _Record) -> _Record:
    """Return a type of record that several threads may read at once: msgspec crashes where two are the first to."""
    msgspec.json.Decoder(kind)
    return kind


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
    """One request to a model. It never carries the gold."""

    instance_id: str
    repeat: int = 0
    messages: tuple[Message, ...]
    max_output_tokens: int
    sampling: Sampling = Sampling()
    seed: int | None = None
    json_schema: dict[str, Any] | None = None
    """JSON Schema of the object that the answer must be, where the endpoint holds answers to one;
    None: free text."""
    candidates: tuple[str, ...] = ()
    """Possible next texts whose log-probabilities are requested instead of an answer."""

    def reply(self, **fields: Any) -> Response:
        """Return a response to it that came now."""
        own: dict[str, Any] = {
            "instance_id": self.instance_id,
            "repeat": self.repeat,
            "finished_at": time.time(),
        }
        return Response(**own | fields)


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens as the endpoint counted them; None where it did not say.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Likelihood(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The likelihood that a model gives to one candidate behind the messages of a request."""

    logprob: float
    """Natural logarithm, summed over the candidate's tokens."""
    tokens: int
    is_greedy: bool = False
    """True if the model would have written it by itself at temperature 0."""


class Response(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request."""

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
    """Requests whose answer was lost. They may be billed."""
    latency_s: float = 0.0
    """Seconds of the attempt that was answered."""
    served_model: str = ""
    fingerprint: str = ""
    address: str | msgspec.UnsetType = msgspec.UNSET
    """The address that answered, of a model that has several."""
    price_class: Literal["batch"] | msgspec.UnsetType = msgspec.UNSET
    """Class of the price where it is not the usual one."""
    finished_at: float = 0.0
    """Unix time; provenance only."""
    likelihoods: tuple[Likelihood, ...] = ()
    """Likelihoods of the request's candidates, in their order; empty where it has none."""


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request to one role, and what came back."""

    role: str
    step: str
    """The protocol's name of it ('turn/3'), never a counter of arrival; with `attempt` unique in its
    episode, so that five candidates with one prompt are five calls."""
    attempt: int = 0
    sent: str
    """`request_key` of what was sent: a stored call is used again only for the same request."""
    messages: tuple[Message, ...]
    response: Response


class Episode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An instance after it was asked: what was sent, what came back, and how it ended.

    Of a protocol with one call for each instance `messages` and `response` are that call, and `calls`
    is empty. Of any other, `response` is the answer that metrics read, with what the model under test
    used over all its calls.
    """

    schema: int = SCHEMA
    instance: Instance
    messages: tuple[Message, ...] = ()
    """Empty for baselines, which are handed the instance itself."""
    response: Response
    calls: tuple[Call, ...] = ()
    """All calls, in the order in which they ended."""
    ending: str = ""
    """The protocol's own name of how it ended ('capped'); empty where it has none."""
    state: dict[str, Any] = {}
    """The protocol's end state, as JSON."""
    unread: str = ""
    """The reason that the requested form holds no answer. Empty: it holds one, or the text is read freely."""
    stale: tuple[Call, ...] = ()
    """Stored calls that are no longer part of it, since another request or none is sent now. They
    were paid for."""

    @property
    def instance_id(self) -> str:
        """Return the id of the instance."""
        return self.response.instance_id

    @property
    def repeat(self) -> int:
        """Return the place of the repeat, from 0."""
        return self.response.repeat

    @property
    def text(self) -> str:
        """Return the answer's text."""
        return self.response.text

    @property
    def finish(self) -> Finish:
        """Return how the answer ended."""
        return self.response.finish

    @property
    def error(self) -> str:
        """Return the kind of a failure; empty where there was none."""
        return self.response.error

    @property
    def usage(self) -> Usage:
        """Return the tokens of the model under test."""
        return self.response.usage


def request_key(request: Request) -> str:
    """Return 16 hex digits over what a request sends: messages, budget, decoding, seed, schema."""
    sent = msgspec.structs.asdict(msgspec.structs.replace(request, instance_id="", repeat=0))
    if not request.candidates:  # keys of before there were any
        del sent["candidates"]
    return hashlib.blake2b(msgspec.json.encode(sent), digest_size=8).hexdigest()
