"""Sheets of raters out and in: their agreement by hand, and people in the place of an evaluator."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from medhelm.store.records import find_gradings, find_runs, read_record
from tests.benchmarks.encounters.stage import PLUGIN
from tests.benchmarks.encounters.test_cases_data import write_scenario
from tests.sheets import Row, read_sheet, write_sheet
from tests.shell import Shell

RUN = ("run", "model=encounter/oracle", "benchmark=stage", "data=sample", "results_dir=r")
RUN += (f"plugins=[{PLUGIN}]",)
ITEMS = ("agreement", "items", "r")


Change = Callable[[int, int, Row], Row | None]


def fill(name: str, rows: list[Row], change: Change) -> None:
    """Write a sheet with what becomes of each row, by the places of its encounter and item."""
    changed = (change(n // 4, n % 4, {**row}) for n, row in enumerate(rows))
    write_sheet(name, (row for row in changed if row is not None))


def rate(name: str, values: list[int | str]) -> None:
    rows = read_sheet("s.csv")
    assert len(rows) == len(values)
    left = iter(values)
    fill(name, rows, lambda unit, item, row: row | {"value": str(next(left))})


def test_two_raters_of_constructed_cases(here: Path, shell: Shell) -> None:
    for n in (1, 2):
        write_scenario(here / "made" / "cases", scenario=f"c{n}/scenario1")
    args = ("agreement", "encounters", "made")
    assert "8 rows to rate, of 2 units" in shell(*args, "--template", "s.csv")
    sheet = (here / "s.csv").read_text(encoding="utf-8-sig")
    assert "c1" not in sheet and "scenario1" not in sheet
    assert sheet.count("Packet of the patient") == 2
    rate("anna.csv", [5, 4, 5, 3, 5, 5, 2, ""])
    rate("bela.csv", [5, 5, 3, 3, 4, 5, 2, 1])
    rows = {r["aspect"]: r for r in shell.json(*args, "anna.csv", "bela.csv")["rows"]}
    # differences of the seven pairs: 0 1 2 0 | 1 0 0
    whole = rows["all"]
    assert (whole["units"], whole["pairs"]) == (8, 7)
    assert whole["exact"] == pytest.approx(4 / 7)
    assert whole["within_one"] == pytest.approx(6 / 7)
    assert whole["difference"] == pytest.approx(4 / 7)
    assert whole["mean"] == pytest.approx(57 / 15) and whole["high"] == pytest.approx(9 / 15)
    assert "rated by two raters" in shell(*args, "anna.csv")
    assert "holds neither cases/" in shell.error(*args[:2], ".", "anna.csv")
    assert (
        whole["exact_low"] < 4 / 7 < whole["exact_high"]
        and whole["method"] == "wilson, clustered, few clusters"
    )
    assert rows["source_understanding"]["difference"] == pytest.approx(0.5)
    assert rows["plausibility"]["pairs"] == 1 and rows["plausibility"]["alpha"] is None
    assert "give each file once" in shell.error(*args, "anna.csv", "anna.csv", code=3)
    rate("ben.csv", [5, 6, 5, 3, 5, 5, 2, ""])
    assert "from 1 to 5" in shell.error(*args, "ben.csv", code=3)
    Path("c.csv").write_text(Path("anna.csv").read_text().replace(",structure,", ",structur,"))
    assert "did you mean 'structure'?" in shell.error(*args, "c.csv", code=3)


def test_scenarios_of_one_article_are_not_independent(here: Path, shell: Shell) -> None:
    for n in (1, 2):
        write_scenario(here / "made" / "cases", scenario=f"c1/scenario{n}")
    args = ("agreement", "encounters", "made")
    shell(*args, "--template", "s.csv")
    rate("anna.csv", [5, 4, 5, 3, 5, 5, 2, 4])
    rate("bela.csv", [5, 5, 3, 3, 4, 5, 2, 1])
    whole = shell.json(*args, "anna.csv", "bela.csv")["rows"][-1]
    assert (
        whole["pairs"] == 8 and whole["alpha"] is not None and whole["method"] == "none (one case)"
    )
    assert all(whole[f"{name}_low"] is None for name in ("exact", "difference", "alpha", "mean"))


@pytest.mark.slow
def test_raters_of_encounters(here: Path, shell: Shell) -> None:
    run = ("run", "model=encounter/asks_everything", "benchmark=agentclinic,medsp1000")
    shell(*run, "data=sample", "results_dir=r", "-m")
    args = ("agreement", "encounters", "r")
    assert "54 rows to rate, of 9 units" in shell(*args, "--template", "s.csv")
    page = (here / "s.csv").read_text()
    assert "asks_everything" not in page and "offline" not in page and "clinician: " in page
    assert page.count("Items, as the evaluator ticked them") == 6 and page.count("Turn 1\n") == 9
    scored = [
        row["extracted"]
        for grading in find_gradings(here / "r")
        for row in pq.read_table(grading / "scores.parquet").to_pylist()
        if row["metric"] == "encounter_completion"
    ]
    ticked = sum(shown.count("@") for shown in scored)
    assert ticked > 6 and len(re.findall(r"\[met, turns \d[\d, ]*\] [A-Z]+: ", page)) == ticked
    items = sum(int(shown.partition("/")[2].partition(":")[0]) for shown in scored)
    assert page.count("[not met] ") == items - ticked
    rate("anna.csv", [4] * 54)
    rate("bela.csv", [5] * 54)
    whole = shell.json(*args, "anna.csv", "bela.csv")["rows"][-1]
    assert (whole["exact"], whole["within_one"], whole["difference"]) == (0.0, 1.0, 1.0)
    dice = random.Random(0)
    rate("anna.csv", [dice.choice((2, 3, 5)) for _ in range(54)])
    rate("bela.csv", [n + dice.choice((-1, 0, 0)) for n in map(int, values("anna.csv"))])
    statistics_are_heeded(shell, (*args, "anna.csv", "bela.csv"), ("difference", "exact", "alpha"))


def values(name: str) -> list[str]:
    return [row["value"] for row in read_sheet(name)]


def statistics_are_heeded(shell: Shell, line: tuple[str, ...], measures: tuple[str, ...]) -> None:
    """Check that seed, draws and confidence change the intervals of the last row and nothing else."""

    def found(*settings: str) -> dict[str, float]:
        row = shell.json(*line, *(("--set", *settings) if settings else ()))["rows"][-1]
        assert all(row[f"{m}_low"] < row[m] < row[f"{m}_high"] for m in measures)
        return {k: v for k, v in row.items() if isinstance(v, float)}

    plain, ends = found(), {f"{m}_{end}" for m in measures for end in ("low", "high")}
    assert found() == plain
    for settings in ("seed=5", "draws=300", "confidence=0.5"):
        other = found(settings)
        changed = {name for name in plain if other[name] != plain[name]}
        assert changed and all(name.endswith(("_low", "_high")) for name in changed)
    assert ends <= changed  # of the confidence
    assert all(plain[f"{m}_low"] < other[f"{m}_low"] for m in measures)
    assert all(plain[f"{m}_high"] > other[f"{m}_high"] for m in measures)


def by_hand(*sheets: str) -> list[str]:
    judges = ",".join(f"rater/{sheet}" for sheet in sheets)
    return ["jury.name=by_hand", "jury.quorum=1", f"jury.judges=[{judges}]"]


def scores(*judges: str) -> dict[str, tuple[float | None, str]]:
    """Return value and reason of each case in the grading by these judges."""
    for grading in find_gradings(Path("r")):
        jury = read_record(grading).grading.graders[0].jury
        if tuple(judge.name for judge in jury.judges) == judges:
            rows = pq.read_table(grading / "scores.parquet").to_pylist()
            own = [r for r in rows if r["metric"] == "encounter_completion"]
            return {r["instance_id"]: (r["value"], r["reason"]) for r in own}
    raise AssertionError(judges)


@pytest.fixture
def sheet(here: Path, shell: Shell) -> list[Row]:
    """Return the rows of a sheet of four encounters with four items each, in the order of the sheet."""
    shell(*RUN)
    shell(*ITEMS, "--template", "s.csv")
    return read_sheet("s.csv")


def yes(row: Row, turns: str = "1, 2") -> Row:
    return row | {"value": "Yes", "turns": turns}


def anna(unit: int, item: int, row: Row) -> Row | None:
    if unit == 1 and item == 0:
        return yes(row, "")
    if unit == 2 and item == 1:
        row["text"] += " and more"
    if unit == 3:
        return row
    return yes(row) if item != 3 else row | {"value": "no"}


def bela(unit: int, item: int, row: Row) -> Row | None:
    if unit == 2 and item == 2:
        row["text"] = "SBP" + row["text"][2:]
    if unit == 3 and item == 3:
        return None
    return yes(row)


@pytest.mark.slow
def test_a_sheet_is_a_judge_and_nothing_is_run_again(sheet: list[Row], shell: Shell) -> None:
    page = Path("s.csv").read_text()
    assert "clinician does: " in page and "oracle" not in page
    assert "art0" not in page and len(sheet) == 16
    log = find_runs(Path("r"))[0] / "responses.jsonl"
    before = log.read_bytes()
    fill("anna.csv", sheet, anna)
    fill("bela.csv", sheet, bela)
    shell(*RUN, *by_hand("anna.csv"))
    shell(*RUN, *by_hand("anna.csv", "bela.csv"))
    # 3 of 4; no verdict on one that is met without a turn, or on a reworded one; nothing is filled in
    unread = (None, "0 of 1 needed verdicts (rater/anna: error)")
    partly = (None, "a valid verdict on 3 of 4 items")
    own = sorted(scores("rater/anna").values(), key=str)
    assert own == [(0.75, "completed"), unread, partly, partly]
    # more than half: bela alone is not enough, and what anna lacks could turn bela's yes
    both = [v for v, _ in scores("rater/anna", "rater/bela").values()]
    assert sorted(v or -1 for v in both) == [-1, -1, -1, 0.75]
    assert log.read_bytes() == before
    fill("anna.csv", sheet, lambda unit, item, row: yes(row))
    Path("carl.csv").write_bytes(Path("anna.csv").read_bytes())
    shell(*RUN, *by_hand("anna.csv", "carl.csv"))  # two who agree in all are two raters
    assert {v for v, _ in scores("rater/anna", "rater/carl").values()} == {1.0}
    raters = [(yes({**row}) | {"rater": "anna"}) for row in sheet]
    raters += [
        (yes({**row}) if n % 4 else {**row, "value": "no"}) | {"rater": "dora"}
        for n, row in enumerate(sheet)
    ]
    fill("all.csv", raters, lambda unit, item, row: row)  # as a review in a browser leaves it
    shell(*RUN, *by_hand("all.csv@dora"))
    assert {v for v, _ in scores("rater/dora").values()} == {0.75}
    shell(*RUN, *by_hand("all.csv"), code=3)
    assert "anna, dora" in shell.err and "rater/all.csv@" in shell.err
    shell(*RUN, *by_hand("anna.csv"))  # a corrected sheet is another judge
    newest = read_record(max(find_gradings(Path("r")), key=lambda p: p.stat().st_mtime))
    assert [r.value for r in newest.results if r.metric == "encounter_completion"] == [1.0]


@pytest.mark.slow
def test_agreement_on_items_has_intervals(here: Path, shell: Shell) -> None:
    models = "model=encounter/oracle,encounter/asks_everything"
    shell("run", models, "benchmark=medsp1000", "data=sample", "results_dir=r", "-m")
    shell(*ITEMS, "--template", "s.csv")
    sheet, dice = read_sheet("s.csv"), random.Random(0)
    fill("anna.csv", sheet, lambda u, i, row: row | dice.choice(({"value": "no"}, yes(row))))
    statistics_are_heeded(shell, (*ITEMS, "anna.csv"), ("kappa", "agree"))


@pytest.mark.slow
def test_how_far_raters_and_evaluators_agree(sheet: list[Row], shell: Shell) -> None:
    fill("anna.csv", sheet, lambda unit, item, row: yes(row) if item else row | {"value": "no"})
    fill("bela.csv", sheet, lambda unit, item, row: yes(row) if unit else row)
    line = (*ITEMS, "anna.csv", "bela.csv")
    rows = {(r["one"], r["other"]): r for r in shell.json(*line)["rows"]}
    pair = rows["anna", "bela"]
    assert (pair["units"], pair["items"], pair["met_one"], pair["met_other"]) == (3, 12, 0.75, 1.0)
    assert (pair["agree"], pair["kappa"]) == (0.75, 0.0)
    assert pair["agree_low"] < 0.75 < pair["agree_high"]
    assert pair["agree_method"] == "wilson, clustered, few clusters"
    assert pair["kappa_method"] == "none (all draws equal)"  # bela says yes to all
    by_rule = rows["anna", "jury=offline"]  # the oracle meets all four items
    assert (by_rule["items"], by_rule["agree"]) == (16, 0.75)
    for wrong, said in (
        ({"value": "perhaps"}, "anna.csv, row 1: the value of"),
        ({"value": "yes", "turns": "two"}, "anna.csv, row 1: turns are numbers"),
        ({"value": "yes", "item": "x"}, "has no item 'x'"),
        ({"value": "yes", "text": "x"}, "was another version rated?"),
        ({"value": "yes", "unit": "x"}, "there is no unit 'x'"),
    ):
        fill("anna.csv", sheet, lambda u, item, row, w=wrong: row if u + item else row | w)
        assert said in shell.error(*line, code=3)
    shell(*RUN, *by_hand("nobody.csv"), code=2)
    assert "nobody.csv" in shell.err and "`medhelm agreement" in shell.err
