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
        made = medhelm("tables", "--results-dir", folder / "results", "--table", "cost", "--format", "json")
        costs.append(json.loads(made.stdout)["rows"][0]["cost_usd"])
    assert costs[0] == pytest.approx(costs[1] / 2) and costs[1] > 0
    assert not [*(tmp_path / "results").rglob("batches")]


MOMENTS = [
    ("openai", "upload comes"),
    ("openai", "upload is stored"),
    ("openai", "batch comes"),
    ("openai", "batch is made"),
    ("openai", "look"),
    ("openai", "results are asked for"),
    ("openai", "half of the results are sent"),
    ("openai", "all results are sent"),
    ("openai", "some answers are logged"),
    ("openai", "list comes"),
    ("anthropic", "batch comes"),
    ("anthropic", "batch is made"),
    ("anthropic", "look"),
    ("anthropic", "half of the results are sent"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("provider", "moment"), MOMENTS)
def test_nothing_is_paid_for_twice_after_a_kill(tmp_path: Path, provider: str, moment: str) -> None:
    write_quiz(tmp_path, 400)
    with in_thread(BatchServer(looks=3)) as server:
        base_url, given = of(provider, server.base_url)
        args = arguments(tmp_path, base_url, batch="true", model__max_concurrency=150, **given)
        if moment == "some answers are logged":
            server.kill = lambda now, nth: (now, nth) == ("all results are sent", 1)
        elif moment == "list comes":  # killed where it looks for what a first kill has hidden
            server.kill = lambda now, nth: (now, nth) in {("batch is made", 1), ("list comes", 1)}
        else:
            server.kill = lambda now, nth: now == moment and nth == 2
        kills = 0
        for _ in range(4):
            if moment == "some answers are logged":
                server.log_below = tmp_path / "results"
            child = subprocess.Popen(
                [sys.executable, "-c", SHORT_WAITS, *args],
                env=environment(),
                stderr=subprocess.PIPE,
                text=True,
            )
            server.victim = child.pid
            said = child.communicate(timeout=120)[1]
            kills += child.returncode == -9
            if child.returncode == 0:
                break
        assert child.returncode == 0, said
        assert kills == (2 if moment == "list comes" else 1)
        assert len(server.answered) == 400 and not server.duplicates
        assert server.requests == 0
    assert record_of(tmp_path).results[0].scored == 400
    assert len(lines_of(tmp_path)) == 400
    assert not [*(tmp_path / "results").rglob("batches")]


def test_failed_and_expired_requests_are_asked_again(tmp_path: Path) -> None:
    """And nothing else is; one that always fails is an error, which the next command asks for."""
    write_quiz(tmp_path, 40)
    fate = {0: "expire", 1: "500", 2: "400"}

    def outcome(prompt: str, nth: int) -> str:
        number = int(prompt.split("patient ")[1].split("?")[0])
        first = fate.get(number % 10, "answer")
        return first if nth == 1 or (first == "400" and nth < 3) else "answer"

    with in_thread(BatchServer()) as server:
        server.outcome = outcome
        args = arguments(tmp_path, server.base_url, batch="true")
        assert medhelm(*args).returncode == 0
        sizes = [len(lines) for lines in server.lines.values()]
        assert sizes == [40, 8] and not server.duplicates
        errors = [
            r for r in map(lambda x: x["response"], lines_of(tmp_path)) if r["finish"] == "error"
        ]
        assert [r["error"] for r in errors] == ["http 400 oops"] * 4
        assert medhelm(*args).returncode == 0 and medhelm(*args).returncode == 0
        assert [len(lines) for lines in server.lines.values()] == [40, 8, 4, 4]
        assert len(server.answered) == 40 and not server.duplicates
    assert record_of(tmp_path).results[0].scored == 40


def test_a_service_that_lets_few_tokens_wait_gets_smaller_batches(tmp_path: Path) -> None:
    write_quiz(tmp_path, 50)
    with in_thread(BatchServer()) as server:
        server.fails = lambda n: "token_limit_exceeded" if n > 15 else ""
        assert medhelm(*arguments(tmp_path, server.base_url, batch="true")).returncode == 0
        assert len(server.answered) == 50 and not server.duplicates
        assert max(len(server.lines[name]) for name in server.results if name in server.lines) == 50
    assert record_of(tmp_path).results[0].scored == 50


def test_what_takes_no_batches_says_so(tmp_path: Path) -> None:
    write_quiz(tmp_path, 3)
    with in_thread(BatchServer()) as server:
        server.fails = lambda n: "invalid_json_line"
        done = medhelm(*arguments(tmp_path, server.base_url, batch="true"))
        assert (
            done.returncode
            and "does not take" in done.stderr
            and "invalid_json_line" in done.stderr
        )
        wrong = server.base_url.replace("/v1", "/v2")
        done = medhelm(*arguments(tmp_path, wrong, batch="true"))
        assert done.returncode and "leave batch=true out" in done.stderr
    args = arguments(tmp_path, "http://localhost:1", model__provider="google", model__batch="true")
    assert "batch=true is for one address of a service" in medhelm(*args).stderr
