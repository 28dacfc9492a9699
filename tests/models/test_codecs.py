"""The protocols of services as bytes: what is written, what an answer and a refusal mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medhelm.errors import UsageError
from medhelm.models import check_model
from medhelm.models.access import resolve_access
from medhelm.models.codecs.anthropic import MESSAGES
from medhelm.models.codecs.bedrock import CONVERSE
from medhelm.models.codecs.google import GEMINI
from medhelm.models.codecs.responses import RESPONSES
from medhelm.models.codecs.wire import Answer, Failure
from medhelm.models.providers import built_in
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.sdk_server import candidates, converse_reply, message, response

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
SYSTEM, *TURNS = (
    Message("system", "Be brief."),
    Message("user", "A or B?"),
    Message("assistant", "Which?"),
    Message("user", "The first."),
)
SAMPLING = Sampling(temperature=0.5, top_p=0.9, stop=("END",))
CODECS = {"anthropic": MESSAGES, "google": GEMINI, "openai_responses": RESPONSES}
CODECS["bedrock"] = CONVERSE
A, G, R, C = CODECS


def spec(provider: str, **more: Any) -> ModelSpec:
    return ModelSpec(name=f"{provider}/m", provider=provider, model="m", **more)


def body(provider: str, sampling: Sampling | None = None, held: Any = None, **more: Any) -> Any:
    """Return what is sent; `more` are fields of the model."""
    asked = Request(
        instance_id="i",
        messages=(SYSTEM, *TURNS),
        max_output_tokens=64,
        seed=7,
        sampling=sampling or Sampling(),
        json_schema=held,
    )
    return json.loads(CODECS[provider].write(spec(provider, **more), asked))


def read(provider: str, said: Any) -> Any:
    return CODECS[provider].read(said if isinstance(said, bytes) else json.dumps(said).encode())


def refusal(
    provider: str, status: int, name: str, text: str, *, held: bool = False, **more: Any
) -> Failure:
    error = {"code": status, "status": name, "type": name, "message": text, **more}
    said, headers = {"type": "error", "error": error}, {}
    if provider == C:
        said, headers = {"message": text}, {"x-amzn-ErrorType": f"{name}:http"}
    model = spec(provider, json_schema=held)
    return CODECS[provider].read_failure(model, status, json.dumps(said).encode(), headers)


def check(provider: str, **more: Any) -> None:
    check_model(spec(provider, **more), {built_in()[provider].key_env: "k"})


# What is written ----------------------------------------------------------------------------------


def test_the_bodies_have_the_settings_of_the_request() -> None:
    low = Sampling(temperature=0.5, top_p=0.9, stop=("END",), reasoning_effort="low")
    plain = [{"role": m.role, "content": m.content} for m in TURNS]
    assert body(A, low, extra_body={"metadata": {"user_id": "u"}}) == {
        "metadata": {"user_id": "u"},
        "model": "m",
        "max_tokens": 64,
        "messages": plain,
        "system": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
    }
    roles = {"user": "user", "assistant": "model"}
    extra: dict[str, Any] = {"safetySettings": [1], "generationConfig": {"topK": 5}}
    assert body(G, low, extra_body=extra) == {
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
    extra = {"additionalModelRequestFields": {"thinking": {"budget_tokens": 4096}}}
    assert body(C, SAMPLING, extra_body=extra) == {
        **extra,
        "inferenceConfig": {
            "maxTokens": 64,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
        },
        "system": [{"text": "Be brief."}],
        "messages": [{"role": m.role, "content": [{"text": m.content}]} for m in TURNS],
    }
    extra = {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}}
    high = Sampling(temperature=None, top_p=0.9, reasoning_effort="high")
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA}
    assert body(R, high, SCHEMA, extra_body=extra) == {
        "store": False,
        "model": "m",
        "input": [{"role": "system", "content": "Be brief."}, *plain],
        "max_output_tokens": 64,
        "top_p": 0.9,
        "reasoning": {"summary": "auto", "effort": "high"},
        "text": {"verbosity": "low", "format": form},
    }
    kept = body(R, extra_body={"store": True})
    assert kept["store"] is True and kept["temperature"] == 0.0
    assert not {"reasoning", "text", "seed", "stop"} & kept.keys()


@pytest.mark.parametrize("effort", [4096, 0, -1])
def test_an_effort_that_is_a_number_is_a_thinking_budget(effort: int) -> None:
    config = body(G, Sampling(reasoning_effort=str(effort)))["generationConfig"]
    assert config["thinkingConfig"] == {"thinkingBudget": effort}
    assert "seed" not in config, "a seed means nothing at temperature 0"
    if effort > 0:
        sent = body(A, Sampling(temperature=None, reasoning_effort=str(effort)))
        assert sent["thinking"] == {"type": "enabled", "budget_tokens": effort}
        assert "temperature" not in sent and "output_config" not in sent


def test_a_schema_goes_beside_what_else_the_output_is_told() -> None:
    effort = Sampling(reasoning_effort="low")
    sent = body(A, effort, SCHEMA, extra_body={"output_config": {"more": 1}})
    wanted = {"type": "json_schema", "schema": SCHEMA}
    assert sent["output_config"] == {"more": 1, "effort": "low", "format": wanted}
    assert "output_config" not in body(A, json_schema=True)
    held = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert held.items() <= body(G, held=SCHEMA)["generationConfig"].items()
    assert not held.keys() & body(G, json_schema=True)["generationConfig"].keys()
    wanted = body(C, held=SCHEMA)["outputConfig"]["textFormat"]
    assert wanted["type"] == "json_schema" and "outputConfig" not in body(C, json_schema=True)
    assert json.loads(wanted["structure"]["jsonSchema"]["schema"]) == SCHEMA


@pytest.mark.parametrize(
    ("provider", "settings", "words"),
    [
        *((A, {"extra_body": {name: 1}}, f"may not set '{name}'") for name in ("messages", "system", "temperature")),
        *((A, {"extra_body": {name: 1}}, f"may not set '{name}'") for name in ("max_tokens", "stream")),
        (A, {"extra_body": {"output_config": 1}}, "output_config must hold keys"),
        (A, {"extra_body": {"output_config": {"format": {}}}, "json_schema": True}, r"config\.format'; .*json_schema"),
        (G, {"extra_body": {"contents": []}}, "may not set 'contents'"),
        (G, {"extra_body": {"generationConfig": {"temperature": 1}}}, "'generationConfig.temperature'"),
        (G, {"extra_body": {"generationConfig": 3}}, "generationConfig must hold keys"),
        *(
            (G, {"extra_body": {"generationConfig": {name: "x"}}, "json_schema": True}, f"{name}'; .*json_schema")
            for name in ("responseMimeType", "responseSchema", "responseJsonSchema")
        ),
        *((R, {"extra_body": {name: 1}}, name) for name in ("input", "stream", "background", "max_output_tokens")),
        (R, {"extra_body": {"reasoning": {"effort": "low"}}}, r"reasoning\.effort.*model.sampling.reasoning_effort"),
        (R, {"sampling": Sampling(stop=("END",))}, "no stop sequences"),
        (R, {"send_seed": "always"}, "seed"),
    ],
)  # fmt: skip
def test_what_is_recorded_elsewhere_or_has_no_field_is_refused(
    provider: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        check(provider, **settings)


@pytest.mark.parametrize(
    ("provider", "base_url", "url"),
    [
        (A, None, "https://api.anthropic.com"),
        (A, "https://api.anthropic.com/v1", "https://api.anthropic.com"),
        (A, "http://h:1/claude/v1/", "http://h:1/claude"),
        (G, None, "https://generativelanguage.googleapis.com"),
        (G, "https://h/v1beta/openai", "https://h"),
        (G, "https://h/v1beta/", "https://h"),
    ],
)
def test_the_address_of_the_openai_endpoint_serves_too(
    provider: str, base_url: str | None, url: str
) -> None:
    access = resolve_access(spec(provider, base_url=base_url, api_key_env="K"), {"K": "k"})
    path = "/v1/messages" if provider == A else "/v1beta/models/m:generateContent"
    assert (access.url, access.key) == (url + path, "k")


# What comes back ----------------------------------------------------------------------------------


def part(text: str, kind: str = "output_text") -> dict[str, str]:
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


def item(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [*parts], **more}


def incomplete(text: str, reason: str) -> dict[str, Any]:
    return response(text, "incomplete", incomplete_details={"reason": reason})


@pytest.mark.parametrize(
    ("provider", "said", "text", "finish", "error"),
    [
        (A, message("B", "end_turn"), "B", "stop", ""),
        (A, message("B", "max_tokens"), "B", "length", ""),
        (A, message("B", "model_context_window_exceeded"), "B", "length", ""),
        (A, message("B", "refusal"), "B", "refusal", ""),
        (G, candidates("B", "STOP"), "B", "stop", ""),
        (G, candidates("", "MAX_TOKENS"), "", "length", ""),
        (G, candidates("", "SAFETY"), "", "refusal", ""),
        (G, candidates(candidates=[], promptFeedback={"blockReason": "SAFETY"}), "", "refusal", ""),
        (R, response("B"), "B", "stop", ""),
        (R, response("", output=[item(part("B"), part("!"))]), "B!", "stop", ""),
        (R, response(output=[item(part("A?"), phase="commentary"), item(part("B"), phase="final_answer")]), "B", "stop", ""),
        (R, response(output=[item(part("B"), phase="commentary")]), "B", "stop", ""),
        (R, response(output=[item(part("I cannot.", "refusal"))]), "", "refusal", ""),
        (R, incomplete("B is", "max_output_tokens"), "B is", "length", ""),
        (R, incomplete("B", "content_filter"), "B", "refusal", ""),
        (R, incomplete("B", "tired"), "B", "stop", "finish reason 'tired'"),
        (C, converse_reply("B", "max_tokens"), "B", "length", ""),
        (C, converse_reply("B", "content_filtered"), "B", "refusal", ""),
        (C, converse_reply("B", "guardrail_intervened"), "B", "refusal", ""),
    ],
)  # fmt: skip
def test_endings(provider: str, said: Any, text: str, finish: str, error: str) -> None:
    """Where each protocol says how it ended; `test_wire.py` has more words for it."""
    answer = read(provider, said)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.error) == (text, finish, error)
    assert answer.model == said.get("model", said.get("modelVersion", ""))
    assert answer.usage.input_tokens == 12


def test_thoughts_are_left_out_and_cached_input_is_part_of_the_input() -> None:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "output_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 40},
    }
    thought = {"type": "thinking", "thinking": "A is wrong.", "signature": "x"}
    content = [thought, {"type": "text", "text": "It is "}, {"type": "text", "text": "B"}]
    answer = read(A, message(content=content, usage=usage))
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
    answer = read(G, candidates(candidates=[candidate], usageMetadata=usage))
    expected = Usage(input_tokens=30, cached_tokens=20, output_tokens=45, reasoning_tokens=40)
    assert (answer.text, answer.usage) == ("It is B", expected)
    usage = {"inputTokens": 2, "cacheReadInputTokens": 30, "cacheWriteInputTokens": 5}
    answer = read(C, converse_reply("B", usage=usage | {"outputTokens": 7}))
    assert (answer.text, answer.usage.input_tokens, answer.usage.cached_tokens) == ("B", 37, 30)
    expected = Usage(input_tokens=12, cached_tokens=4, output_tokens=9, reasoning_tokens=6)
    assert read(R, response("B")).usage == expected


@pytest.mark.parametrize("usage", [None, 3, {}, {"input_tokens": "many"}])
def test_usage_that_is_no_count_is_unknown(usage: object) -> None:
    assert read(A, message(usage=usage)).usage == Usage()


@pytest.mark.parametrize("provider", CODECS)
@pytest.mark.parametrize(
    "said",
    [b"", b"{", b"[]", b"{}", b'{"content": 3}', b'{"candidates": [{}]}', b'{"candidates": 3}',
     b'{"output": 3}', b'{"output": {"message": 3}}'],
)  # fmt: skip
def test_what_is_no_answer_is_tried_again(provider: str, said: bytes) -> None:
    failure = read(provider, said)
    assert isinstance(failure, Failure) and (failure.kind, failure.lost) == ("retry", True)


@pytest.mark.parametrize(
    ("provider", "said", "kind"),
    [
        (R, response("", "failed", error={"code": "server_error", "message": "Miller"}), "retry"),
        (R, response("", "failed", error={"code": "rate_limit_exceeded"}), "retry"),
        (R, response("", "failed", error={"code": "invalid_prompt"}), "error"),
        (R, response("B", "cancelled"), "retry"),
        (R, response("", "in_progress"), "retry"),
        (R, response(""), "retry"),
        (C, converse_reply("", "malformed_model_output"), "retry"),
    ],
)
def test_an_answer_that_failed_is_none(provider: str, said: Any, kind: str) -> None:
    found = read(provider, said)
    assert isinstance(found, Failure) and found.kind == kind and "Miller" not in repr(found)


# What a status means ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "status", "kind", "name", "text"),
    [
        (A, 400, "oversize", "invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 9 > 10"),
        (A, 400, "error", "invalid_request_error", "messages.0: text must be non-empty"),
        (A, 400, "model", "invalid_request_error", "max_tokens: 9 > 8, the most for m"),
        (A, 400, "model", "invalid_request_error", "`temperature` may only be set to 1"),
        (C, 400, "oversize", "ValidationException", "Input is too long for requested model."),
        (C, 400, "model", "ValidationException", "`temperature` is deprecated for this model."),
        (C, 400, "error", "ValidationException", "The messages are wrong."),
        (C, 403, "model", "AccessDeniedException", "You don't have access to the model"),
        (C, 403, "endpoint", "ExpiredTokenException", "expired"),
        (C, 424, "retry", "ModelErrorException", "broke"),
        (C, 429, "retry", "ThrottlingException", "Too many tokens"),
    ],
)  # fmt: skip
def test_refusals(provider: str, status: int, kind: str, name: str, text: str) -> None:
    """Where a protocol has words of its own; `test_wire.py` has what a status means in all."""
    failure = refusal(provider, status, name, text)
    assert (failure.kind, failure.error, failure.code) == (kind, f"http {status}", name)
    assert failure.is_refusal == (status in (429, 529))
    named = [word for word in ("max_tokens", "temperature") if word in text]
    assert kind != "model" or status != 400 or [failure.param] == named


@pytest.mark.parametrize(
    ("status", "error", "kind", "param"),
    [
        (400, {"param": "temperature", "message": "Unsupported parameter"}, "model", "temperature"),
        (400, {"param": "reasoning.effort", "message": "no"}, "model", "reasoning.effort"),
        (400, {"param": "text.format.schema", "message": "Invalid schema"}, "model", "text.format"),
    ],
)
def test_refusals_of_responses(status: int, error: Any, kind: str, param: str) -> None:
    payload = json.dumps({"error": error}).encode()
    found = RESPONSES.read_failure(spec(R, json_schema=True), status, payload, {})
    assert (found.kind, found.param) == (kind, param)


@pytest.mark.parametrize(
    ("provider", "param", "text"),
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
    provider: str, param: str, text: str
) -> None:
    failure = refusal(provider, 400, "INVALID_ARGUMENT", text, held=True)
    assert (failure.kind, failure.param) == ("model", param)
    assert refusal(provider, 400, "INVALID_ARGUMENT", text).kind == "error"


def test_details_of_google_tell_a_bad_key_and_how_long_to_wait() -> None:
    details = [{"@type": "x", "reason": "API_KEY_INVALID"}]
    failure = refusal(G, 400, "X", "no", details=details)
    assert (failure.kind, failure.code) == ("endpoint", "API_KEY_INVALID")
    for delay, wait_s in (("37s", 37.0), ("0.5s", 0.5), ("soon", None)):
        details = [{"@type": "RetryInfo", "retryDelay": delay}]
        assert refusal(G, 429, "X", "no", details=details).wait_s == wait_s
