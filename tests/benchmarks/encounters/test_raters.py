"""Sheets of raters out and in, and their agreement worked out by hand."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from medhelm.cli import run_command
from medhelm.store.records import find_gradings
from tests.benchmarks.encounters.test_cases_data import write_scenario


def fill(sheet: Path, rater: Path, ratings: list[int | str]) -> None:
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == len(ratings)
    with rater.open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0].keys())
        out.writeheader()
        for row, rating in zip(rows, ratings, strict=True):
            out.writerow(row | {"value": rating})


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for n in (1, 2):
        write_scenario(tmp_path / "made" / "cases", scenario=f"c{n}/scenario1")
    return tmp_path


def test_two_raters_of_constructed_cases(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["agreement", "encounters", "made"]
    assert run_command([*args, "--template", "s.csv"]) == 0
    assert "8 rows to rate, of 2 units" in capsys.readouterr().out
    sheet = (desk / "s.csv").read_text(encoding="utf-8-sig")
    assert "c1" not in sheet and "scenario1" not in sheet
    assert sheet.count("Packet of the patient") == 2
    fill(desk / "s.csv", desk / "anna.csv", [5, 4, 5, 3, 5, 5, 2, ""])
    fill(desk / "s.csv", desk / "bela.csv", [5, 5, 3, 3, 4, 5, 2, 1])
    assert run_command([*args, "anna.csv", "bela.csv", "--format", "json"]) == 0
    rows = {r["aspect"]: r for r in json.loads(capsys.readouterr().out)["rows"]}
    # differences of the seven pairs: 0 1 2 0 | 1 0 0
    whole = rows["all"]
    assert (whole["units"], whole["pairs"]) == (8, 7)
    assert whole["exact"] == pytest.approx(4 / 7)
    assert whole["within_one"] == pytest.approx(6 / 7)
    assert whole["difference"] == pytest.approx(4 / 7)
    assert whole["mean"] == pytest.approx(57 / 15) and whole["high"] == pytest.approx(9 / 15)
    assert run_command([*args, "anna.csv"]) == 0
    assert "No unit is rated by two raters" in capsys.readouterr().out
    assert run_command([*args, "anna.csv", "anna.csv"]) == 3
    assert "give each file once" in capsys.readouterr().err
    assert rows["source_understanding"]["difference"] == pytest.approx(0.5)
    assert rows["plausibility"]["pairs"] == 1 and rows["plausibility"]["alpha"] is None


def test_what_a_file_of_ratings_gets_wrong(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["agreement", "encounters", "made"]
    assert run_command([*args, "--template", "s.csv", "--sample", "1"]) == 0
    fill(desk / "s.csv", desk / "anna.csv", [5, 6, 5, 3])
    assert run_command([*args, "anna.csv"]) != 0
    assert "is not a whole number from 1 to 5" in capsys.readouterr().err
    text = (desk / "s.csv").read_text(encoding="utf-8-sig").replace(",structure,", ",structur,")
    (desk / "b.csv").write_text(text)
    assert run_command([*args, "b.csv"]) != 0
    assert "has no item 'structur'; did you mean 'structure'?" in capsys.readouterr().err
    assert run_command(["agreement", "encounters", ".", "anna.csv"]) != 0
    assert "holds neither cases/" in capsys.readouterr().err


def test_raters_of_encounters(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "model=encounter/asks_everything", "benchmark=agentclinic,medsp1000"]
    run += ["data=sample", "results_dir=r"]
    assert run_command([*run, "-m"]) == 0
    args = ["agreement", "encounters", "r"]
    assert run_command([*args, "--template", "s.csv"]) == 0
    assert "54 rows to rate, of 9 units" in capsys.readouterr().out
    page = (desk / "s.csv").read_text()
    assert "asks_everything" not in page and "offline" not in page and "clinician: " in page
    assert page.count("Items, as the evaluator ticked them") == 6 and page.count("Turn 1\n") == 9
    scored = [
        row["extracted"]
        for grading in find_gradings(desk / "r")
        for row in pq.read_table(grading / "scores.parquet").to_pylist()
        if row["metric"] == "encounter_completion"
    ]
    ticked = sum(shown.count("@") for shown in scored)
    assert ticked > 6 and len(re.findall(r"\[met, turns \d[\d, ]*\] [A-Z]+: ", page)) == ticked
    items = sum(int(shown.partition("/")[2].partition(":")[0]) for shown in scored)
    assert page.count("[not met] ") == items - ticked
    fill(desk / "s.csv", desk / "anna.csv", [4] * 54)
    fill(desk / "s.csv", desk / "bela.csv", [5] * 54)
    assert run_command([*args, "anna.csv", "bela.csv", "--format", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)["rows"][-1]
    assert (whole["exact"], whole["within_one"], whole["difference"]) == (0.0, 1.0, 1.0)
