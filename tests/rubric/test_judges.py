"""Judges of criteria at work: going on after a kill, several of them, one that is down, privacy, cost."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.errors import PrivacyRefused, UnknownName, UsageError
from medhelm.schema.run import JurySpec
from medhelm.store.records import find_gradings, read_record
from tests.processes import Started, asked
from tests.quiz import at
from tests.rubric.test_grader import PLUGIN, decision, judge, run, values
from tests.server import Faults, Reply, serve_in_thread

pytestmark = pytest.mark.slow

CASES, CRITERIA = 100, 30


def write_cases(folder: Path) -> None:
    path = folder / "data" / "checklist" / "checklist.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as lines:
        for i in range(CASES):
            texts = [{"text": f"Names point {n} of case {i}."} for n in range(CRITERIA)]
            row = {"id": f"k{i}", "question": f"Case {i}?", "threshold": "10/30", "criteria": texts}
            lines.write(json.dumps(row) + "\n")


def by_number(prompt: str) -> str:
    """Meet the first points of each case, as many as its number modulo 31."""
    found = re.findall(r"Names point (\d+) of case (\d+)\.", prompt)
    point, case = (int(n) for n in found[-1])
    return json.dumps({"explanation": "So.", "criteria_met": point < case % 31})


def settled(answered: Mapping[str, int]) -> int:
    """Return the answers of a server once it has answered what was in flight at a kill."""
    last, now = -1, sum(answered.values())
    while now != last:
        time.sleep(1.0)
        last, now = now, sum(answered.values())
    return now


def test_a_kill_in_the_middle_of_3000_calls_asks_nothing_twice(tmp_path: Path) -> None:
    write_cases(tmp_path)
    results = tmp_path / "results"
    with serve_in_thread(by_number) as server:
        jury = JurySpec(name="t", judges=(judge(server),), quorum=1)
        own = at(tmp_path, plugins=PLUGIN, jury=jury, controls=0)
        run_all = partial(medhelm.evaluate, "baseline/lead", "checklist", **own)
        Started(run_all).kill(once=asked(server, 1000))
        logs = list(results.glob("runs/*/*/*/graders/*/responses.jsonl"))
        held = logs[0].read_bytes().count(b'"call":')
        before = settled(server.answered)
        assert 500 <= held <= before < 3000
        run_all()
        answered = sum(server.answered.values())
    assert answered - before == 3000 - held  # what was in flight at the kill, and no other
    (grading,) = find_gradings(results)
    hits = [i % 31 for i in range(CASES)]
    found = values(read_record(grading))
    assert found["hits"] == pytest.approx(sum(hits) / CASES)
    assert found["coverage"] == pytest.approx(sum(100 * max(0, s - 9) / 21 for s in hits) / CASES)
    (totals,) = read_record(grading).graders
    assert totals.ends == {"scored": CASES} and totals.usage.requests == 3000


def never(prompt: str) -> str:
    return '{"explanation": "No.", "criteria_met": false}'


def test_most_judges_decide_and_one_that_is_silent_abstains(tmp_path: Path) -> None:
    silent = (
        r"j/three has no valid verdict on 3 of 3 answers \(3 unreadable\); its replies are in "
        r"\S+/responses.jsonl; the quorum is "
    )
    with serve_in_thread(decision) as a, serve_in_thread(never) as b, serve_in_thread("Yes.") as c:
        with pytest.warns(UserWarning, match=f"{silent}met"):
            three = run(tmp_path / "3", judge(a), judge(b, "j/two"), judge(c, "j/three"), quorum=2)
        with pytest.warns(UserWarning, match=f"{silent}not met"):
            two = run(tmp_path / "2", judge(a), judge(c, "j/three"), quorum=2)
    # one says yes, one no, one nothing that can be read: a tie of two, which is not met
    assert (values(three)["hits"], values(three)["invalid"]) == (0.0, 0.0)
    # one valid verdict of two that are needed, on every criterion: nothing is decided, and counted
    assert (values(two)["hits"], values(two)["invalid"]) == (None, 1.0)
    assert [t.ends for t in three.graders] == [{"scored": 3}] * 2 + [{"unreadable": 3}]
    assert [t.usage.requests for t in three.graders] == [12, 12, 36], "with two repairs each"


def always(prompt: str) -> str:
    return '{"explanation": "Yes.", "criteria_met": true}'


def test_marks_with_and_without_a_judge_of_the_models_family(tmp_path: Path) -> None:
    with serve_in_thread(never) as a, serve_in_thread(always) as b:
        run(tmp_path, judge(a), judge(b, "j/kin", family="lead"), quorum=2)
    found = medhelm.load_results(tmp_path)
    (main,) = found.typed("benchmarks").rows
    assert (main["score"], main["flags"]) == (0.0, "family")  # every criterion is a tie
    rows = {row["level"]: row for row in found.typed("jury").rows if row["judge"] != "j/one"}
    assert (rows["model"]["score"], rows["model"]["score_without_own"]) == (50.0, 0.0)
    assert (rows["model"]["own"], rows["judge"]["score"]) == ("j/kin", 100.0)
    assert rows["agreement"]["n_complete"] == 3 and rows["left out"]["is_own"]


def test_a_judge_that_is_down_leaves_cases_unscored_and_is_asked_later(tmp_path: Path) -> None:
    with (
        serve_in_thread(decision, Faults(rate=1.0, kinds=("500",))) as server,
        pytest.warns(UserWarning, match="12 http 500 .*Error"),
    ):
        down = run(tmp_path, judge(server, max_attempts=1))
    assert (down.state, values(down)["hits"]) == ("partial", None)
    (outcomes,) = [r.outcomes for r in down.results if r.metric == "rubric_coverage"]
    assert outcomes == {"unscored": 3}
    with serve_in_thread(decision) as server:
        spec = judge(server, max_attempts=1)
        up = run(tmp_path / "other", spec)
    assert (up.state, values(up)["hits"]) == ("complete", 2.0)


def test_a_prompt_that_a_judges_server_cuts_is_one_abstention(tmp_path: Path) -> None:
    def cut(prompt: str) -> Reply:
        is_long = "Much more." in prompt
        usage = {"prompt_tokens": 200, "completion_tokens": 9} if is_long else None
        return Reply(decision(prompt), usage=usage)

    path = tmp_path / "data" / "checklist" / "checklist.jsonl"
    path.parent.mkdir(parents=True)
    criteria = [{"text": "Names the dose."}]
    rows = [
        {"id": f"k{n}", "question": f"Case {n}? {'Much more. ' * 900 * (n == 1)}"} for n in range(3)
    ]
    path.write_text("\n".join(json.dumps(row | {"criteria": criteria}) for row in rows))
    with serve_in_thread(cut) as server:
        more: dict[str, Any] = {"data": "full", "data_dir": tmp_path / "data"}
        said = (
            r"j/one has no verdict on 1 of 3 answers \(oversize\): 1 do not fit its window, which"
        )
        for asked in (3, 3):  # it is not asked again
            with pytest.warns(UserWarning, match=said if server.requests == 0 else "oversize"):
                record = run(tmp_path / "out", judge(server), **more)
            assert server.requests == asked
    assert record.state == "complete" and [t.ends for t in record.graders] == [
        {"oversize": 1, "scored": 2}
    ]
    assert values(record)["hits"] is not None and record.results[0].outcomes["unscored"] == 1


def test_all_criteria_in_one_call_are_another_grader(tmp_path: Path) -> None:
    def all_met(prompt: str) -> str:
        ids = re.findall(r'"id": "(c\d+)"', prompt)
        said = [{"id": i, "explanation": "x", "criteria_met": True} for i in ids]
        return json.dumps({"verdicts": said})

    with serve_in_thread(all_met) as server:
        record = run(tmp_path, judge(server), grader={"mode": "batched"})
        assert server.requests == 3
    assert values(record)["hits"] == 4.0
    assert record.grading.graders[0].settings == {"mode": "batched"}
    before = read_record(find_gradings(tmp_path)[0])
    medhelm.score(tmp_path, plugins=PLUGIN)
    assert [values(read_record(g)) for g in find_gradings(tmp_path)] == [values(before)]


def test_settings_and_data_are_checked_before_the_first_request(tmp_path: Path) -> None:
    with serve_in_thread(decision) as server:
        with pytest.raises(UnknownName, match="did you mean 'batched'"):
            run(tmp_path, judge(server), grader={"mode": "bached"})
        with pytest.raises(UnknownName, match="grader setting"):
            run(tmp_path, judge(server), grader={"modes": "strict"})
        with pytest.raises(UsageError, match="not of the type"):
            run(tmp_path, judge(server), grader={"mode": 1})
        with pytest.raises(PrivacyRefused, match="judge 'j/one'"):
            jury = JurySpec(name="t", judges=(judge(server),), quorum=1)
            own: dict[str, Any] = {"data": "sample", "results_dir": tmp_path, "controls": 0}
            medhelm.evaluate("baseline/lead", "clinconsensus_own", jury=jury, **own)
        assert server.requests == 0
