"""A split that is a part of the published set: taken where the set is missing, and named."""

import json
from pathlib import Path

import medhelm
from tests.quiz import at
from tests.shell import Shell

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


def test_a_part_is_named_and_never_in_a_column_with_the_set(tmp_path: Path, shell: Shell) -> None:
    plugin, folder = tmp_path / "ward_quiz.yaml", tmp_path / "data" / "ward_quiz"
    plugin.write_text(PLUGIN, "utf-8")
    rows = [{"id": str(n), "question": f"Q {n}?", "a": "x", "b": "y", "gold": "A"} for n in "1234"]
    folder.mkdir(parents=True)

    def write(name: str, count: int) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in rows[:count])
        (folder / name).write_text(lines, "utf-8")

    for file, count, name in (
        ("some.jsonl", 2, "ward_quiz.part_2"),
        ("all.jsonl", 4, "ward_quiz"),
    ):
        write(file, count)
        own = at(tmp_path, plugins=plugin)
        found = medhelm.evaluate("baseline/first_option", "ward_quiz", **own)
        (row,) = found.typed("benchmarks").rows
        assert (row["benchmark"], row["n"]) == (name, count)
    for name in ("ward_quiz", "ward_quiz.part_2"):
        words = f"tables --results-dir {tmp_path / 'results'} --benchmark {name} --format csv"
        shown = {
            line.split(",")[0]
            for line in shell(*words.split(), "--table", "benchmarks").splitlines()[1:]
        }
        wanted = {"ward_quiz", "ward_quiz.part_2"} if name == "ward_quiz" else {name}
        assert shown == wanted
