"""`medhelm generate noharm` as a user runs it, against a server that answers badly now and then."""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medhelm_benchmarks.noharm.rules.cases import read_cases
from tests.benchmarks.noharm.generation.author import GUIDELINE, good, scene, stage_of
from tests.cases import cases
from tests.made import model_file
from tests.processes import Started, asked, start
from tests.server import Faults, FaultServer, Reply, serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

CODES = [f"NOHARM-INFE-FEVER-{n:03}" for n in range(1, 9)]


def sloppy(share: float) -> Any:
    """Return a writer that a share of its replies cannot be used of, decided by the prompt."""

    def answer(prompt: str) -> Reply | str:
        place = hashlib.sha256(prompt.encode()).digest()[0] / 256
        if place < share:
            return ("Certainly! Here you are:", '{"options": []}', "", "{" * 3_000)[
                int(place / share * 4)
            ]
        return good(stage_of(prompt), prompt)

    return answer


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fever.md").write_text(GUIDELINE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(server: FaultServer, name: str = "writer", **more: Any) -> str:
    price = {"input": 1.0, "output": 4.0, "date": "2026-01-01"}
    return model_file(server, name, **{"model": f"{name}-1", "price": price, "timeout_s": 2} | more)


ARGS = ("generate", "noharm", "--guideline", "fever.md", "--specialty", "Infectious diseases")


def process(desk: Path, *args: str) -> Started:
    """Start the command in a process of its own."""
    return start(*ARGS, "--out", "series", *args, cwd=desk)


Generate = Callable[..., str]


@pytest.fixture
def generate(shell: Shell) -> Generate:
    """Run the command in this process."""
    return partial(shell, *ARGS, "--out", "series")


def codes(desk: Path) -> list[str]:
    return [case.code for case in read_cases(desk / "series" / "cases.jsonl")]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serve_in_thread(sloppy(0.0)) as server:
        yield server


def test_a_series_comes_through_bad_replies_and_a_bad_network(
    desk: Path, server: FaultServer, generate: Generate
) -> None:
    server.answer, server.faults = sloppy(0.15), Faults(rate=0.1)
    said = json.loads(generate("--n", "8", "--model", model(server), "--format", "json"))
    assert said["schema"] == "medhelm.generate/1"
    assert said["counts"]["made"] + said["counts"]["discarded"] == 8
    assert said["counts"]["made"] >= 6
    assert codes(desk) == [e["code"] for e in said["ends"] if e["status"] == "made"]
    lines = (desk / "series" / "provenance.jsonl").read_text().splitlines()
    assert any(json.loads(line)["repairs"] for line in lines)
    assert server.faulted.total() > 0
    assert "series" in said["cases"] and said["made_by"] == ["test/writer", "writer-1"]
    asked = server.requests
    again = generate("--n", "8", "--model", "writer.yaml", "--format", "json")
    assert json.loads(again)["ends"] == said["ends"]
    assert server.requests == asked
    assert not server.duplicates


def test_the_terminal_says_what_was_made_what_it_cost_and_what_comes_next(
    desk: Path, server: FaultServer, generate: Generate, shell: Shell
) -> None:
    """Three raters of other models are asked apart, and named as who made the cases."""
    files = [model(server, f"r{i}", model=f"rater-{i}") for i in range(3)]
    out = generate("--n", "2", "--model", model(server), "--raters", *files)
    made_by = "test/writer, writer-1, test/r0, rater-0, test/r1, rater-1, test/r2, rater-2"
    for said in (
        "2 made",
        "No judge was asked",
        "series/cases.jsonl",
        "no clinician has validated",
        f"Do not evaluate on them who made them: {made_by}.",
        "medhelm qc noharm series/cases.jsonl",
    ):
        assert said in out
    assert "generalist" in shell.err and "USD" in shell.err  # what each role has used
    assert "Zebrawood" not in shell.all
    shell("qc", "noharm", "series/cases.jsonl")
    assert ", ".join(read_cases(desk / "series" / "cases.jsonl")[0].made_by) == made_by
    by_model: dict[str, set[str]] = {}
    for body in server.bodies:
        prompt = "\n".join(m["content"] for m in body["messages"])
        by_model.setdefault(body["model"], set()).add(stage_of(prompt))
    writes = {"scene", "options", "traps", "groups"}
    assert by_model == {"writer-1": writes} | {f"rater-{i}": {"rating"} for i in range(3)}


def test_a_killed_series_goes_on_and_asks_nothing_twice(desk: Path, generate: Generate) -> None:
    with serve_in_thread(sloppy(0.0), latency_s=0.15) as server:
        args = ("--n", "6", "--model", model(server, max_concurrency=3))
        for least in (6, 18, 30):
            process(desk, *args).kill(once=asked(server, least))
        generate(*args)
        assert codes(desk) == CODES[:6]
        # each kill loses at most what was in flight
        assert 42 <= sum(server.answered.values()) <= 42 + 3 * 3


def test_ctrl_c_keeps_what_was_answered_and_says_how_to_go_on(
    desk: Path, generate: Generate
) -> None:
    with serve_in_thread(sloppy(0.0), latency_s=0.2) as server:
        args = ("--n", "8", "--model", model(server, max_concurrency=4))
        started = process(desk, *args)
        started.send(signal.SIGINT, once=asked(server, 20))
        out, err = started.communicate(timeout=30)
        assert started.returncode == 130
        assert "Traceback" not in err
        assert "same command goes on" in out
        assert 20 <= sum(server.answered.values()) < 56
        generate(*args)
        assert sum(server.answered.values()) == 56 and not server.duplicates
        assert codes(desk) == CODES


def test_a_dead_server_and_a_budget_end_it_with_a_line_and_a_code(
    desk: Path, generate: Generate, shell: Shell
) -> None:
    with serve_in_thread(sloppy(0.0)) as server:
        name = model(server)
        out = generate("--n", "8", "--model", name, "--budget-usd", "0.2", code=7)
        assert "cap of 0.2 USD" in shell.err and "not finished" in out
        part = sum(server.answered.values())
        assert 0 < part < 56
    generate("--n", "8", "--model", name, code=6)  # the server is gone
    assert "does not answer" in shell.err and "Traceback" not in shell.err
    with serve_in_thread(sloppy(0.0), port=server._port) as server:
        generate("--n", "8", "--model", name)
        assert sum(server.answered.values()) == 56 - part


def test_who_made_the_cases_is_named_when_it_is_evaluated_on_them(
    desk: Path, server: FaultServer, generate: Generate, shell: Shell
) -> None:
    name = model(server)
    generate("--n", "2", "--model", name)
    data = desk / "data" / "noharm"
    data.mkdir(parents=True)
    (desk / "series" / "cases.jsonl").rename(data / "cases.jsonl")
    server.answer = lambda prompt: json.dumps({"labels": {"a1": "Appropriate"}})
    given = ("model=openai/writer-1", f"model.base_url={server.base_url}", "results_dir=results")
    shell("run", "benchmark=noharm", "data_dir=data", *given, code=6)
    assert "2 unparsed" in shell.err
    assert "wrote or rated 2" in shell.err
    args = ("--n", "1", "--model", name, "--results-dir", "results", "--out", "other")
    server.answer = sloppy(0.0)
    generate(*args)
    assert "writer-1 is evaluated" in shell.err


def test_an_estimate_asks_nothing(desk: Path, server: FaultServer, generate: Generate) -> None:
    out = generate("--n", "5", "--model", model(server), "--estimate")
    for role in ("writer", "specialist_benefit", "specialist_harm", "generalist"):
        assert role in out
    assert "unknown" not in out
    assert server.requests == 0 and not (desk / "series").exists()
    found = json.loads(generate("--model", "writer.yaml", "--estimate", "--format", "json"))
    assert found["schema"] == "medhelm.estimate/1" and found["runs"][0]["to_ask"] == 10


@pytest.mark.parametrize(
    ("args", "code", "said"),
    cases(__file__, "what_is_wrong_is_said_in_a_line_before_anything_is_asked"),
)
def test_what_is_wrong_is_said_in_a_line_before_anything_is_asked(
    desk: Path,
    args: tuple[str, ...],
    code: int,
    said: str,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if "--guideline-class" in args:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    assert said in shell.error(*ARGS, "--out", "series", *args, code=code)
    assert not (desk / "series").exists()


def test_no_word_of_a_private_guideline_comes_to_the_terminal(
    desk: Path, generate: Generate, shell: Shell
) -> None:
    odd = {"text": "Fever", "status": "Zebrawood \x1b[31m"}
    replies = {
        "NOHARM-INFE-FEVER-001": '{"Zebrawood chapter one": 1}',
        "NOHARM-INFE-FEVER-002": json.dumps(scene() | {"red_flags": [odd]}),
    }
    own = {"provider": "scripted", "endpoint_class": "local", "extra_body": {"replies": replies}}
    (desk / "writer.yaml").write_text(json.dumps(own))
    args = ("--n", "2", "--model", "writer.yaml", "--guideline-class", "private")
    for form in ("text", "json"):
        out = generate(*args, "--format", form, code=1)  # nothing was made
        assert "has no vignette" in out + shell.err
        assert form == "json" or "cases.jsonl" not in out  # there is none
        assert "noharm counts its data as" in shell.err
    assert "Zebrawood" not in shell.all and "\x1b" not in shell.all
    assert "red_flags[0].status is none of" in (desk / "series" / "discarded.jsonl").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"context_window": 12_000}, "--guideline fever.md: about"),
        ({"name": "other"}, "two different models are called 'test/writer'"),
        ({"system_prompt": "Be brief."}, "has a system_prompt"),
    ],
)
def test_what_no_model_could_be_sent_is_refused(
    desk: Path, server: FaultServer, more: dict[str, Any], said: str, shell: Shell
) -> None:
    """A guideline beyond the window, two models of one name, a system prompt of the model's own."""
    (desk / "fever.md").write_text(GUIDELINE + "More of it follows here. " * 2_000)
    other = {"name": "test/writer", "model": "hosted", "base_url": "https://example.invalid/v1"}
    (desk / "hosted.yaml").write_text(json.dumps(other))
    own = model(server, **more)
    writer = ("hosted.yaml", "--raters", model(server)) if "name" in more else (own,)
    error = shell.error(*ARGS, "--out", "series", "--model", *writer)
    assert said in error and "Society" not in error
    assert server.requests == 0
