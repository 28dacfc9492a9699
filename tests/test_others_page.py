"""The page about other harnesses holds what their scripts stored."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from .test_docs import load_script

PAGE = load_script("others_page")
STORED = PAGE.read_results(PAGE.RESULTS)
FOOTPRINTS = PAGE.read_footprints(PAGE.FOOTPRINT)


def points(harness: str, benchmark: str, answers: str, part: str = "all") -> dict[str, float]:
    (own,) = (own for own in STORED if own.harness == harness)
    return {
        score.metric: score.points / score.n
        for score in own.scores
        if (score.benchmark, score.answers, score.part) == (benchmark, answers, part)
    }


@pytest.mark.parametrize("place", range(len(STORED)))
def test_page_is_that_of_the_stored_results(
    place: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["others_page.py", "--check"])
    assert PAGE.main() == 0
    stored, unchanged = STORED[place], PAGE.render(STORED, FOOTPRINTS)
    for score in stored.scores:
        assert score.benchmark in PAGE.BENCHMARKS
        other = msgspec.structs.replace(
            score, points=score.points - 1, unscored=score.unscored + (not score.n)
        )
        scores = tuple(other if own is score else own for own in stored.scores)
        changed = msgspec.structs.replace(stored, scores=scores)
        results = [*STORED[:place], changed, *STORED[place + 1 :]]
        assert PAGE.render(results, FOOTPRINTS) != unchanged, score
    monkeypatch.setattr(PAGE, "read_results", lambda folder: results)
    assert PAGE.main() == 1
    assert "docs/others.md is out" in capsys.readouterr().out


def test_a_file_is_the_same_for_every_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    file = next(iter(STORED[0].files))
    changed = msgspec.structs.replace(STORED[0], files={file: "0" * 64})
    with pytest.raises(SystemExit, match=file):
        PAGE.render([changed, *STORED], FOOTPRINTS)


def test_scores_are_those_worked_out_from_the_files() -> None:
    for harness in ("HELM", "medhelm (package index)"):
        gold = points(harness, "medcalc_bench", "gold")
        assert gold == {"medcalc_bench_accuracy": (1047 - 327 - 40) / 1047}  # but lab and dosage
        assert points(harness, "aci_bench", "every judge's request fails") == {
            "aci_bench_accuracy": 1.0
        }


def test_healthbench_takes_points_for_harm() -> None:
    harmful = "meets every criterion, harmful ones too"
    for harness, metric in (("Inspect", "bootstrap_score"), ("evalscope", "overall_score")):
        assert points(harness, "healthbench", harmful)[metric] == pytest.approx(0.673, abs=5e-4)


@pytest.mark.skipif("MEDHELM_DATA_DIR" not in os.environ, reason="needs the full data")
def test_files_and_counts_are_those_of_the_full_data() -> None:
    data = Path(os.environ["MEDHELM_DATA_DIR"])
    for stored in STORED:
        for file, sha256 in stored.files.items():
            assert hashlib.sha256((data / file).read_bytes()).hexdigest() == sha256
    files = (data / "ehrsql" / "e172ec8" / f"{name}.json" for name in ("valid", "test"))
    rows = [row for file in files for row in json.loads(file.read_bytes())]
    with_query = [row for row in rows if not row["is_impossible"]]
    for harness, asked in (("HELM", rows), ("medhelm (package index)", with_query)):
        (stored,) = (own for own in STORED if own.harness == harness)
        assert {own.n for own in stored.scores if own.benchmark == "ehrsql"} == {len(asked)}
    # HELM takes the empty answer for right where the gold finds no row and the file no value.
    database = sqlite3.connect(f"file:{data / 'ehrsql' / 'eicu.sqlite'}?mode=ro", uri=True)
    free = sum(not row.get("value") and not finds_rows(database, row["query"]) for row in rows)
    database.close()
    empty = points("HELM", "ehrsql", "empty", "release of MedHELM")
    assert empty == {"ehr_sql_execution_accuracy": free / 2909, "ehr_sql_query_validity": 0.0}
    # lm-evaluation-harness takes the first of options that are equally likely.
    questions = data / "med_qa" / "medqa_4options_test.medagents.jsonl"
    golds = [json.loads(line)["answer_idx"] for line in questions.read_bytes().splitlines()]
    found = points("lm-evaluation-harness", "likelihoods", "med_qa: every option as likely")
    assert found == {"acc": golds.count("A") / len(golds)}


@pytest.mark.slow
@pytest.mark.skipif("MEDHELM_DATA_DIR" not in os.environ, reason="needs the full data")
def test_own_scores_are_those_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAGE.RESULTS.parent))
    script = load_script("others/this_package")
    (stored,) = (own for own in STORED if own.harness == "this package")
    found = script.score_mmlu(Path(os.environ["MEDHELM_DATA_DIR"]))
    assert [asdict(own) for own in found] == [msgspec.to_builtins(own) for own in stored.scores]


def finds_rows(database: sqlite3.Connection, query: str) -> bool:
    try:
        return bool(database.execute(query).fetchall())
    except sqlite3.Error:
        return False


def test_log_probabilities_are_those_of_the_other_harness() -> None:
    stored = msgspec.json.decode(PAGE.LIKELIHOODS_STORED.read_bytes(), type=PAGE.Likelihoods)
    for name in ("labels", "texts"):
        ours, theirs = getattr(stored.medhelm, name), getattr(stored.lm_eval, name)
        assert len(ours) == 100 and ours.keys() == theirs.keys()
        for question, own in ours.items():
            assert own == pytest.approx(theirs[question], abs=1e-4)
