"""Google's Gemini models, through its own SDK; our limiter and retries, not the SDK's."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from medhelm.models.endpoint import Endpoint, EndpointModel
from medhelm.models.hosts import Access
from medhelm.models.network import find_proxy, open_session, read_network_error, tls_context
from medhelm.models.pacing.limits import retry_after
from medhelm.models.wire import (
    Answer,
    Codec,
    Failure,
    count,
    decode_answer,
    end_answer,
    read_failure,
)
from medhelm.schema.episode import Request, Usage
from medhelm.schema.model import ModelSpec

_ENCODER = msgspec.json.Encoder()
_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")
_SCHEMA_FIELD = "generationConfig.responseJsonSchema"


class _Content(msgspec.Struct):
    parts: list[dict[str, Any]] = []


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finishReason: str | None = None


class _Answer(msgspec.Struct):
    candidates: list[_Candidate] = []
    promptFeedback: dict[str, Any] = {}
    usageMetadata: Any = None
    modelVersion: str | None = None


_DECODER = msgspec.json.Decoder(_Answer)


class GoogleEndpoint(Endpoint):
    """One address and key of the Gemini API."""

    def __init__(self, access: Access, max_concurrency: int | None) -> None:
        super().__init__(access, max_concurrency)
        self._client: Any = None
        self._session: aiohttp.ClientSession | None = None

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> GoogleModel:
        """Return a model of this address."""
        return GoogleModel(spec, self, owns_host=owns_host)

    async def episode(
        self, model: str, body: Mapping[str, Any], timeout_s: float
    ) -> Answer | Failure:
        """Send one body once and return what came of it."""
        from google.genai import errors, types

        client = self._client or self._open()
        further = dict(body)
        contents = further.pop("contents")
        config = types.GenerateContentConfig(
            http_options=types.HttpOptions(extra_body=further, timeout=round(timeout_s * 1000)),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,  # as it came, for us to read
        )
        try:
            async with asyncio.timeout(timeout_s):
                answer = await client.aio.models.generate_content(
                    model=model, contents=contents, config=config
                )
            return read_candidates(str(answer.sdk_http_response.body).encode())
        except errors.APIError as error:
            failure = read_refusal(error.code, _ENCODER.encode(error.details), body)
            headers = getattr(error.response, "headers", {})
            return dataclasses.replace(failure, wait_s=retry_after(headers) or failure.wait_s)
        except (aiohttp.ClientError, OSError) as error:  # a time-out is an OSError
            return read_network_error(error)
        except UnicodeDecodeError:
            return Failure("retry", "invalid utf-8", lost=True)
        except (ValueError, RecursionError):  # an error page that claims to be JSON
            return Failure("retry", "invalid json", lost=True)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            await self._client.aio.aclose()
            self._client = self._session = None

    def _open(self) -> Any:
        from google import genai
        from google.genai import types

        # It warns of keys in the environment, none of which it is to use.
        logging.getLogger("google_genai").setLevel(logging.ERROR)
        proxy = find_proxy(self.access)
        self._session = open_session(self.access, {})
        is_tls = self.access.parts.scheme == "https"
        self._client = genai.Client(
            vertexai=False,
            api_key=self.access.key or "none",  # without one the SDK looks for others
            http_options=types.HttpOptions(
                base_url=self.access.url,
                headers=dict(self.access.headers),
                api_version="v1beta",
                retry_options=types.HttpRetryOptions(attempts=1),
                aiohttp_client=self._session,
                async_client_args={
                    "proxy": str(proxy) if proxy else None,
                    "allow_redirects": False,  # the key would go along
                    "ssl": tls_context(os.environ) if is_tls else True,
                },
            ),
        )
        return self._client


class GoogleModel(EndpointModel[GoogleEndpoint, dict[str, Any]]):
    """A model behind the Gemini API."""

    def write(self, request: Request) -> dict[str, Any]:
        """Return what is sent for a request."""
        body = make_body(self.spec, request)
        _ENCODER.encode(body)  # lone surrogates are found here, before anything is sent
        return body

    async def send(self, sent: dict[str, Any]) -> Answer | Failure:
        """Send it once and return what came of it."""
        return await self.endpoint.episode(self.spec.model, sent, self.spec.timeout_s)


def make_body(spec: ModelSpec, request: Request) -> dict[str, Any]:
    """Return the body of a request; settings that are None are left to the endpoint.

    A reasoning effort is a level, or a number: the tokens that the model may think.
    """
    sampling = request.sampling
    config: dict[str, Any] = {
        **spec.extra_body.get("generationConfig", {}),
        "maxOutputTokens": request.max_output_tokens,
    }
    if sampling.temperature is not None:
        config["temperature"] = sampling.temperature
    if (seed := spec.seed_of(request)) is not None:
        config["seed"] = seed
    if sampling.top_p is not None:
        config["topP"] = sampling.top_p
    if sampling.stop:
        config["stopSequences"] = list(sampling.stop)
    if (effort := sampling.reasoning_effort) is not None:
        is_number = effort.lstrip("-").isdecimal()
        thinking = {"thinkingBudget": int(effort)} if is_number else {"thinkingLevel": effort}
        config["thinkingConfig"] = {**config.get("thinkingConfig", {}), **thinking}
    if request.json_schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.json_schema
    body = {
        **spec.extra_body,
        "generationConfig": config,
        "contents": [
            {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": m.content}]}
            for m in request.messages
            if m.role != "system"
        ],
    }
    if system := [{"text": m.content} for m in request.messages if m.role == "system"]:
        body["systemInstruction"] = {"parts": system}
    return body


def read_candidates(payload: bytes) -> Answer | Failure:
    """Return the text of the first candidate, without what the model thought."""
    answer = decode_answer(_DECODER, payload)
    if isinstance(answer, Failure):
        return answer
    usage = _read_usage(answer.usageMetadata)
    if not answer.candidates:
        if answer.promptFeedback.get("blockReason"):
            return end_answer("", "refusal", usage, answer.modelVersion)
        return Failure("retry", "no candidates", 200, lost=True)
    candidate = answer.candidates[0]
    if candidate.content is None and not candidate.finishReason:
        return Failure("retry", "no message", 200, lost=True)
    parts = candidate.content.parts if candidate.content else []
    texts = [p["text"] for p in parts if not p.get("thought") and isinstance(p.get("text"), str)]
    return end_answer("".join(texts), candidate.finishReason or "", usage, answer.modelVersion)


def read_refusal(status: int, payload: bytes, sent: Mapping[str, Any]) -> Failure:
    """Return what an HTTP status other than success means, with the server's own words."""
    has_schema = "responseJsonSchema" in sent.get("generationConfig", {})
    failure = read_failure(status, payload, (_SCHEMA_FIELD,) * has_schema, _SCHEMA_FIELD)
    for detail in _details(payload):
        if status == 400 and detail.get("reason") == "API_KEY_INVALID":
            return dataclasses.replace(failure, kind="endpoint", status=401, code="API_KEY_INVALID")
        if status == 429 and (delay := _DELAY.fullmatch(str(detail.get("retryDelay")))):
            return dataclasses.replace(failure, wait_s=float(delay[1]))
    return failure


def _write(spec: ModelSpec, request: Request) -> bytes:
    return _ENCODER.encode(make_body(spec, request))


def _read_failure(
    spec: ModelSpec, status: int, payload: bytes, headers: Mapping[str, str]
) -> Failure:
    held = {"responseJsonSchema": None} if spec.json_schema else {}
    return read_refusal(status, payload, {"generationConfig": held})


GEMINI = Codec(_write, read_candidates, _read_failure)
"""The protocol as bytes, for addresses that are asked without the SDK."""


def _details(payload: bytes) -> list[dict[str, Any]]:
    try:
        body = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    error = body.get("error", body) if isinstance(body, dict) else {}
    details = error.get("details") if isinstance(error, dict) else None
    return [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []


def _read_usage(usage: Any) -> Usage:
    """Return the counts. The API counts what the model thought apart from what it wrote."""
    written, thought = count(usage, "candidatesTokenCount"), count(usage, "thoughtsTokenCount")
    read = count(usage, "promptTokenCount")
    is_counted = written is not None or thought is not None
    return Usage(
        input_tokens=read,
        cached_tokens=count(usage, "cachedContentTokenCount"),
        output_tokens=(written or 0) + (thought or 0) if is_counted else None,
        reasoning_tokens=thought,
    )
