"""The survey of clinicians on the taxonomy: the sheet, and what is printed of their answers."""

from __future__ import annotations

import csv
import math
import stat
from pathlib import Path

import pytest
from scipy import stats

from medhelm.plugins.taxonomy import load_taxonomy
from tests.shell import Shell

pytestmark = pytest.mark.usefixtures("here")

CATEGORIES = [c.id for c in load_taxonomy().categories]


def write_sheet(shell: Shell) -> list[dict[str, str]]:
    shell("agreement", "taxonomy", "--template", "sheet.csv", "--set", "seed=3")
    with open("sheet.csv", encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(name: str, rows: list[dict[str, str]], wrong: int = 0, rating: str = "4") -> str:
    """Answer by the taxonomy, but for the first `wrong` rows, which get the category after it."""
    path = f"{name}.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["unit", "item", "value"], extrasaction="ignore")
        writer.writeheader()
        for n, row in enumerate(rows):
            if row["unit"] == "comprehensiveness":
                writer.writerow(row | {"value": rating})
                continue
            right = CATEGORIES.index(load_taxonomy().category_of(row["unit"]).id)
            writer.writerow(row | {"value": "ABCDE"[(right + (n < wrong)) % 5]})
    return path


def test_the_sheet_holds_every_subcategory_once_and_gives_nothing_away(shell: Shell) -> None:
    rows = write_sheet(shell)
    assert len(rows) == 23 and rows[-1]["unit"] == "comprehensiveness"
    ids = [row["unit"] for row in rows[:-1]]
    assert sorted(ids) == sorted(s.id for s in load_taxonomy().subcategories())
    assert ids != [s.id for s in load_taxonomy().subcategories()]
    assert {row["value"] for row in rows} == {""} and {r["item"] for r in rows[:-1]} == {"category"}
    assert stat.S_IMODE(Path("sheet.csv").stat().st_mode) == 0o600


def test_agreement_and_comprehensiveness_are_those_worked_out_by_hand(shell: Shell) -> None:
    rows = write_sheet(shell)
    files = [fill("ann", rows, 0, "5"), fill("ben", rows, 1, "4"), fill("cem", rows, 2, "4")]
    overall, coverage, *each = shell.json("agreement", "taxonomy", *files)["rows"]
    error = shell.error("agreement", "taxonomy", *files, "--set", "draws=9")
    assert "draws=9: NAME=VALUE sets one of seed, confidence" in error
    assert overall["answered"] == 66 and overall["raters"] == 3
    assert overall["agreement"] == pytest.approx(63 / 66)
    low, high = overall["agreement_low"], overall["agreement_high"]
    assert isinstance(low, float) and isinstance(high, float) and low < 63 / 66 < high < 1
    mean, sd = 13 / 3, math.sqrt(1 / 3)
    half = stats.t.ppf(0.975, 2) * sd / math.sqrt(3)
    assert coverage["mean"] == pytest.approx(mean)
    assert coverage["mean_low"] == pytest.approx(mean - half)
    assert coverage["mean_high"] == 5.0  # the scale ends
    assert len(each) == 22
    first = load_taxonomy().subcategory(rows[0]["unit"])
    (odd,) = [row for row in each if row["what"] == first.name]
    assert odd["agreement"] == pytest.approx(1 / 3) and str(odd["taken_for"]).endswith("(2)")


def test_rows_without_an_answer_are_counted_and_are_no_disagreement(shell: Shell) -> None:
    rows = write_sheet(shell)
    half = [row | {"value": ""} for row in rows]
    fill("ann", rows[:5])
    with open("ann.csv", "a", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([row["unit"], row["item"], ""] for row in half[5:])
    overall, coverage, *_ = shell.json("agreement", "taxonomy", "ann.csv")["rows"]
    assert (overall["answered"], overall["asked"], overall["agreement"]) == (5, 22, 1.0)
    assert overall["method"] == "none (one clinician)" and overall["agreement_low"] is None
    assert (coverage["answered"], coverage["mean"]) == (0, None)


WRONG = {
    "planning_treatment,category,A": "no unit 'planning_treatment'",
    "planning_treatments,category,F": "is not A or B or C or D or E",
    "comprehensiveness,comprehensiveness,6": "from 1 to 5",
    "planning_treatments,category,A\nplanning_treatments,category,B": "row 1; keep one",
    "planning_treatments,category,": "no row has a rating",
}


def test_a_wrong_row_is_one_line_with_its_place(shell: Shell) -> None:
    for line, says in WRONG.items():
        Path("dr.csv").write_text(f"unit,item,value\n{line}\n")
        assert says in shell.error("agreement", "taxonomy", "dr.csv", code=3)
