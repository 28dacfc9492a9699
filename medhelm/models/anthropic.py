"""Anthropic's models, through its own SDK; our limiter and retries, not the SDK's."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from medhelm.models.body import ENCODINGS, BadBody, read_body
from medhelm.models.endpoint import Endpoint, EndpointModel
from medhelm.models.hosts import Access
from medhelm.models.network import (
    connect_s,
    find_proxy,
    read_network_error,
    tls_context,
    unreachable,
)
from medhelm.models.pacing.limits import retry_after
from medhelm.models.wire import (
    Answer,
    Failure,
    FailureKind,
    count,
    decode_answer,
    end_answer,
    read_error,
    read_failure,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_ENCODER = msgspec.json.Encoder()
_NAMED_FIELD = re.compile(r"`?([a-z_]+)\b")
"""Messages of the API begin with the field they are about ('temperature: ...', '`top_p` ...')."""
_SCHEMA_FIELD = "output_config.format"


class _Message(msgspec.Struct):
    content: list[dict[str, Any]] = []
    stop_reason: str | None = None
    model: str | None = None
    usage: Any = None


_DECODER = msgspec.json.Decoder(_Message)


class AnthropicEndpoint(Endpoint):
    """One address and key of the Messages API."""

    def __init__(self, access: Access, max_concurrency: int | None) -> None:
        super().__init__(access, max_concurrency)
        self._client: Any = None

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> AnthropicModel:
        """Return a model of this address."""
        return AnthropicModel(spec, self, owns_host=owns_host)

    async def episode(self, body: dict[str, Any], timeout_s: float) -> Answer | Failure:
        """Send one body once and return what came of it."""
        import anthropic

        client = self._client or self._open()
        further = dict(body)
        model, limit = further.pop("model"), further.pop("max_tokens")
        messages = further.pop("messages")
        timeout = anthropic.Timeout(timeout_s, connect=connect_s(timeout_s))
        try:
            # The SDK bounds each read, not the whole.
            async with asyncio.timeout(timeout_s):
                response = await client.messages.with_raw_response.create(
                    model=model,
                    max_tokens=limit,
                    messages=messages,
                    extra_body=further,
                    timeout=timeout,
                )
                return read_message(response.http_response.content)
        except anthropic.APIStatusError as error:
            failure = read_refusal(error.status_code, error.response.content, body)
            return dataclasses.replace(failure, wait_s=retry_after(error.response.headers))
        except anthropic.APIConnectionError as error:
            return _read_network_error(error)
        except TimeoutError:
            return Failure("retry", "timeout", lost=True)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _open(self) -> Any:
        import anthropic

        proxy = find_proxy(self.access)
        is_tls = self.access.parts.scheme == "https"
        self._client = anthropic.AsyncAnthropic(
            api_key=self.access.key or "none",  # without one the SDK looks for others
            base_url=self.access.url,
            default_headers=dict(self.access.headers),
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(
                follow_redirects=False,  # the key would go along
                trust_env=False,
                proxy=str(proxy) if proxy else None,
                verify=tls_context(os.environ) if is_tls else True,
                headers={"Accept-Encoding": ENCODINGS},
                event_hooks={"response": [_bound_body]},
            ),
        )
        return self._client


class AnthropicModel(EndpointModel[AnthropicEndpoint, dict[str, Any]]):
    """A model behind the Messages API."""

    def write(self, request: Request) -> dict[str, Any]:
        """Return what is sent for a request."""
        body = make_body(self.spec, request)
        _ENCODER.encode(body)  # lone surrogates are found here, before anything is sent
        return body

    async def send(self, sent: dict[str, Any]) -> Answer | Failure:
        """Send it once and return what came of it."""
        return await self.endpoint.episode(sent, self.spec.timeout_s)


def make_body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a request; settings that are None are left to the endpoint.

    A reasoning effort is a level, or a number: the tokens that the model may think. The API
    knows no seed.
    """
    sampling = request.sampling
    body: dict[str, Any] = {
        **spec.extra_body,
        "model": spec.model,
        "max_tokens": request.max_output_tokens,
        "messages": [
            {"role": m.role, "content": m.content} for m in request.messages if m.role != "system"
        ],
    }
    if system := [m.content for m in request.messages if m.role == "system"]:
        body["system"] = "\n\n".join(system)
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop_sequences"] = list(sampling.stop)
    effort = sampling.reasoning_effort
    if effort is not None and effort.isdecimal():
        body["thinking"] = {"type": "enabled", "budget_tokens": int(effort)}
    elif effort is not None:
        body["output_config"] = {**body.get("output_config", {}), "effort": effort}
    if (schema := request.json_schema) is not None:
        wanted = {"type": "json_schema", "schema": schema}
        body["output_config"] = {**body.get("output_config", {}), "format": wanted}
    return body


def read_message(payload: bytes) -> Answer | Failure:
    """Return the text of an answer, without what the model thought."""
    message = decode_answer(_DECODER, payload)
    if isinstance(message, Failure):
        return message
    texts = [block.get("text") for block in message.content if block.get("type") == "text"]
    if message.stop_reason is None and not texts:
        return Failure("retry", "no message", 200, lost=True)
    return end_answer(
        "".join(text for text in texts if isinstance(text, str)),
        message.stop_reason or "",
        _read_usage(message.usage),
        message.model,
    )


def read_refusal(status: int, payload: bytes, sent: Mapping[str, Any]) -> Failure:
    """Return what an HTTP status other than success means, with the server's own words."""
    has_schema = "format" in sent.get("output_config", {})
    failure = read_failure(status, payload, (_SCHEMA_FIELD,) * has_schema, _SCHEMA_FIELD)
    if failure.kind == "error" and status in (400, 422):
        named = _NAMED_FIELD.match(read_error(payload)[2])
        if named and named[1] in sent and named[1] not in ("messages", "system"):
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
        reasoning_tokens=count(
            usage.get("output_tokens_details") if isinstance(usage, dict) else None,
            "thinking_tokens",
        ),
    )


async def _bound_body(response: Any) -> None:
    """Have the body of a response of the SDK's HTTP library read and decompressed by us."""
    import httpx2  # the SDK's own

    stream, encoding = response.stream, response.headers.pop("Content-Encoding", "")

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield await read_body(stream, encoding, response.status_code)

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def _read_network_error(error: Exception) -> Failure:
    """Return the meaning of an SDK error; errors of its HTTP library are recognised by name."""
    names, text, cause = set(), "", error.__cause__
    while cause is not None:
        if isinstance(cause, BadBody):
            return read_network_error(cause)
        names.add(type(cause).__name__)
        text = text or str(cause)
        cause = cause.__cause__ or cause.__context__
    if "SSLCertVerificationError" in names:
        return Failure("endpoint", "bad certificate")
    if "ProxyError" in names:
        kind: FailureKind = "endpoint" if text.startswith("407") else "retry"
        return Failure(kind, f"proxy http {text[:3]}" if text[:3].isdecimal() else "proxy error")
    if names & {"ConnectError", "ConnectTimeout"}:
        return unreachable(error)
    if names & {"ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"}:
        return Failure("retry", "timeout", lost=True)
    return Failure("retry", "connection dropped", lost=True)
