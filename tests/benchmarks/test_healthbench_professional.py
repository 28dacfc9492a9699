"""HealthBench Professional on rows of the published layout: its turns, its slices, its length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import medhelm
from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.prompts.messages import render_prompt

from .conftest import load

ROW: dict[str, Any] = {
    "id": "h1",
    "conversation": {"messages": [{"role": "user", "content": "Which dose?"}]},
    "rubric_items": [
        {"criterion_text": "Gives a dose", "points": 6},
        {"criterion_text": "Gives ten times the dose", "points": -9},
    ],
    "use_case": "consult",
    "type": "red_teaming",
    "difficulty": "hard",
    "specialty": "cardiology",
    "physician_response": "kept apart",
}


def test_a_row_becomes_turns_criteria_and_slices() -> None:
    benchmark = load("healthbench_professional")
    one = benchmark.to_instance(ROW)
    assert one is not None
    assert [(m.role, m.content) for m in render_prompt(benchmark, one)] == [("user", "Which dose?")]
    assert [c.points for c in one.criteria] == [6.0, -9.0]
    assert one.metadata == {
        name: ROW[name] for name in ("use_case", "type", "difficulty", "specialty")
    }
    assert "kept apart" not in str(one)
    with pytest.raises(DataError, match="rubric_items"):
        benchmark.to_instance(ROW | {"rubric_items": "none"})


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "healthbench_professional" / "healthbench_professional_eval.jsonl"
    path.parent.mkdir()
    path.write_text("{}\n")
    with pytest.raises(DataError, match="healthbench_professional"):
        open_dataset(load("healthbench_professional"), "full", root=tmp_path)


def test_the_samples_are_graded_by_the_stand_in(tmp_path: Path) -> None:
    results = medhelm.evaluate(
        "baseline/lead", "healthbench_professional", data="sample", results_dir=tmp_path
    )
    rows = {r["metric"]: r for r in results.typed("benchmarks", metrics="all").rows}
    assert {"rubric_score", "rubric_score_by_length", "answer_characters"} <= set(rows)
    assert {r["value"] for r in results.typed("slices", by="use_case").rows} == {
        "consult",
        "research",
        "writing",
    }
