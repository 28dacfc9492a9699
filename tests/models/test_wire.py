"""What is written to and read from the OpenAI chat protocol, on literal bodies."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.models.codecs.anthropic import MESSAGES
from medhelm.models.codecs.batch_lines import read_line
from medhelm.models.codecs.wire import (
    CHAT,
    Answer,
    Codec,
    Failure,
    read_failure,
    read_usage,
)
from medhelm.models.endpoint import is_cut
from medhelm.schema.episode import Message, Request, Sampling, Usage
from medhelm.schema.model import ModelSpec
from tests.cases import cases

SPEC = ModelSpec(name="openai/x", model="x-1")
REQUEST = Request(
    instance_id="1",
    messages=(Message("system", "Be brief."), Message("user", "Où? 你好")),
    max_output_tokens=7,
    seed=11,
)


def body_of(spec: ModelSpec, request: Request = REQUEST) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(CHAT.write(spec, request))
    return decoded


def ask(sampling: Sampling) -> Request:
    return Request(
        instance_id="1", messages=REQUEST.messages, max_output_tokens=7, seed=11, sampling=sampling
    )


def test_the_body_holds_what_is_set_and_nothing_else() -> None:
    assert body_of(SPEC) == {
        "model": "x-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Où? 你好"},
        ],
        "max_tokens": 7,
        "temperature": 0.0,
    }


def test_reasoning_models_get_another_limit_field_and_no_temperature() -> None:
    spec = ModelSpec(name="o", model="o3", token_limit_field="max_completion_tokens")
    body = body_of(spec, ask(Sampling(temperature=None, reasoning_effort="low")))
    assert body["max_completion_tokens"] == 7 and body["reasoning_effort"] == "low"
    assert not {"max_tokens", "temperature", "top_p", "stop", "seed"} & body.keys()


@pytest.mark.parametrize(
    ("temperature", "send_seed", "sent"),
    [
        (0.0, True, False),
        (None, True, False),
        (0.7, True, True),
        (0.7, False, False),
        (0.0, "always", True),
        (None, "always", True),
    ],
)
def test_a_seed_goes_with_random_sampling_or_where_it_is_declared(
    temperature: float | None, send_seed: bool | Literal["always"], sent: bool
) -> None:
    spec = ModelSpec(name="s", model="s", send_seed=send_seed)
    assert ("seed" in body_of(spec, ask(Sampling(temperature=temperature)))) is sent


def test_a_schema_is_sent_to_be_held_strictly_in_the_order_of_its_keys() -> None:
    schema = {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["b", "a"]}
    body = body_of(SPEC, msgspec.structs.replace(REQUEST, json_schema=schema))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": schema},
    }
    assert [*body["response_format"]["json_schema"]["schema"]["properties"]] == ["b", "a"]


def test_further_fields_are_merged_and_cannot_replace_the_prompt() -> None:
    body = body_of(SPEC, ask(Sampling(top_p=0.9, stop=("\n", "END"))))
    assert body["top_p"] == 0.9 and body["stop"] == ["\n", "END"]
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "messages": [], "model": "other"}
    body = body_of(ModelSpec(name="e", model="e", extra_body=extra))
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["model"] == "e" and len(body["messages"]) == 2


def completion(message: Any, finish: Any = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def answer_of(payload: bytes) -> Answer:
    answer = CHAT.read(payload)
    assert isinstance(answer, Answer)
    return answer


@pytest.mark.parametrize(
    ("message", "finish", "text", "ending"), cases(__file__, "text_and_ending")
)
def test_text_and_ending(message: Any, finish: Any, text: str, ending: str) -> None:
    answer = answer_of(completion(message, finish))
    assert (answer.text, answer.finish) == (text, ending)


BROKEN = ("error", "abort", "aborted", "insufficient_system_resource", "network_error")
DECLINED = ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII", "IMAGE_SAFETY")
ENDED = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "STOP", "tool_calls", "")


@pytest.mark.parametrize("finish", [*BROKEN, "server_error", "ERROR"])
def test_a_generation_that_broke_off_is_no_answer(finish: str) -> None:
    failure = CHAT.read(completion({"content": "The answer is B"}, finish))
    assert isinstance(failure, Failure) and failure.kind == "retry" and failure.lost
    assert failure.error == f"finish reason '{finish.lower()}'"
    for message in ({"content": "The an"}, None):
        choice = {"message": message, "finish_reason": "stop", "error": {"code": 502}}
        failure = CHAT.read(json.dumps({"choices": [choice]}).encode())
        assert isinstance(failure, Failure) and failure.kind == "retry" and failure.lost


@pytest.mark.parametrize(
    ("finish", "remark"),
    [
        *((finish, "") for finish in (*ENDED, "function_call", None)),
        ("OTHER", "finish reason 'OTHER'"),
        ("Mrs Miller's note", "finish reason unknown"),
    ],
)
def test_any_other_ending_counts_and_an_unknown_one_is_told(finish: Any, remark: str) -> None:
    said = completion({"content": "B"}, finish, model="x-1-0613", system_fingerprint="fp_1")
    answer = answer_of(said)
    assert (answer.text, answer.finish, answer.error) == ("B", "stop", remark)
    assert (answer.model, answer.fingerprint) == ("x-1-0613", "fp_1")


@pytest.mark.parametrize(
    "finish", [*DECLINED, "safety", "refusal", "content_filter: PROHIBITED_CONTENT"]
)
def test_an_answer_that_the_server_held_back_is_a_refusal(finish: str) -> None:
    assert answer_of(completion({"content": "B"}, finish)).finish == "refusal"
    silent = json.dumps({"choices": [{"finish_reason": finish}]}).encode()
    assert answer_of(silent).finish == "refusal"


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b'{"choices": [{"mess', b"[]", b"null", b"{}", b'{"choices": []}', b"\xff\xfe",
     b'{"choices": [{"message": {"content": 5}}]}', b"<html>502</html>", b"[" * 100_000],
)  # fmt: skip
def test_anything_else_is_worth_another_try_and_may_have_been_billed(payload: bytes) -> None:
    failure = CHAT.read(payload)
    assert isinstance(failure, Failure) and failure.kind == "retry" and failure.lost


def test_an_error_inside_a_success_counts_as_that_error() -> None:
    throttled = CHAT.read(b'{"error": {"code": 429, "message": "upstream"}}')
    assert isinstance(throttled, Failure) and throttled.kind == "retry" and throttled.is_refusal
    other = CHAT.read(b'{"error": {"message": "?"}}')
    assert isinstance(other, Failure) and other.kind == "retry"
    failure = read_failure(400, error_body(message="bad prompt: Mrs Miller", code="Mrs Miller"))
    assert "Miller" not in repr(failure), "the server's prose is not kept"


def test_half_a_surrogate_pair_and_nan_do_not_lose_an_answer() -> None:
    payload = b'{"choices":[{"message":{"content":"ok \\ud83d"},"logprobs":NaN,"finish_reason":"length"}]}'
    answer = answer_of(payload)
    assert answer.text == "ok \ufffd" and answer.finish == "length"


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail(payload: bytes) -> None:
    assert isinstance(CHAT.read(payload), Answer | Failure)
    assert isinstance(read_failure(400, payload, ("temperature",)), Failure)


def counts(
    asked: Any, said: Any, total: Any = None, cached: Any = None, thought: Any = None
) -> dict[str, Any]:
    """Return the usage that a server tells; what is None is left out."""
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": total,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "completion_tokens_details": None if thought is None else {"reasoning_tokens": thought},
    }
    return {name: value for name, value in usage.items() if value is not None}


@pytest.mark.parametrize(
    ("usage", "asked", "cached", "said", "thought"),
    [
        (None, None, None, None, None),
        ("many", None, None, None, None),
        (counts(10, 3), 10, None, 3, None),
        (counts(10, 30, cached=4, thought=25), 10, 4, 30, 25),
        (counts("10", -1), None, None, None, None),
        (counts(True, 2.5), None, None, None, None),
        (counts(0, 0), None, None, 0, None),
        ({"prompt_tokens_details": None, "completion_tokens_details": "x"}, None, None, None, None),
        ({**counts(9, 1), "prompt_cache_hit_tokens": 8}, 9, 8, 1, None),
        # cached tokens counted apart from the others
        (counts(5, 1, cached=100), 105, 100, 1, None),
        (counts(500, 1, 601, cached=100), 600, 100, 1, None),
        # what was thought counted apart: xAI, whose total has it; then without a total
        (counts(12, 1, 399, thought=386), 12, None, 387, 386),
        (counts(12, 2, thought=317), 12, None, 319, 317),
        # Gemini, which does not name it
        (counts(20, 198, 623), 20, None, 603, None),
        (counts(20, 8, 28), 20, None, 8, None),
    ],
)
def test_usage_is_none_where_it_is_missing_or_no_count(
    usage: Any, asked: int | None, cached: int | None, said: int | None, thought: int | None
) -> None:
    assert read_usage(usage) == Usage(
        input_tokens=asked,
        **({} if cached is None else {"cached_tokens": cached}),
        output_tokens=said,
        **({} if thought is None else {"reasoning_tokens": thought}),
    )


def error_body(**error: Any) -> bytes:
    return json.dumps({"error": error}).encode()


SENT = ("model", "max_tokens", "temperature", "seed")


@pytest.mark.parametrize(
    ("status", "payload", "kind"),
    [
        (429, error_body(code="rate_limit_exceeded"), "retry"),
        (429, error_body(code="insufficient_quota"), "endpoint"),
        (402, error_body(message="Insufficient Balance"), "endpoint"),
        (400, error_body(message="Your credit balance is too low"), "endpoint"),
        (408, b"", "retry"),
        (409, b"", "retry"),
        (500, b"", "retry"),
        (503, b"<html>", "retry"),
        (503, b"3", "retry"),
        (529, b"", "retry"),
        (401, error_body(code="invalid_api_key"), "endpoint"),
        (403, b"", "model"),
        (407, b"", "endpoint"),
        (307, b"", "endpoint"),
        (404, error_body(code="model_not_found"), "model"),
        (405, b"", "model"),
        (413, b"", "oversize"),
        (400, error_body(message="something else"), "error"),
        (422, b'{"detail": [{"loc": ["body"]}]}', "error"),
        (418, b"", "error"),
        (400, error_body(code="content_filter"), "refusal"),
        (400, error_body(code="unsupported_value", param="temperature"), "model"),
        (400, error_body(code="unsupported_parameter", param="max_tokens"), "model"),
        (400, error_body(code="invalid_value", param="messages[0].content"), "error"),
        (400, error_body(code="context_length_exceeded", param="messages"), "oversize"),
        # The wording of servers that give no code of their own.
        (400, b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens.'
              b' However, you requested 5000 tokens","code":400}', "oversize"),
        (400, error_body(param="max_tokens", message="'max_tokens' or 'max_completion_tokens' is"
                         " too large: 4000. This model's maximum context length is 4096"), "oversize"),
        (400, error_body(message="the request exceeds the available context size, try increasing"
                         " it", type="exceed_context_size_error"), "oversize"),
        (500, error_body(message="the request exceeds the available context size"), "oversize"),
        (400, b'{"error": "the input length exceeds the context length"}', "oversize"),
        (400, error_body(message="prompt is too long: 210000 tokens > 200000 maximum"), "oversize"),
        (400, error_body(message="The input (9000 tokens) is longer than the model's context"
                         " length (4096 tokens)."), "oversize"),
        (400, b'[{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token'
              b' count (1200000) exceeds the maximum number of tokens allowed"}}]', "oversize"),
    ],
)  # fmt: skip
def test_what_a_status_means(status: int, payload: bytes, kind: str) -> None:
    failure = read_failure(status, payload, SENT)
    assert failure.kind == kind
    assert failure.error == f"http {status}" and failure.status == status


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (400, error_body(message="Invalid parameter: 'response_format' of type 'json_schema' is not"
                         " supported with this model.", param="response_format")),
        (400, error_body(message="Invalid schema", param="response_format.json_schema.schema")),
        (400, error_body(message="json_schema is not supported by this server")),
        (400, b'{"error": "\'response_format.type\' must be \'text\'"}'),
        (400, b'{"object": "error", "message": "structured outputs need another backend"}'),
        (422, b'{"detail": [{"loc": ["body", "response_format", "type"], "msg": "no"}]}'),
    ],
)  # fmt: skip
def test_a_schema_that_is_not_taken_is_a_matter_of_the_model(status: int, payload: bytes) -> None:
    failure = read_failure(status, payload, (*SENT, "response_format"))
    assert (failure.kind, failure.param) == ("model", "response_format")
    assert read_failure(status, payload, SENT).kind == "error"  # none was sent: this prompt only


def cut(text: str, tokens: int | None, window: int | None = None) -> bool:
    return is_cut(
        (Message("user", text),), len(text.encode()) + 100, Usage(input_tokens=tokens), window
    )


def test_a_prompt_that_the_server_cut_is_noticed() -> None:
    note = "The patient was seen in clinic on Monday. " * 1000  # 42 kB, about 9,000 tokens
    assert not cut(note, 9000)
    assert not cut(note, 3600)
    assert cut(note, 2048)  # more than 12 bytes per token
    assert not cut(note, None)
    assert not cut("short " * 100, 3)  # fits every window
    assert cut("The patient was seen. " * 800, 4096, window=4096)
    assert not cut("The patient was seen. " * 700, 3900, window=4096)
    ruled = ("-" * 200 + "\n" + "Sodium 140 mmol/l" + " " * 100 + "\n") * 60
    assert len(ruled) > 12 * 900 and not cut(ruled, 900)  # runs of one character


BATCHED = {"choices": [{"message": {"content": "B"}, "finish_reason": "stop"}], "model": "m"}
SAID = {"content": [{"type": "text", "text": "B"}], "stop_reason": "end_turn", "model": "m"}
TOO_LONG = {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}


@pytest.mark.parametrize(
    ("codec", "line", "kind"),
    [
        (CHAT, {"response": {"status_code": 200, "body": BATCHED}, "error": None}, "B"),
        (CHAT, {"response": {"status_code": 429, "body": {}}}, "retry"),
        (CHAT, {"response": {"status_code": 400, "body": TOO_LONG}}, "oversize"),
        (CHAT, {"response": None, "error": {"code": "batch_expired"}}, "retry"),
        (CHAT, {"response": None, "error": {"code": "batch_cancelled"}}, "error"),
        (CHAT, {"error": {"code": "invalid_model", "message": "no"}}, "error"),  # Together
        (MESSAGES, {"result": {"type": "succeeded", "message": SAID}}, "B"),
        (MESSAGES, {"result": {"type": "errored", "error": TOO_LONG}}, "oversize"),
        (MESSAGES, {"result": {"type": "errored", "error": None}}, "retry"),
        (MESSAGES, {"result": {"type": "expired"}}, "retry"),
        (MESSAGES, {"result": {"type": "canceled"}}, "error"),
        (CHAT, {}, "error"),
    ],
)
def test_results_of_batches_are_read_as_what_comes_alone(
    codec: Codec, line: dict[str, Any], kind: str
) -> None:
    custom_id, came = read_line(SPEC, codec, json.dumps({"custom_id": "q"} | line).encode())
    assert custom_id == "q"
    assert kind == (came.text if isinstance(came, Answer) else came.kind)
    assert read_line(SPEC, codec, b'{"custom_id": "q')[0] == ""
