"""Runs whose requests go in batches: the same scores for half the price, and nothing asked twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medhelm.models import batches
from tests.models.batch_server import SHORT_WAITS, BatchServer
from tests.quiz import arguments, environment, medhelm, record_of, scores_of, write_quiz
from tests.server import in_thread

PRICE = "{input: 10, output: 100, date: '2026-11-01'}"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "QUIET_S", 0.1)
    monkeypatch.setattr(batches, "SETTLE_S", 0.1)
    monkeypatch.setattr(batches, "POLL_S", (0.02, 0.02))


def lines_of(folder: Path) -> list[dict[str, Any]]:
    (log,) = (folder / "results").glob("runs/*/*/*/responses.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def of(provider: str, base_url: str) -> tuple[str, dict[str, str]]:
    if provider == "anthropic":
        given = {"model__provider": provider, "model__api_key_env": "OPENAI_API_KEY"}
        return base_url.removesuffix("/v1"), given
    return base_url, {}


def test_a_batch_gives_the_same_scores_for_half_the_price(tmp_path: Path) -> None:
    write_quiz(tmp_path, 60)
    (tmp_path / "plain").mkdir()
    write_quiz(tmp_path / "plain", 60)
    with in_thread(BatchServer()) as server:
        args = arguments(tmp_path, server.base_url, batch="true", model__price=PRICE)
        done = medhelm(*args)
        assert done.returncode == 0, done.stderr
        assert "batch_0 with 60 request(s)" in done.stderr
        assert server.happened["batch is made"] == 1 and server.requests == 0
        plain = arguments(tmp_path / "plain", server.base_url, model__price=PRICE)
        assert medhelm(*plain).returncode == 0
        assert scores_of(tmp_path) == scores_of(tmp_path / "plain")
        assert {line["response"]["price_class"] for line in lines_of(tmp_path)} == {"batch"}
        asked = server.requests
        # what a batch answered a plain run finds, and the other way round
        assert medhelm(*args[:-2], f"model.price={PRICE}").returncode == 0
        assert medhelm(*plain, "batch=true").returncode == 0
        assert (server.requests, server.happened["batch is made"]) == (asked, 1)
    usage, before = record_of(tmp_path).own.usage, record_of(tmp_path / "plain").own.usage
    assert usage.input_tokens == before.input_tokens == usage.batch_input_tokens
    costs = []
    for folder in (tmp_path, tmp_path / "plain"):
        made = medhelm("tables", "--table", "cost", "--format", "json", folder / "results")
        costs.append(json.loads(made.stdout)["rows"][0]["cost_usd"])
    assert costs[0] == pytest.approx(costs[1] / 2) and costs[1] > 0
    assert not [*(tmp_path / "results").rglob("batches")]
