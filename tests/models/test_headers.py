"""Headers of the user's own: their values come from the environment and are nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models import ModelPool, check_model
from medhelm.models.access import resolve_access
from medhelm.models.identity import identity
from medhelm.schema.model import ModelSpec
from tests.models.asking import converse, request
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

CANARY = "canary-4711-of-the-gateway"


def spec(headers: dict[str, str], **more: str) -> ModelSpec:
    fields: dict[str, Any] = {"base_url": "http://localhost:8000/v1", **more}
    return ModelSpec(name="openai/m", model="m", headers=headers, **fields)


def test_values_are_those_of_the_variables() -> None:
    headers = {"api-key": "$WARD_KEY", "X-Login": "Token $WARD_KEY"}
    access = resolve_access(spec(headers), {"WARD_KEY": CANARY})
    assert access.headers == {"api-key": CANARY, "X-Login": f"Token {CANARY}"}
    assert CANARY not in repr(access)
    with pytest.raises(ModelError, match="WARD_KEY"):
        check_model(spec(headers), {})


@pytest.mark.parametrize(
    "value", [CANARY, f"Bearer {CANARY}", "$", "$A$B", "${A}", "Bearer  $A", "$A x", ""]
)
def test_what_names_no_variable_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(UsageError, match=r"headers\.api-key .*\$ITS_VARIABLE") as caught:
        check_model(spec({"api-key": value}), {"A": "a"})
    assert "canary" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Host", "content-type", "Content-Length", "two words", "a:b", ""])
def test_a_header_that_is_no_users_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="header of yours"):
        check_model(spec({name: "$A"}), {"A": "a"})


def test_one_key_is_enough() -> None:
    with pytest.raises(UsageError, match="both hold a key"):
        check_model(spec({"authorization": "Bearer $A"}, api_key_env="A"), {"A": "a"})
    address = "https://ward.openai.azure.com"
    check_model(spec({"api-key": "$A"}, provider="azure", base_url=address), {"A": "a"})


def test_only_a_header_that_may_decide_the_answer_makes_another_run() -> None:
    plain = identity(spec({}))
    assert (
        identity(spec({"api-key": "$A", "Authorization": "Bearer $B", "x-ward-token": "$C"}))
        == plain
    )
    routed = identity(spec({"X-Route": "$LARGE"}))
    assert routed != plain and routed == identity(spec({"x-route": "$LARGE"}))
    assert routed != identity(spec({"X-Route": "$SMALL"}))


def test_they_are_sent_beside_the_key() -> None:
    server = FaultServer()
    environ = {"A": "a", "K": "k"}
    converse([request("a")], server, environ, headers={"X-Ward": "Token $A"}, api_key_env="K")
    sent = server.headers[0]
    assert (sent["X-Ward"], sent["Authorization"]) == ("Token a", "Bearer k")


def test_models_with_other_headers_share_no_connection() -> None:
    pool = ModelPool({"A": "a", "B": "b"})
    a, b, c = (pool.open(spec({"X-Ward": value})) for value in ("$A", "$B", "$A"))
    assert a.endpoint is c.endpoint and a.endpoint is not b.endpoint  # type: ignore[union-attr]


def test_a_run_records_names_and_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setenv("WARD_KEY", CANARY)
    with serve_in_thread(by_body=lambda body: "Answer: B") as server:
        line = ["model=openai/ward-a", f"model.base_url={server.base_url}", "benchmark=headqa"]
        line += ["model.headers={api-key: $WARD_KEY, X-Site: $WARD_KEY}", "data=sample"]
        shell("run", *line, f"results_dir={tmp_path}")
        shell("run", *line, "--cfg", "job")
        for wrong in (f"model.headers={{api-key: {CANARY}}}", f"+model.headers.X-Site={CANARY}"):
            assert "single quotes" in shell.error("run", *line[:3], wrong)
    assert "$WARD_KEY" in shell.all and "canary" not in shell.all
    stored = [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()]
    assert any(b"$WARD_KEY" in text for text in stored)
    assert not any(b"canary" in text for text in stored)
