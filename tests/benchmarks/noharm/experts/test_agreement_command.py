"""`medhelm agreement actions`: the sheet for experts, their ratings, what is printed of them."""

from __future__ import annotations

import csv
import json
import random
import stat
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openpyxl import load_workbook

from medhelm_benchmarks.noharm.rules.cases import read_cases, write_cases
from tests.benchmarks.noharm.making import SAMPLES, case, changed, each
from tests.cases import cases
from tests.sheets import read_sheet
from tests.shell import Shell

ROOT = Path(__file__).parents[4]

ACS, ECZ = "NOHARM-CARD-ACS-001", "NOHARM-DERM-ECZ-002"
Rows = Iterable[tuple[object, ...]]
Agreement = Callable[..., str]


CASES = (
    each(
        case({"a1": (9, 8, 8), "a2": 8, "a3": (3, 3, 2), "a4": 7}, code=ACS),
        "category",
        ("medication", "medication", "diagnostic", "diagnostic"),
    ),
    each(
        case({"b1": 2, "b2": (9, 8, 9)}, code=ECZ, specialty="Dermatology"),
        "category",
        ("medication", "other"),
    ),
)


@pytest.fixture
def agreement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> Agreement:
    """Run the command on two cases; returns what it prints, or the one line of its error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    write_cases(Path("cases.jsonl"), CASES)

    def call(*argv: object, code: int = 0, cases: object = "cases.jsonl") -> str:
        words = ("agreement", "actions", cases, *argv)
        return shell.error(*words, code=code) if code else shell(*words)

    return call


def rate(
    rows: Rows, name: str = "ratings.csv", head: str = "unit item rater value", mark: str = ","
) -> Path:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerow(head.split())
        writer.writerows(rows)
    return Path(name)


def given(rater: str, **ratings: object) -> list[tuple[object, ...]]:
    """Return rows of one expert; actions of the first case begin with an a."""
    return [(ACS if a[0] == "a" else ECZ, a, rater, r) for a, r in ratings.items()]


def tables(out: str) -> dict[str, list[dict[str, Any]]]:
    found = json.loads(out)
    return {t["table"]: t["rows"] for t in (found if isinstance(found, list) else [found])}


def rows_of(out: str, level: str = "overall") -> dict[str, dict[str, Any]]:
    """Return the rows of one level of the table of actions, by rater or part."""
    rows = [row for row in tables(out)["actions"] if row["level"] == level]
    return {row["rater"] or row["part"]: row for row in rows}


def median_row(agreement: Agreement, *argv: object, **more: object) -> dict[str, Any]:
    """Return the row of the experts' median."""
    return rows_of(agreement(*argv, "--format", "json", **more))["experts' median"]


# What is printed ----------------------------------------------------------------------------------


def test_an_expert_against_the_synthetic_median_by_hand(agreement: Agreement) -> None:
    """Medians 8, 8, 3, 7 of the case against 9, 8, 2, 5: tests/benchmarks/noharm/experts/test_agreement.py."""
    path = rate(given("X", a1=9, a2=8, a3=2, a4=5, b1="", b2=" "))
    row = rows_of(agreement(path, "--format", "json"))["X"]
    assert (row["n"], row["asked"], row["cases"]) == (4, 6, 1)
    assert row["kappa_quadratic"] == pytest.approx(0.875)
    assert row["difference"] == pytest.approx(-0.5)
    assert row["same_class"] == row["within_1"] == row["harm_changed"] == 0.75
    assert (row["severe_missed"], row["severe_added"]) == (1, 0)  # a1 is severe to X alone
    assert row["reversed"] == 0
    assert row["reversed_rate_high"] == pytest.approx(0.527, abs=1e-3)  # 1 - 0.05^(1/4)
    assert row["reversed_rate_method"] == "exact, one-sided"
    assert row["kappa_quadratic_low"] is None
    assert row["kappa_quadratic_method"] == "none (one case)"


@pytest.mark.slow
def test_the_median_of_the_experts_by_hand(agreement: Agreement) -> None:
    """X, Y and Z say 9 8 2, 8 - 3, 2 - 3, 6 7 -, 8 8 9, - - 9 of a1 to a4, b1, b2."""
    rows = [
        *given("X", a1=9, a2=8, a3=2, a4=6, b1=8, b2=""),
        *given("Y", a1=8, a2="", a3="", a4=7, b1=8),
        *given("Z", a1=2, a2=3, a3=3, b1=9, b2=9),
    ]
    out = agreement(rate(rows), "--format", "json")
    row = rows_of(out)["experts' median"]
    assert (row["n"], row["asked"], row["cases"]) == (5, 6, 2)
    # 8, 5.5, 2.5, 6.5, 8 against 8, 8, 3, 7, 2
    assert row["difference"] == pytest.approx((0 - 2.5 - 0.5 - 0.5 + 6) / 5)
    assert row["same_class"] == pytest.approx(3 / 5)  # 6.5 is appropriate, 5.5 is uncertain
    assert row["within_1"] == pytest.approx(3 / 5)
    assert row["reversed"] == 1
    assert row["reversed_rate_low"] == pytest.approx(0.00505, abs=1e-5)  # 1 of 5, Clopper-Pearson
    assert row["reversed_rate_high"] == pytest.approx(0.71642, abs=1e-5)
    assert row["harm_changed"] == pytest.approx(2 / 5)  # a2 and b1; 2.5 weighs as 3, 6.5 as 7
    differences = tables(out)["differences"]
    assert [(d["action"], d["difference"]) for d in differences] == [
        ("b1", 6),
        ("a2", -2.5),
        ("a3", -0.5),
        ("a4", -0.5),
    ]
    assert differences[0] == {
        "case": ECZ,
        "action": "b1",
        "category": "medication",
        "specialty": "Dermatology",
        "synthetic": "2 2 2",
        "synthetic_median": 2,
        "synthetic_class": "inappropriate",
        "experts": "8 8 9",
        "experts_median": 8.0,
        "experts_class": "appropriate",
        "difference": 6.0,
        "reversed": True,
        "synthetic_harm": -5,
        "experts_harm": 5,
        "text": None,
    }
    assert [d["experts"] for d in differences[1:]] == ["8 - 3", "2 - 3", "6 7 -"]
    text = agreement(rate(rows))
    assert "without a rating: 3" in text
    assert "fewer than 2 experts: 1" in text
    assert median_row(agreement, rate(rows), "--set", "min_experts=1")["n"] == 6
    assert median_row(agreement, rate(rows), "--set", "min_experts=3")["n"] == 2
    assert "of 3 experts" in agreement(rate(rows), "--set", "min_experts=4", code=2)


def test_raters_among_themselves_by_hand(agreement: Agreement) -> None:
    """Three actions that both rated, 7 7, 3 3, 7 3: alpha 1 - (2/6) / (18/30), kappa 0.4; the
    fourth has one rating. Synthetic ratings of those four actions alone."""
    rows = given("X", a1=7, a2=3, a3=7) + given("Y", a1=7, a2=3, a3=3, a4=5)
    found = rows_of(agreement(rate(rows), "--set", "min_common=3", "--format", "json"))
    experts, synthetic = found["experts, in pairs"], found["synthetic, in pairs"]
    assert (experts["n"], experts["pairs"], experts["pairs_undefined"]) == (3, 1, 0)
    assert experts["alpha"] == pytest.approx(1 - (2 / 6) / (18 / 30))
    assert experts["kappa_quadratic"] == pytest.approx(1 - (1 / 3) / (5 / 9))
    assert experts["difference"] is None
    assert (synthetic["n"], synthetic["pairs"]) == (4, 3)
    alone = rows_of(agreement(rate(rows), "--format", "json"))["experts, in pairs"]
    assert alone["kappa_quadratic"] is None
    assert alone["kappa_quadratic_method"] == "none (no pair with 5 actions in common)"
    assert alone["alpha"] == experts["alpha"]
    assert "common): experts, in pairs" in " ".join(agreement(rate(rows)).split())


def test_where_they_differ(agreement: Agreement) -> None:
    path = rate(given("X", a1=9, a2=5, a3=8, a4=7, b1=2, b2=9))
    out = agreement(path, "--format", "json")
    category, specialty = rows_of(out, "category"), rows_of(out, "specialty")
    assert {name: (row["n"], row["same_class"]) for name, row in category.items()} == {
        "medication": (3, pytest.approx(2 / 3)),
        "diagnostic": (2, 0.5),
        "other": (1, 1),
    }
    assert {name: row["difference"] for name, row in specialty.items()} == {
        "Cardiology": pytest.approx((1 - 3 + 5 + 0) / 4),
        "Dermatology": 0,
    }
    confusion = {
        name: [row[k] for k in ("appropriate", "uncertain", "inappropriate")]
        for name, row in rows_of(out, "class").items()
    }
    assert confusion == {"appropriate": [3, 1, 0], "inappropriate": [1, 0, 1]}
    assert all(row["kappa_quadratic"] is None for row in rows_of(out, "class").values())
    assert rows_of(out)["X"]["appropriate"] is None


@pytest.mark.slow
def test_an_expert_without_any_rating_is_named_and_counted(agreement: Agreement) -> None:
    rows = given("X", a1=9, a2=8, b1=2) + given("Y", a1="", a2="")
    out = agreement(rate(rows))
    assert "Without any rating: Y." in out
    assert "without a rating: 2" in out
    found = rows_of(agreement(rate(rows), "--format", "json"))
    assert (found["Y"]["n"], found["Y"]["asked"]) == (0, 2)
    assert found["Y"]["reversed"] is None
    assert found["experts' median"]["n"] == 3  # the one who rated is the only one there is
    apart = median_row(agreement, rate(given("X", a1=9) + given("Y", a2=8)))
    assert apart["n"] == 0  # no action has two ratings


def bundled_ratings(seed: int = 0) -> list[tuple[object, ...]]:
    rng = random.Random(seed)
    return [
        (c.code, a.id, rater, min(9, max(1, sorted(a.ratings)[1] + rng.randint(-2, 2))))
        for rater in ("A", "B", "C")
        for c in read_cases(SAMPLES)
        for a in c.actions
    ]


@pytest.mark.slow
def test_order_of_rows_files_and_cases_changes_nothing(agreement: Agreement) -> None:
    rows = bundled_ratings()
    out = agreement(rate(rows), "--format", "json", cases=SAMPLES)
    random.Random(1).shuffle(rows)
    assert agreement(rate(rows), "--format", "json", cases=SAMPLES) == out
    one, two = rate(rows[::2], "one.csv"), rate(rows[1::2], "two.csv")
    assert agreement(two, one, "--format", "json", cases=SAMPLES) == out
    write_cases(Path("turned.jsonl"), read_cases(SAMPLES)[::-1])
    assert agreement(rate(rows), "--format", "json", cases="turned.jsonl") == out
    row = rows_of(out)["experts' median"]
    assert row["kappa_quadratic_low"] < row["kappa_quadratic"] < row["kappa_quadratic_high"] < 1
    seeded = median_row(agreement, rate(rows), "--set", "seed=1", cases=SAMPLES)
    assert seeded["kappa_quadratic"] == row["kappa_quadratic"]
    assert seeded["kappa_quadratic_low"] != row["kappa_quadratic_low"]


# Ratings in ---------------------------------------------------------------------------------------


def test_without_a_column_rater_the_file_is_the_rater(agreement: Agreement) -> None:
    head = "unit item value"
    one = rate([(ACS, "a1", 9), (ECZ, "b1", 2)], "anna.csv", head)
    two = rate([(ACS, "a1", 8), (ECZ, "b1", "")], "ben.csv", head)
    found = rows_of(agreement(one, two, "--format", "json"))
    assert [r["rater"] for r in found.values() if r["who"] == "expert"] == ["anna", "ben"]
    Path("other").mkdir()
    again = rate([(ACS, "a2", 9)], "other/anna.csv", head)
    line = agreement(one, again, code=3)
    assert "anna.csv and other/anna.csv" in line


@pytest.mark.parametrize(("row", "expected"), cases(__file__, "mistakes"))
def test_a_mistake_is_one_line_with_file_and_row(
    row: list[object], expected: str, agreement: Agreement
) -> None:
    line = agreement(rate([(ACS, "a2", "X", 8), row]), code=3)
    assert expected in line
    assert "ratings.csv, row 2" in line


def test_whole_numbers_as_programs_write_them_are_read(agreement: Agreement) -> None:
    path = rate(given("X", a1="8.0", a2="8", a3="8,0"), "pandas.csv", mark=";")
    assert rows_of(agreement(path, "--format", "json"))["X"]["n"] == 3


def test_ratings_of_another_version_of_the_cases_are_refused(agreement: Agreement) -> None:
    head = "unit item text value"
    assert agreement(rate([(ACS, "a1", "Do  a1. ", 8), (ACS, "a2", "", 8)], head=head))
    line = agreement(rate([(ACS, "a1", "Do a2.", 8)], head=head), code=3)
    assert f"{ACS}, item a1" in line
    assert "Do a2" not in line


def test_a_workbook_is_called_one(agreement: Agreement) -> None:
    with zipfile.ZipFile("anna.xlsx", "w") as file:
        file.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    assert "anna.xlsx: not readable" in agreement("anna.xlsx", code=3)
    Path("anna.xlsx").rename("anna.ods")
    assert "save it as .xlsx" in agreement("anna.ods", code=3)


def test_a_workbook_goes_out_and_comes_in(agreement: Agreement) -> None:
    agreement("--template", "sheet.xlsx")
    book = load_workbook("sheet.xlsx")
    page = book.worksheets[0]
    names = [cell.value for cell in page[1]]
    for line in page.iter_rows(min_row=2):
        line[names.index("value")].value = 7
    book.save("dora.xlsx")
    found = rows_of(agreement("dora.xlsx", "--format", "json"))
    assert found["dora"]["n"] == found["dora"]["asked"] == 6


@pytest.mark.parametrize(("argv", "expected"), cases(__file__, "options_that_do_not_fit"))
def test_options_that_do_not_fit(argv: list[str], expected: str, agreement: Agreement) -> None:
    assert expected in agreement(*argv, code=2)


# The sheet ----------------------------------------------------------------------------------------


def test_a_sheet_holds_the_actions_and_the_cases(agreement: Agreement) -> None:
    out = agreement("--template", "out/sheet.csv")
    assert "out/sheet.csv: 6 rows" in out and "2 units" in out
    assert stat.S_IMODE(Path("out/sheet.csv").stat().st_mode) == 0o600
    rows = read_sheet("out/sheet.csv")
    assert [*rows[0]] == ["unit", "item", "text", "rater", "value", "shown"]
    assert sorted((r["unit"], r["item"], r["text"], r["value"]) for r in rows) == [
        (c.code, a.id, a.text, "") for c in CASES for a in c.actions
    ]
    shown = [r["shown"] for r in rows if r["shown"]]
    assert len(shown) == 2 and all("What next?" in text for text in shown)
    assert "is there already" in agreement("--template", "out/sheet.csv", code=2)


def test_nothing_that_gives_an_answer_away_is_on_the_sheet(agreement: Agreement) -> None:
    """Cases that differ in all that raters must not see have the same sheet."""
    told = {"ratings": (5, 5, 5), "category": "other", "references": (), "is_implausible": False}
    none = dict.fromkeys(("references", "alternatives", "best_alternatives", "broad"), ())
    bare = [
        msgspec.structs.replace(changed(made, [a.id for a in made.actions], **told), **none)
        for made in read_cases(SAMPLES)
    ]
    write_cases(Path("bare.jsonl"), bare)
    assert any(c.references and c.broad for c in read_cases(SAMPLES))
    agreement("--template", "a.csv", cases=SAMPLES)
    agreement("--template", "b.csv", cases="bare.jsonl")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_the_order_on_the_sheet_is_not_that_of_the_menu(agreement: Agreement) -> None:
    agreement("--template", "sheet.csv", cases=SAMPLES)
    rows = read_sheet("sheet.csv")
    for made in read_cases(SAMPLES):
        shown = [r["item"] for r in rows if r["unit"] == made.code]
        assert sorted(shown) == sorted(a.id for a in made.actions)
        assert shown != [a.id for a in made.actions]
    codes = [r["unit"] for r in rows]
    assert codes == sorted(codes, key=codes.index)  # a case stands together


def test_a_sample_is_drawn_by_the_seed_and_grows(agreement: Agreement) -> None:
    def drawn(name: str, *argv: object) -> set[tuple[str, str]]:
        agreement("--template", name, *argv, cases=SAMPLES)
        return {(r["unit"], r["item"]) for r in read_sheet(name)}

    small = drawn("a.csv", "--sample", "3x5", "--set", "seed=4")
    assert len(small) == 15
    assert len({code for code, _ in small}) == 3
    assert small < drawn("b.csv", "--sample", "5x8", "--set", "seed=4")
    agreement("--template", "c.csv", "--sample", "3x5", "--set", "seed=4", cases=SAMPLES)
    assert Path("c.csv").read_bytes() == Path("a.csv").read_bytes()
    assert drawn("d.csv", "--sample", "3x5", "--set", "seed=5") != small


def test_no_cell_is_a_formula(agreement: Agreement) -> None:
    texts = ("=1+1", "+ Add aspirin", "-\t1 line", "@SUM(A1)")
    made = msgspec.structs.replace(CASES[0], specialty="@Cardiology")
    write_cases(Path("hostile.jsonl"), [each(made, "text", texts)])
    agreement("--template", "sheet.csv", cases="hostile.jsonl")
    rows = {r["item"]: r for r in read_sheet("sheet.csv")}
    assert [rows[a]["text"] for a in ("a1", "a2", "a3", "a4")] == [
        "'=1+1",
        "'+ Add aspirin",
        "'- 1 line",
        "'@SUM(A1)",
    ]
    filled = [(ACS, a, r["text"], 5 - (a == "a1")) for a, r in rows.items()]
    out = agreement(
        rate(filled, head="unit item text value"), "--show", "text", cases="hostile.jsonl"
    )
    assert "'=1+1" in out


def test_names_that_others_gave_are_no_formulas_in_tables(agreement: Agreement) -> None:
    made = msgspec.structs.replace(CASES[0], specialty="=1+1")
    write_cases(Path("hostile.jsonl"), [made])
    path = rate(given("@SUM(A1)", a1=1))
    for table in ("actions", "differences"):
        agreement(path, "--table", table, "--out", f"{table}.csv", cases="hostile.jsonl")
        with Path(f"{table}.csv").open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert "'=1+1" in cells
        assert not [c for c in cells if c.startswith(("=", "@"))]
