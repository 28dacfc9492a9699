"""A judge whose endpoint holds replies to a JSON Schema is sent one; any other is sent what it always was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.schema.run import JurySpec
from tests.server import instance_of, serve_in_thread

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:judge j/one has no valid verdict"),
]


@pytest.mark.parametrize(
    ("model", "benchmark", "more", "keys"),
    [
        ("baseline/lead", "aci_bench", {}, {"accuracy", "completeness", "clarity"}),
        ("baseline/lead", "clinconsensus", {}, {"explanation", "criteria_met"}),
        ("baseline/lead", "clinconsensus", {"grader": {"mode": "batched"}}, {"verdicts"}),
        ("encounter/oracle", "medsp1000", {}, {"items"}),
        ("encounter/oracle", "agentclinic", {}, {"reason", "same"}),
    ],
)
def test_a_schema_is_sent_where_the_judge_holds_to_one(
    tmp_path: Path, model: str, benchmark: str, more: dict[str, Any], keys: set[str]
) -> None:
    replies: dict[str, str] = {}

    def by_body(body: dict[str, Any]) -> str:
        if "response_format" in body:
            schema = body["response_format"]["json_schema"]["schema"]
            replies[str(body["messages"])] = json.dumps(instance_of(schema))
        return replies[str(body["messages"])]

    sent: list[list[dict[str, Any]]] = []
    for is_held in (True, False):
        with serve_in_thread(by_body=by_body) as server:
            judge = server.model("j/one", endpoint_class="local", json_schema=is_held)
            jury = JurySpec(name="house", judges=(judge,), quorum=1, repairs=0)
            own = {"data": "sample", "max_instances": 1, "results_dir": tmp_path / str(is_held)}
            medhelm.evaluate(model, benchmark, jury=jury, **own, **more)
            sent.append(sorted(server.bodies, key=lambda body: str(body["messages"])))
    held, plain = sent
    for body in held:
        assert set(body.pop("response_format")["json_schema"]["schema"]["properties"]) == keys
    assert held == plain and held
