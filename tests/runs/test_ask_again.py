"""Replies that could not be read, asked for once more at the user's word: of models, judges, graders."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm import load_results
from medhelm.store.records import find_runs, read_plan
from medhelm.store.runlog import read_episodes
from tests.juries import ESSAY, house_jury, rated
from tests.protocols.interview import options, play
from tests.quiz import arguments, record_of, write_quiz
from tests.server import FaultServer, Reply, serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

PLUGINS = Path(__file__).parent.parent / "plugins"
MET = '{"explanation": "So.", "criteria_met": true}'


def row_of(results: Path, plugin: Path) -> dict[str, Any]:
    table = load_results(results, plugins=[plugin]).typed("benchmarks")
    (row,) = [r for r in table.rows if r["is_main"]]
    return {**row, "notes": " ".join(table.notes)}


@pytest.mark.parametrize(("bad", "outcome"), [("I will not say.", "unparsed"), ("", "empty")])
def test_a_models_unread_answers_are_asked_once_more_and_no_others(
    bad: str, outcome: str, tmp_path: Path, shell: Shell
) -> None:
    plugin = PLUGINS / "quiz.py"
    write_quiz(tmp_path, 6)
    say: dict[str, Callable[[str], str]] = {
        "": lambda p: bad if "patient 1" in p or "patient 2" in p else "A"
    }
    with serve_in_thread(lambda prompt: say[""](prompt)) as server:

        def ask(*more: str) -> int:
            shell(*arguments(tmp_path, server.base_url), *more)
            return server.requests

        assert ask() == 6 and ask() == 6
        before = record_of(tmp_path)
        assert before.results[0].outcomes == {outcome: 2, "scored": 4}
        say[""] = lambda _: "B"
        argv = arguments(tmp_path, server.base_url)[1:]
        (planned,) = shell.json("estimate", *argv, f"ask_again=[{outcome}]")["runs"]
        assert planned["to_ask"] == 2
        assert ask("ask_again=[truncated]") == 6, "none ended so"
        assert ask(f"ask_again=[{outcome}]", "max_instances=3") <= 8
        assert ask(f"ask_again=[{outcome}]") == 8 and ask() == 8, "it is settled"
        after = record_of(tmp_path)
        assert after.results[0].outcomes == {"scored": 6} and after.state == "complete"
        assert after.own.usage.requests == 8, "the earlier replies are paid for"
        (run,) = find_runs(tmp_path / "results")
        assert (run / "responses.jsonl").read_text().count("\n") == 8
    row = row_of(tmp_path / "results", plugin)
    assert (row["asked_again"], row["flags"], row["requests"]) == (2, "again", 8)
    assert "openai/test 2 answers" in row["notes"]


def test_episodes_of_many_calls_are_asked_once_more_whole(tmp_path: Path, shell: Shell) -> None:
    is_mute = [True]

    def say(prompt: str) -> str:
        is_answer = not prompt.startswith(("[questioner]", "[referee]"))
        return "" if is_answer and is_mute[0] and "Known: " in prompt else play(prompt)

    with serve_in_thread(say) as server:
        argv = options(server, tmp_path)
        shell(*argv, code=(0, 6))
        first, before = server.requests, record_of(tmp_path)
        again = [o for o in before.results[0].outcomes if o != "scored"]
        assert again, before.results
        is_mute[0] = False
        shell(*argv, code=(0, 6))
        assert server.requests == first
        shell(*argv, f"ask_again=[{','.join(again)}]")
        record, asked = record_of(tmp_path), server.requests
        assert record.results[0].outcomes == {"scored": 8}
        assert sum(p.usage.requests for p in record.parties) == asked > first
        (run,) = find_runs(tmp_path / "results")
        episodes = [*read_episodes(run, read_plan(run))]
        assert len(episodes) == 8 and not any(e.stale for e in episodes)
        shell(*argv)
        assert server.requests == asked


def judged(folder: Path, server: FaultServer, benchmark: str) -> list[str]:
    """Return what follows `medhelm` to let one judge of a server rate a benchmark's samples."""
    argv = ["run", "model=baseline/lead", f"benchmark={benchmark}", "data=sample", "controls=0"]
    where = [f"plugins=[{PLUGINS / benchmark}.py]", f"results_dir={folder / 'results'}"]
    return [*argv, *where, *house_jury(folder, server.base_url, "a")]


@pytest.mark.parametrize(("benchmark", "good"), [("essay", rated()), ("checklist", MET)])
def test_a_mended_judge_is_asked_once_more(
    benchmark: str, good: str, tmp_path: Path, shell: Shell
) -> None:
    results, plugin = tmp_path / "results", PLUGINS / f"{benchmark}.py"
    reply = ["I cannot say."]
    with serve_in_thread(lambda _: reply[0]) as server:
        argv = judged(tmp_path, server, benchmark)
        score = ["score", "--results-dir", str(results), "--plugin", str(plugin), "--ask-again"]
        shell(*argv, code=(0, 6))
        assert "medhelm score --ask-again unparsed" in shell.err
        lost, first = server.requests, record_of(tmp_path).graders[0]
        reply[0] = good
        shell(*argv, code=(0, 6))
        shell(*score, "refused", code=range(10))
        assert server.requests == lost
        shell(*score, "unparsed")
        once = server.requests - lost
        assert lost == 3 * once, "without repairs now"
        record = record_of(tmp_path)
        judge, answers = record.graders[0], sum(first.ends.values())
        assert judge.ends == {"scored": answers} and record.results[0].value is not None
        assert judge.usage.requests == lost + once, "the earlier replies are paid for"
        shell(*score, "unparsed")
        shell(*argv)
        assert server.requests == lost + once, "nothing is left to ask for"
        row = row_of(results, plugin)
        assert (row["verdicts_asked_again"], row["asked_again"]) == (answers, 0)
        assert "again" in row["flags"].split() and f"{answers:,} verdicts" in row["notes"]

        for name in ("judges", "graders"):
            shutil.rmtree(find_runs(results)[0] / name, ignore_errors=True)
        shell(*argv)
        assert server.requests == lost + 2 * once, "made anew"
        record = record_of(tmp_path)
        assert record.graders[0].usage.requests == once
        assert "again" not in row_of(results, plugin)["flags"].split()


def test_a_judge_that_fails_when_asked_once_more_is_missing_and_asked_by_the_next_run(
    tmp_path: Path, shell: Shell
) -> None:
    results = tmp_path / "results"
    reply: list[str | Reply] = ["I cannot say."]
    with serve_in_thread(lambda _: reply[0]) as server:
        argv = judged(tmp_path, server, "essay")
        shell(*argv, code=(0, 6))
        score = ["score", "--results-dir", str(results), "--plugin", str(ESSAY)]
        shell(*score, "--ask-again", "unparsed", "--budget-tokens", "1", code=7)
        assert "1 tokens is reached" in shell.err
        assert record_of(tmp_path).graders[0].ends == {"unreadable": 12}
        reply[0] = Reply(status=400)
        shell(*score, "--ask-again", "unparsed", code=6)
        assert record_of(tmp_path).graders[0].ends == {"error": 12}
        reply[0] = rated()
        shell(*argv)
        assert record_of(tmp_path).graders[0].ends == {"scored": 12}
    plain = tmp_path / "plain"
    asked = ("run", "model=baseline/lead", "benchmark=essay", "data=sample")
    shell(*asked, f"plugins=[{ESSAY}]", f"results_dir={plain}")
    score[2] = str(plain)
    assert "judged by models" in shell.error(*score, "--ask-again", "unparsed")
