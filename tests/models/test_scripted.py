"""The scripted model says what it is told to, and fails as it is told to."""

from __future__ import annotations

import asyncio

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models import ModelPool
from medhelm.models.scripted import ScriptedModel
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import ModelSpec
from tests.models.asking import ask_all, request

SPEC = ModelSpec(name="scripted/s", provider="scripted", max_concurrency=2)


def ask(model: ScriptedModel, *requests: Request) -> list[Response]:
    return asyncio.run(ask_all(model, requests))


def test_replies_by_id_by_function_and_one_for_all() -> None:
    assert [r.text for r in ask(ScriptedModel(SPEC, "A"), request(1), request(2))] == ["A", "A"]
    by_id = ScriptedModel(SPEC, {"1": "B"}, default="C")
    assert [r.text for r in ask(by_id, request(1), request(2))] == ["B", "C"]
    whole = Response(instance_id="1", text="kept", finish="length")
    by_rule = ScriptedModel(SPEC, lambda r: whole if r.instance_id == "1" else r.instance_id * 2)
    assert [r.text for r in ask(by_rule, request(1), request(2))] == ["kept", "22"]
    assert [r.instance_id for r in by_rule.requests] == ["1", "2"]


def test_endings_failures_and_delays() -> None:
    model = ScriptedModel(
        SPEC,
        "A",
        finish={"1": "error", "2": "refusal", "3": "length"},
        delay_s=0.01,
        raises=ModelError("down"),
        raise_on=["5"],
    )
    responses = ask(model, *(request(i) for i in range(1, 5)))
    assert [(r.finish, r.text) for r in responses] == [
        ("error", ""),
        ("refusal", ""),
        ("length", "A"),
        ("stop", "A"),
    ]
    assert responses[0].error and responses[0].usage.input_tokens is None
    with pytest.raises(ModelError, match="down"):
        ask(model, request(5))


def test_a_config_can_hold_the_script() -> None:
    extra = {"replies": {"1": "B"}, "default": "D", "finish": {"2": "refusal"}}
    spec = ModelSpec(name="scripted/c", provider="scripted", extra_body=extra)
    model = ModelPool({}).open(spec)
    assert isinstance(model, ScriptedModel)
    responses = ask(model, *(request(i) for i in (1, 2, 3)))
    assert [(r.text, r.finish) for r in responses] == [
        ("B", "stop"),
        ("", "refusal"),
        ("D", "stop"),
    ]


@pytest.mark.parametrize("extra", [{"reply": {}}, {"replies": 3}, {"finish": {"1": "maybe"}}])
def test_a_wrong_script_is_a_usage_error(extra: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="scripted/c.*extra_body"):
        ModelPool({}).open(ModelSpec(name="scripted/c", provider="scripted", extra_body=extra))
