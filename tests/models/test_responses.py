"""The Responses and the Converse protocol as bytes: what is written, what an answer and a refusal mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medhelm.errors import UsageError
from medhelm.models import check_model
from medhelm.models.codecs.bedrock import CONVERSE
from medhelm.models.codecs.responses import RESPONSES
from medhelm.models.codecs.wire import Answer, Codec, Failure
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.models.sdk_server import converse_reply, response

TURNS = (
    Message("system", "Be brief."),
    Message("user", "A or B?"),
    Message("assistant", "Which?"),
    Message("user", "The first."),
)
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def spec(provider: str, **more: Any) -> ModelSpec:
    return ModelSpec(name="x/m", provider=provider, model="m", **more)


def body(codec: Codec, model: ModelSpec, sampling: Sampling, schema: Any = None) -> Any:
    asked = Request(
        instance_id="i",
        messages=TURNS,
        max_output_tokens=64,
        sampling=sampling,
        seed=7,
        json_schema=schema,
    )
    return json.loads(codec.write(model, asked))


def read(codec: Codec, said: Any) -> Any:
    return codec.read(json.dumps(said).encode())


def failure(codec: Codec, status: int, error: Any, headers: Any = None, **more: Any) -> Failure:
    model = spec("openai_responses", **more)
    return codec.read_failure(model, status, json.dumps(error).encode(), headers or {})


def test_the_body_of_a_response_has_the_settings_and_is_not_to_be_kept() -> None:
    extra = {"reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}}
    sampling = Sampling(temperature=None, top_p=0.9, reasoning_effort="high")
    assert body(RESPONSES, spec("openai_responses", extra_body=extra), sampling, SCHEMA) == {
        "store": False,
        "model": "m",
        "input": [{"role": m.role, "content": m.content} for m in TURNS],
        "max_output_tokens": 64,
        "top_p": 0.9,
        "reasoning": {"summary": "auto", "effort": "high"},
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "answer", "strict": True, "schema": SCHEMA},
        },
    }
    plain = body(RESPONSES, spec("openai_responses", extra_body={"store": True}), Sampling())
    assert plain["store"] is True and plain["temperature"] == 0.0
    assert not {"reasoning", "text", "seed", "stop"} & plain.keys()


def part(text: str, kind: str = "output_text") -> dict[str, str]:
    return {"type": kind, "refusal" if kind == "refusal" else "text": text}


def item(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [*parts], **more}


@pytest.mark.parametrize(
    ("said", "text", "finish"),
    [
        (response("B"), "B", "stop"),
        (response("", output=[item(part("B"), part("!"))]), "B!", "stop"),
        (
            response(
                output=[
                    item(part("Let me see: A?"), phase="commentary"),
                    item(part("B"), phase="final_answer"),
                ]
            ),
            "B",
            "stop",
        ),
        (response(output=[item(part("B"), phase="commentary")]), "B", "stop"),
        (response(output=[item(part("I cannot.", "refusal"))]), "", "refusal"),
        (
            response("B is", "incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "B is",
            "length",
        ),
        (
            response("", "incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "",
            "length",
        ),
        (
            response("B", "incomplete", incomplete_details={"reason": "content_filter"}),
            "B",
            "refusal",
        ),
    ],
)
def test_what_a_response_says_and_how_it_ended(said: Any, text: str, finish: str) -> None:
    answer = read(RESPONSES, said)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish, answer.error) == (text, finish, "")
    assert answer.usage == Usage(
        input_tokens=12, cached_tokens=4, output_tokens=9, reasoning_tokens=6
    )


def test_an_ending_that_is_not_known_is_remarked() -> None:
    answer = read(RESPONSES, response("B", "incomplete", incomplete_details={"reason": "tired"}))
    assert (answer.text, answer.error) == ("B", "finish reason 'tired'")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (response("", "failed", error={"code": "server_error", "message": "Miller"}), "retry"),
        (response("", "failed", error={"code": "rate_limit_exceeded"}), "retry"),
        (response("", "failed", error={"code": "invalid_prompt"}), "error"),
        (response("B", "cancelled"), "retry"),
        (response("", "in_progress"), "retry"),
        (response(""), "retry"),
        ({}, "retry"),
        ({"output": 3}, "retry"),
        ([], "retry"),
    ],
)
def test_what_is_no_answer_is_a_failure(said: Any, kind: str) -> None:
    found = read(RESPONSES, said)
    assert isinstance(found, Failure) and found.kind == kind and "Miller" not in repr(found)


@pytest.mark.parametrize(
    ("status", "error", "kind", "param"),
    [
        (400, {"param": "temperature", "message": "Unsupported parameter"}, "model", "temperature"),
        (400, {"param": "reasoning.effort", "message": "no"}, "model", "reasoning.effort"),
        (400, {"param": "text.format.schema", "message": "Invalid schema"}, "model", "text.format"),
        (400, {"param": "input", "code": "context_length_exceeded"}, "oversize", "input"),
        (400, {"code": "content_filter", "message": "filtered"}, "refusal", ""),
        (404, {"code": "model_not_found"}, "model", ""),
        (429, {"code": "insufficient_quota"}, "endpoint", ""),
        (500, {"message": "oops"}, "retry", ""),
    ],
)
def test_what_a_status_means(status: int, error: Any, kind: str, param: str) -> None:
    found = failure(RESPONSES, status, {"error": error}, json_schema=True)
    assert (found.kind, found.param) == (kind, param)


def test_what_the_protocol_has_no_field_for_is_refused() -> None:
    for settings in ({"sampling": Sampling(stop=("END",))}, {"send_seed": "always"}):
        with pytest.raises(UsageError, match="stop|seed"):
            check_model(spec("openai_responses", **settings), {"OPENAI_API_KEY": "k"})
    for field in ("input", "stream", "background", "max_output_tokens"):
        with pytest.raises(UsageError, match=field):
            check_model(spec("openai_responses", extra_body={field: 1}), {"OPENAI_API_KEY": "k"})
    nested = {"reasoning": {"effort": "low"}}
    with pytest.raises(UsageError, match=r"reasoning\.effort.*model.sampling.reasoning_effort"):
        check_model(spec("openai_responses", extra_body=nested), {"OPENAI_API_KEY": "k"})


def test_the_body_of_converse_has_the_settings_and_the_fields_of_a_model() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4096}}
    extra = {"additionalModelRequestFields": thinking}
    sampling = Sampling(temperature=0.5, top_p=0.9, stop=("END",))
    assert body(CONVERSE, spec("bedrock", extra_body=extra), sampling) == {
        "additionalModelRequestFields": thinking,
        "inferenceConfig": {
            "maxTokens": 64,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
        },
        "system": [{"text": "Be brief."}],
        "messages": [{"role": m.role, "content": [{"text": m.content}]} for m in TURNS[1:]],
    }


def test_converse_counts_cached_input_apart_and_thoughts_are_no_text() -> None:
    usage = {"inputTokens": 2, "cacheReadInputTokens": 30, "cacheWriteInputTokens": 5}
    answer = read(CONVERSE, converse_reply("B", usage=usage | {"outputTokens": 7}))
    assert answer.text == "B" and answer.finish == "stop"
    assert answer.usage == Usage(input_tokens=37, cached_tokens=30, output_tokens=7)


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filtered", "refusal"),
        ("guardrail_intervened", "refusal"),
    ],
)
def test_endings_of_converse(stop: str, finish: str) -> None:
    answer = read(CONVERSE, converse_reply("B", stop))
    assert isinstance(answer, Answer) and (answer.finish, answer.error) == (finish, "")


@pytest.mark.parametrize(
    "said", [{}, {"output": {"message": 3}}, [], converse_reply("", "malformed_model_output")]
)
def test_what_is_no_answer_of_converse_is_tried_again(said: Any) -> None:
    found = read(CONVERSE, said)
    assert isinstance(found, Failure) and found.kind == "retry"


@pytest.mark.parametrize(
    ("status", "code", "message", "kind", "param"),
    [
        (400, "ValidationException", "Input is too long for requested model.", "oversize", ""),
        (400, "ValidationException", "`temperature` is deprecated for this model.", "model", "temperature"),
        (400, "ValidationException", "The messages are wrong.", "error", ""),
        (403, "AccessDeniedException", "You don't have access to the model", "model", ""),
        (403, "ExpiredTokenException", "expired", "endpoint", ""),
        (404, "ResourceNotFoundException", "The model is gone", "model", ""),
        (408, "ModelTimeoutException", "slow", "retry", ""),
        (424, "ModelErrorException", "broke", "retry", ""),
        (429, "ThrottlingException", "Too many tokens", "retry", ""),
        (503, "ServiceUnavailableException", "later", "retry", ""),
    ],
)  # fmt: skip
def test_what_a_status_of_bedrock_means(
    status: int, code: str, message: str, kind: str, param: str
) -> None:
    found = failure(CONVERSE, status, {"message": message}, {"x-amzn-ErrorType": f"{code}:http"})
    assert (found.kind, found.param, found.code) == (kind, param, code)
