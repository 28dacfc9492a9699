"""Answers that were lost in tries that were answered later are counted: they may have been billed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm import ModelSpec, evaluate, load_results
from medhelm.schema.run import JurySpec
from medhelm.store import records
from tests.protocols.interview import PLUGIN, play
from tests.rubric.test_grader import PLUGIN as CHECKLIST
from tests.rubric.test_grader import decision
from tests.server import Faults, FaultServer, Reply, serve_in_thread

pytestmark = pytest.mark.slow


UNREADABLE = Reply(body=b'{"choices": [{"mess')


def model(server: FaultServer, name: str) -> ModelSpec:
    return server.model(f"lab/{name}", max_attempts=1)


def spent(folder: Path) -> dict[str, Any]:
    """Return the row of the cost table for the one model."""
    rows = load_results(folder).typed("cost").rows
    (row,) = [row for row in rows if row["level"] == "model"]
    return dict(row)


def test_of_a_completion_every_lost_answer_counts_and_is_none_twice(tmp_path: Path) -> None:
    faults = Faults(rate=1.0, kinds=("invalid_json",))
    with serve_in_thread(lambda prompt: "yes", faults) as server:
        for lost in (3, 6, 6):
            if server.requests == 6:
                server.faults = Faults()
            own: dict[str, Any] = {"data": "sample", "results_dir": tmp_path, "max_instances": 3}
            evaluate(model(server, "m"), "medec", **own)
            assert spent(tmp_path)["requests_lost"] == lost
        assert server.requests == 9
    assert spent(tmp_path)["requests"] == 3


def test_of_several_roles_each_counts_its_own(tmp_path: Path) -> None:
    broken = {"[referee]", "[answerer]"}

    def some(prompt: str) -> str | Reply:
        return UNREADABLE if any(prompt.startswith(role) for role in broken) else play(prompt)

    with serve_in_thread(some) as server:
        # first the answerer fails in 8 interviews, then the referee, then nobody
        for role in ("[answerer]", "[referee]", ""):
            cast = {role: model(server, role) for role in ("questioner", "referee")}
            own: dict[str, Any] = {"data": "sample", "results_dir": tmp_path, "plugins": PLUGIN}
            evaluate(model(server, "m"), "interview", cast=cast, **own)
            broken.discard(role)
        assert server.requests == 8 * (4 * 3 + 2)
    (grading,) = records.find_gradings(tmp_path)
    used = {party.role: party.usage for party in records.read_record(grading).parties}
    assert {role: (own.requests, own.lost) for role, own in used.items()} == {
        "model": (8 * 4, 8),
        "questioner": (8 * 4, 0),
        "referee": (8 * 4, 8),
    }


def test_of_a_graders_judge_too_and_its_answered_calls_count_once(tmp_path: Path) -> None:
    broken = {"temperature"}

    def judge(prompt: str) -> str | Reply:
        criterion = prompt.rpartition("<criterion ")[2]
        return UNREADABLE if any(word in criterion for word in broken) else decision(prompt)

    def run(results: Path) -> dict[str, Any]:
        jury = JurySpec(name="t", judges=(model(server, "j"),), quorum=1)
        given: dict[str, Any] = {"plugins": str(CHECKLIST), "results_dir": results, "jury": jury}
        evaluate("baseline/lead", "checklist", data="sample", controls=0, **given)
        row = spent(results)
        return {name: row[f"jury_{name}"] for name in ("requests", "requests_lost", "input_tokens")}

    with serve_in_thread(judge) as server:
        with pytest.warns(UserWarning, match="lab/j is missing .*3 of 3"):
            first = run(tmp_path / "faulty")
        assert server.requests == 12 == first["requests"] + first["requests_lost"]
        assert first["requests_lost"] == 3
        broken.clear()
        second = run(tmp_path / "faulty")
        assert server.requests == 12 + 3
        clean = run(tmp_path / "clean")
    assert clean["requests"] == 12
    assert second == clean | {"requests_lost": 3}
