"""HealthBench: turns are sent as they are, and points below zero are taken off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import medhelm
from medhelm.grading.jury.choice import choose_jury
from medhelm.grading.rubric.prompt import shared_messages
from medhelm.models.catalogue import load_models
from medhelm.prompts.messages import render_prompt
from medhelm.schema.data import Benchmark, Instance

from .conftest import load

ROW: dict[str, Any] = {
    "prompt_id": "p1",
    "prompt": [
        {"role": "user", "content": "My ear hurts."},
        {"role": "assistant", "content": "Since when?"},
        {"role": "user", "content": "Since Monday."},
    ],
    "rubrics": [{"criterion": "Asks about fever.", "points": 5, "tags": ["axis:completeness"]}],
    "example_tags": ["theme:context_seeking"],
    "ideal_completions_data": {"ideal_completion": "Do you have a fever?"},
    "canary": "never shown",
}


def test_the_conversation_is_sent_and_nothing_else() -> None:
    benchmark = load("healthbench")
    instance = benchmark.to_instance(ROW)
    assert instance is not None
    sent = [(m.role, m.content) for m in render_prompt(benchmark, instance)]
    assert sent == [(t["role"], t["content"]) for t in ROW["prompt"]]
    assert instance.metadata == {"theme": "context_seeking"} and not instance.references


def test_a_judge_goes_by_the_words_of_the_criterion_alone() -> None:
    benchmark = load("healthbench")
    instance = benchmark.to_instance(ROW)
    assert instance is not None

    def rules(own: Benchmark) -> str:
        return shared_messages(own, instance, "An answer.")[0].content

    assert "words of the criterion alone" in rules(benchmark)
    for of_others in ("present medical knowledge", "inferred"):
        assert of_others not in rules(benchmark)
        assert of_others in rules(replace(benchmark, criteria_rules=None))
        assert of_others not in rules(load("healthbench_professional"))


def test_the_real_part(real_instances: Callable[..., list[Instance]]) -> None:
    found = real_instances("healthbench", "part_245")
    assert (len(found), sum(len(i.criteria) for i in found)) == (245, 1873)
    assert {"theme"} <= {name for i in found for name in i.metadata}
    assert not any("canary" in str(i).lower() for i in found)


def test_the_samples_are_graded_by_the_stand_in(tmp_path: Path) -> None:
    results = medhelm.evaluate("baseline/lead", "healthbench", data="sample", results_dir=tmp_path)
    (row,) = [r for r in results.typed("benchmarks").rows if r["metric"] == "rubric_score"]
    assert row["scored"] == row["planned"] == 6 and 0 <= row["score"] <= 1
    assert any("stands in for judges" in note for note in results.typed("benchmarks").notes)
    themes = {r["value"] for r in results.typed("slices", by="theme").rows}
    assert "emergency_referrals" in themes and len(themes) > 1
    axes = {r["metric"]: r for r in results.typed("benchmarks", metrics="all").rows}
    assert 0 <= axes["rubric_axis_accuracy"]["score"] <= 1
    assert len([name for name in axes if name.startswith("rubric_axis_")]) == 5


def test_one_judge_grades_where_no_jury_is_named() -> None:
    benchmark = load("healthbench")
    keys = {"OPENAI_API_KEY": "test-key"}
    jury = choose_jury(None, load_models(), keys, is_sample=False, default=benchmark.jury)
    assert [j.name for j in jury.judges] == ["openai/gpt-4.1-2025-04-14"] and jury.quorum == 1
    assert not choose_jury(None, load_models(), {}, is_sample=False, default=benchmark.jury).judges
