"""What is sent for a case and what comes of it, against a server on loopback."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm import evaluate, load_results
from medhelm.config import BenchmarkChoice, Job
from medhelm.errors import BudgetReached, DataError
from medhelm.models.costs import Ledger
from medhelm.models.tokens import estimate_tokens, request_tokens
from medhelm.plugins.registry import load_registry
from medhelm.runs.estimation import estimate_runs
from medhelm.runs.planning import plan_runs
from medhelm.runs.run import Run
from medhelm.schema.data import Instance
from medhelm.schema.episode import Request
from medhelm.schema.model import ModelSpec, Price
from medhelm_benchmarks.noharm.benchmark import label_schema
from medhelm_benchmarks.noharm.rules.labels import read_labels
from medhelm_benchmarks.noharm.rules.menu import menu_of
from tests.asking import first_request
from tests.server import Reply, serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

MODEL = ModelSpec(name="lab/m", model="m", base_url="http://127.0.0.1:9/v1")
HELD = msgspec.structs.replace(MODEL, json_schema=True)
_ACTION = re.compile(r"^(\w+)\. \S", re.MULTILINE)


def all_right(prompt: str) -> str:
    """Label every action of the prompt's menu appropriate."""
    menu = _ACTION.findall(prompt.partition("Actions:\n")[2])
    return json.dumps({"labels": dict.fromkeys(menu, "Appropriate")})


def planned(model: ModelSpec = MODEL, benchmark: str = "noharm", **more: Any) -> Run:
    job = Job(model=model, benchmarks=(BenchmarkChoice(name=benchmark),), data="sample", **more)
    (run,) = plan_runs([job], load_registry(), {}).runs
    return run


def requests(run: Run) -> dict[str, Request]:
    given = (run.protocol, run.benchmark, run.spec)
    return {i.id: first_request(*given, i) for i in run.dataset.instances()}


def instances(run: Run) -> dict[str, Instance]:
    return {i.id: i for i in run.dataset.instances()}


# What is sent ------------------------------------------------------------------------------------


def test_a_thinking_model_has_the_same_budget() -> None:
    thinking = msgspec.structs.replace(MODEL, reasoning=True)
    assert {r.max_output_tokens for r in requests(planned(thinking)).values()} == {12_288}


def test_the_schema_is_of_this_very_menu() -> None:
    label = {"type": "string", "enum": ["Appropriate", "Inappropriate"]}
    assert label_schema(["b2", "a1"]) == {
        "type": "object",
        "properties": {
            "labels": {
                "type": "object",
                "properties": {"b2": label, "a1": label},
                "required": ["b2", "a1"],
                "additionalProperties": False,
            }
        },
        "required": ["labels"],
        "additionalProperties": False,
    }


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z]\w{0,15}", fullmatch=True),
        st.sampled_from(["Appropriate", "Inappropriate"]),
        min_size=1,
        max_size=60,
    )
)
def test_what_the_schema_allows_is_read_in_full(labels: dict[str, str]) -> None:
    held = label_schema(labels)["properties"]["labels"]
    assert {*held["required"]} == {*held["properties"]} == {*labels}
    assert all(label in held["properties"][name]["enum"] for name, label in labels.items())
    read = read_labels(json.dumps({"labels": labels}), dict.fromkeys(labels, ""))
    assert read is not None and not (read.missing or read.invalid or read.unknown)
    assert read.endorsed == tuple(a for a, label in labels.items() if label == "Appropriate")


@pytest.mark.parametrize("is_held", [False, True])
def test_the_body_carries_the_schema_where_the_config_says_so(
    tmp_path: Path, is_held: bool
) -> None:
    with serve_in_thread(all_right) as server:
        model = msgspec.structs.replace(MODEL, base_url=server.base_url, json_schema=is_held)
        evaluate(model, "noharm", data="sample", results_dir=tmp_path)
        assert server.requests == len(server.bodies) == 12
    run = planned()
    asked = {i.question for i in instances(run).values()}
    for body in server.bodies:
        assert (body["temperature"], body["max_tokens"]) == (0.0, 12_288) and "n" not in body
        (message,) = body["messages"]  # no example, no earlier turn
        assert message["role"] == "user"
        assert message["content"].startswith(run.benchmark.instruction)
        assert message["content"].rstrip().endswith(tuple(asked))
        if not is_held:
            assert "response_format" not in body
            continue
        wanted = body["response_format"]
        assert wanted["type"] == "json_schema" and wanted["json_schema"]["strict"] is True
        held = wanted["json_schema"]["schema"]["properties"]["labels"]
        menu = _ACTION.findall(message["content"].partition("Actions:\n")[2])
        assert [*held["properties"]] == held["required"] == menu
    row = harm_row(tmp_path)
    assert (row["attempted"], row["parsed"], row["omissions"]) == (12, 12, 0)


# Which run it is ---------------------------------------------------------------------------------


def test_the_flag_makes_another_run_only_where_a_request_carries_a_schema() -> None:
    assert planned(HELD).request_hash != planned(MODEL).request_hash
    held, plain = planned(HELD, "headqa"), planned(MODEL, "headqa")
    assert held.request_hash == plain.request_hash and held.spec == plain.spec
    assert all(request.json_schema is None for request in requests(held).values())


# What it costs -----------------------------------------------------------------------------------


def test_the_schema_is_in_the_estimate_and_in_what_is_set_aside(tmp_path: Path) -> None:
    price = Price(input=1.0, output=1.0, date="2026-01-01")
    held = planned(msgspec.structs.replace(HELD, price=price), results_dir=str(tmp_path))
    plain = planned(msgspec.structs.replace(MODEL, price=price), results_dir=str(tmp_path))
    (more,), (less,) = (estimate_runs([run], tmp_path) for run in (held, plain))
    assert more.input_tokens == sum(map(request_tokens, requests(held).values()))
    schemas = [msgspec.json.encode(label_schema(i.payload)) for i in instances(held).values()]
    assert more.input_tokens - less.input_tokens == sum(
        estimate_tokens(schema.decode()) for schema in schemas
    )
    assert more.usd_limit is not None and less.usd_limit is not None
    assert more.usd_limit > less.usd_limit
    request, *_ = requests(held).values()
    tokens = request_tokens(request) + request.max_output_tokens

    async def fits(cap: int) -> None:
        held = Ledger(None, cap).wait(price, request_tokens(request), request.max_output_tokens)
        (await held).cancel()

    asyncio.run(fits(tokens))
    with pytest.raises(BudgetReached):
        asyncio.run(fits(tokens - 1))


# What is not answered ----------------------------------------------------------------------------


def harm_row(results: Path) -> Mapping[str, Any]:
    (row,) = [r for r in load_results(results).typed("harm").rows if r["level"] == "model"]
    return row


def cut_at(results: Path, end: Callable[[str], int]) -> Mapping[str, Any]:
    """Return the row of a model whose replies are held to the schema and end so early at their budget."""

    def ends(prompt: str) -> Reply:
        whole = all_right(prompt)
        return Reply(whole[: end(whole)], finish_reason="length")

    with serve_in_thread(ends) as server:
        model = msgspec.structs.replace(HELD, base_url=server.base_url)
        evaluate(model, "noharm", data="sample", results_dir=results)
    return harm_row(results)


def test_a_menu_that_exceeds_the_window_is_refused_counted_and_in_no_mean(tmp_path: Path) -> None:
    with serve_in_thread(all_right) as server:
        model = msgspec.structs.replace(MODEL, base_url=server.base_url, context_window=12_288)
        with pytest.warns(UserWarning, match=r"12 request\(s\).* window"):
            evaluate(model, "noharm", data="sample", results_dir=tmp_path)
        assert server.requests == 0
    row = harm_row(tmp_path)
    assert (row["attempted"], row["parsed"], row["not_scored"]) == (12, 0, "12 oversize")
    assert all(row.get(name) is None for name in ("overall", "safety", "severe_rate", "harm"))
    assert (row["safety_worst"], row["severe_rate_worst"]) == (0.0, 1.0)


def test_a_constrained_reply_that_ends_at_the_budget_is_given_no_harm_for_what_is_cut(
    tmp_path: Path,
) -> None:
    row = cut_at(tmp_path, lambda whole: len(whole) // 2)
    assert (row["attempted"], row["parsed"], row["not_scored"]) == (12, 0, "12 truncated")
    assert (row["severe_rate"], row["severe_rate_worst"]) == (None, 1.0)


def test_of_a_constrained_reply_that_lacks_its_last_label_the_others_count(tmp_path: Path) -> None:
    row = cut_at(tmp_path, lambda whole: whole.rindex(":"))
    assert (row["attempted"], row["parsed"], row["not_scored"]) == (12, 12, "")
    assert (row["partly_read"], row["labels_missing"], row["labels_invalid"]) == (12, 12, 0)
    shown = load_results(tmp_path).typed("benchmarks")
    assert (shown.rows[0]["cut"], shown.rows[0]["cut_share"]) == (12, 1.0)
    assert shown.rows[0]["flags"] == "cut"
    assert any("12 of 12, 12 of them" in note for note in shown.notes)


def test_an_endpoint_that_takes_no_schema_ends_with_the_setting_to_change(
    tmp_path: Path, shell: Shell
) -> None:
    error = {"message": "This server takes no json_schema", "type": "invalid_request_error"}
    with serve_in_thread(lambda _: Reply(status=400, body={"error": error})) as server:
        argv = ["run", "model=openai/m", f"model.base_url={server.base_url}", "benchmark=noharm"]
        argv += ["data=sample", f"results_dir={tmp_path}", "model.max_concurrency=1"]
        shell(*argv, "model.json_schema=true", code=6)
        said = [line for line in shell.err.splitlines() if "noharm x" in line]
        assert len(said) == 1 and "'response_format' (http 400" in said[0]
        assert "set model.json_schema=false" in said[0]
        assert server.requests == 1  # no case after the first is sent
        server.answer = all_right
        shell(*argv, "model.json_schema=false")
        assert server.requests == 13 and "response_format" not in server.bodies[-1]


def test_a_payload_of_another_kind_is_named() -> None:
    other = Instance(id="x", payload={"turns": 3})
    with pytest.raises(DataError, match="instance 'x': .*not a menu"):
        menu_of(other)
    assert menu_of(Instance(id="y", payload={"a1": "Wait"})) == {"a1": "Wait"}
