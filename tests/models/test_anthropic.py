"""The Messages API as bytes: what is written, what an answer and a refusal mean. No SDK."""

from __future__ import annotations

import json

import pytest

from medhelm.errors import UsageError
from medhelm.models import check_model
from medhelm.models.access import resolve_access
from medhelm.models.anthropic import make_body, read_message, read_refusal
from medhelm.models.wire import Answer, Failure
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.sdk_server import message


def spec(**more: object) -> ModelSpec:
    fields: dict[str, object] = {"name": "anthropic/m", "provider": "anthropic", "model": "m"}
    return ModelSpec(**{**fields, **more})  # type: ignore[arg-type]


def request(**more: object) -> Request:
    messages = (Message("system", "Be brief."), Message("user", "A or B?"))
    fields: dict[str, object] = {"messages": messages, "max_output_tokens": 64, **more}
    return Request(instance_id="i", **fields)  # type: ignore[arg-type]


def test_the_body_has_the_settings_of_the_request() -> None:
    sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",), reasoning_effort="low")
    body = make_body(spec(extra_body={"metadata": {"user_id": "u"}}), request(sampling=sampling))
    assert body == {
        "metadata": {"user_id": "u"},
        "model": "m",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "A or B?"}],
        "system": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "output_config": {"effort": "low"},
    }


def test_an_effort_that_is_a_number_is_a_thinking_budget() -> None:
    sampling = Sampling(temperature=None, reasoning_effort="4096")
    body = make_body(spec(), request(sampling=sampling))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert "temperature" not in body and "output_config" not in body


SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def test_a_schema_goes_beside_what_else_the_output_is_told() -> None:
    asked = request(json_schema=SCHEMA, sampling=Sampling(reasoning_effort="low"))
    body = make_body(spec(extra_body={"output_config": {"more": 1}}), asked)
    wanted = {"type": "json_schema", "schema": SCHEMA}
    assert body["output_config"] == {"more": 1, "effort": "low", "format": wanted}
    assert "output_config" not in make_body(spec(json_schema=True), request())


@pytest.mark.parametrize(
    "text",
    [
        "output_config.format: Extra inputs are not permitted",
        "This model does not support structured outputs.",
        "Invalid schema: the json_schema is too complex",
    ],
)
def test_a_schema_that_is_not_taken_is_a_matter_of_the_model(text: str) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    payload = json.dumps(error).encode()
    failure = read_refusal(400, payload, make_body(spec(), request(json_schema=SCHEMA)))
    assert (failure.kind, failure.param) == ("model", "output_config.format")
    assert read_refusal(400, payload, make_body(spec(), request())).kind == "error"


def test_the_form_of_the_answer_is_set_once() -> None:
    held = spec(extra_body={"output_config": {"format": {}}}, json_schema=True)
    with pytest.raises(
        UsageError, match=r"'output_config\.format'; that is for model\.json_schema"
    ):
        check_model(held, {"ANTHROPIC_API_KEY": "k"})


def read(**more: object) -> Answer | Failure:
    return read_message(json.dumps(message(**more)).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
def test_endings(reason: str, finish: str) -> None:
    answer = read(stop_reason=reason)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.model, answer.error) == (
        "B",
        finish,
        "claude-test-1",
        "",
    )


def test_thinking_is_left_out_and_cached_input_is_part_of_the_input() -> None:
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
    answer = read(content=content, usage=usage)
    assert isinstance(answer, Answer)
    assert answer.text == "It is B"
    assert answer.usage == Usage(
        input_tokens=1110, cached_tokens=100, output_tokens=50, reasoning_tokens=40
    )


@pytest.mark.parametrize("usage", [None, 3, {}, {"input_tokens": "many"}])
def test_usage_that_is_no_count_is_unknown(usage: object) -> None:
    answer = read(usage=usage)
    assert isinstance(answer, Answer) and answer.usage == Usage()


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"content": 3}', b"{}"])
def test_what_is_no_message_is_tried_again(payload: bytes) -> None:
    failure = read_message(payload)
    assert isinstance(failure, Failure) and (failure.kind, failure.lost) == ("retry", True)


@pytest.mark.parametrize(
    ("status", "kind", "type_", "text"),
    [
        (401, "endpoint", "authentication_error", "invalid x-api-key"),
        (403, "model", "permission_error", "not yours"),
        (404, "model", "not_found_error", "model: m"),
        (413, "oversize", "request_too_large", "Request exceeds the maximum size"),
        (400, "oversize", "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        (
            400,
            "oversize",
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 9 + 9 > 10",
        ),
        (400, "endpoint", "invalid_request_error", "Your credit balance is too low"),
        (400, "error", "invalid_request_error", "messages.0: text must be non-empty"),
        (400, "model", "invalid_request_error", "max_tokens: 9 > 8, the most for m"),
        (400, "model", "invalid_request_error", "`temperature` may only be set to 1"),
        (429, "retry", "rate_limit_error", "slow down"),
        (500, "retry", "api_error", "oh"),
        (529, "retry", "overloaded_error", "busy"),
    ],
)
def test_refusals(status: int, kind: str, type_: str, text: str) -> None:
    error = {"type": "error", "error": {"type": type_, "message": text}}
    failure = read_refusal(status, json.dumps(error).encode(), {"max_tokens": 9, "temperature": 1})
    assert failure.kind == kind
    assert failure.error == f"http {status}" and failure.code == type_
    assert failure.is_refusal == (status in (429, 529))


@pytest.mark.parametrize("name", ["messages", "system", "temperature", "max_tokens", "stream"])
def test_extra_body_may_not_set_what_is_recorded_elsewhere(name: str) -> None:
    with pytest.raises(UsageError, match=f"extra_body may not set '{name}'"):
        check_model(spec(extra_body={name: 1}), {"ANTHROPIC_API_KEY": "k"})
    with pytest.raises(UsageError, match="output_config must hold keys"):
        check_model(spec(extra_body={"output_config": 1}), {"ANTHROPIC_API_KEY": "k"})


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        (None, "https://api.anthropic.com"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com"),
        ("http://h:1/claude/v1/", "http://h:1/claude"),
    ],
)
def test_the_address_of_the_openai_endpoint_serves_too(base_url: str | None, url: str) -> None:
    access = resolve_access(
        spec(base_url=base_url, api_key_env="ANTHROPIC_API_KEY"), {"ANTHROPIC_API_KEY": "k"}
    )
    assert (access.url, access.key) == (url, "k")
