"""Answers of people as a row beside the models: graded alike, never ranked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import medhelm
from medhelm.errors import UsageError
from medhelm.models.human import NO_ANSWER, human_spec, open_human
from medhelm.models.identity import identity, is_rankable
from medhelm.store.records import find_gradings, read_plan, read_record
from medhelm.store.runlog import read_episodes
from medhelm.tables.loading import load_results

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "benchmarks/clinconsensus/samples/clinconsensus.jsonl"
ROWS = [json.loads(line) for line in SAMPLES.read_text().splitlines()]


def write(path: Path, count: int = len(ROWS)) -> Path:
    """Write answers of which each names the first half of the criteria of its case."""
    with path.open("w") as file:
        for row in ROWS[:count]:
            text = " ".join(c["criterion"] for c in row["rubrics"][:15])
            file.write(json.dumps({"id": row["case_id"], "answer": text}) + "\n")
    return path


def test_people_are_a_row_beside_the_models(tmp_path: Path) -> None:
    name = f"human/{write(tmp_path / 'physicians.jsonl')}"
    models, rows = ["baseline/lead", "baseline/random"], []
    for asked in (models, [*models, name]):
        medhelm.evaluate(asked, "clinconsensus", data="sample", results_dir=tmp_path / "results")
        found = load_results(tmp_path / "results")
        rows.append(
            {
                r["model"]: (r["win_rate"], r["rank"])
                for r in found.typed("overall").rows
                if r["model"] in models
            }
        )
        assert "human/physicians" not in {
            r["model"] for r in found.typed("overall").rows if r["win_rate"] is not None
        }
    assert rows[0] == rows[1] and len(rows[0]) == 2
    table = found.typed("coverage")
    (people,) = [r for r in table.rows if (r["level"], r["model"]) == ("model", "human/physicians")]
    assert people["ranked"] is False and people["n"] == len(ROWS)
    assert float(str(people["hits"])) >= 15  # the rule that stands in finds what they name
    assert any("not ranked: human/physicians" in note for note in found.typed("overall").notes)
    (record,) = [
        r
        for r in map(read_record, find_gradings(tmp_path / "results"))
        if r.spec.model.name == "human/physicians"
    ]
    assert [p.model.name for p in record.parties if p.role == "model"] == ["human/physicians"]


def test_a_case_without_an_answer_is_in_no_mean(tmp_path: Path) -> None:
    write(tmp_path / "few.jsonl", 4)
    medhelm.evaluate(
        f"human/{tmp_path / 'few.jsonl'}",
        "clinconsensus",
        data="sample",
        results_dir=tmp_path / "results",
    )
    (grading,) = find_gradings(tmp_path / "results")
    run, record = grading.parents[1], read_record(grading)
    assert {r.metric: r.scored for r in record.results}["rubric_coverage"] == 4
    ends = [(e.finish, e.error) for e in read_episodes(run, read_plan(run))]
    assert ends.count(("stop", "")) == 4 and ends.count(("error", NO_ANSWER)) == len(ROWS) - 4


def test_other_answers_are_another_model(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", 4)
    first = human_spec(str(path))
    assert not is_rankable(first) and first.endpoint_class == "local"
    assert identity(first) == identity(human_spec(str(path)))
    write(path, 5)
    assert identity(first) != identity(human_spec(str(path)))

    with pytest.raises(UsageError, match="has changed since"):
        open_human(first)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "holds no answer"),
        ('{"id": "a"}\n', "line 1: an answer is one JSON object"),
        ('{"id": "a", "answer": "x"}\n{"id": "a", "answer": "y"}\n', "line 2: there is an answer"),
        ('{"id": "a", "answer": null}\n', "line 1: an answer is"),
    ],
)
def test_a_file_that_is_none_is_named(content: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(UsageError, match=line):
        human_spec(str(tmp_path / "a.jsonl"))
    with pytest.raises(UsageError, match="cannot be read"):
        human_spec(str(tmp_path / "b.jsonl"))
