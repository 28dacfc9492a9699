"""Stored encounters are scored again by others and by another rubric; nobody plays them again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.schema.run import JurySpec, RunRecord
from medhelm.store import records
from tests.benchmarks.encounters.players import reply
from tests.benchmarks.encounters.test_runs import model, run
from tests.server import FaultServer, serve_in_thread

STRICT = "strict"


def newest(folder: Path) -> RunRecord:
    gradings = sorted(records.find_gradings(folder), key=lambda path: path.stat().st_mtime_ns)
    return records.read_record(gradings[-1])


def completion(record: RunRecord) -> float | None:
    (found,) = [r.value for r in record.results if r.metric == "encounter_completion"]
    return found


def rubric(path: Path, *items: str) -> str:
    lines = [
        {"case_id": f"art{n // 2}", "scenario": f"scenario{n % 2}", "PC": items} for n in range(4)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def test_by_another_evaluator_a_jury_and_another_rubric(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    def played(body: Mapping[str, Any]) -> str:
        asked[body["model"]] += 1
        said = reply(body)
        return said.replace('"met": true', '"met": false') if body["model"] == STRICT else said

    def jury(server: FaultServer, *names: str) -> JurySpec:
        judges = tuple(model(server, name) for name in names)
        return JurySpec(name="-".join(names), quorum=1, judges=judges)

    def again(server: FaultServer, *names: str, **more: Any) -> tuple[float | None, dict[str, int]]:
        asked.clear()
        run(server, tmp_path / "r", jury=jury(server, *names), **more)
        return completion(newest(tmp_path / "r")), dict(asked)

    with serve_in_thread(by_body=played) as server:
        assert again(server, "one")[0] == 0.75  # as in test_runs
        assert again(server, STRICT) == (0.0, {STRICT: 4})
        # of three, the two that say yes; `one` and `strict` are in the log
        assert again(server, "one", "two", STRICT) == (0.75, {"two": 4})
        assert again(server, "one", STRICT) == (0.0, {})  # half is not enough
        file = rubric(tmp_path / "second.jsonl", "Asks how long she has been ill", "Shows respect")
        second = {"grader": {"rubric": file}}
        assert again(server, "one", **second) == (0.5, {"one": 4})
        rubric(tmp_path / "second.jsonl", "Asks how long she has been ill", "Gives an infusion")
        assert again(server, "one", **second) == (1.0, {"one": 4})  # the file was changed
