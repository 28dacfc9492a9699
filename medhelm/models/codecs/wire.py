"""The OpenAI chat protocol as bytes: requests written, answers and refusals read. No network.

Endings, failures and counts are read in the same way for every provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import msgspec

from medhelm.models.likelihoods import (
    FIRST_TOKENS,
    NONE_GIVEN,
    plain_texts,
    read_likelihoods,
)
from medhelm.schema.episode import Finish, Likelihood, Message, Request, Usage
from medhelm.schema.model import ModelSpec

FailureKind = Literal["retry", "oversize", "refusal", "error", "model", "endpoint"]
"""Kinds of failed tries: worth another; this prompt is too long, refused, rejected;
this model cannot be used; nothing at this endpoint can."""


@dataclass(frozen=True)
class Answer:
    """The content of a successful answer."""

    text: str
    finish: Finish
    usage: Usage
    model: str
    fingerprint: str
    error: str = ""
    """A remark on an ending that we do not know; empty for those that we do."""
    logprobs: Any = field(default=None, repr=False)
    """The log-probabilities that came with the text, as the server writes them; None: none came."""
    likelihoods: tuple[Likelihood, ...] = ()


@dataclass(frozen=True)
class Failure:
    """The reason why one try had no answer."""

    kind: FailureKind
    error: str
    """Kind of the failure for `Response.error`; made of our words, numbers and codes only."""
    status: int | None = None
    code: str = ""
    """The server's own short code ('context_length_exceeded')."""
    param: str = ""
    """The field of the body that the server does not take."""
    lost: bool = False
    """True if an answer may have been made, and billed, that never arrived."""
    wait_s: float | None = None
    """Seconds that the header Retry-After asks for."""
    words: str = field(default="", repr=False, compare=False)
    """The server's own message, for the eyes of who runs it: it may quote the prompt, and is never stored."""

    @property
    def is_refusal(self) -> bool:
        """Return whether the endpoint says that it gets too much."""
        return self.status in (429, 529) or (self.status == 503 and self.wait_s is not None)

    @property
    def is_timeout(self) -> bool:
        """Return whether no answer came in time."""
        return self.error == "timeout"

    @property
    def is_unreachable(self) -> bool:
        """Return whether no connection came about."""
        return self.error == "no connection"


@dataclass(frozen=True)
class Codec:
    """A protocol as bytes: how a request is written, and how what comes back is read."""

    body: Callable[[ModelSpec, Request], dict[str, Any]]
    """Makes the JSON body of a request; settings that are None are left to the endpoint."""
    decoder: msgspec.json.Decoder[Any]
    """The decoder of a successful answer's body."""
    answer: Callable[[Any], Answer | Failure]
    """Makes an answer of what was decoded, without what the model thought."""
    schema_field: str
    """The field of the body that carries the JSON Schema of the answer."""
    sent: tuple[str, ...] = ()
    """Its other fields that an error may name as one that the server does not take."""
    detail: Callable[[Failure, ModelSpec, bytes, Mapping[str, str]], Failure] | None = None
    """Adds to a failure what this protocol alone says, in the body or in headers."""

    def write(self, spec: ModelSpec, request: Request) -> bytes:
        """Return what is sent for a request; raises UnicodeEncodeError for lone surrogates in a prompt."""
        return _ENCODER.encode(self.body(spec, request))

    def read(self, payload: bytes) -> Answer | Failure:
        """Return the answer in the body of a success, or a failure worth another try."""
        found = decode_answer(self.decoder, payload)
        return found if isinstance(found, Failure) else self.answer(found)

    def read_failure(
        self, spec: ModelSpec, status: int, payload: bytes, headers: Mapping[str, str]
    ) -> Failure:
        """Return what an HTTP status other than success means, with the server's own words."""
        own = (*self.sent, *spec.extra_body) if self.sent else ()
        fields = (*own, *(self.schema_field,) * spec.json_schema)
        failure = read_failure(status, payload, fields, self.schema_field)
        return self.detail(failure, spec, payload, headers) if self.detail else failure


class _Reply(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct):
    message: _Reply | None = None
    text: str | None = None
    index: int | None = None
    finish_reason: str | None = None
    error: Any = None
    logprobs: Any = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []
    usage: Any = None
    model: str | None = None
    system_fingerprint: str | None = None
    error: Any = None


_T = TypeVar("_T")
_DECODER = msgspec.json.Decoder(_Completion)
_ENCODER = msgspec.json.Encoder()
_NAME_LIMIT = 200
_PATH_LIMIT = 1000
_SERVED = ("id", "root", "parent")
"""Of an entry of a list of models: its name, and for vLLM and SGLang the place of its weights."""
_SIZES = ("n_params", "size")
"""Of the `meta` of llama.cpp's entry."""
_CODE = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")
# Endings by their casefolded names, as hosted services and servers of one's own write them.
_ENDED = frozenset(
    {"", "stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"}
    | {"tool_calls", "function_call"}
)
_CUT_OFF = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "continuation"}
    | {"model_context_window_exceeded"}
)
_DECLINED = frozenset(
    {"content_filter", "refusal", "safety", "prohibited_content", "blocklist", "recitation"}
    | {"spii", "image_safety", "sensitive", "model_armor", "jailbreak", "escalation"}
    | {"guardrail_intervened", "content_filtered"}
)
_BROKEN = frozenset(
    {"error", "abort", "aborted", "insufficient_system_resource", "network_error", "server_error"}
    | {"malformed_response", "malformed_model_output"}
)
_NO_CREDIT = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "billing_hard_limit_reached",
        "billing_not_active",
    }
)
_NO_CREDIT_TEXT = re.compile(r"credit balance|insufficient (credit|balance|funds|quota)", re.I)
_OVERSIZE_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"}
)
_OVERSIZE_TEXT = re.compile(
    r"(maximum|max|model'?s|available|exceeds?( the)?) (context|model|sequence) (length|size|window)"
    r"|context (length|size|window|limit)s? (is |was )?exceeded|exceeds? (the )?context"
    r"|exceed (the )?context (length|size|window|limit)"
    r"|longer than the (maximum|model)|prompt is too long|prompt too long|input is too long"
    r"|token count .{0,40}exceeds|max_new_tokens` must be <=",
    re.IGNORECASE,
)
"""Matches a too long prompt in the words of vLLM, SGLang, llama.cpp, Ollama, TGI, services."""
SCHEMA_FIELD = "response_format"
"""The field of the body that carries the JSON Schema of the answer."""
_SCHEMA_TEXT = re.compile(
    r"response[_ ]?(format|(json[_ ]?)?schema)|json[_ ]?(schema|mode)|schema produces"
    r"|output[_ ]?(config\.)?format|structured[ _]output|guided[ _](decoding|json)",
    re.IGNORECASE,
)
"""Matches servers' messages that they support no schema, or not this one."""
_TRANSIENT = frozenset({408, 409, 425, 429})


def _chat_body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a chat request. Of candidates, which are letters, the likeliest first tokens are asked for."""
    rated = {"logprobs": True, "top_logprobs": FIRST_TOKENS, spec.token_limit_field: 1}
    return _body(spec, request, {"messages": request.messages}, rated)


def _completion_body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a request for what comes behind plain text.

    Of candidates nothing is written: the prompt alone and with each of them is echoed with its
    log-probabilities.
    """
    texts = plain_texts(request)
    prompt = texts if request.candidates else texts[0]
    rated = {"logprobs": 1, "echo": True, spec.token_limit_field: 0}
    return _body(spec, request, {"prompt": prompt}, rated)


def _body(
    spec: ModelSpec, request: Request, prompt: dict[str, Any], rated: dict[str, Any]
) -> dict[str, Any]:
    body: dict[str, Any] = {
        **spec.extra_body,
        "model": spec.model,
        **prompt,
        spec.token_limit_field: request.max_output_tokens,
    }
    if request.candidates:
        body |= rated
    body |= decoding(spec, request, "temperature", "seed", "top_p", "stop")
    if request.sampling.reasoning_effort is not None:
        body["reasoning_effort"] = request.sampling.reasoning_effort
    if request.json_schema is not None:
        wanted = {"name": "answer", "strict": True, "schema": request.json_schema}
        body[SCHEMA_FIELD] = {"type": "json_schema", "json_schema": wanted}
    return body


def parted(request: Request) -> tuple[list[str], list[Message]]:
    """Return the texts of the system messages, and the other messages, of protocols that part the two."""
    system = [m.content for m in request.messages if m.role == "system"]
    return system, [m for m in request.messages if m.role != "system"]


def decoding(spec: ModelSpec, request: Request, *names: str, **renamed: str) -> dict[str, Any]:
    """Return the settings of decoding that are chosen, in the order of `names`; the others are the endpoint's.

    `renamed`: what a protocol calls them where that is another name.
    """
    sampling = request.sampling
    chosen = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop": [*sampling.stop] or None,
        "seed": spec.seed_of(request),
    }
    return {renamed.get(n, n): chosen[n] for n in names if chosen[n] is not None}


def _answer(completion: _Completion) -> Answer | Failure:
    """Return the first choice of an answer of either protocol."""
    if not completion.choices:
        if completion.error is not None:
            return _error_in_success(completion.error)
        return Failure("retry", "no choices", 200, lost=True)
    choice = completion.choices[0]
    reason = choice.finish_reason or ""
    if choice.error:
        return Failure("retry", "error in answer", 200, lost=True)
    if choice.message is None and choice.text is not None:
        choice.message = _Reply(choice.text)
    if choice.message is None and _ending(reason) not in _DECLINED | _BROKEN:
        return Failure("retry", "no message", 200, lost=True)
    text, refused = _read_content(choice.message or _Reply())
    answer = end_answer(
        text,
        reason,
        read_usage(completion.usage),
        completion.model,
        completion.system_fingerprint,
        refused=refused,
    )
    given: Any = choice.logprobs
    if len(completion.choices) > 1:
        given = [c.logprobs for c in sorted(completion.choices, key=lambda c: c.index or 0)]
    return replace(answer, logprobs=given or None) if isinstance(answer, Answer) else answer


def rate_candidates(request: Request, answer: Answer, *, gave_some: bool) -> Answer | Failure:
    """Return an answer with the log-probabilities of a request's candidates in place of its text.

    It has none, and says why, where some lack a number; an endpoint that never `gave_some` has failed.
    """
    if answer.finish == "refusal":
        return answer
    found, why = read_likelihoods(request.candidates, answer.logprobs)
    if why == NONE_GIVEN and not gave_some:
        return Failure("model", NONE_GIVEN, 200)
    return replace(answer, text="", finish="stop", error=why, likelihoods=found)


def end_answer(
    text: str,
    reason: str,
    usage: Usage,
    model: str | None,
    fingerprint: str | None = None,
    *,
    refused: bool = False,
) -> Answer | Failure:
    """Return the answer with the ending that any provider's finish reason means."""
    ending = _ending(reason)
    if ending in _BROKEN:
        return Failure("retry", f"finish reason {ending!r}", 200, lost=True)
    finish: Finish = "stop"
    remark = ""
    if ending in _DECLINED or refused:
        finish = "refusal"
    elif ending in _CUT_OFF:
        finish = "length"
    elif ending not in _ENDED:
        remark = f"finish reason {reason!r}" if _CODE.fullmatch(reason) else "finish reason unknown"
    return Answer(
        text,
        finish,
        usage,
        (model or "")[:_NAME_LIMIT],
        (fingerprint or "")[:_NAME_LIMIT],
        remark,
    )


def _ending(reason: str) -> str:
    # Google adds its own name of the ending: 'content_filter: PROHIBITED_CONTENT'.
    return reason.casefold().partition(":")[0].strip()


def read_usage(usage: Any) -> Usage:
    """Return the token counts of an answer, None for each that is missing or no count.

    Some services (xAI, Gemini) count what the model thought in the total only. It is output.
    """
    # No prompt has 0 tokens: a server that says so does not count.
    read = count(usage, "prompt_tokens") or None
    cached = count(usage, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = count(usage, "prompt_cache_hit_tokens")  # DeepSeek's own field
    if read is not None and cached is not None and cached > read:
        read += cached  # the server counts cached tokens apart
    written = count(usage, "completion_tokens")
    thought = count(usage, "completion_tokens_details", "reasoning_tokens")
    total = count(usage, "total_tokens")
    if read is not None and written is not None and total is not None:
        apart = total - read - written
        if apart > 0 and apart == cached and apart != thought:
            read += apart
        elif apart > 0:
            written += apart
    if written is not None and thought is not None and thought > written:
        written += thought
    return Usage(
        input_tokens=read,
        cached_tokens=cached,
        output_tokens=written,
        reasoning_tokens=thought,
    )


def read_failure(
    status: int, payload: bytes, sent_fields: Collection[str] = (), schema_field: str = SCHEMA_FIELD
) -> Failure:
    """Return what an HTTP status other than success means, with the server's own words.

    `sent_fields`: names of the body's fields, to recognise a setting that the server does not take
    (wrong for every request) from a prompt that it does not take. `schema_field`: the one of them
    that carries a JSON Schema.
    """
    code, param, message = read_error(payload)
    is_schema = schema_field in sent_fields and param not in sent_fields
    if is_schema and _SCHEMA_TEXT.search(f"{param} {message}"):
        param = schema_field
    kind: FailureKind = "error"
    if status == 402 or code in _NO_CREDIT or (status < 500 and _NO_CREDIT_TEXT.search(message)):
        kind = "endpoint"
    elif status == 413 or (
        status in (400, 422, 500) and (code in _OVERSIZE_CODES or _OVERSIZE_TEXT.search(message))
    ):
        kind = "oversize"
    elif status in (400, 422) and code == "content_filter":
        kind = "refusal"
    elif status in (403, 404, 405, 410) or (status in (400, 422) and param in sent_fields):
        kind = "model"  # 403 too: a key may be good for another model of the endpoint
    elif status in (401, 407) or 300 <= status < 400:
        kind = "endpoint"
    elif status in _TRANSIENT or status >= 500 or status < 200:
        kind = "retry"
    return Failure(kind, f"http {status}", status, code=code, param=param, words=message)


def read_served(listed: Any, properties: Any, model: str) -> dict[str, str]:
    """Return what tells the weights that a server has for a model from others.

    `listed`: its list of models. Of one that names no such model but has only one, it is that one, as
    llama.cpp takes any name. `properties`: llama.cpp's own. Dates and states are left out.
    """
    entries = listed.get("data") if isinstance(listed, dict) else None
    entries = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    named = [e for e in entries if e.get("id") == model] or entries
    found = {name: named[0].get(name) for name in _SERVED} if len(named) == 1 else {}
    if found and isinstance(named[0].get("meta"), dict):
        found |= {name: named[0]["meta"].get(name) for name in _SIZES}
    if isinstance(properties, dict):
        found["model_path"] = properties.get("model_path")
    return {n: str(v)[:_PATH_LIMIT] for n, v in found.items() if isinstance(v, str | int) and v}


def decode_answer(decoder: msgspec.json.Decoder[_T], payload: bytes) -> _T | Failure:
    """Return the body of a successful answer, of any provider, or a failure worth another try."""
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return _decode_leniently(decoder, payload)
        except UnicodeDecodeError:
            return Failure("retry", "invalid utf-8", 200, lost=True)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return Failure("retry", "invalid json", 200, lost=True)


def _decode_leniently(decoder: msgspec.json.Decoder[_T], payload: bytes) -> _T:
    # Half of a pair of surrogates, as an escape or as bytes, or a NaN among the log-probabilities.
    text = payload.decode("utf-8", "surrogatepass")
    parsed = json.loads(text, parse_constant=lambda _: None)
    text = json.dumps(parsed, ensure_ascii=False)
    return decoder.decode(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _read_content(message: _Reply) -> tuple[str, bool]:
    if not isinstance(message.content, list):
        return message.content or "", bool(message.refusal)
    texts, refused = [], bool(message.refusal)
    for part in message.content:
        if part.get("type") == "refusal":
            refused = True
        elif part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), refused


def count(source: Any, *path: str) -> int | None:
    """Return the count under a name, or at a path of names; None where there is none."""
    for name in path:
        source = source.get(name) if isinstance(source, dict) else None
    return source if type(source) is int and source >= 0 else None


def _error_in_success(error: Any) -> Failure:
    status = error.get("code") if isinstance(error, dict) else None
    if isinstance(status, int) and 400 <= status < 600:
        return read_failure(status, msgspec.json.encode({"error": error}))
    return Failure("retry", "error in answer", 200)


def error_of(payload: bytes) -> Any:
    """Return the error in a body, taken out of what is around it; of what is not JSON its text."""
    try:
        body = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload[:500].decode("utf-8", "replace")
    if isinstance(body, list) and body:  # Google wraps it in a list
        body = body[0]
    return body.get("error", body) if isinstance(body, dict) else body


def read_error(payload: bytes) -> tuple[str, str, str]:
    """Return (code or type, param, message) of an error body in any of its usual forms."""
    body = error_of(payload)
    if isinstance(body, str):
        return "", "", body[:500]
    if not isinstance(body, dict):
        return "", "", ""
    codes = [body.get("code"), body.get("type"), body.get("status")]
    names = [c for c in codes if isinstance(c, str) and _CODE.fullmatch(c)]
    param, detail = body.get("param"), body.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        place = detail[0].get("loc")  # ["body", field, ...], as FastAPI says it
        param = place[1] if isinstance(place, list) and len(place) > 1 else param
    message = body.get("message") or detail or ""
    return (
        names[0] if names else "",
        param if isinstance(param, str) else "",
        message[:500] if isinstance(message, str) else "",
    )


_SAMPLING = ("temperature", "top_p", "stop", "seed", "logprobs", "top_logprobs")
_SENT = ("model", "max_tokens", "max_completion_tokens", "reasoning_effort", "echo", *_SAMPLING)
CHAT = Codec(_chat_body, _DECODER, _answer, SCHEMA_FIELD, _SENT)
"""The OpenAI chat protocol."""
COMPLETIONS = Codec(_completion_body, _DECODER, _answer, SCHEMA_FIELD, _SENT)
"""The older one, which goes on with plain text."""
