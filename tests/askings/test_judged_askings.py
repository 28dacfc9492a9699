"""Verdicts on answers that were asked for in a form: judges were given the answer, and are found by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.plugins.registry import load_registry
from medhelm.runs.regrading import stored_run
from medhelm.schema.run import JurySpec
from medhelm.store.records import find_runs, read_plan
from medhelm.tables.clinicians.rated_answers import answer_sheet
from medhelm.tables.clinicians.sheet import Sample
from medhelm.tables.clinicians.stored_decisions import criteria_sheet, read_stored
from medhelm.tables.study.selection import RunChoice
from tests.clinicians.test_stored_decisions import PLUGIN
from tests.leaderboard.casting import build
from tests.server import serve_in_thread
from tests.shell import Shell


def says(prompt: str) -> str:
    if "<criteria " in prompt:
        verdict = {"id": "c0", "explanation": "x", "criteria_met": True}
        return json.dumps({"verdicts": [verdict]})
    if "<criterion " in prompt:
        return json.dumps({"explanation": "x", "criteria_met": True})
    return "I weigh it.\n\nAnswer: rest and fluids"


@pytest.mark.slow
def test_verdicts_are_found_wherever_they_are_read(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "samples").mkdir()
    rows = [
        {"i": f"w{n}", "c": "It is late.", "q": f"Day {n}?", "g": "Rest.", "t": ["rest is named"]}
        for n in range(3)
    ]
    for name in ("ward", "notes"):
        (tmp_path / "samples" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plugin, results = tmp_path / "ward.py", tmp_path / "results"
    plugin.write_text(PLUGIN)
    with serve_in_thread(says) as server:
        model, judge = (server.model(n, endpoint_class="local") for n in ("openai/m", "j/one"))
        jury = JurySpec(name="test", judges=(judge,), quorum=1, repairs=0)
        more: dict[str, Any] = {"data": "sample", "plugins": plugin, "results_dir": results}
        more |= {"form": "line", "jury": jury}
        medhelm.evaluate(model, "ward", **more, grader={"mode": "batched"})
        medhelm.evaluate(model, "ward", **more)
        (planned,) = medhelm.estimate(model, "ward", **more)
    assert [judge.calls for judge in planned.judges] == [0]
    choice = RunChoice(results_dir=results)
    (path,) = find_runs(results)
    run = stored_run(path, read_plan(path), load_registry([plugin]), "fixed", root=tmp_path)
    assert run.benchmark.asked is not None, "judges are asked once more about the task as it was"
    assert read_stored(choice, "ward").unjudged == 0
    sheet = criteria_sheet(choice, "ward", Sample())
    answers = [dict(unit.parts)["Answer"] for unit in sheet.units]
    assert answers == ["rest and fluids"] * 3
    asked = ["fidelity", "--stored", "ward", "--table", "modes", "--format", "json"]
    (every, _) = json.loads(shell(*asked, "--results-dir", str(results)))["rows"]
    assert (every["answers"], every["unpaired"]) == (3, 0)
    found = medhelm.load_results(results, plugins=[plugin]).instances("ward")
    assert [own[0]["ended"] for own in found["judges"]] == ["scored"] * 3
    assert found["reply"].str.startswith("I weigh it.").all()
    build(results, tmp_path / "site")
    said = b"".join(p.read_bytes() for p in (tmp_path / "site" / "data").glob("answers-*.js"))
    assert b"I weigh it." in said and b"not asked" not in said


def test_answers_in_parts_of_a_metric_are_read_wherever_verdicts_are(tmp_path: Path) -> None:
    """The main metric writes the text that judges are given, and by which their verdicts are found."""
    own = PLUGIN.replace('"rubric_accuracy"', '"medec_flag_accuracy", *more').replace(
        "name=name,", 'name=name, rubric="visit_note",'
    )
    own = own.replace("for name, kind in", "for name, kind, more in").replace(
        '"public"), ("notes", "private")',
        '"public", ["rubric_accuracy"]), ("notes", "public", ["jury"])',
    )
    plugin, results = tmp_path / "ward.py", tmp_path / "results"
    plugin.write_text(own.replace('t"])),', 't"])), answer_key={"error_flag": "0"},'))
    (tmp_path / "samples").mkdir()
    for name, criteria in (("ward", ["rest is named"]), ("notes", [])):
        rows = [
            {"i": f"w{n}", "c": "It is late.", "q": f"Day {n}?", "g": "Rest.", "t": criteria}
            for n in range(3)
        ]
        (tmp_path / "samples" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def in_parts(prompt: str) -> str:
        if "<criteria " in prompt or "<criterion " in prompt:
            return says(prompt)
        if "<answer " in prompt:
            return json.dumps(dict.fromkeys(("accuracy", "completeness", "clarity"), {"score": 5}))
        parts = {"is_correct": False, "sentence": 4, "correction": "Rest and fluids."}
        return json.dumps({"answer": parts})

    with serve_in_thread(in_parts) as server:
        model, judge = (server.model(n, endpoint_class="local") for n in ("openai/m", "j/one"))
        jury = JurySpec(name="test", judges=(judge,), quorum=1, repairs=0)
        more: dict[str, Any] = {"data": "sample", "plugins": plugin, "results_dir": results}
        for name in ("ward", "notes"):
            medhelm.evaluate(model, name, **more, form="schema", jury=jury)
    choice = RunChoice(results_dir=results)
    stored = read_stored(choice, "ward")
    assert (stored.unjudged, len(stored.judges[0].rows)) == (0, 3)
    for sheet in (criteria_sheet(choice, "ward", Sample()), answer_sheet(choice, Sample())):
        assert [dict(unit.parts)["Answer"] for unit in sheet.units] == ["4 Rest and fluids."] * 3
