"""`medhelm export openai_batch` and `import openai_batch`: requests that are answered on another machine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm import load_results
from medhelm.store.runlog import read_episodes
from tests.protocols import interview
from tests.server import prompt_of, serve_in_thread
from tests.shell import Shell

Lines = list[dict[str, Any]]


def export(shell: Shell, folder: Path, *arguments: str) -> Lines:
    """Export what is left to ask and return the requests of all files."""
    out = folder / f"out{len([*folder.glob('out*')])}"
    argv = ["export", "openai_batch", *arguments, f"results_dir={folder / 'results'}"]
    shell(*argv, "-o", out)
    lines: Lines = []
    for path in out.glob("*.jsonl"):
        own = [json.loads(line) for line in path.read_text().splitlines()]
        assert len({line["body"]["model"] for line in own}) == 1  # services want it so
        lines += own
    return lines


def answered(lines: Lines, reply: Callable[[str], str] = lambda text: "B") -> Lines:
    found = []
    for line in lines:
        message = {"content": reply(prompt_of(line["body"]))}
        body = {"model": "served-1", "choices": [{"message": message, "finish_reason": "stop"}]}
        body["usage"] = {"prompt_tokens": 90, "completion_tokens": 1}
        response = {"status_code": 200, "body": body}
        found.append({"custom_id": line["custom_id"], "response": response, "error": None})
    return found


def failed(lines: Lines) -> Lines:
    error = {"code": "batch_expired"}
    return [{"custom_id": n["custom_id"], "response": None, "error": error} for n in lines]


def bring(shell: Shell, folder: Path, *files: Lines, code: int = 0) -> str:
    paths = []
    for number, lines in enumerate(files):
        random.Random(number).shuffle(lines)
        paths.append(folder / f"answers{number}.jsonl")
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = folder / "results"
    return shell("import", "openai_batch", *paths, "--results-dir", results, code=code)


@pytest.mark.slow
def test_answers_from_elsewhere_are_those_of_a_plain_run(tmp_path: Path, shell: Shell) -> None:
    with serve_in_thread() as server:
        own = ["model=openai/x", f"model.base_url={server.base_url}", "benchmark=med_qa"]
        own += ["repeats=2", "data=sample"]
        lines = export(shell, tmp_path, *own)
        assert len({line["custom_id"] for line in lines}) == len(lines) == 16
        assert all(len(line["custom_id"]) <= 64 for line in lines)
        assert {(n["method"], n["url"]) for n in lines} == {("POST", "/v1/chat/completions")}
        bring(shell, tmp_path, answered(lines[:10]), failed(lines[10:]))
        (run,) = load_results(tmp_path / "results").runs
        (result,) = run.record.results
        assert (result.scored, result.outcomes["error"]) == (10, 6)
        assert run.record.own.usage.input_tokens == 900
        assert run.record.own.served_models == {"served-1": 10}
        said = bring(shell, tmp_path, answered(lines[:10]), failed(lines[10:]))
        assert "taken, 16 were before" in said
        rest = export(shell, tmp_path, *own)
        assert len(rest) == 6
        bring(shell, tmp_path, answered(rest))
        assert export(shell, tmp_path, *own) == []
        shell("run", *own, f"results_dir={tmp_path / 'results'}")
        assert server.requests == 0
    (run,) = load_results(tmp_path / "results").runs
    assert run.record.results[0].scored == 16


@pytest.mark.slow
def test_an_answer_that_a_killed_import_took_is_asked_again(tmp_path: Path, shell: Shell) -> None:
    own = ("model=openai/x", "benchmark=med_qa", "data=sample")
    lines = export(shell, tmp_path, *own)
    name = lines[0]["custom_id"].partition("-")[0]
    taken = tmp_path / "results" / "batch_files" / f"{name}.taken"
    taken.write_text(lines[0]["custom_id"] + "\n")
    bring(shell, tmp_path, answered(lines))
    (again,) = export(shell, tmp_path, *own)
    assert again["body"] == lines[0]["body"]


def play(prompt: str) -> str:
    """Answer in the role that the prompt is for; the referee ends it after two turns."""
    is_over = prompt.startswith("[referee]") and prompt.count("A: ") >= 2
    return "stop" if is_over else interview.play(prompt)


@pytest.mark.slow
def test_a_protocol_of_several_turns_goes_turn_by_turn(tmp_path: Path, shell: Shell) -> None:
    roles = {"model": "under-test", "cast.questioner": "asks", "cast.referee": "referees"}
    own = [f"{role}=openai/{name}" for role, name in roles.items()]
    own += [f"{role}.base_url=http://127.0.0.1:9/v1" for role in roles]
    own += ["benchmark=interview", "data=sample", f"plugins=[{interview.PLUGIN}]"]
    own += ["protocol.least=2"]
    seen = set[str]()
    turns = 0
    while lines := export(shell, tmp_path, *own):
        turns += 1
        bring(shell, tmp_path, answered(lines, play))
        seen |= {line["body"]["model"] for line in lines}
    assert turns == 6 and seen == {*roles.values()}
    (run,) = load_results(tmp_path / "results", plugins=[interview.PLUGIN]).runs
    assert run.record.state == "complete"
    episodes = [*read_episodes(run.path.parents[1])]
    assert {e.finish for e in episodes} == {"stop"} and all(len(e.calls) == 6 for e in episodes)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"custom_id": "ours-1-0", "response": None, "error": {}}], "to no request of an export"),
        ([{"custom_id": "x-1-0"}], "response or error"),
        ([{"id": "x"}], "an answer is one JSON object"),
        ([{"custom_id": "x-1-0", "response": None, "error": {}}] * 2, "a second answer"),
    ],
)
def test_a_file_of_others_is_refused(tmp_path: Path, lines: Lines, said: str, shell: Shell) -> None:
    bring(shell, tmp_path, lines, code=2)
    assert said in shell.err


def test_a_model_of_another_protocol_is_refused(tmp_path: Path, shell: Shell) -> None:
    argv = ["export", "openai_batch", "model=openai_responses/o9", "benchmark=med_qa"]
    argv += ["data=sample", f"results_dir={tmp_path}", "-o", str(tmp_path / "out")]
    assert "OpenAI chat protocol" in shell.error(*argv)
