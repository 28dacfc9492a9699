"""Judges at work: calls, repairs, logs that go on, budgets, refusals."""

from __future__ import annotations

import asyncio
import shutil
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import medhelm
from medhelm import models
from medhelm.cli import run_command
from medhelm.errors import (
    BudgetReached,
    MedhelmError,
    ModelError,
    PrivacyRefused,
    UsageError,
)
from medhelm.grading.graders.grader import JUDGE, Shown, shown_of
from medhelm.grading.jury.grader import jury_grader
from medhelm.grading.panels import end_of
from medhelm.models.costs import Ledger
from medhelm.models.scripted import ScriptedModel
from medhelm.plugins.registry import load_registry
from medhelm.runs import judges
from medhelm.runs.conduct import answer_of, keep_ended
from medhelm.runs.sending import Desk, Sender
from medhelm.schema.data import Criterion, Instance, Rubric
from medhelm.schema.episode import Episode, Request, Response
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JurySpec, JuryTerms, RunRecord
from medhelm.store import records
from medhelm.store.calls import OpenEpisode
from medhelm.store.loglines import is_answered
from medhelm.store.runlog import RunFolder, read_log
from tests import juries
from tests.juries import rated
from tests.made import benchmark, scripted
from tests.processes import start
from tests.protocols.interview import PLUGIN as INTERVIEW
from tests.protocols.interview import play
from tests.quiz import medhelm as run_here
from tests.server import serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

PLUGIN = juries.ESSAY
GOOD = '{"accuracy": 5, "completeness": 4, "clarity": 3}'
BAD = "It is good."
TERMS = JuryTerms(
    jury=JurySpec(name="j", repairs=2),
    rubric=Rubric(
        name="r", version="1", task="Rate.", criteria=(Criterion(name="accuracy", text="?"),)
    ),
    version="1",
)
BENCHMARK = benchmark(to_instance=lambda _: EPISODE.instance, metrics=["jury"])
EPISODE = Episode(
    instance=Instance(id="i", question="Why?"), response=Response(instance_id="i", text="Flu.")
)


def judge(name: str, reply: str = GOOD, **more: Any) -> ModelSpec:
    return scripted(name, **{"default": reply, **more})


def unreachable(name: str, **more: Any) -> ModelSpec:
    return ModelSpec(
        name=name, model="m", base_url="http://127.0.0.1:9/v1", endpoint_class="local", **more
    )


def jury(*judges: ModelSpec, **more: Any) -> JurySpec:
    return JurySpec(name="test", judges=judges, **more)


def run(folder: Path, who: JurySpec | str | None, **more: Any) -> RunRecord:
    medhelm.evaluate(
        "baseline/lead",
        "essay",
        data="sample",
        plugins=PLUGIN,
        results_dir=folder,
        jury=who,
        **{"controls": 0, **more},
    )
    newest = max(records.find_gradings(folder), key=lambda g: (g / "summary.json").stat().st_mtime)
    return records.read_record(newest)


def logs(folder: Path) -> dict[str, list[Episode]]:
    """Return what each judge of the stored gradings was asked, in the order of its log."""
    found: dict[str, list[Episode]] = {}
    for grading in records.find_gradings(folder):
        terms = records.read_record(grading).grading.jury
        if terms is not None:
            folders = records.judge_folders(grading.parents[1], terms)
            for own, path in zip(terms.jury.judges, folders, strict=True):
                found[own.name] = [*read_log(path)]
    return {name: log for name, log in found.items() if log}


def grade_logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("runs/*/*/*/judges/*/responses.jsonl"))


def value(record: RunRecord, metric: str = "jury") -> float | None:
    return next(r.value for r in record.results if r.metric == metric)


# One judgement ----------------------------------------------------------------------------


GRADER = jury_grader(TERMS)
COMPLETION = load_registry().protocols["completion"]


def shown(episode: Episode = EPISODE) -> Shown:
    found = shown_of(COMPLETION, episode)
    assert found is not None
    return found


async def judge_once(model: ScriptedModel, ledger: Ledger, folder: Path) -> Episode:
    """Return what one judge says of the episode, by way of its log."""
    desk, log = Desk(ledger), RunFolder(folder)
    own = GraderTerms(grader="jury", version="1", jury=TERMS.jury)
    scan = log.open()
    begun = next(iter(scan.begun.values()), OpenEpisode("0000000000000001"))
    grading = begun.of(EPISODE.instance, 0)
    asker = Sender(desk, {JUDGE: model}, grading, None, log)
    work = GRADER.grade(BENCHMARK, shown(), GRADER.terms(model.spec, own), asker)
    try:
        with desk.border():
            answer = await answer_of(work, asker, "grader")
            return keep_ended(log, grading, asker, answer, JUDGE)
        raise BudgetReached("stopped")
    finally:
        log.close()


@dataclass
class Asking:
    """Asks one judge about one episode, with scripted replies."""

    folder: Path

    def __call__(
        self, *replies: str | Response, ledger: Ledger | None = None
    ) -> tuple[Episode, list[Request]]:
        left = list(replies)
        model = ScriptedModel(ModelSpec(name="j/a"), lambda _: left.pop(0))
        return asyncio.run(judge_once(model, ledger or Ledger(), self.folder)), model.requests


@pytest.fixture
def ask(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def test_what_a_model_thought_is_not_shown_to_a_judge() -> None:
    thought = Response(instance_id="i", text="<think>Perhaps croup.</think>Flu.")
    assert shown(msgspec.structs.replace(EPISODE, response=thought)).text == shown().text == "Flu."
    only = Response(instance_id="i", text="<think>Perhaps croup.")
    assert not GRADER.is_graded(shown(msgspec.structs.replace(EPISODE, response=only)))
    assert GRADER.is_graded(shown())


def test_a_jury_is_shown_the_transcript_of_a_protocol_that_has_one(tmp_path: Path) -> None:
    plugin = tmp_path / "interview.py"
    own, rubric = 'metrics=["facts_named"]', "accuracy_completeness_clarity"
    text = INTERVIEW.read_text()
    assert own in text
    plugin.write_text(text.replace(own, f'metrics=["jury"], rubric="{rubric}"'))
    shutil.copytree(INTERVIEW.parent / "samples", tmp_path / "samples")
    with serve_in_thread(lambda prompt: rated() if "clarity" in prompt else play(prompt)) as server:
        results = medhelm.evaluate(
            server.model("lab/under-test"),
            "interview",
            data="sample",
            cast={"questioner": server.model("lab/asks"), "referee": server.model("lab/referees")},
            jury=jury(server.model("lab/a"), reasons=False, quorum=1),
            controls=0,
            results_dir=tmp_path,
            plugins=str(plugin),
        )
        judged = [p for p in server.asked if "clarity" in p]
    assert results.table("benchmarks")["score"].notna().all()
    assert len(judged) == 8 and all("questioner: Question 1?" in prompt for prompt in judged)
    assert all(prompt.count("answerer: It is") == 4 for prompt in judged)


def test_a_bad_reply_is_asked_for_again_with_what_is_wrong(ask: Asking) -> None:
    grading, requests = ask(BAD, '{"accuracy": 7}', '{"accuracy": 2}')
    assert grading.state == {"scores": [2]}
    assert [c.attempt for c in grading.calls] == [0, 1, 2]
    roles = [m.role for m in requests[2].messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "not in 1 to" in requests[2].messages[-1].content


def test_after_two_repairs_the_judge_has_abstained(ask: Asking) -> None:
    grading, requests = ask(BAD, BAD, BAD, '{"accuracy": 5}')
    assert (grading.state, len(requests), end_of(grading)) == ({}, 3, "unreadable")
    assert is_answered(grading.response) and "JSON" in grading.error


@pytest.mark.parametrize(
    ("finish", "text", "end", "is_final"),
    [
        ("refusal", "", "refused", True),
        ("length", '{"accuracy": ', "truncated", True),
        ("length", "", "truncated", True),
        ("oversize", "", "oversize", False),
        ("error", "", "error", False),
    ],
)
def test_other_endings_are_kept_apart_and_what_never_came_is_tried_again(
    finish: Any, text: str, end: str, is_final: bool, ask: Asking
) -> None:
    grading, requests = ask(Response(instance_id="i", text=text, finish=finish))
    assert (grading.state, end_of(grading)) == ({}, end)
    assert (is_answered(grading.response), len(requests)) == (is_final, 1)


def test_a_repair_that_does_not_fit_the_budget_stops_and_goes_on_later(ask: Asking) -> None:
    ledger = Ledger(cap_tokens=1500)
    with pytest.raises(BudgetReached):
        ask(BAD, BAD, BAD, ledger=ledger)
    assert ledger.open == 0
    assert 0 < ledger.spent_tokens < 1500
    grading, requests = ask('{"accuracy": 3}')
    assert len(requests) == 1 and len(grading.calls) > 1, "what was paid for is given back"
    assert grading.calls[0].response.text == BAD and grading.state == {"scores": [3]}


def test_a_repair_waits_for_requests_in_flight_and_lends_them_its_place(tmp_path: Path) -> None:
    """Another request holds most of the budget, and needs the judge's only place to end."""
    replies = [BAD, "other", '{"accuracy": 3}']
    model = ScriptedModel(ModelSpec(name="j/a", max_concurrency=1), lambda _: replies.pop(0))
    ledger = Ledger(cap_tokens=2200)

    async def other() -> None:
        held = ledger.reserve(None, 100, 700)
        while len(model.requests) < 1:
            await asyncio.sleep(0)
        await model.acquire()
        await model.respond(Request(instance_id="o", messages=(), max_output_tokens=9))
        model.release()
        held.cancel()

    async def work() -> Episode:
        task = asyncio.create_task(other())
        grading = await judge_once(model, ledger, tmp_path)
        await task
        return grading

    grading = asyncio.run(asyncio.wait_for(work(), 20))
    assert grading.state == {"scores": [3]} and len(grading.calls) == 2
    assert (ledger.open, model.in_flight) == (0, 0)


# A run -------------------------------------------------------------------------------------


def test_three_judges_make_the_score_and_their_usage_is_recorded(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="j/c .*valid verdict .*12 of 12"):
        record = run(tmp_path, jury(judge("j/a"), judge("j/b", rated(1)), judge("j/c", BAD)))
    assert (value(record), value(record, "jury[j/a]"), value(record, "jury[j/c]")) == (2.5, 4, None)
    assert value(record, "jury.accuracy") == 3.0
    a, b, c = record.graders
    assert (a.ends, c.ends) == ({"scored": 12}, {"unreadable": 12})
    assert (a.usage.requests, c.usage.requests) == (12, 36)
    assert a.usage.output_limit_tokens == 12 * 1024
    assert record.provenance["not_judged"] == "0"


def test_nothing_is_asked_twice_and_a_new_judge_alone_is_asked(tmp_path: Path) -> None:
    run(tmp_path, jury(judge("j/a"), judge("j/b")))
    before = logs(tmp_path)
    run(tmp_path, jury(judge("j/a"), judge("j/b")))
    run(tmp_path, jury(judge("j/a"), judge("j/b"), quorum=1))
    assert logs(tmp_path) == before
    run(tmp_path, jury(judge("j/a"), judge("j/new")))
    after = logs(tmp_path)
    assert {n: len(log) for n, log in after.items()} == {"j/a": 12, "j/b": 12, "j/new": 12}
    assert after["j/a"] == before["j/a"]
    assert not any(call.messages for e in after["j/a"] for call in e.calls), "its hash is kept"
    log = next(tmp_path.glob("runs/*/*/*/responses.jsonl"))
    assert len(log.read_text().splitlines()) == 12  # the model itself was asked once


def test_a_slow_judge_holds_few_answers_and_a_dead_one_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judges, "_BATCH", 1)
    monkeypatch.setattr(judges, "_AHEAD", 1)

    def reply(request: Request) -> str:
        raise ModelError("gone")

    opened = models.ModelPool.open

    def other(pool: models.ModelPool, spec: ModelSpec) -> Any:
        return ScriptedModel(spec, reply) if spec.name == "j/dead" else opened(pool, spec)

    monkeypatch.setattr(models.ModelPool, "open", other)
    slow = judge("j/slow", delay_s=0.02)
    with pytest.warns(UserWarning, match="j/dead is missing .*12 of 12"):
        run(tmp_path, jury(judge("j/a"), slow, judge("j/dead")))
    done = {p.parent.name: len(list(read_log(p.parent))) for p in grade_logs(tmp_path)}
    assert sorted(done.values()) == [0, 12, 12]


def test_a_sweep_that_stops_before_the_first_judge_has_begun_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_out = judges._share_out

    def stopping(active: Any, asked: Any) -> Any:
        active.sweep.desk.stop(BudgetReached("no more"))
        return shared_out(active, asked)

    monkeypatch.setattr(judges, "_share_out", stopping)

    def work() -> None:
        with pytest.raises(BudgetReached, match="no more"):
            run(tmp_path, jury(judge("j/a"), judge("j/b")))
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert done


def test_torn_and_damaged_lines_alone_are_asked_again(tmp_path: Path) -> None:
    who = jury(judge("j/a"), judge("j/b"))
    first = run(tmp_path, who)
    path = grade_logs(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(n for n in range(6, 36) if b'"scores":[5' in lines[n])
    lines[place] = lines[place].replace(b'"scores":[5', b'"scores":[1')  # against its checksum
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    (grading,) = records.find_gradings(tmp_path)
    (grading / "summary.json").unlink()
    again = run(tmp_path, who)
    assert len(list(read_log(path.parent))) == 12
    assert path.with_name("quarantine.jsonl").read_bytes() == lines[place], "paid for, so kept"
    assert [p.usage.requests for p in again.graders] == [12, 12], "the calls are there"
    assert value(again) == value(first) == 4.0


def test_judges_that_cannot_be_reached_leave_instances_unscored_and_are_asked_again(
    tmp_path: Path,
) -> None:
    ids = [f"e{i}" for i in range(12)]
    down = judge("j/b", finish=dict.fromkeys(ids, "error"))
    missing = "j/b is missing on 12 of 12 answers: requests failed, 12 scripted; .* not met without"
    with pytest.warns(UserWarning, match=missing):
        record = run(tmp_path, jury(judge("j/a"), down))
    assert value(record) is None
    assert record.results[0].outcomes == {"unscored": 12}
    assert record.provenance["not_judged"] == "12" and record.state == "partial"
    assert len(logs(tmp_path)["j/b"]) == 12
    with pytest.warns(UserWarning, match=missing):
        run(tmp_path, jury(judge("j/a"), down))
    assert {n: len(log) for n, log in logs(tmp_path).items()} == {"j/a": 12, "j/b": 24}


def test_a_judge_without_a_server_stops_no_other_and_the_answers_are_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    gone = unreachable("j/gone", max_attempts=1, max_concurrency=1)
    with pytest.warns(UserWarning, match="j/gone is missing .*12 of 12.*server"):
        run(tmp_path, jury(judge("j/a"), judge("j/b"), gone))
    (grading,) = records.find_gradings(tmp_path)
    record = records.read_record(grading)
    assert (value(record), record.state) == (4.0, "complete")
    missing = record.graders[2].ends
    assert set(missing) <= {"error", "not asked"} and sum(missing.values()) == 12
    assert value(record, "rouge_l") is not None
    assert {n: len(log) for n, log in logs(tmp_path).items() if n != "j/gone"} == {
        "j/a": 12,
        "j/b": 12,
    }


def test_a_jury_that_is_asked_for_again_is_the_one_that_tables_show(tmp_path: Path) -> None:
    real = jury(judge("j/a"), judge("j/b"))
    for who in (real, "offline", real):
        run(tmp_path, who)
    found = records.stored_jury(next(tmp_path.glob("runs/*/*/*")))
    assert found is not None and found.name == "test"
    assert all(len(log) == 12 for log in logs(tmp_path).values())


def test_a_grading_without_a_model_uses_the_stored_judgements(tmp_path: Path) -> None:
    first = run(tmp_path, jury(judge("j/a"), judge("j/b")))
    before = logs(tmp_path)
    argv = ["score", "--results-dir", str(tmp_path), "--plugin", str(PLUGIN)]
    assert run_command([*argv, "--metric", "rouge_1"]) == 0
    gradings = [records.read_record(g) for g in records.find_gradings(tmp_path)]
    assert len(gradings) == 2
    assert {value(g) for g in gradings} == {value(first)} == {4.0}
    assert logs(tmp_path) == before


def test_what_judges_used_is_told_of_the_answers_that_are_graded(tmp_path: Path) -> None:
    who = jury(judge("j/a"), judge("j/b"))
    whole, few = run(tmp_path, who), run(tmp_path, who, max_instances=3)
    assert [j.usage.requests for j in whole.graders] == [12, 12]
    assert [j.usage.requests for j in few.graders] == [3, 3]
    assert [j.ends for j in few.graders] == [{"scored": 3}] * 2


def test_judgements_of_another_rubric_are_not_taken_for_none(tmp_path: Path, shell: Shell) -> None:
    run(tmp_path, jury(judge("j/a"), judge("j/b")))
    for number, folder in enumerate(tmp_path.glob("runs/*/*/*/judges/*")):
        folder.rename(folder.with_name(f"{number:016d}"))  # as if rubric or prompt had changed
    shell("score", "--results-dir", str(tmp_path), "--plugin", str(PLUGIN), code=4)
    assert "rubric and prompt" in shell.err
    assert len(records.find_gradings(tmp_path)) == 1


def test_samples_and_a_machine_without_keys_get_the_offline_jury(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "one-key-of-three")
    record = run(tmp_path, None)
    assert record.grading.jury is not None and record.grading.jury.jury.name == "offline"
    assert value(record, "jury[offline/rouge_l]") is not None
    assert record.graders == ()


@pytest.mark.parametrize("given", ["OPENAI_API_KEY", "GEMINI_API_KEY", ""])
def test_with_some_keys_of_the_default_jury_the_others_are_named(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"]
    for name in names:
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(given, "4711")
    file = tmp_path / "essay" / "essay.jsonl"
    file.parent.mkdir()
    file.write_text('{"id": "a", "question": "Why?", "gold": "Flu."}\n')

    where: dict[str, Any] = {"data_dir": tmp_path, "results_dir": tmp_path / "r", "plugins": PLUGIN}
    ask = partial(medhelm.evaluate, "baseline/lead", "essay", **where)
    ask(jury="offline")  # warnings are errors
    if not given:
        ask()
        return
    with pytest.warns(UserWarning, match="offline jury, a stand-in") as caught:
        ask()
    said = str(caught[0].message)
    assert [n for n in names if n in said] == [n for n in names if n != given]
    assert "4711" not in said


# Refusals ----------------------------------------------------------------------------------


J_A = judge("j/a")
CANNOT: dict[str, tuple[JurySpec | str, type[Exception]]] = {
    "j/a is there twice": (jury(J_A, J_A), UsageError),
    "j/a and j/b are the same model": (
        jury(J_A, msgspec.structs.replace(J_A, name="j/b")),
        UsageError,
    ),
    "a quorum of 2 with 1 judge": (jury(J_A), UsageError),
    "j/b has a system prompt": (
        jury(J_A, msgspec.structs.replace(judge("j/b"), system_prompt="Be kind.")),
        UsageError,
    ),
    "baseline/oracle is a rule": (
        jury(J_A, ModelSpec(name="baseline/oracle", provider="baseline")),
        UsageError,
    ),
    "OPENAI_API_KEY": ("paper", ModelError),
    "did you mean 'medhelm_2026_11'": ("medhelm", MedhelmError),
    "is gated and judge 'j/b' of jury=test is external": (
        jury(J_A, ModelSpec(name="j/b", provider="scripted")),
        PrivacyRefused,
    ),
}


@pytest.mark.parametrize("says", CANNOT)
def test_what_cannot_be_is_refused_before_any_request(
    says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    who, error = CANNOT[says]
    with pytest.raises(error, match=says) as caught:
        run(tmp_path, who)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_usd_cap_needs_the_price_of_every_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with pytest.raises(UsageError, match="house/judge"):
        run(tmp_path, jury(judge("j/a"), unreachable("house/judge")), budget_usd=1.0)


# The command line --------------------------------------------------------------------------


ESSAY = ("model=baseline/lead", "benchmark=essay", "data=sample", "controls=0")


def test_a_killed_run_goes_on_and_asks_no_judge_twice(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (conf / "jury").mkdir(parents=True)
    judges = [
        msgspec.structs.replace(judge(f"j/{n}", delay_s=0.15), max_concurrency=1) for n in "ab"
    ]
    (conf / "jury" / "slow.yaml").write_bytes(
        msgspec.json.encode({"name": "slow", "judges": judges})
    )
    where = (f"plugins=[{PLUGIN}]", f"results_dir={tmp_path / 'results'}", "--config-dir", conf)
    argv = ("run", *ESSAY, "jury=slow", *where)
    start(*argv).kill(once=lambda: len(logs_if_any(tmp_path / "results")) >= 6)
    before = logs_if_any(tmp_path / "results")
    assert 6 <= len(before) < 24
    run_here(*argv)
    after = logs_if_any(tmp_path / "results")
    assert len(after) == 24 and before < after


def logs_if_any(results: Path) -> set[bytes]:
    """Return the whole lines of all grade logs."""
    return {
        line
        for path in grade_logs(results)
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n") and b'"response":{"instance_id"' in line and b'"call"' not in line
    }
