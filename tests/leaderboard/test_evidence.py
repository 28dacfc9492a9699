"""The report on one model: nothing closed leaves, its numbers are those of the tables, its hashes hold."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from medhelm.cli import run_command
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JurySpec
from medhelm.store.kept_fidelity import Agreement, KeptFidelity, keep
from medhelm.store.records import find_gradings, grader_hash, read_record, write_struct
from medhelm.tables.format.table import Settings, to_document
from medhelm.tables.loading import load_results
from medhelm_leaderboard.evidence.gather import WORST
from tests.build_runs import EXACT, Item, items, write_run
from tests.leaderboard.browsing import World
from tests.leaderboard.casting import CLOSED, fresh
from tests.leaderboard.hostile import FIRST
from tests.leaderboard.test_border import every_byte
from tests.leaderboard.worlds import case, episode

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DRAWS = ("--draws", "50")
MODEL = "lab/one"


def report(results: Path, out: Path, *more: str, model: str = MODEL) -> int:
    return run_command(
        ["report", model, "-o", str(out), "--results-dir", str(results), *DRAWS, *more]
    )


def verified(out: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    code = run_command(["report", "--verify", str(out), "--results-dir", str(results)])
    return code, capsys.readouterr().out.splitlines()[:-1]


def table(out: Path, name: str) -> Any:
    return json.loads((out / "tables" / f"{name}.json").read_text())


def checklist(out: Path, name: str) -> dict[str, str]:
    with (out / "tables" / f"{name}.csv").open() as file:
        return {row["item"]: row["record"] for row in csv.DictReader(file)}


# No leak -----------------------------------------------------------------------------------------


def test_no_word_of_closed_data_gets_out(results: Path, tmp_path: Path) -> None:
    planted = b"".join(path.read_bytes() for path in results.rglob("*") if path.is_file())
    assert b"CANARYCONTEXT of private" in planted and b"CANARYWARD1" in planted
    closed = tmp_path / "closed"
    assert report(results, closed, "--benchmark", *CLOSED) == 0
    assert b"CANARY" not in every_byte(closed)
    assert {row["benchmark"] for row in table(closed, "benchmarks")["rows"]} == {*CLOSED}
    assert "No text of questions and answers" in (closed / "index.html").read_text()
    assert report(results, closed, "--benchmark", *CLOSED, "--by", "ward") == 0
    assert "slices by ward: its values" in (closed / "index.html").read_text()
    assert report(results, closed, "--benchmark", *CLOSED, "--by", "wrad") == 2
    everything = tmp_path / "all"
    assert report(results, everything, "--by", "ward") == 0
    shown = every_byte(everything)
    assert b"ANSWERCANARY one: aspirin" in shown and b"CONTEXT of open" in shown
    assert b"CANARY" not in shown.replace(b"ANSWERCANARY", b"")
    slices = table(everything, "slices_ward")["rows"]
    assert {(row["benchmark"], row["value"]) for row in slices} == {
        ("open", "WARD0"),
        ("open", "WARD1"),
    }


def test_text_that_one_run_of_a_benchmark_closes_stays_closed(tmp_path: Path) -> None:
    """The decision is the leaderboard's: of all runs of a benchmark, another model's too, the strictest."""
    results, own = (
        tmp_path / "results",
        msgspec.structs.replace(case("triage", 0), context="CANARY"),
    )
    for model, card in ((MODEL, {}), ("lab/two", {"data_class": "private"})):
        write_run(
            results, "x", model, [Item(id=own.id, value=0.0)], card=card,
            episodes=[episode(own, 0, "CANARY", "stop")],
        )  # fmt: skip
    assert report(results, tmp_path / "out") == 0
    assert b"CANARY" not in every_byte(tmp_path / "out")


# What is shown -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reported(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on all runs of a model, which no test changes."""
    out = tmp_path_factory.mktemp("reported") / "out"
    assert report(results, out) == 0
    return out


def test_numbers_are_those_of_the_tables(results: Path, reported: Path) -> None:
    out = reported
    loaded = load_results(results, models=[MODEL])
    for name in ("benchmarks", "cost", "exposure", "jury"):
        expected = to_document(loaded.typed(name, Settings(draws=50))).rows
        found = table(out, name)["rows"]
        assert len(found) == len(expected) > 0
        for row, wanted in zip(found, expected, strict=True):
            assert row == {column: wanted[column] for column in row}
    page = (out / "index.html").read_text()
    assert "two: judge/a" in page and "No judge of these" in page
    runs = json.loads((out / "runs.json").read_text())
    command = "medhelm run benchmark=open model=lab/one data=full jury=two"
    assert command in [run["command"] for run in runs]


def test_what_runs_differ_in_names_their_benchmarks(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    known = ModelSpec(name=MODEL, model="one", training_cutoff="2024-06")
    for name, since in (("x", "2023"), ("y", "2025")):
        path = write_run(results, name, known, items([1.0, 0.0]), card={"public_since": since})
        record = msgspec.structs.replace(read_record(path), left_out={"with a picture": 1})
        write_struct(path / "summary.json", record)
    assert report(results, out) == 0
    said = [row["public_before_cutoff"] for row in table(out, "exposure")["rows"]]
    assert said == ["yes", "no"]
    tripod = checklist(out, "tripod_llm")
    assert tripod["5c"] == "public since: 2023 (x); 2025 (y). training data end: 2024-06"
    assert tripod["5d"] == "rows left out: 1 with a picture (x, y)"  # two in all, not one


@pytest.mark.slow
def test_other_forms_of_questions_are_shown_and_hashed(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    words = ["model=baseline/lexical", "benchmark=headqa", "data=sample", "variants=all"]
    assert run_command(["run", *words, f"results_dir={results}"]) == 0
    assert report(results, out, model="baseline/lexical") == 0
    expected = to_document(load_results(results).typed("robustness", Settings(draws=50))).rows
    assert table(out, "robustness")["rows"] == list(expected) and len(expected) > 2
    runs = json.loads((out / "manifest.json").read_text())["runs"]
    assert {*runs} == {path.relative_to(results).as_posix() for path in find_gradings(results)}


def test_the_verdict_is_that_of_the_gate_on_closed_data_too(tmp_path: Path) -> None:
    """40 of 50: Wilson's interval is 0.670 to 0.888."""
    results, out, profile = tmp_path / "results", tmp_path / "out", tmp_path / "ward.yaml"
    private = {"data_class": "private", "redistributable": False}
    write_run(results, "x", MODEL, items([1.0] * 40 + [0.0] * 10), card=private)
    write_run(results, "y", MODEL, items([1.0] * 40 + [0.0] * 10))
    lines = ["x, minimum: 0.5", "y, minimum: 0.8"]
    profile.write_text(
        "description: d\nthresholds:\n" + "".join(f"- {{benchmark: {line}}}\n" for line in lines)
    )
    assert report(results, out, "--profile", str(profile)) == 0
    gate = load_results(results).gate(str(profile), settings=Settings(draws=50))
    found = [
        (row["verdict"], row["low"] and round(row["low"], 3)) for row in table(out, "gate")["rows"]
    ]
    assert found == [("INCONCLUSIVE", None), ("PASS", 0.67), ("INCONCLUSIVE", 0.67)]
    assert [row["verdict"] for row in gate.rows] == [verdict for verdict, _ in found]
    assert "INCONCLUSIVE (by interval)" in (out / "index.html").read_text()
    assert str(tmp_path).encode() not in every_byte(out)  # nor the path of the profile


def test_worst_answers_are_dealt_over_benchmarks_and_failures_are_apart(tmp_path: Path) -> None:
    """Twelve wrong answers of one benchmark do not hide the single wrong one of another."""
    results, out = tmp_path / "results", tmp_path / "out"

    def written(
        name: str, values: Sequence[float | None], outcomes: Sequence[str], **more: Any
    ) -> None:
        cases = [case(f"{name}{i}", i) for i in range(len(values))]
        rows = [
            Item(id=c.id, value=v, outcome=o)
            for c, v, o in zip(cases, values, outcomes, strict=True)
        ]
        log = [episode(c, 0, f"reply {name}{i}.", "stop") for i, c in enumerate(cases)]
        write_run(results, name, MODEL, rows, episodes=log, **more)

    written("many", [0.0] * 12 + [1.0, 0.0], ["scored"] * 13 + ["unparsed"])
    written("few", [1.0, 0.25], ["scored"] * 2)
    lower = msgspec.structs.replace(
        EXACT, name="errors", higher_is_better=False, maximum=4.0, floor=4.0
    )
    written("errors", [4.0, 0.0], ["scored"] * 2, metrics=[lower])
    assert report(results, out) == 0
    page = (out / "index.html").read_text()
    failed, worst = (
        page.split(f'<section id="{s}">')[1].split("</section>")[0] for s in ("failures", "worst")
    )
    assert failed.count("<article>") == 1 and "reply many13." in failed and "unparsed" in failed
    assert worst.count("<article>") == WORST == 10
    order = [part.split(",")[0] for part in worst.split("<article><h3>")[1:]]
    assert order[0] == "errors" and order[1:] == ["many"] * 9  # 4 of 4 errors are as bad as 0 of 1
    assert "reply errors0." in worst and "reply many12." not in worst and "reply few0." not in worst


def test_checklists_say_what_the_record_knows_and_no_more(reported: Path) -> None:
    tripod, chart = (checklist(reported, name) for name in ("tripod_llm", "chart"))
    assert len(tripod) == 49 and len(chart) == 39  # sub-items as published
    assert {n.rstrip("abcdefg") for n in tripod} == {str(n) for n in range(1, 20)}
    by_author = ("2", "3a", "3b", "13", "14a", "14b", "14c", "14d", "15", "19a", "19b", "19d")
    assert {tripod[item] for item in by_author} == {"not reported"}
    assert {chart[item] for item in ("12a", "12b", "12c", "12d", "11a", "8")} == {"not reported"}
    assert "model: lab/one" in tripod["6a"] and "end: not reported" in tripod["6a"]
    assert "judges: two: judge/a" in tripod["7d"] and "controls: not reported" in tripod["7d"]
    assert "one request an instance" in chart["6c"] and "open" in tripod["17"]


def test_kept_fidelity_of_the_judges_is_shown(tmp_path: Path) -> None:
    results = tmp_path / "results"
    judge = ModelSpec(name="judge/a", model="a")
    terms = GraderTerms(
        grader="rubric",
        version="1",
        jury=JurySpec(name="one", judges=(judge,)),
        metrics=("exact_match",),
    )
    path = write_run(results, "x", MODEL, items([1.0, 0.0]))
    record = read_record(path)
    grading = msgspec.structs.replace(record.grading, graders=(terms,))
    write_struct(path / "summary.json", msgspec.structs.replace(record, grading=grading))
    measured = Agreement(
        reference="three physicians", grader="judge/a", asked=(grader_hash(judge, terms),), decisions=90,
        answers=30, cases=10, mf1=0.71, mf1_low=0.6, mf1_high=0.8, mf1_wrong=None, kappa=None,
        positive_reference=None, positive=None, invalid=2,
    )  # fmt: skip
    keep(results, KeptFidelity(benchmark="x", agreements=(measured,)))
    assert report(results, tmp_path / "out") == 0
    (row,) = table(tmp_path / "out", "fidelity")["rows"]
    assert (row["grader"], row["reference"], row["mf1"]) == ("judge/a", "three physicians", 0.71)
    assert "0.710 [0.600, 0.800]" in (tmp_path / "out" / "index.html").read_text()


# Hashes ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_check_says_what_has_changed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, out = fresh(results, tmp_path / "results"), tmp_path / "out"
    assert report(own, out) == 0
    first = every_byte(out)
    assert verified(out, own, capsys) == (0, ["Every file is as it was written."])
    assert report(own, out) == 0 and every_byte(out) == first  # of the same runs the same bytes
    moved = tmp_path / "elsewhere"
    shutil.copytree(out, moved)
    code, lines = verified(moved, tmp_path / "nothing", capsys)
    assert code == 0 and len(lines) == 5 and all("is not in" in line for line in lines[:-1])
    with (out / "index.html").open("a") as file:
        file.write(" ")
    (out / "tables" / "cost.csv").unlink()
    (out / "note.txt").write_text("mine")
    grading = next(path for path in find_gradings(own) if "/open/lab__one/" in path.as_posix())
    with (grading.parents[1] / "responses.jsonl").open("a") as file:
        file.write("\n")
    run = grading.relative_to(own).as_posix()
    assert verified(out, own, capsys) == (
        1,
        [
            "index.html was changed",
            "tables/cost.csv is missing",
            f"the run {run}: responses.jsonl was changed",
            "note.txt was added",
        ],
    )


def test_a_report_writes_over_nothing_but_a_report(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    assert report(results, mine) == 2 and "holds other files" in capsys.readouterr().err
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]
    assert report(results, tmp_path / "out", model="lab/*") == 2
    assert "2 models: lab/one, lab/two" in capsys.readouterr().err
    assert report(mine, tmp_path / "out") == 2  # no run at all is no misspelt model
    assert "no graded run" in capsys.readouterr().err
    assert run_command(["report", "--verify", str(mine)]) == 2


def test_the_description_for_archives_names_every_file(reported: Path) -> None:
    """`scripts/check_crate.py` asks the readers of others; here is what they look for."""
    out = reported
    crate = json.loads((out / "ro-crate-metadata.json").read_text())
    graph = {entity["@id"]: entity for entity in crate["@graph"]}
    root = graph["./"]
    files = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {part["@id"] for part in root["hasPart"]} == files - {"ro-crate-metadata.json"}
    assert {"name", "description", "datePublished", "license"} <= {*root}
    manifest = json.loads((out / "manifest.json").read_text())["files"]
    assert all(
        graph[name]["sha256"] == manifest[name] for name in files if "sha256" in graph.get(name, {})
    )
    linked = [
        value["@id"]
        for entity in graph.values()
        for value in entity.values()
        if isinstance(value, dict)
    ]
    assert {*linked} - {*graph} == {"https://w3id.org/ro/crate/1.1"}


# The page ----------------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_page_of_attacks_runs_nothing_and_asks_nobody(
    hostile: World, browser: Browser, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert report(hostile.results, out, "--draws", "10", model=FIRST.name) == 0
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto((out / "index.html").as_uri())
        assert asked == [(out / "index.html").as_uri()]
        assert page.evaluate("window.__pwned") is None
        foreign = "script, iframe, img, object, embed, base, form, svg, math, [onerror], [onload], [onclick]"
        assert page.locator(foreign).count() == 0
        assert page.locator("a").evaluate_all(
            "all => all.every(a => a.getAttribute('href')[0] === '#')"
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
