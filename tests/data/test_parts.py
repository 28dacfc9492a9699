"""A split that is a part of the published set: taken where the set is missing, and named."""

import json
from pathlib import Path

import pytest

import medhelm
from medhelm.cli import run_command

PLUGIN = """\
name: ward_quiz
title: Ward quiz
subcategory: clinical_knowledge_support
dataset:
  files: [{name: all.jsonl, splits: [test]}, {name: some.jsonl, splits: [part_2]}]
  splits: [test, part_2]
instance: {id: id, question: question, choices: [a, b], reference: gold}
prompt: multiple_choice
metrics: [exact_match]
"""


def test_a_part_is_named_and_never_in_a_column_with_the_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin, folder = tmp_path / "ward_quiz.yaml", tmp_path / "data" / "ward_quiz"
    plugin.write_text(PLUGIN, "utf-8")
    rows = [{"id": str(n), "question": f"Q {n}?", "a": "x", "b": "y", "gold": "A"} for n in "1234"]
    folder.mkdir(parents=True)

    def write(name: str, count: int) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in rows[:count])
        (folder / name).write_text(lines, "utf-8")

    def run(model: str) -> medhelm.Results:
        return medhelm.evaluate(
            model,
            "ward_quiz",
            data_dir=tmp_path / "data",
            results_dir=tmp_path / "results",
            plugins=plugin,
        )

    write("some.jsonl", 2)
    (row,) = run("baseline/first_option").typed("benchmarks").rows
    assert (row["benchmark"], row["n"]) == ("ward_quiz.part_2", 2)
    write("all.jsonl", 4)
    (row,) = run("baseline/first_option").typed("benchmarks").rows
    assert (row["benchmark"], row["n"]) == ("ward_quiz", 4)
    for name in ("ward_quiz", "ward_quiz.part_2"):
        words = [
            "tables",
            "--results-dir",
            str(tmp_path / "results"),
            "--benchmark",
            name,
            "--table",
            "benchmarks",
        ]
        assert run_command([*words, "--format", "csv"]) == 0
        shown = {line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]}
        wanted = {"ward_quiz", "ward_quiz.part_2"} if name == "ward_quiz" else {name}
        assert shown == wanted
