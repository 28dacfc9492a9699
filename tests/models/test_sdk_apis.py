"""The Messages and the Gemini API as bytes: what is written, what an answer and a refusal mean."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from medhelm.errors import UsageError
from medhelm.models import check_model
from medhelm.models.access import resolve_access
from medhelm.models.codecs import anthropic, google
from medhelm.models.codecs.wire import Answer, Failure
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.sdk_server import candidates, message

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
SYSTEM, *TURNS = (
    Message("system", "Be brief."),
    Message("user", "A or B?"),
    Message("assistant", "Which?"),
    Message("user", "The first."),
)
SAMPLING = Sampling(temperature=0.5, top_p=0.9, stop=("END",), reasoning_effort="low")


@dataclass(frozen=True)
class Api:
    """One API, and how it is written and read."""

    provider: str
    key_env: str
    host: str
    served: str
    make_body: Callable[[ModelSpec, Request], dict[str, Any]]
    read_answer: Callable[[bytes], Answer | Failure]
    read_refusal: Callable[[ModelSpec, int, bytes, Mapping[str, str]], Failure]

    def spec(self, **more: Any) -> ModelSpec:
        name = f"{self.provider}/m"
        return ModelSpec(**{"name": name, "provider": self.provider, "model": "m", **more})

    def body(self, sampling: Sampling | None = None, *, held: Any = None, **more: Any) -> Any:
        """Return what is sent; `more` are fields of the model."""
        asked = Request(
            instance_id="i",
            messages=(SYSTEM, *TURNS),
            max_output_tokens=64,
            seed=7,
            sampling=sampling or Sampling(),
            json_schema=held,
        )
        return self.make_body(self.spec(**more), asked)

    def read(self, body: Any) -> Answer:
        answer = self.read_answer(json.dumps(body).encode())
        assert isinstance(answer, Answer)
        return answer

    def refusal(
        self, status: int, kind: str, text: str, *, held: bool = False, **more: Any
    ) -> Failure:
        error = {"code": status, "status": kind, "type": kind, "message": text, **more}
        payload = json.dumps({"type": "error", "error": error}).encode()
        return self.read_refusal(self.spec(json_schema=held), status, payload, {})

    def check(self, **extra_body: Any) -> None:
        held = extra_body.pop("json_schema", False)
        check_model(self.spec(extra_body=extra_body, json_schema=held), {self.key_env: "k"})


ANTHROPIC = Api(
    "anthropic",
    "ANTHROPIC_API_KEY",
    "https://api.anthropic.com",
    "claude-test-1",
    lambda *asked: json.loads(anthropic.MESSAGES.write(*asked)),
    anthropic.MESSAGES.read,
    anthropic.MESSAGES.read_failure,
)
GOOGLE = Api(
    "google",
    "GEMINI_API_KEY",
    "https://generativelanguage.googleapis.com",
    "gemini-test-1",
    lambda *asked: json.loads(google.GEMINI.write(*asked)),
    google.GEMINI.read,
    google.GEMINI.read_failure,
)
A, G = ANTHROPIC, GOOGLE


def test_the_bodies_have_the_settings_of_the_request() -> None:
    assert A.body(SAMPLING, extra_body={"metadata": {"user_id": "u"}}) == {
        "metadata": {"user_id": "u"},
        "model": "m",
        "max_tokens": 64,
        "messages": [{"role": m.role, "content": m.content} for m in TURNS],
        "system": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
    }
    roles = {"user": "user", "assistant": "model"}
    extra: dict[str, Any] = {"safetySettings": [1], "generationConfig": {"topK": 5}}
    assert G.body(SAMPLING, extra_body=extra) == {
        "safetySettings": [1],
        "generationConfig": {
            "topK": 5,
            "maxOutputTokens": 64,
            "temperature": 0.5,
            "seed": 7,
            "topP": 0.9,
            "stopSequences": ["END"],
            "thinkingConfig": {"thinkingLevel": "low"},
        },
        "contents": [{"role": roles[m.role], "parts": [{"text": m.content}]} for m in TURNS],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
    }


@pytest.mark.parametrize("effort", [4096, 0, -1])
def test_an_effort_that_is_a_number_is_a_thinking_budget(effort: int) -> None:
    config = G.body(Sampling(reasoning_effort=str(effort)))["generationConfig"]
    assert config["thinkingConfig"] == {"thinkingBudget": effort}
    assert "seed" not in config, "a seed means nothing at temperature 0"
    if effort > 0:
        body = A.body(Sampling(temperature=None, reasoning_effort=str(effort)))
        assert body["thinking"] == {"type": "enabled", "budget_tokens": effort}
        assert "temperature" not in body and "output_config" not in body


def test_a_schema_goes_beside_what_else_the_output_is_told() -> None:
    effort = Sampling(reasoning_effort="low")
    body = A.body(effort, held=SCHEMA, extra_body={"output_config": {"more": 1}})
    wanted = {"type": "json_schema", "schema": SCHEMA}
    assert body["output_config"] == {"more": 1, "effort": "low", "format": wanted}
    assert "output_config" not in A.body(json_schema=True)
    held = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert held.items() <= G.body(held=SCHEMA)["generationConfig"].items()
    assert not held.keys() & G.body(json_schema=True)["generationConfig"].keys()


@pytest.mark.parametrize(
    ("api", "param", "text"),
    [
        (A, "output_config.format", "output_config.format: Extra inputs are not permitted"),
        (A, "output_config.format", "This model does not support structured outputs."),
        (A, "output_config.format", "Invalid schema: the json_schema is too complex"),
        (G, "generationConfig.responseJsonSchema", "Unknown name \"responseJsonSchema\" at 'x'"),
        (G, "generationConfig.responseJsonSchema", "The specified schema produces a constraint that has too many states for serving."),
        (G, "generationConfig.responseJsonSchema", "JSON mode is not enabled for models/m"),
    ],
)  # fmt: skip
def test_a_schema_that_is_not_taken_is_a_matter_of_the_model(
    api: Api, param: str, text: str
) -> None:
    kind = {"anthropic": "invalid_request_error", "google": "INVALID_ARGUMENT"}[api.provider]
    failure = api.refusal(400, kind, text, held=True)
    assert (failure.kind, failure.param) == ("model", param)
    assert api.refusal(400, kind, text).kind == "error"


@pytest.mark.parametrize(
    ("api", "body", "text", "finish", "error"),
    [
        (A, message("B", "end_turn"), "B", "stop", ""),
        (A, message("B", "stop_sequence"), "B", "stop", ""),
        (A, message("B", "max_tokens"), "B", "length", ""),
        (A, message("B", "model_context_window_exceeded"), "B", "length", ""),
        (A, message("B", "refusal"), "B", "refusal", ""),
        (G, candidates("B", "STOP"), "B", "stop", ""),
        (G, candidates("", "MAX_TOKENS"), "", "length", ""),
        (G, candidates("", "SAFETY"), "", "refusal", ""),
        (G, candidates("", "PROHIBITED_CONTENT"), "", "refusal", ""),
        (G, candidates("", "RECITATION"), "", "refusal", ""),
        (G, candidates("B", "OTHER"), "B", "stop", "finish reason 'OTHER'"),
    ],
)
def test_endings(api: Api, body: Any, text: str, finish: str, error: str) -> None:
    answer = api.read(body)
    assert (answer.text, answer.finish, answer.error) == (text, finish, error)
    assert answer.model == api.served


def test_a_blocked_prompt_is_a_refusal_with_its_usage() -> None:
    answer = G.read(candidates(candidates=[], promptFeedback={"blockReason": "SAFETY"}))
    assert (answer.text, answer.finish, answer.usage.input_tokens) == ("", "refusal", 12)


def test_thoughts_are_left_out_and_cached_input_is_part_of_the_input() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 40},
    }
    content = [
        {"type": "thinking", "thinking": "A is wrong.", "signature": "x"},
        {"type": "text", "text": "It is "},
        {"type": "text", "text": "B"},
    ]
    answer = A.read(message(content=content, usage=usage))
    expected = Usage(input_tokens=1110, cached_tokens=100, output_tokens=50, reasoning_tokens=40)
    assert (answer.text, answer.usage) == ("It is B", expected)
    parts = [{"text": "A is wrong.", "thought": True}, {"text": "It is "}, {"text": "B"}]
    usage = {
        "promptTokenCount": 30,
        "cachedContentTokenCount": 20,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 40,
    }
    candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
    answer = G.read(candidates(candidates=[candidate], usageMetadata=usage))
    expected = Usage(input_tokens=30, cached_tokens=20, output_tokens=45, reasoning_tokens=40)
    assert (answer.text, answer.usage) == ("It is B", expected)


@pytest.mark.parametrize("usage", [None, 3, {}, {"input_tokens": "many"}])
def test_usage_that_is_no_count_is_unknown(usage: object) -> None:
    assert A.read(message(usage=usage)).usage == Usage()


@pytest.mark.parametrize("api", [A, G], ids=lambda api: api.provider)
@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"{}", b'{"content": 3}', b'{"candidates": [{}]}', b'{"candidates": 3}'],
)
def test_what_is_no_answer_is_tried_again(api: Api, payload: bytes) -> None:
    failure = api.read_answer(payload)
    assert isinstance(failure, Failure) and (failure.kind, failure.lost) == ("retry", True)


LONG = "The input token count (9) exceeds the maximum number of tokens allowed (8)."


@pytest.mark.parametrize(
    ("api", "status", "kind", "name", "text"),
    [
        (A, 401, "endpoint", "authentication_error", "invalid x-api-key"),
        (A, 403, "model", "permission_error", "not yours"),
        (A, 404, "model", "not_found_error", "model: m"),
        (A, 413, "oversize", "request_too_large", "Request exceeds the maximum size"),
        (A, 400, "oversize", "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        (A, 400, "oversize", "invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 9 > 10"),
        (A, 400, "endpoint", "invalid_request_error", "Your credit balance is too low"),
        (A, 400, "error", "invalid_request_error", "messages.0: text must be non-empty"),
        (A, 400, "model", "invalid_request_error", "max_tokens: 9 > 8, the most for m"),
        (A, 400, "model", "invalid_request_error", "`temperature` may only be set to 1"),
        (A, 429, "retry", "rate_limit_error", "slow down"),
        (A, 500, "retry", "api_error", "oh"),
        (A, 529, "retry", "overloaded_error", "busy"),
        (G, 403, "model", "PERMISSION_DENIED", "not yours"),
        (G, 404, "model", "NOT_FOUND", "models/m is not found"),
        (G, 400, "oversize", "INVALID_ARGUMENT", LONG),
        (G, 400, "error", "INVALID_ARGUMENT", "bad"),
        (G, 429, "retry", "RESOURCE_EXHAUSTED", "slow down"),
        (G, 503, "retry", "UNAVAILABLE", "busy"),
    ],
)  # fmt: skip
def test_refusals(api: Api, status: int, kind: str, name: str, text: str) -> None:
    failure = api.refusal(status, name, text)
    assert (failure.kind, failure.error, failure.code) == (kind, f"http {status}", name)
    if api is A:
        assert failure.is_refusal == (status in (429, 529))


def test_a_key_that_is_not_valid_stops_everything_though_it_is_a_400() -> None:
    failure = G.refusal(400, "X", "no", details=[{"@type": "x", "reason": "API_KEY_INVALID"}])
    assert (failure.kind, failure.code) == ("endpoint", "API_KEY_INVALID")


@pytest.mark.parametrize(("delay", "wait_s"), [("37s", 37.0), ("0.5s", 0.5), ("soon", None)])
def test_the_wait_may_stand_in_the_body(delay: str, wait_s: float | None) -> None:
    details = [{"@type": "RetryInfo", "retryDelay": delay}]
    assert G.refusal(429, "X", "no", details=details).wait_s == wait_s


@pytest.mark.parametrize(
    ("api", "extra", "words"),
    [
        *((A, {name: 1}, f"may not set '{name}'") for name in ("messages", "system", "temperature")),
        *((A, {name: 1}, f"may not set '{name}'") for name in ("max_tokens", "stream")),
        (A, {"output_config": 1}, "output_config must hold keys"),
        (A, {"output_config": {"format": {}}, "json_schema": True}, r"config\.format'; .*json_schema"),
        (G, {"contents": []}, "may not set 'contents'"),
        (G, {"generationConfig": {"temperature": 1}}, "'generationConfig.temperature'"),
        (G, {"generationConfig": 3}, "generationConfig must hold keys"),
        *(
            (G, {"generationConfig": {name: "x"}, "json_schema": True}, f"{name}'; .*json_schema")
            for name in ("responseMimeType", "responseSchema", "responseJsonSchema")
        ),
    ],
)  # fmt: skip
def test_extra_body_may_not_set_what_is_recorded_elsewhere(
    api: Api, extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        api.check(**extra)


@pytest.mark.parametrize(
    ("api", "base_url", "url"),
    [
        (A, None, A.host),
        (A, f"{A.host}/v1", A.host),
        (A, "http://h:1/claude/v1/", "http://h:1/claude"),
        (G, None, G.host),
        (G, f"{G.host}/v1beta/openai", G.host),
        (G, f"{G.host}/v1beta/", G.host),
    ],
)
def test_the_address_of_the_openai_endpoint_serves_too(
    api: Api, base_url: str | None, url: str
) -> None:
    spec = api.spec(base_url=base_url, api_key_env=api.key_env)
    access = resolve_access(spec, {api.key_env: "k"})
    path = "/v1/messages" if api is A else "/v1beta/models/m:generateContent"
    assert (access.url, access.key) == (url + path, "k")
