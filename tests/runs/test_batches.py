"""Runs whose requests go in batches: the same scores for half the price, and nothing asked twice."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import medhelm as library
from medhelm.models import batches
from tests.jury.test_judging import GOOD, jury
from tests.jury.test_judging import run as rate
from tests.jury.test_judging import value as rated
from tests.models.batch_server import BatchServer, with_short_waits
from tests.processes import Started
from tests.protocols.interview import PLUGIN as INTERVIEW
from tests.protocols.interview import play
from tests.protocols.test_interview import interview, model
from tests.quiz import arguments, medhelm, record_of, scores_of, write_quiz
from tests.server import Reply, in_thread, letter
from tests.stored import episodes_of

pytestmark = pytest.mark.slow

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
        server.is_packed = True
        args = arguments(tmp_path, server.base_url, model__batch="true", model__price=PRICE)
        done = medhelm(*args)
        assert "batch_0 with 60 request(s)" in done.stderr
        assert server.happened["batch is made"] == 1 and server.requests == 0
        plain = arguments(tmp_path / "plain", server.base_url, model__price=PRICE)
        medhelm(*plain)
        assert scores_of(tmp_path) == scores_of(tmp_path / "plain")
        assert {line["response"]["price_class"] for line in lines_of(tmp_path)} == {"batch"}
        asked = server.requests
        # what a batch answered a plain run finds, and the other way round
        medhelm(*args[:-2], f"model.price={PRICE}")
        medhelm(*plain, "model.batch=true")
        assert (server.requests, server.happened["batch is made"]) == (asked, 1)
    usage, before = record_of(tmp_path).own.usage, record_of(tmp_path / "plain").own.usage
    assert usage.input_tokens == before.input_tokens == usage.batch_input_tokens
    costs = []
    for folder in (tmp_path, tmp_path / "plain"):
        made = medhelm(
            "tables", "--results-dir", folder / "results", "--table", "cost", "--format", "json"
        )
        costs.append(json.loads(made.stdout)["rows"][0]["cost_usd"])
    assert costs[0] == pytest.approx(costs[1] / 2) and costs[1] > 0
    assert not [*(tmp_path / "results").rglob("batches")]


SERIES = [
    (
        "openai",
        [
            "upload comes",
            "upload is stored",
            "batch comes",
            "batch is made",
            "list comes",  # where it looks for what the kill before has hidden
            "look",
            "results are asked for",
            "half of the results are sent",
            "all results are sent",
            "some answers are logged",
        ],
    ),
    ("anthropic", ["batch comes", "batch is made", "look", "half of the results are sent"]),
]
"""Moments at each of which one command is killed; the next goes on where it was."""


@pytest.mark.parametrize(("provider", "moments"), SERIES)
def test_nothing_is_paid_for_twice_after_kills(
    tmp_path: Path, provider: str, moments: list[str]
) -> None:
    write_quiz(tmp_path, 400)
    left = [*moments]

    def is_time(now: str, nth: int) -> bool:
        logged = "all results are sent"  # which waits until some are, by then
        if left and now == (logged if left[0] == "some answers are logged" else left[0]):
            left.pop(0)
            return True
        return False

    with in_thread(BatchServer(looks=3)) as server:
        base_url, given = of(provider, server.base_url)
        args = arguments(
            tmp_path, base_url, model__batch="true", model__max_concurrency=150, **given
        )
        server.kill = is_time
        ends = []
        while len(ends) < len(moments) + 1 and 0 not in ends:
            is_last = left == ["some answers are logged"]
            server.log_below = tmp_path / "results" if is_last else None
            child = Started(with_short_waits, args)
            server.victim = child.pid
            said = child.communicate(timeout=120)[1]
            ends.append(child.returncode)
        assert ends == [-9] * len(moments) + [0], said
        assert len(server.answered) == 400 and not server.duplicates
        assert server.requests == 0
    assert record_of(tmp_path).results[0].scored == 400
    assert len(lines_of(tmp_path)) == 400
    assert not [*(tmp_path / "results").rglob("batches")]


def test_after_ctrl_c_the_same_command_fetches(tmp_path: Path) -> None:
    write_quiz(tmp_path, 30)
    with in_thread(BatchServer(looks=10**6)) as server:
        args = arguments(tmp_path, server.base_url, model__batch="true")
        child = Started(with_short_waits, args)
        child.send(signal.SIGINT, once=lambda: server.happened["look"])
        began = time.monotonic()
        said = child.communicate(timeout=60)[1]
        assert child.returncode == 130 and time.monotonic() - began < 20, said
        refused = medhelm(*args[:-1], "model.batch=false", code=2)
        assert "be paid for again" in refused.stderr and server.requests == 0
        server.looks = 1
        medhelm(*args)
        assert len(server.lines) == 1 and len(server.answered) == 30
    assert record_of(tmp_path).results[0].scored == 30


def test_a_cap_holds_and_what_is_asked_again_is_new(tmp_path: Path) -> None:
    write_quiz(tmp_path, 30)
    cut = {"is": True}

    def answer(prompt: str) -> Reply | str:
        is_cut = cut["is"] and "patient 7?" in prompt
        return Reply("The answer", finish_reason="length") if is_cut else letter(prompt)

    with in_thread(BatchServer(answer)) as server:
        args = arguments(tmp_path, server.base_url, model__batch="true")
        medhelm(*args, "budget_tokens=1500", code=7)
        assert 0 < len(server.answered) < 30
        medhelm(*args)
        assert len(server.answered) == 30 and not server.duplicates
        cut["is"] = False
        before = len(server.lines)
        medhelm(*args, "ask_again=[truncated]")
        assert (len(server.lines), server.requests) == (before, 1)  # it is asked at once
    assert record_of(tmp_path).results[0].outcomes["scored"] == 30


def test_failed_and_expired_requests_are_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else is; one that always fails is an error, which the next command asks for."""
    monkeypatch.setattr(batches, "QUIET_S", 1.5)  # longer than the pause before a second try
    write_quiz(tmp_path, 40)
    fate = {0: "expire", 1: "500", 2: "400"}

    def outcome(prompt: str, nth: int) -> str:
        number = int(prompt.split("patient ")[1].split("?")[0])
        first = fate.get(number % 10, "answer")
        return first if nth == 1 or (first == "400" and nth < 3) else "answer"

    with in_thread(BatchServer()) as server:
        server.outcome = outcome
        args = arguments(tmp_path, server.base_url, model__batch="true")
        medhelm(*args)
        sizes = [len(lines) for lines in server.lines.values()]
        assert sizes == [40, 8] and not server.duplicates
        errors = [
            r for r in map(lambda x: x["response"], lines_of(tmp_path)) if r["finish"] == "error"
        ]
        assert [r["error"] for r in errors] == ["http 400 oops"] * 4
        medhelm(*args)
        medhelm(*args)
        assert [len(lines) for lines in server.lines.values()] == [40, 8, 4, 4]
        assert len(server.answered) == 40 and not server.duplicates
    assert record_of(tmp_path).results[0].scored == 40


def test_a_service_that_lets_few_tokens_wait_gets_smaller_batches(tmp_path: Path) -> None:
    write_quiz(tmp_path, 50)
    with in_thread(BatchServer()) as server:
        server.fails = lambda n: "token_limit_exceeded" if n > 15 else ""
        args = arguments(tmp_path, server.base_url, model__batch="true")
        assert "lower model.max_concurrency" in medhelm(*args, code=6).stderr
        medhelm(*args, "model.max_concurrency=15")
        assert [len(own) for own in server.lines.values()] == [50, 15, 15, 15, 5]
        assert len(server.answered) == 50 and not server.duplicates
    assert record_of(tmp_path).results[0].scored == 50


def test_what_takes_no_batches_says_so(tmp_path: Path) -> None:
    write_quiz(tmp_path, 3)
    with in_thread(BatchServer()) as server:
        server.fails = lambda n: "invalid_json_line"
        said = medhelm(*arguments(tmp_path, server.base_url, model__batch="true"), code=6).stderr
        assert "does not take" in said and "invalid_json_line" in said
        wrong = server.base_url.replace("/v1", "/v2")
        done = medhelm(*arguments(tmp_path, wrong, model__batch="true"), code=6)
        assert "leave batch=true out" in done.stderr
    args = arguments(tmp_path, "http://localhost:1", model__provider="google", model__batch="true")
    assert "batch=true is for" in medhelm(*args, code=2).stderr


def test_judges_and_protocols_of_several_turns_go_turn_by_turn(tmp_path: Path) -> None:
    with in_thread(BatchServer(play)) as server:
        plain = interview(server, tmp_path / "plain", strategy="best_of_3")
        asked = server.requests
        cast = {role: model(server, role, batch=True) for role in ("questioner", "referee")}
        under_test = model(server, "under-test", batch=True, strategy="best_of_3")
        results = library.evaluate(
            under_test,
            "interview",
            data="sample",
            cast=cast,
            results_dir=tmp_path / "batches",
            plugins=str(INTERVIEW),
        )
        assert results.table("benchmarks")["score"].tolist() == [1.0]
        assert server.requests == asked  # all of it came in batches: one a turn and call
        assert [len(own) for own in server.lines.values()] == [8] * 20
        texts = [
            {e.instance_id: e.text for e in episodes_of(tmp_path / f)} for f in ("plain", "batches")
        ]
        assert texts[0] == texts[1] and plain is not None


def test_judges_are_asked_in_batches(tmp_path: Path) -> None:
    with in_thread(BatchServer(GOOD)) as server:
        judges = [model(server, name, batch=True, endpoint_class="local") for name in ("a", "b")]
        record = rate(tmp_path, jury(*judges), controls=0.5)
        assert rated(record) is not None and server.requests == 0
        parties = {party.model.name: party.usage for party in record.graders}
        assert all(u.batch_input_tokens == u.input_tokens > 0 for u in parties.values())
        made = len(server.lines)
        assert made == 2
        assert rate(tmp_path, jury(*judges), controls=0.5) == record
        unbatched = [model(server, name, endpoint_class="local") for name in ("a", "b")]
        assert rated(rate(tmp_path, jury(*unbatched), controls=0.5)) == rated(record)
        assert (len(server.lines), server.requests) == (made, 0)


def test_batch_true_is_for_services_known_to_take_batches(tmp_path: Path) -> None:
    said = medhelm(
        "estimate", "batch=true", "model=openai/gpt-6-luna", "benchmark=headqa", "data=sample"
    )
    expected, limit = (
        float(x) for x in re.findall(r"([\d.]+) USD expected, ([\d.]+) at", said.stdout)[0]
    )
    assert f"expected, {limit / 2:.4f} at most" in said.stdout and 0 < expected < limit
    own = ("model.base_url=http://localhost:1/v1", "results_dir=x")
    plain = medhelm(
        "estimate", "batch=true", "model=openai/gpt-6-luna", "benchmark=headqa", "data=sample", *own
    )
    assert "in batches" not in plain.stdout
