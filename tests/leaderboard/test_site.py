"""What a build publishes: the tables' numbers, the open texts, nothing else; and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.errors import RecordError, UnknownName, UsageError
from medhelm.store.records import find_gradings, find_runs, read_record
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from tests.build_runs import EXACT, items, write_run
from tests.leaderboard.casting import CLOSED, build, data_of, fresh
from tests.shell import Shell


def run_page(site: Path, benchmark: str, model: str) -> Any:
    (scoring,) = data_of(site, "site")["scorings"]
    (key,) = [k for b, m, k in scoring["runs"] if (b, m) == (benchmark, model)]
    return data_of(site, key)


def rows_of(page: Any) -> list[dict[str, Any]]:
    names = [c["name"] for c in page["columns"]]
    return [dict(zip(names, row, strict=True)) for row in page["rows"]]


# No leak -----------------------------------------------------------------------------------------


def test_no_word_of_closed_data_gets_out(site: Path, results: Path) -> None:
    planted = b"".join(p.read_bytes() for p in results.rglob("*") if p.is_file())
    marks = ("PROMPTCANARY", "SYSTEMCANARY", "PATHCANARY", "REASONCANARY")
    for word in ("CANARYCONTEXT", "CANARYID", *marks):
        assert word.encode() in planted  # else the test could not fail
    answers = data_of(site, run_page(site, "open", "lab/one")["answers"][0][1])
    assert answers[0]["text"].startswith("ANSWERCANARY")  # an open answer is published
    for path in site.rglob("*"):
        content = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
        if path.name.startswith("answers-"):
            content = content.replace(b"ANSWERCANARY", b"")
        assert b"CANARY" not in content, path


def test_closed_benchmarks_have_scores_and_hashes(site: Path) -> None:
    for benchmark in CLOSED:
        page = run_page(site, benchmark, "lab/one")
        assert len(page["ids"]) == len(page["value"]) == 6
        assert all(len(i) == 16 and int(i, 16) >= 0 for i in page["ids"])
        assert page["answers"] == page["texts"] == [] and page["note"]


@pytest.mark.slow
def test_only_public_data_on_demand(results: Path, tmp_path: Path) -> None:
    broken = fresh(results, tmp_path / "results")
    (grading,) = [g for g in find_gradings(broken) if "/private/lab__one/" in g.as_posix()]
    (grading / "summary.json").write_text("{")
    built = build(broken, tmp_path / "site", access=("public",))
    site = data_of(tmp_path / "site", "site")
    assert [b["name"] for b in site["benchmarks"]] == ["open", "unlicensed"]
    assert built.problems[0].where == "a run"
    for path in (tmp_path / "site").rglob("*"):
        assert path.is_dir() or b"gated/" not in path.read_bytes()
        assert path.is_dir() or b"private/lab" not in path.read_bytes()


# The numbers -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_number_is_that_of_the_tables(site: Path, results: Path) -> None:
    loaded = load_results(results)
    (scoring,) = data_of(site, "site")["scorings"]
    settings = Settings(draws=50)
    assert [name for name, _ in scoring["tables"]] == [
        "overall", "benchmarks", "jury", "controls", "categories", "mde", "cost", "pairs", "ranks",
    ]  # fmt: skip
    for name, key in scoring["tables"]:
        metrics: Any = "all" if name == "benchmarks" else "main"
        table = loaded.typed(name, settings, metrics=metrics)
        assert rows_of(data_of(site, key)) == [dict(r) for r in table.rows]
        stored = json.loads((site / "tables" / "fixed" / f"{name}.json").read_text())
        assert stored["rows"] == [dict(r) for r in table.rows]


@pytest.mark.slow
def test_a_view_is_the_table_of_its_benchmarks(site: Path, results: Path) -> None:
    views = data_of(site, "site")["views"]
    assert {v["access"] for v in views} == {"", "public", "gated", "private"}
    for view in views:
        page = data_of(site, view["key"])
        loaded = load_results(results, benchmarks=page["benchmarks"])
        for by in ("half", "literal"):
            table = loaded.typed("overall", Settings(draws=50, rank_by=by))  # type: ignore[arg-type]
            assert rows_of(page[by]) == [dict(r) for r in table.rows]
        table = loaded.typed("categories", Settings(draws=50))
        assert rows_of(page["categories"]) == [dict(r) for r in table.rows]


def test_the_page_of_a_benchmark(site: Path) -> None:
    (scoring,) = data_of(site, "site")["scorings"]
    page = data_of(site, dict(scoring["benchmarks"])["open"])
    assert page["instruction"] == "Answer. " and page["jury"] == "two"
    assert [name for name, _ in page["rubric"]] == ["accuracy", "completeness", "clarity"]
    counts = {h["model"]: h["counts"] for h in page["histograms"]}
    # Both judges' means are 4 and 2, so that every answer has 3 on the scale from 1 to 5.
    assert counts["lab/one"] == [0] * 10 + [6] + [0] * 9
    assert page["bins"][10] == 3.0
    closed = data_of(site, dict(scoring["benchmarks"])["private"])
    assert closed["instruction"] is None and closed["rubric"] == [] and closed["source"] == ""


def test_an_instance_can_be_followed_to_its_answer_and_its_judges(site: Path) -> None:
    page = run_page(site, "open", "lab/two")
    assert page["ids"] == [f"IDopen{i}" for i in range(6)] and page["place"] == []
    texts = data_of(site, page["texts"][0][1])
    assert texts[3]["context"] == "CONTEXT of open 3" and texts[3]["references"] == [
        "GOLD give aspirin 3"
    ]
    assert texts[3]["prompt"][-1][0] == "user" and "QUESTION 3?" in texts[3]["prompt"][-1][1]
    answer = data_of(site, page["answers"][0][1])[3]
    assert [s["metric"] for s in answer["scores"]][0] == "jury"
    assert answer["scores"][0]["value"] == page["value"][3] == 3.0
    assert [(j["judge"], j["ratings"]) for j in answer["judges"]] == [
        ("judge/a", [4, 4, 4]),
        ("judge/b", [2, 2, 2]),
    ]
    axes = ("accuracy", "completeness", "clarity")
    for said in answer["judges"]:
        assert said["reasons"] == [f"REASONOPEN {name}" for name in axes]
        assert json.loads(said["replies"][0])["accuracy"]["reason"] == "REASONOPEN accuracy"
    # The system prompt of the other model is no part of this one's prompt.
    other = data_of(site, run_page(site, "open", "lab/one")["answers"][0][1])[3]
    assert "SYSTEM" not in json.dumps(other)


# Renewing ----------------------------------------------------------------------------------------


def stamps(site: Path) -> dict[str, int]:
    return {
        p.relative_to(site).as_posix(): p.stat().st_mtime_ns for p in site.rglob("*") if p.is_file()
    }


@pytest.mark.slow
def test_only_what_changed_is_written(results: Path, site: Path, tmp_path: Path) -> None:
    results, site = fresh(results, tmp_path / "results"), fresh(site, tmp_path / "site")
    before = stamps(site)
    assert build(results, site).written == 0 and stamps(site) == before
    (grading,) = [g for g in find_gradings(results) if "/open/lab__one/" in g.as_posix()]
    record = read_record(grading)
    card = msgspec.structs.replace(record.card, licence="CC0")
    raw = msgspec.json.encode(msgspec.structs.replace(record, card=card))
    (grading / "summary.json").write_bytes(raw)
    shutil.rmtree(find_gradings(results)[0].parents[1])  # and a run is gone
    built = build(results, site)
    after = stamps(site)
    changed = {name for name in after if before.get(name) != after[name]}
    assert 0 < built.written < len(after) / 2 and built.removed > 0
    assert "data/site.js" in changed and "app/plotly.min.js" not in changed
    kept = [name for name in before if name.startswith("data/run-") and name not in changed]
    assert kept
    whole = tmp_path / "whole"
    build(results, whole)
    names = {n for n in stamps(whole) if n not in ("build.json", "data/site.js")}
    assert names == set(after) - {"build.json", "data/site.js"}
    assert all((whole / n).read_bytes() == (site / n).read_bytes() for n in names)


@pytest.mark.slow
def test_a_file_that_was_lost_is_written_again(results: Path, site: Path, tmp_path: Path) -> None:
    site = fresh(site, tmp_path / "site")
    lost = next((site / "data").glob("answers-*"))
    content = lost.read_bytes()
    lost.unlink()
    build(results, site)
    assert lost.read_bytes() == content


@pytest.mark.slow
def test_a_folder_that_is_no_site_is_left_alone(results: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"no build\.json"):
        build(results, tmp_path / "mine")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        build(results, tmp_path / "file")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "build.json").write_text("{}")
    with pytest.raises(UsageError, match="of another version"):
        build(results, tmp_path / "odd")


@pytest.mark.slow
def test_a_list_of_files_cannot_remove_what_lies_elsewhere(
    results: Path, site: Path, tmp_path: Path
) -> None:
    site, mine = fresh(site, tmp_path / "site"), tmp_path / "thesis.txt"
    mine.write_text("mine")
    listed = json.loads((site / "build.json").read_text())
    listed["files"] |= {"../thesis.txt": "0", str(mine): "0", "data/../../thesis.txt": "0"}
    listed["inputs"] = "other"
    del listed["sha256"]  # without it the list is taken as it is
    (site / "build.json").write_text(json.dumps(listed))
    build(results, site)
    assert mine.read_text() == "mine"


# What cannot be shown ----------------------------------------------------------------------------


def test_unknown_names(results: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="'opne'.*'open'"):
        build(results, tmp_path / "site", benchmarks=["opne"])
    with pytest.raises(UnknownName, match="'lab/onee'.*'lab/one'"):
        build(results, tmp_path / "site", models=["lab/onee"])


def test_runs_of_mixed_versions_take_only_their_benchmark_off(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_run(results, "mixed", "a", items([1.0, 0.0]))
    write_run(results, "mixed", "b", items([1.0, 0.0]), benchmark_version="2")
    for model in "ab":
        write_run(results, "fine", model, items([1.0, 0.0]))
    built = build(results, tmp_path / "site")
    assert [b["name"] for b in data_of(tmp_path / "site", "site")["benchmarks"]] == ["fine"]
    (said,) = [p for p in built.problems if p.where == "mixed, scoring=fixed"]
    assert "version: 1 and 2" in said.what


@pytest.mark.slow
def test_several_runs_of_one_cell_need_latest(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for seed in (0, 1):
        write_run(results, "x", "a", items([1.0, 0.0]), seed=seed)
    write_run(results, "y", "a", items([1.0, 0.0]))
    built = build(results, tmp_path / "site")
    assert built.runs == 1 and any("2 runs on x" in p.what for p in built.problems)
    assert build(results, tmp_path / "site", latest=True).runs == 2


@pytest.mark.slow
def test_a_run_in_progress_and_damaged_folders_are_named(results: Path, tmp_path: Path) -> None:
    results = fresh(results, tmp_path / "results")
    runs = {
        r.relative_to(results / "runs").as_posix().rsplit("/", 1)[0]: r for r in find_runs(results)
    }
    shutil.rmtree(runs["open/lab__one"] / "gradings")
    (grading,) = (runs["gated/lab__one"] / "gradings").iterdir()
    (grading / "summary.json").write_text('{"schema": 1, "spec": 3}')
    (grading,) = (runs["private/lab__one"] / "gradings").iterdir()
    (grading / "scores.parquet").write_bytes(b"PAR1 not really")
    log = runs["open/lab__two"] / "responses.jsonl"
    log.write_bytes(log.read_bytes()[:-200])
    built = build(results, tmp_path / "site")
    said = {p.where.removeprefix("runs/").rsplit("/", 1)[0]: p.what for p in built.problems}
    assert "has no grading yet" in said["open/lab__one"]
    assert (
        "summary.json cannot be read"
        in said["gated/lab__one/" + runs["gated/lab__one"].name + "/gradings"]
    )
    assert any("scores.parquet cannot be read" in what for what in said.values())
    assert any("answers cannot be read" in what for what in said.values())
    page = run_page(tmp_path / "site", "open", "lab/two")
    assert page["answers"] == [] and len(page["value"]) == 6 and "cannot be read" in page["note"]
    assert built.benchmarks == 4
    published = json.dumps(data_of(tmp_path / "site", "site"))
    assert str(tmp_path) not in published
    # What could not be read is said as long as it is so: with nothing changed, and after a change.
    assert build(results, tmp_path / "site").problems == built.problems
    assert set(build(results, tmp_path / "site", draws=40).problems) == set(built.problems)
    assert "answers cannot be read" in json.dumps(data_of(tmp_path / "site", "site")["problems"])


def test_about_tells_how_each_run_was_made(site: Path) -> None:
    (scoring,) = data_of(site, "site")["scorings"]
    lines = data_of(site, scoring["made"])
    assert len(lines) == 8 and {line["seed"] for line in lines} == {0}
    assert all(len(line["dataset_sha256"]) == 64 and line["graded_at"] for line in lines)


def test_an_incomplete_run_and_outcomes_are_shown(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_run(results, "x", "a", items([1.0, None, 0.0]), planned=5)
    write_run(results, "x", "b", items([1.0, 1.0, 0.0]))
    build(results, tmp_path / "site")
    assert data_of(tmp_path / "site", "site")["incomplete"] == [["x", "a"]]
    page = run_page(tmp_path / "site", "x", "a")
    outcomes = [page["outcomes"][o] for o in page["outcome"]]
    assert outcomes == ["scored", "error", "scored"] and page["value"] == [1.0, None, 0.0]


@pytest.mark.slow
def test_both_scorings_and_full_data_before_samples(tmp_path: Path) -> None:
    results = tmp_path / "results"
    helm = msgspec.structs.replace(EXACT, scoring="helm")
    write_run(results, "x", "a", items([1.0, 0.0]))
    write_run(results, "x", "a", items([0.0, 0.0]), metrics=[helm])
    write_run(results, "y", "a", items([1.0, 0.0]), data="sample")
    built = build(results, tmp_path / "site")
    site = data_of(tmp_path / "site", "site")
    assert site["data"] == "full" and [s["scoring"] for s in site["scorings"]] == ["fixed", "helm"]
    assert any("on bundled samples" in p.what for p in built.problems)
    build(results, tmp_path / "samples", data="sample")
    assert data_of(tmp_path / "samples", "site")["data"] == "sample"


def test_a_results_folder_that_cannot_hold_the_secret(results: Path, tmp_path: Path) -> None:
    results = fresh(results, tmp_path / "results")
    (results / "publishing.key").unlink()
    (results / "publishing.key").mkdir()
    with pytest.raises(RecordError, match="publishing.key"):
        build(results, tmp_path / "site")


# The command -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_says_what_it_did(results: Path, tmp_path: Path, shell: Shell) -> None:
    argv = ("leaderboard", "build", "--results-dir", results, "--out", tmp_path / "s")
    out = shell(*argv, "--draws", "50", "--title", "Ours")
    assert "2 models x 4 benchmarks, 8 runs" in out
    assert f"Open it: {(tmp_path / 's' / 'index.html').as_uri()}" in out
    site = data_of(tmp_path / "s", "site")
    assert site["title"] == "Ours" and str(tmp_path) not in site["command"]
    assert "nothing has changed" in shell(*argv, "--draws", "50", "--title", "Ours")
    assert "--key belongs to --ratings" in shell.error(*argv, "--key", "k.json")
