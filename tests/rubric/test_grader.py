"""The rubric's grader in a run: calls, repairs, several judges, and going on after a kill."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import medhelm
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import JurySpec, RunRecord
from medhelm.store.runlog import read_keyed
from tests.server import FaultServer, serve_in_thread
from tests.stored import newest_record

PLUGIN = Path(__file__).parent.parent / "plugins" / "checklist.py"
PRICE = Price(input=1.0, output=2.0, cached=0.1, date="2026-11-01")


def decision(prompt: str) -> str:
    """Say yes to every criterion but those that name a temperature or aspirin."""
    criterion = re.findall(r"<criterion \w+>\n(.*?)\n</criterion", prompt, re.DOTALL)[-1]
    is_met = "temperature" not in criterion and "aspirin" not in criterion
    return json.dumps({"explanation": "It is in the text.", "criteria_met": is_met})


def judge(server: FaultServer, name: str = "j/one", **more: Any) -> ModelSpec:
    return server.model(name, model=name, price=PRICE, **more)


def run(folder: Path, *judges: ModelSpec, quorum: int = 1, **more: Any) -> RunRecord:
    medhelm.evaluate(
        "baseline/lead",
        "checklist",
        plugins=PLUGIN,
        results_dir=folder,
        jury=JurySpec(name="test", judges=judges, quorum=quorum) if judges else "offline",
        **{"data": "sample", "controls": 0, **more},
    )
    return newest_record(folder)


def values(record: RunRecord) -> dict[str, float | None]:
    return {r.metric.removeprefix("rubric_"): r.value for r in record.results}


def test_each_criterion_is_one_call_and_the_scores_are_by_hand(tmp_path: Path) -> None:
    with serve_in_thread(decision) as server:
        record = run(tmp_path, judge(server))
        assert server.requests == 12
        prompts = list(server.asked)
        again = run(tmp_path, judge(server))
        assert server.requests == 12
    # 2 of 4 met with a threshold of 2 of 4: credit 1 of 3; points 3 of 4; the critical one is unmet
    assert values(record) == {
        "coverage": 100 / 3,
        "accuracy": 0.5,
        "pass_at_k": 1.0,
        "hits": 2.0,
        "invalid": 0.0,
        "score": 0.75,
        "critical_failure": 1.0,
    }
    assert again == record
    (totals,) = record.graders
    assert (totals.ends, totals.usage.requests) == ({"scored": 3}, 12)
    cases = Counter(p.partition("<criterion ")[0] for p in prompts)
    assert sorted(cases.values()) == [4, 4, 4]
    (log,) = tmp_path.glob("runs/*/*/*/graders/*")
    gradings = dict(read_keyed(log))
    assert [g.state["met"] for g in gradings.values()] == [[False, True, True, False]] * 3
    assert all("It is in the text." in g.calls[0].response.text for g in gradings.values())
