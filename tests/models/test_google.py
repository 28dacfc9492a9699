"""The Gemini API as bytes: what is written, what an answer and a refusal mean. No SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medhelm.errors import UsageError
from medhelm.models import check_model
from medhelm.models.access import resolve_access
from medhelm.models.google import make_body, read_candidates, read_refusal
from medhelm.models.wire import Answer, Failure
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.sdk_server import candidates


def spec(**more: object) -> ModelSpec:
    fields: dict[str, object] = {"name": "google/m", "provider": "google", "model": "m"}
    return ModelSpec(**{**fields, **more})  # type: ignore[arg-type]


def request(**more: object) -> Request:
    messages = (
        Message("system", "Be brief."),
        Message("user", "A or B?"),
        Message("assistant", "Which?"),
        Message("user", "The first."),
    )
    fields: dict[str, object] = {"messages": messages, "max_output_tokens": 64, **more}
    return Request(instance_id="i", **fields)  # type: ignore[arg-type]


def test_the_body_has_the_settings_of_the_request() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",), reasoning_effort="low")
    extra: dict[str, Any] = {"safetySettings": [1], "generationConfig": {"topK": 5}}
    body = make_body(spec(extra_body=extra), request(sampling=sampling, seed=7))
    assert body == {
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
        "contents": [
            {"role": "user", "parts": [{"text": "A or B?"}]},
            {"role": "model", "parts": [{"text": "Which?"}]},
            {"role": "user", "parts": [{"text": "The first."}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
    }


SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_a_schema_is_sent_with_the_type_that_it_needs() -> None:
    config = make_body(spec(), request(json_schema=SCHEMA))["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"] == SCHEMA
    assert not {"responseMimeType", "responseJsonSchema"} & {
        *make_body(spec(json_schema=True), request())["generationConfig"]
    }


@pytest.mark.parametrize(
    "text",
    [
        "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config'",
        "The specified schema produces a constraint that has too many states for serving.",
        "JSON mode is not enabled for models/m",
    ],
)
def test_a_schema_that_is_not_taken_is_a_matter_of_the_model(text: str) -> None:
    error = {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
    payload = json.dumps(error).encode()
    failure = read_refusal(400, payload, make_body(spec(), request(json_schema=SCHEMA)))
    assert (failure.kind, failure.param) == ("model", "generationConfig.responseJsonSchema")
    assert read_refusal(400, payload, make_body(spec(), request())).kind == "error"


@pytest.mark.parametrize("name", ["responseMimeType", "responseSchema", "responseJsonSchema"])
def test_the_form_of_the_answer_is_set_once(name: str) -> None:
    held = spec(extra_body={"generationConfig": {name: "x"}}, json_schema=True)
    with pytest.raises(UsageError, match=f"{name}'; that is for model.json_schema"):
        check_model(held, {"GEMINI_API_KEY": "k"})


@pytest.mark.parametrize(("effort", "budget"), [("0", 0), ("4096", 4096), ("-1", -1)])
def test_an_effort_that_is_a_number_is_a_thinking_budget(effort: str, budget: int) -> None:
    body = make_body(spec(), request(sampling=Sampling(reasoning_effort=effort), seed=7))
    config = body["generationConfig"]
    assert config["thinkingConfig"] == {"thinkingBudget": budget}
    assert "seed" not in config, "a seed means nothing at temperature 0"


def read(**more: Any) -> Answer | Failure:
    return read_candidates(json.dumps(candidates(**more)).encode())


@pytest.mark.parametrize(
    ("reason", "text", "finish", "error"),
    [
        ("STOP", "B", "stop", ""),
        ("MAX_TOKENS", "", "length", ""),
        ("SAFETY", "", "refusal", ""),
        ("PROHIBITED_CONTENT", "", "refusal", ""),
        ("RECITATION", "", "refusal", ""),
        ("OTHER", "B", "stop", "finish reason 'OTHER'"),
    ],
)
def test_endings(reason: str, text: str, finish: str, error: str) -> None:
    answer = read(text=text, finish=reason)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.error) == (text, finish, error)
    assert answer.model == "gemini-test-1"


def test_a_blocked_prompt_is_a_refusal_with_its_usage() -> None:
    answer = read(candidates=[], promptFeedback={"blockReason": "SAFETY"})
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.usage.input_tokens) == ("", "refusal", 12)


def test_thoughts_are_left_out_of_the_text_and_counted_as_output() -> None:
    parts = [{"text": "A is wrong.", "thought": True}, {"text": "It is "}, {"text": "B"}]
    answer = read(
        candidates=[{"content": {"parts": parts}, "finishReason": "STOP"}],
        usageMetadata={
            "promptTokenCount": 30,
            "cachedContentTokenCount": 20,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 40,
        },
    )
    assert isinstance(answer, Answer)
    assert answer.text == "It is B"
    assert answer.usage == Usage(
        input_tokens=30, cached_tokens=20, output_tokens=45, reasoning_tokens=40
    )


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"{}", b'{"candidates": [{}]}', b'{"candidates": 3}']
)
def test_what_is_no_answer_is_tried_again(payload: bytes) -> None:
    failure = read_candidates(payload)
    assert isinstance(failure, Failure) and (failure.kind, failure.lost) == ("retry", True)


@pytest.mark.parametrize(
    ("status", "kind", "name", "text"),
    [
        (403, "model", "PERMISSION_DENIED", "not yours"),
        (404, "model", "NOT_FOUND", "models/m is not found"),
        (
            400,
            "oversize",
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        (400, "error", "INVALID_ARGUMENT", "bad"),
        (429, "retry", "RESOURCE_EXHAUSTED", "slow down"),
        (503, "retry", "UNAVAILABLE", "busy"),
    ],
)
def test_refusals(status: int, kind: str, name: str, text: str) -> None:
    error = {"error": {"code": status, "message": text, "status": name}}
    failure = read_refusal(status, json.dumps(error).encode(), {})
    assert (failure.kind, failure.error, failure.code) == (kind, f"http {status}", name)


def test_a_key_that_is_not_valid_stops_everything_though_it_is_a_400() -> None:
    details = [{"@type": "x", "reason": "API_KEY_INVALID"}]
    error = {"error": {"code": 400, "message": "no", "status": "X", "details": details}}
    failure = read_refusal(400, json.dumps(error).encode(), {})
    assert (failure.kind, failure.code) == ("endpoint", "API_KEY_INVALID")


@pytest.mark.parametrize(("delay", "wait_s"), [("37s", 37.0), ("0.5s", 0.5), ("soon", None)])
def test_the_wait_may_stand_in_the_body(delay: str, wait_s: float | None) -> None:
    details = [{"@type": "RetryInfo", "retryDelay": delay}]
    error = {"error": {"code": 429, "message": "no", "status": "X", "details": details}}
    assert read_refusal(429, json.dumps(error).encode(), {}).wait_s == wait_s


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"contents": []}, "may not set 'contents'"),
        ({"generationConfig": {"temperature": 1}}, "'generationConfig.temperature'"),
        ({"generationConfig": 3}, "generationConfig must hold keys"),
    ],
)
def test_extra_body_may_not_set_what_is_recorded_elsewhere(
    extra: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        check_model(spec(extra_body=extra), {"GEMINI_API_KEY": "k"})


@pytest.mark.parametrize(
    "base_url",
    [
        None,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "https://generativelanguage.googleapis.com/v1beta/",
    ],
)
def test_the_address_of_the_openai_endpoint_serves_too(base_url: str | None) -> None:
    access = resolve_access(
        spec(base_url=base_url, api_key_env="GEMINI_API_KEY"), {"GEMINI_API_KEY": "k"}
    )
    assert (access.url, access.key) == ("https://generativelanguage.googleapis.com", "k")
