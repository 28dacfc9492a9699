"""Labelled actions on the site: the table of harm, labels beside the rubric, and what stays closed."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.store.records import find_gradings
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from medhelm_benchmarks.noharm.page.page import action_lines, label_lines
from medhelm_benchmarks.noharm.rules.menu import case_instance
from medhelm_leaderboard.diff import diff
from tests.benchmarks.noharm.labelled import labels
from tests.benchmarks.noharm.making import case
from tests.build_runs import forget_hash
from tests.leaderboard.casting import build, data_of, fresh
from tests.leaderboard.labelling import CLOSED, MARK, bundled, labels_of, write_labelled
from tests.leaderboard.test_border import every_byte
from tests.leaderboard.test_site import rows_of, run_page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labelled(tmp_path_factory.mktemp("labelled"))


@pytest.fixture(scope="module")
def harm_site(acts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("harm") / "site"
    build(acts, out)
    return out


def harm_page(site: Path) -> Any:
    (scoring,) = data_of(site, "site")["scorings"]
    return data_of(site, dict(scoring["tables"])["harm"])


# No leak -----------------------------------------------------------------------------------------


def test_no_word_of_a_closed_case_gets_out(harm_site: Path, acts: Path) -> None:
    planted = b"".join(p.read_bytes() for p in acts.rglob("*") if p.is_file())
    for word in (
        "SPECIALTYCardiology",
        "Do a1 now",
        "GUIDELINE",
        "Known",
        "REPLY",
        "What next",
        "SOCIETY",
    ):
        assert f"{MARK}{word}".encode() in planted  # else the test could not fail
    everything = every_byte(harm_site)
    assert MARK.encode() not in everything and b"SPECIALTY" not in everything
    for code in ("NOHARM-CARD-ACS-000", "NOHARM-CARD-ACS-003"):
        assert code.encode() in planted and code.encode() not in everything
    for name in CLOSED:
        page = run_page(harm_site, name, "lab/bold")
        assert page["answers"] == page["texts"] == [] and len(page["ids"]) == 4
        assert all(len(i) == 16 and int(i, 16) >= 0 for i in page["ids"])


def test_scores_of_closed_cases_are_there_and_errors_by_specialty_are_not(
    harm_site: Path, acts: Path
) -> None:
    rows = rows_of(harm_page(harm_site))
    table = load_results(acts).typed("harm", Settings(draws=50))
    kept = [
        dict(r) for r in table.rows if r["level"] != "specialty" or r["benchmark"] not in CLOSED
    ]
    assert rows == kept and len(kept) < len(table.rows)
    levels = {name: {r["level"] for r in rows if r["benchmark"] == name} for name in CLOSED}
    assert set(map(frozenset, levels.values())) == {frozenset({"model", "category", "all models"})}
    own = [r for r in rows if (r["benchmark"], r["level"]) == ("labelled_private", "model")]
    assert {r["omissions_moderate"] for r in own} == {4}  # a2, in each of the four cases
    assert any("not published of labelled_gated" in n for n in harm_page(harm_site)["notes"])
    with (harm_site / "tables" / "fixed" / "harm.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(kept)
    stored = json.loads((harm_site / "tables" / "fixed" / "harm.json").read_text())
    assert stored["rows"] == kept


def test_only_public_cases_on_demand(acts: Path, tmp_path: Path) -> None:
    build(acts, tmp_path / "site", access=["public"])
    named = {r["benchmark"] for r in rows_of(harm_page(tmp_path / "site"))}
    assert named == {"labelled", "labelled_kept"}
    assert b"labelled_private" not in every_byte(tmp_path / "site")


# Labels and rubric of open cases -----------------------------------------------------------------

CASE = case(
    {"ecg": 9, "aspirin": 8, "clopidogrel": 7, "bloods": 7, "troponin": (9, 9, 8), "rest": 5, "walk": 3, "lysis": 1},
    alternatives=[["aspirin", "clopidogrel"]],
    broad={"bloods": ["troponin"]},
)  # fmt: skip
INSTANCE = case_instance(msgspec.to_builtins(CASE))


def lines(text: str, **stored: float) -> Any:
    return label_lines(episode(INSTANCE, text), {f"noharm_{n}": v for n, v in stored.items()})


def episode(instance: Instance, text: str) -> Episode:
    return Episode(instance=instance, response=Response(instance_id=instance.id, text=text))


def detail(line: Any) -> Any:
    """Return what the page shows of an instance or an answer in a data file."""
    return dict(line["details"])["harm"]


def test_the_rubric_of_an_action() -> None:
    found = action_lines(INSTANCE)
    assert found is not None
    rubric = {a["id"]: a for a in found}
    assert [a for a in rubric] == [a.id for a in CASE.actions]
    assert (rubric["troponin"]["rating"], rubric["troponin"]["ratings"]) == (9, (9, 9, 8))
    assert rubric["troponin"]["broad"] == ["bloods"] and rubric["ecg"]["broad"] == []
    assert rubric["aspirin"]["alternatives"] == ["clopidogrel"]
    assert [rubric[a]["kind"] for a in ("ecg", "rest", "walk")] == [
        "appropriate",
        "uncertain",
        "inappropriate",
    ]


def test_labels_errors_and_why_there_is_none() -> None:
    text = labels(
        ecg="n", aspirin="n", clopidogrel="y", bloods="y", rest="y", walk="perhaps", lysis="y"
    )
    found = {line["id"]: line for line in lines(text, harm=50.0)}
    assert found["ecg"] == {
        "id": "ecg",
        "label": "inappropriate",
        "error": "omission",
        "severity": "severe",
        "why": "",
    }
    assert found["lysis"]["error"] == "commission" and found["lysis"]["severity"] == "severe"
    assert (found["troponin"]["label"], found["troponin"]["why"]) == (
        "missing",
        "covered by bloods",
    )
    assert found["aspirin"]["why"] == "replaced by clopidogrel"
    assert (found["walk"]["label"], found["walk"]["error"]) == ("invalid", "")
    assert found["rest"]["error"] == found["rest"]["why"] == found["clopidogrel"]["why"] == ""
    neither = labels(
        ecg="y", aspirin="n", clopidogrel="n", bloods="y", rest="n", walk="n", lysis="n"
    )
    found = {line["id"]: line for line in lines(neither, safety=1 - 5 / 25)}
    assert (found["aspirin"]["error"], found["aspirin"]["severity"]) == ("omission", "moderate")
    assert found["clopidogrel"]["why"] == "counted once, at aspirin"


def test_no_labels_where_the_stored_score_is_of_other_rules() -> None:
    text = labels(ecg="n")
    assert lines(text, harm=1.0) is None and lines(text) is None
    assert lines("I cannot say.", harm=25.0) is None


def test_an_instance_with_a_menu_of_another_kind_has_no_rubric() -> None:
    for key in ({}, {"case": "<b>"}, {"case": "{}"}, {"case": INSTANCE.answer_key["case"]}):
        other = Instance(id="x", payload={"one": "A"}, answer_key=key)
        assert action_lines(other) is None
        assert label_lines(episode(other, "{}"), {}) is None


def test_a_cell_can_be_followed_to_the_labels_of_a_case(harm_site: Path) -> None:
    page = run_page(harm_site, "labelled", "lab/bold")
    texts = [line for _, key in page["texts"] for line in data_of(harm_site, key)]
    answers = [line for _, key in page["answers"] for line in data_of(harm_site, key)]
    for made in bundled():
        place = page["ids"].index(made.code)
        assert texts[place]["references"] == texts[place]["answer_key"] == []  # said by the rubric
        assert detail(texts[place])[0]["references"] == list(made.actions[0].references)
        assert [a["text"] for a in detail(texts[place])] == [a.text for a in made.actions]
        given = {line["id"]: line["label"] for line in detail(answers[place])}
        said = labels_of(made, "lab/bold")
        assert given == {i: label.lower() for i, label in said.items()}
    errors = [line["error"] for a in answers for line in detail(a) if line["error"]]
    own = next(
        r
        for r in rows_of(harm_page(harm_site))
        if (r["benchmark"], r["level"], r["model"]) == ("labelled", "model", "lab/bold")
    )
    assert len(errors) == own["errors"] and errors.count("omission") == own["omissions"]


def test_other_sites_have_no_page_and_no_empty_labels(site: Path) -> None:
    (scoring,) = data_of(site, "site")["scorings"]
    assert "harm" not in dict(scoring["tables"])
    assert data_of(site, "site")["pages"] == []
    assert not (site / "tables" / "fixed" / "harm.csv").exists()
    for path in (site / "data").glob("*.js"):
        text = path.read_text()
        assert '"details":' not in text and '"gold":' not in text and '"turns":' not in text


# What cannot be shown, what changes --------------------------------------------------------------


def test_unreadable_metadata_takes_the_page_and_nothing_else(acts: Path, tmp_path: Path) -> None:
    results = fresh(acts, tmp_path / "results")
    for grading in find_gradings(results):
        path = grading / "scores.parquet"
        table = pq.read_table(path)
        place = table.schema.get_field_index("metadata")
        broken = pa.array(["[]"] * table.num_rows)
        pq.write_table(table.set_column(place, table.schema.field(place), broken), path)
        forget_hash(grading)
    built = build(results, tmp_path / "site")
    assert [p.where for p in built.problems] == ["the page Harm, scoring=fixed"]
    again = build(results, tmp_path / "site")
    assert again.written == 0 and again.problems == built.problems
    (scoring,) = data_of(tmp_path / "site", "site")["scorings"]
    assert "harm" not in dict(scoring["tables"]) and len(scoring["runs"]) == 12


def test_diff_tells_of_safety_and_severe_harm(acts: Path, tmp_path: Path) -> None:
    build(acts, tmp_path / "old", benchmarks=["labelled"], models=["lab/bold", "lab/careful"])
    results = fresh(acts, tmp_path / "results")
    runs = results / "runs" / "labelled"
    worse = next((runs / "lab__bold").iterdir()) / "gradings"
    (grading,) = worse.iterdir()
    other = next((runs / "vendor__coarse").iterdir()) / "gradings"
    scores = next(other.iterdir()) / "scores.parquet"
    own = pq.read_table(grading / "scores.parquet").schema.metadata
    pq.write_table(pq.read_table(scores).replace_schema_metadata(own), grading / "scores.parquet")
    forget_hash(grading)
    build(results, tmp_path / "new", benchmarks=["labelled"], models=["lab/bold", "lab/careful"])
    rows = diff(tmp_path / "old", tmp_path / "new").rows
    moved = {r["metric"] for r in rows if (r["change"], r["model"]) == ("score", "lab/bold")}
    assert moved >= {"noharm_overall", "noharm_safety", "noharm_severe_rate", "noharm_harm"}


def test_a_site_whose_labelled_runs_are_gone_loses_the_page(
    acts: Path, results: Path, tmp_path: Path
) -> None:
    both, out = fresh(results, tmp_path / "results"), tmp_path / "site"
    shutil.copytree(acts / "runs" / "labelled", both / "runs" / "labelled")
    build(both, out)
    assert (out / "tables" / "fixed" / "harm.csv").exists()
    shutil.rmtree(both / "runs" / "labelled")
    assert build(both, out).removed
    assert not (out / "tables" / "fixed" / "harm.csv").exists()
    assert data_of(out, "site")["pages"] == []
