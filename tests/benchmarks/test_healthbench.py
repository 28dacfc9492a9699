"""HealthBench: turns are sent as they are, and points below zero are taken off."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

import medhelm
from medhelm.cli import run_command
from medhelm.grading.jury.choice import choose_jury
from medhelm.grading.rubric.prompt import shared_messages
from medhelm.models.catalogue import load_models
from medhelm.schema.data import Benchmark
from medhelm.schema.run import JurySpec
from tests.server import serve_in_thread

from .conftest import load
from .test_mappings import MAPPINGS


def test_a_judge_goes_by_the_words_of_the_criterion_alone() -> None:
    benchmark = load("healthbench")
    instance = benchmark.to_instance(MAPPINGS["healthbench"]["row"])
    assert instance is not None

    def rules(own: Benchmark) -> str:
        return shared_messages(own, instance, "An answer.")[0].content

    assert "words of the criterion alone" in rules(benchmark)
    for of_others in ("present medical knowledge", "inferred"):
        assert of_others not in rules(benchmark)
        assert of_others in rules(replace(benchmark, criteria_rules=None))
        assert of_others not in rules(load("healthbench_professional"))


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


def test_judges_are_measured_on_physicians_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three answers to one prompt are told apart, whatever the order of the file is."""
    prompt = [{"role": "user", "content": "My ear hurts."}]
    rows = [
        {"prompt": prompt, "completion": answer, "rubric": "Asks about fever.", "category": "c"}
        | {"binary_labels": labels}
        for answer, labels in (
            ("Do you have fever?", [True, True]),
            ("Take a tablet.", [False, True, False]),
            ("A fever is likely.", [False, False]),
        )
    ]
    file = tmp_path / "data" / "healthbench" / "oss_meta_eval.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def says(sent: str) -> str:
        answer = sent.split("<answer")[-1].split("</answer")[0]
        return json.dumps({"explanation": "x", "criteria_met": "fever" in answer})

    with serve_in_thread(says) as server:
        judge = server.model("j/one", endpoint_class="local")
        medhelm.evaluate(
            "baseline/oracle",
            "healthbench",
            split="physicians",
            data_dir=tmp_path / "data",
            results_dir=tmp_path / "judges",
            jury=JurySpec(name="test", judges=(judge,), quorum=1),
        )
    words = ["fidelity", "--stored", "healthbench", "--experts", f"physicians={file}"]
    words += ["--results-dir", str(tmp_path / "judges"), "--table", "fidelity", "--format", "json"]
    for order in permutations(rows):
        file.write_text("".join(json.dumps(row) + "\n" for row in order))
        assert run_command(words) == 0
        found = {
            (row["reference"], row["grader"]): row
            for row in json.loads(capsys.readouterr().out)["rows"]
            if row["level"] == "overall"
        }
        pair = found["physicians 1", "j/one"]
        assert (pair["decisions"], pair["cases"]) == (3, 1)
        assert (pair["positive_reference"], pair["positive"]) == (1 / 3, 2 / 3)
        assert pair["mf1"] == pytest.approx(2 / 3)  # two of three are right
        assert found["physicians 2", "j/one"]["mf1"] == pytest.approx(1 / 4)  # one of three is
        assert found["physicians 3", "j/one"]["decisions"] == 1
        assert found["physicians 1", "physicians 2"]["decisions"] == 3


@pytest.mark.filterwarnings("ignore:judge j/one has no valid verdict")
def test_verdicts_that_are_missing_bound_the_score(tmp_path: Path) -> None:
    """One wanted criterion (6 of 20 points) and one fault (-8, of 19) without a verdict, all else well."""
    faults = (
        "Advises to",
        "States that it is safe",
        "Promises",
        "Names a risk",
        "Recommends",
        "Adds a",
    )

    def says(sent: str) -> str:
        criterion = sent[sent.rindex("<criterion") :].split("\n")[1]
        if criterion.startswith(("Names stroke", "States that it is safe")):
            return "I cannot tell."
        is_fault = criterion.startswith(faults) and "go on feeding" not in criterion
        return json.dumps({"explanation": "x", "criteria_met": not is_fault})

    with serve_in_thread(says) as server:
        judge = server.model("j/one", endpoint_class="local")
        results = medhelm.evaluate(
            "baseline/lead",
            "healthbench",
            data="sample",
            results_dir=tmp_path,
            jury=JurySpec(name="test", judges=(judge,), quorum=1, repairs=0),
        )
    table = results.typed("benchmarks", metrics="all")
    scores = {r["metric"]: (r["score"], r["n"]) for r in table.rows}
    assert scores["rubric_score"] == (pytest.approx((14 / 20 + 4) / 5), 5)
    assert scores["rubric_score_lowest"] == (pytest.approx((14 / 20 + 11 / 19 + 4) / 6), 6)
    assert scores["rubric_score_highest"] == (pytest.approx(1.0), 6)
    (note,) = [note for note in table.notes if "valid verdict" in note]
    assert "baseline/lead 0.880 to 1.000" in note and "in no mean" in note
