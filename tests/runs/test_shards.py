"""Shards: several processes ask one run, and what comes is what one process would have made."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pandas as pd
import pytest
from scripted_evaluators import judge

import medhelm
from medhelm import api
from medhelm.cli import run_command
from medhelm.config import Job
from medhelm.errors import RunLocked, UsageError
from medhelm.models import ModelPool, serving
from medhelm.models.costs import Ledger, capped_ledger
from medhelm.plugins.registry import Registry
from medhelm.runs.planning import plan_runs
from medhelm.runs.run import Run
from medhelm.runs.runner import Ending, run_sweep
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm.store.records import find_gradings, read_plan, read_record
from medhelm.store.runlog import RunFolder, read_episodes
from medhelm.store.shards import Shard, find_shard, gather
from medhelm_benchmarks.encounters.grading.evaluator import parts_of
from tests.benchmarks.noharm.test_protocol import all_right
from tests.juries import rated
from tests.processes import Started, asked, start
from tests.protocols.interview import options, play
from tests.quiz import arguments, write_quiz
from tests.rubric.test_grader import PLUGIN, PRICE
from tests.rubric.test_judges import CASES, by_number, settled, write_cases
from tests.runs.test_serve import serve
from tests.server import FaultServer, Reply, letter, serve_in_thread
from tests.shell import Shell


class Quiet:
    """Shows nothing; keeps the messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def planned(self, *_: object) -> None: ...
    def advanced(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...
    def message(self, text: str) -> None:
        self.said.append(text)


def planned(shard: str, **given: Any) -> Sequence[Run]:
    def plan(jobs: Sequence[Job], registry: Registry, **_: object) -> Sequence[Run]:
        parts = [msgspec.structs.replace(job, shard=shard) for job in jobs]
        return plan_runs(parts, registry, os.environ).runs

    with patch.object(api, "_run", plan):
        return medhelm.evaluate(**given)  # type: ignore[return-value]


def ask(shard: str, **given: Any) -> tuple[Ending, list[str]]:
    """Ask a shard in this process, as `medhelm run ... shard=K/N` does."""
    runs, quiet = planned(shard, **given), Quiet()
    end = asyncio.run(run_sweep(runs, Ledger(), quiet, ModelPool(os.environ)))
    assert end.stopped is None and all(e.error is None for e in end.endings), end
    return end.endings[0], quiet.said


def graded(results: Path) -> tuple[list[Any], pd.DataFrame]:
    """Return what a record says of scores, controls and usage, and every score."""
    (folder,) = find_gradings(results)
    record = read_record(folder)
    scores = pd.read_parquet(folder / "scores.parquet")
    usage = [(p.role, p.model.name, p.usage, p.ends) for p in record.parties]
    kept = [record.state, record.instances, record.results, record.controls, usage]
    columns = ["instance_id", "repeat", "metric"]
    return kept, scores.sort_values(columns, ignore_index=True)


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return ModelSpec(
        name=name, model=name.rpartition("/")[2], provider="openai", base_url=server.base_url, price=PRICE, **more
    )  # fmt: skip


def said(prompt: str) -> str | Reply:
    """Answer whoever is asked: an evaluator, a role, a judge of a jury or of a criterion, or a model."""
    digest = sum(prompt.encode())
    if "Actions:\n" in prompt:
        return all_right(prompt)
    if parts_of(prompt):
        return judge("by-words", prompt)
    if "criteria_met" in prompt:
        return json.dumps({"explanation": "So.", "criteria_met": digest % 3 > 0})
    if names := re.findall(r'"(\w+)": \{"score"', prompt) or re.findall(r"^- (\w+):", prompt, re.M):
        return json.dumps({name: {"score": 1 + digest % 5, "explanation": "So."} for name in names})
    return letter(prompt)


def cases(server: FaultServer) -> Mapping[str, dict[str, Any]]:
    one, two = model(server, "j/one"), model(server, "j/two")
    jury = JurySpec(name="two", judges=(one, two), quorum=1)
    return {
        "completion": {"benchmarks": "med_qa", "repeats": 2},
        "jury": {"benchmarks": "medication_qa", "jury": jury, "controls": 0.2},
        "criteria": {"benchmarks": "checklist", "jury": jury, "controls": 0.5, "plugins": PLUGIN},
        "encounters": {
            "models": "encounter/asks_everything",
            "benchmarks": "medsp1000",
            "jury": jury,
        },
        "labels": {"benchmarks": "noharm"},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [("completion", 4), ("completion", 11), ("jury", 4), ("criteria", 4), ("encounters", 4), ("labels", 4)],
)  # fmt: skip
def test_shards_give_what_one_process_gives(tmp_path: Path, kind: str, count: int) -> None:
    with serve_in_thread(said) as server:
        given = {"models": model(server, "m/one"), "data": "sample", **cases(server)[kind]}
        medhelm.evaluate(results_dir=tmp_path / "one", progress=False, **given)
        calls = server.requests
        endings = [
            ask(f"{number}/{count}", results_dir=tmp_path / "many", **given)
            for number in reversed(range(count))
        ]
        assert server.requests == 2 * calls  # each call once
    assert [e.record is not None for e, _ in endings] == [False] * (count - 1) + [True]
    assert f"shard {count - 1}/{count} has ended; " in endings[0][1][-1]
    assert (
        min(result.counted for result in read_record(*find_gradings(tmp_path / "one")).results) > 0
    )
    (one, scores), (many, of_many) = graded(tmp_path / "one"), graded(tmp_path / "many")
    assert one == many
    pd.testing.assert_frame_equal(scores, of_many)
    assert not [*(tmp_path / "many").glob("runs/*/*/*/**/*-of-*")]


# Kills, and several at once -------------------------------------------------------------------------


def started(server: FaultServer, tmp_path: Path, shard: str) -> Started:
    """Start `medhelm run` on a shard of 100 cases of 30 criteria, which the server judges."""
    one = f"name:j/one,model:one,provider:openai,base_url:'{server.base_url}'"
    words = (
        "model=baseline/lead", "benchmark=checklist", f"data_dir={tmp_path / 'data'}", f"plugins=[{PLUGIN}]",
        f"results_dir={tmp_path / 'results'}", "jury.name=one", "jury.quorum=1", "jury.judges=[{" + one + "}]",
        "controls=0", f"shard={shard}",
    )  # fmt: skip
    return start("run", *words)


def hits_of(results: Path) -> dict[str, float | None]:
    return {r.metric: r.value for r in read_record(*find_gradings(results)).results}


@pytest.mark.slow
def test_killed_shards_are_gone_on_with_by_any_number_of_others(tmp_path: Path) -> None:
    write_cases(tmp_path)
    with serve_in_thread(by_number) as server:
        killed = [started(server, tmp_path, f"{number}/2") for number in range(2)]
        killed[0].wait_until(asked(server, 1000))
        for process in killed:
            process.kill()
        before = settled(server.answered)
        logs = [*(tmp_path / "results").glob("runs/*/*/*/graders/*/shards/*-of-2/responses.jsonl")]
        held = sum(log.read_bytes().count(b'"call":') for log in logs)
        assert len(logs) == 2 and 500 <= held <= before < 3000
        others = [started(server, tmp_path, f"{number}/3") for number in range(3)]
        said = [process.communicate() for process in others]
        assert [process.returncode for process in others] == [0, 0, 0], said
        assert sum(server.answered.values()) - before == 3000 - held
    hits = [i % 31 for i in range(CASES)]
    assert hits_of(tmp_path / "results")["rubric_hits"] == pytest.approx(sum(hits) / CASES)
    record = read_record(*find_gradings(tmp_path / "results"))
    (totals,) = record.graders
    assert record.state == "complete" and totals.usage.requests == 3000


def test_a_shard_that_is_at_work_is_waited_for(tmp_path: Path) -> None:
    with serve_in_thread(said) as server:
        given = {"models": model(server, "m/one"), "benchmarks": "med_qa", "data": "sample"}
        given["results_dir"] = tmp_path
        ask("0/2", **given)
        ((run, *_),) = [[*tmp_path.glob("runs/*/*/*")]]
        busy = RunFolder(run, Shard(5, 7))
        busy.open()
        ending, messages = ask("1/2", **given)
        assert ending.record is None and "5-of-7 is in use" in messages[-1]
        assert run_command(["score", "--results-dir", str(tmp_path)]) == 4
        with pytest.raises(RunLocked, match="1-of-2|5-of-7"):
            medhelm.evaluate(progress=False, **given)
        busy.close()
        medhelm.evaluate(progress=False, **given)
        assert read_record(*find_gradings(tmp_path)).state == "complete"
        assert server.requests == 8


@pytest.mark.slow
def test_a_shard_holds_its_folder_from_asking_until_it_has_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else another one that ends meanwhile would end the run, and ask its judges what this one asks them."""
    one = ModelSpec(name="j/one", model="one", serve=serve(tmp_path, "--answer", rated()))
    given: dict[str, Any] = {
        "jury": JurySpec(name="one", judges=(one,), quorum=1),
        "data": "sample",
    }
    given |= {"benchmarks": "medication_qa", "results_dir": tmp_path / "r", "order": "roles"}
    given["models"] = ModelSpec(name="s/model", model="model", serve=serve(tmp_path))
    turn, begun, others = serving.Servers.turn, list[bool](), list[tuple[Ending, list[str]]]()

    async def turn_after_another(self: serving.Servers, work: serving.Work) -> None:
        if work.is_judging and not begun:
            begun.append(True)
            others.append(await asyncio.to_thread(ask, "1/2", **given))
        await turn(self, work)

    monkeypatch.setattr(serving.Servers, "turn", turn_after_another)
    ending, _ = ask("0/2", **given)
    ((other, said),) = others
    assert other.record is None and "0-of-2 is in use" in said[-1]
    assert ending.record is not None and ending.record.state == "complete"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "is_gathered_between"),
    [("0-of-2", "0-of-4", True), ("0-of-4", "0-of-2", False)],
)
@pytest.mark.parametrize("second_says", ["something else", "nothing"])
@pytest.mark.parametrize("kind", ["one call", "many calls"])
def test_of_what_two_shards_asked_the_first_answer_counts(
    kind: str, second_says: str, first: str, second: str, is_gathered_between: bool, tmp_path: Path, shell: Shell
) -> None:  # fmt: skip
    """Neither sees the other's folder, as where both ask at the same time."""
    is_second, refused = False, 0

    def say(prompt: str) -> str | Reply:
        nonlocal refused
        if not is_second or prompt.startswith("[questioner]"):
            return play(prompt) if kind == "many calls" else "A"
        if prompt.startswith("[referee]"):
            return "stop" if prompt.count("A: ") >= 6 else "go on"
        if second_says == "nothing" and (kind == "one call" or "Question 2" in prompt):
            refused += 1
            return Reply(status=400)
        return "It is not said."

    write_quiz(tmp_path, 8)
    results, alone = tmp_path / "results", tmp_path / "alone"
    with serve_in_thread(say) as server:
        one_call = arguments(tmp_path, server.base_url)
        argv = one_call if kind == "one call" else options(server, tmp_path)
        for name in (first, second):
            shell(*argv, f"shard={name.replace('-of-', '/')}", code=(0, 6))
            (run,) = results.glob("runs/*/*/*")
            shutil.move(run / "shards" / name, alone / name)
            is_second = name == first
        before = server.requests
        for name in (first, second):
            shutil.move(alone / name, run / "shards" / name)
            if is_gathered_between:
                gather(run)
        shell(*argv)
        asked = server.requests - before
        shell(*argv)
        assert server.requests == before + asked
    record = read_record(*find_gradings(results))
    said = [e.response.text for e in read_episodes(run, read_plan(run))]
    of_second = sum("not said" in text for text in said)
    has_said = second_says != "nothing" or kind == "many calls"  # of these the first answer is kept
    alone_of_second = 2 if has_said and second == "0-of-2" else 0
    wins = second_says != "nothing" and not is_gathered_between and second < first
    assert (record.state, len(said)) == ("complete", 8)
    assert of_second == alone_of_second + 2 * wins
    assert sum(p.usage.requests for p in record.parties) == server.requests - refused
    if kind == "one call":
        assert asked == 8 - {"0-of-2": 4, "0-of-4": 2}[first] - alone_of_second


def test_a_judge_is_asked_once_of_what_lies_in_two_logs(tmp_path: Path) -> None:
    with serve_in_thread(said) as server:
        given = {"models": "baseline/lead", "data": "sample", **cases(server)["criteria"]}
        given |= {"results_dir": tmp_path, "controls": 0}
        ask("0/2", **given)
        (run,) = tmp_path.glob("runs/*/*/*")
        shutil.copytree(run / "shards" / "0-of-2", run / "shards" / "0-of-4")
        shutil.rmtree(run / "graders")
        before = Counter(server.answered)
        ask("0/2", **given)
        assert Counter(server.answered) - before == before, "each is asked once more"


@pytest.mark.slow
def test_a_finished_run_takes_in_what_a_shard_has_asked_beside_it(
    tmp_path: Path, shell: Shell
) -> None:
    write_quiz(tmp_path, 6)
    results, alone = tmp_path / "results", tmp_path / "alone"
    with serve_in_thread(lambda _: "A") as server:
        argv = arguments(tmp_path, server.base_url)
        shell(*argv, "shard=0/2")
        (run,) = results.glob("runs/*/*/*")
        shutil.move(run / "shards" / "0-of-2", alone / "0-of-2")
        shell(*argv)
        shutil.move(alone / "0-of-2", run / "shards" / "0-of-2")
        shell(*argv)
        assert server.requests == 9
    record = read_record(*find_gradings(results))
    assert record.own.usage.requests == 9 and not (run / "shards").exists()


# How a shard is named -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "environ", "found"),
    [
        ("", {}, None),
        ("3/16", {}, Shard(3, 16)),
        ("auto", {"ID": "7", "MIN": "1", "COUNT": "4", "STEP": "2"}, Shard(3, 4)),
        ("auto/8", {"ID": "3", "MIN": "1", "COUNT": "4"}, Shard(2, 8)),
        ("auto/8", {"JOB_COMPLETION_INDEX": "7"}, Shard(7, 8)),
    ],
)  # fmt: skip
def test_a_shard_is_named_or_is_that_of_an_array(
    said: str, environ: dict[str, str], found: Shard | None
) -> None:
    own = {n if "_" in n else f"SLURM_ARRAY_TASK_{n}": value for n, value in environ.items()}
    assert find_shard(said, own) == found


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("16/16", "parts of 16 run from 0 to 15"),
        ("3", "shard=3 is not understood; write K/N"),
        ("1/x", "is not understood"),
        ("-1/2", "parts of 2 run from 0 to 1"),
        ("auto", "SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX is not in the environment"),
    ],
)
def test_other_words_are_refused(said: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        find_shard(said, {})


def test_a_shard_may_spend_its_share_and_asks_nothing_again(tmp_path: Path) -> None:
    with serve_in_thread(said) as server:
        given = {"models": model(server, "m/one"), "benchmarks": "med_qa", "data": "sample"}
        runs = planned("1/4", results_dir=tmp_path, **given)
        assert runs[0].shard is not None
        ledger = capped_ledger(runs[0].models, 1.0, 1000, parts=runs[0].shard.count)
        assert (ledger.cap_usd, ledger.cap_tokens) == (0.25, 250)
        with pytest.raises(UsageError, match="once without shard=1/4"):
            planned("1/4", results_dir=tmp_path, ask_again=["unparsed"], **given)
