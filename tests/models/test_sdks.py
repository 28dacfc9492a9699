"""Every API of a hosted model against a server that fails for real, on loopback."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from medhelm.errors import ModelError
from medhelm.models import open_model
from medhelm.models.providers import built_in
from medhelm.schema.episode import Message, Request, Response, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.asking import ask_all, request, said_by
from tests.models.sdk_server import (
    KINDS,
    LOST,
    Body,
    SdkServer,
    candidates,
    completion,
    converse_reply,
    message,
    response,
)
from tests.server import Reply

KEY = "sk-test-4711-secret"


@dataclass(frozen=True)
class Sdk:
    """One provider, and what its API looks like, as the service documents it."""

    provider: str
    answer: Callable[..., Body]
    prompt: Callable[[Body], str]
    key_env: str
    key_header: str
    path: str


def _chat(body: Body) -> str:
    return str(body["messages"][-1]["content"])


def _gemini(body: Body) -> str:
    return str(body["contents"][0]["parts"][0]["text"])


def _responses(body: Body) -> str:
    return str(body["input"][-1]["content"])


def _converse(body: Body) -> str:
    return str(body["messages"][0]["content"][0]["text"])


BEARER = "Authorization"
AZURE = "/openai/deployments/m/chat/completions"
GOOGLE = "/v1beta/models/m:generateContent"
VERTEX = "/publishers/google/models/m:generateContent"
SDKS = [
    Sdk("openai", completion, _chat, "OPENAI_API_KEY", BEARER, "/chat/completions"),
    Sdk("anthropic", message, _chat, "ANTHROPIC_API_KEY", "x-api-key", "/v1/messages"),
    Sdk("google", candidates, _gemini, "GEMINI_API_KEY", "x-goog-api-key", GOOGLE),
    Sdk("openai_responses", response, _responses, "OPENAI_API_KEY", BEARER, "/responses"),
    Sdk("azure", completion, _chat, "AZURE_OPENAI_API_KEY", "api-key", AZURE),
    Sdk("bedrock", converse_reply, _converse, "", BEARER, "/model/m/converse"),
    Sdk("vertex", candidates, _gemini, "", BEARER, VERTEX),
]
CHAT = SDKS[0]
"""What is the same for all, as it is below every protocol, is tried with this one."""


@pytest.fixture(params=SDKS, ids=lambda sdk: sdk.provider)
def sdk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Sdk:
    """A provider, without keys in the environment; with one named no package is needed."""
    sdk: Sdk = request.param
    for name in os.environ:
        if name.startswith(("ANTHROPIC_", "GOOGLE_", "GEMINI_", "OPENAI_")):
            monkeypatch.delenv(name)
    return sdk


def spec_for(sdk: Sdk, base_url: str | None, **more: Any) -> ModelSpec:
    fields: dict[str, Any] = {"timeout_s": 10.0, "api_key_env": "K", **more}
    name = f"{sdk.provider}/m"
    return ModelSpec(name=name, provider=sdk.provider, model="m", base_url=base_url, **fields)


def converse(
    sdk: Sdk, server: SdkServer, requests: Iterable[Request], **spec: Any
) -> list[Response]:
    async def run() -> list[Response]:
        async with server:
            return await said_by(spec_for(sdk, server.base_url, **spec), requests, {"K": KEY})

    return asyncio.run(run())


def test_a_request_comes_back_with_text_usage_and_what_was_served(sdk: Sdk) -> None:
    server = SdkServer(lambda body: sdk.answer())
    stop = () if sdk.provider == "openai_responses" else ("END",)
    sampling = Sampling(temperature=0.8, stop=stop)
    prompt = (Message("system", "Be brief."), Message("user", "A or B?"))
    asked = Request(
        instance_id="a", repeat=2, messages=prompt, max_output_tokens=16, sampling=sampling, seed=5
    )
    (response,) = converse(sdk, server, [asked])
    assert (response.instance_id, response.repeat) == ("a", 2)
    assert (response.text, response.finish, response.error) == ("B", "stop", "")
    thought = response.usage.reasoning_tokens or 0
    assert response.usage.input_tokens == 12 and response.usage.output_tokens == 3 + thought
    answer = sdk.answer()
    assert response.served_model == answer.get("model", answer.get("modelVersion", ""))
    assert (response.attempts, response.lost) == (1, 0)
    assert abs(response.finished_at - time.time()) < 60 and 0 < response.latency_s < 5
    assert server.paths == [sdk.path]
    (body,) = server.bodies
    assert sdk.prompt(body) == "A or B?" and "Be brief." in str(body)
    assert ("END" in str(body)) == bool(stop)
    held = [body, body.get("generationConfig", {}), body.get("inferenceConfig", {})]
    assert 0.8 in [part.get("temperature") for part in held]


@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_is_tried_again(kind: str) -> None:
    server = SdkServer(lambda body: completion(), (kind, kind))
    timeout_s = 0.5 if kind == "hang" else 10.0
    (response,) = converse(CHAT, server, [request("a")], timeout_s=timeout_s)
    assert (response.text, response.finish) == ("B", "stop")
    assert response.attempts == len(server.bodies) == 3
    assert response.lost == (2 if kind in LOST else 0)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("429", "http 429"),
        ("500", "http 500"),
        ("page", "http 502"),
        ("drop", "connection dropped"),
        ("hang", "timeout"),
        ("invalid_json", "invalid json"),
    ],
)
def test_tries_are_bounded_and_the_failure_is_named(kind: str, error: str) -> None:
    server = SdkServer(lambda body: completion(), (kind,) * 9)
    timeout_s = 0.3 if kind == "hang" else 10.0
    (response,) = converse(CHAT, server, [request("a")], max_attempts=2, timeout_s=timeout_s)
    assert (response.finish, response.error, response.text) == ("error", error, "")
    assert response.attempts == len(server.bodies) == 2
    assert response.usage == Usage()


def test_retry_after_is_obeyed_and_a_long_one_ends_the_request() -> None:
    server = SdkServer(lambda body: completion(), ("429_retry_after",), retry_after_s=0.4)
    started = time.monotonic()
    (response,) = converse(CHAT, server, [request("a")])
    assert response.finish == "stop" and time.monotonic() - started >= 0.4
    assert response.latency_s < 0.4  # of the try that was answered
    server = SdkServer(lambda body: completion(), ("429_retry_after",), retry_after_s=3600)
    (response,) = converse(CHAT, server, [request("a")])
    assert (response.finish, response.error) == ("error", "http 429, retry after 3600 s")


def test_a_prompt_that_is_too_long_is_oversize() -> None:
    error = {"error": {"type": "invalid", "message": "prompt is too long: 9 tokens > 8 maximum"}}
    server = SdkServer(lambda body: Reply(status=400, body=error))
    (response,) = converse(CHAT, server, [request("a")])
    assert (response.finish, response.attempts, response.lost) == ("oversize", 1, 0)


def test_the_key_is_sent_and_shown_nowhere(sdk: Sdk) -> None:
    server = SdkServer(lambda body: sdk.answer())

    async def run() -> str:
        async with server:
            model: Any = open_model(spec_for(sdk, server.base_url), environ={"K": f" {KEY}\n"})
            (response,) = await ask_all(model, [request("a")])
            await model.close()
            return f"{response} {model!r} {model.__dict__} {model.endpoint.__dict__}"

    shown = asyncio.run(run())
    scheme = "Bearer " if sdk.key_header == BEARER else ""
    assert server.headers[0][sdk.key_header] == scheme + KEY
    assert built_in()[sdk.provider].key_env == sdk.key_env and server.paths == [sdk.path]
    assert KEY not in f"{shown} {server.bodies}"


def test_a_key_of_the_environment_goes_to_no_host_that_it_was_not_given_for(
    sdk: Sdk, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sdk.key_env:  # it signs, or is refused: test_clouds.py
        return
    for name in (sdk.key_env, "GOOGLE_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    server = SdkServer(lambda body: sdk.answer())

    async def run() -> None:
        async with server:
            spec = spec_for(sdk, server.base_url, api_key_env=None)
            await said_by(spec, [request("a")], {sdk.key_env: KEY})

    asyncio.run(run())
    assert server.paths == [sdk.path] and KEY not in str(server.headers)


def test_odd_prompts_arrive_and_broken_ones_are_errors_of_their_own() -> None:
    text = 'é\u2028\x00\U0001f600 \\ " \n' * 100
    server = SdkServer(lambda body: completion())
    responses = converse(CHAT, server, [request("a", text), request("b", "half \ud83d")])
    assert [r.finish for r in responses] == ["stop", "error"]
    assert [CHAT.prompt(body) for body in server.bodies] == [text]


def test_a_schema_that_is_refused_names_the_setting(sdk: Sdk) -> None:
    text = "The model m does not support structured outputs"
    error = {"type": "invalid_request_error", "message": text, "code": 400}
    told = Reply(status=400, body={"error": error})
    server = SdkServer(lambda body: told)
    with pytest.raises(ModelError, match=r"set model\.json_schema=false"):
        converse(sdk, server, [request("a", json_schema={"type": "object"})], json_schema=True)
    assert len(server.bodies) == 1
