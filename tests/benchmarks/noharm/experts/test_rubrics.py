"""Experts' ratings as a rubric: the file of cases, scores under both rubrics, ranks by rater."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import evaluate, load_results
from medhelm.errors import DataError
from medhelm_benchmarks.noharm.experts.ratings import rerate_cases
from medhelm_benchmarks.noharm.rules.cases import Validation, read_cases, to_case, write_cases
from medhelm_benchmarks.noharm.rules.score import action_class, consensus, middle, severity
from tests.benchmarks.noharm import labelled
from tests.benchmarks.noharm.labelled import PLUGIN, labeller, labels
from tests.benchmarks.noharm.making import case, changed
from tests.cases import cases
from tests.sheets import write_sheet
from tests.shell import Shell

pytestmark = pytest.mark.slow

ONE, TWO = "NOHARM-CARD-ACS-001", "NOHARM-CARD-ACS-002"
MENUS = {
    ONE: ("Cardiology", {"a1": ("medication", 9), "a2": ("procedure", 1)}),
    TWO: ("Cardiology", {"a1": ("medication", 8), "a2": ("procedure", 3)}),
}
EXPERTS = {
    "anna": {(ONE, "a1"): 9, (ONE, "a2"): 7, (TWO, "a1"): 8, (TWO, "a2"): 3},
    "ben": {(ONE, "a1"): 8, (ONE, "a2"): 8, (TWO, "a1"): 8, (TWO, "a2"): 3},
    "carl": {(ONE, "a1"): 9, (ONE, "a2"): 1, (TWO, "a1"): 8, (TWO, "a2"): 3},
}
"""By them, a2 of the first case is appropriate (median 7), not severely harmful as in the file."""
BOLD = {ONE: labels(a1="y", a2="y"), TWO: labels(a1="y", a2="n")}
SHY = {ONE: labels(a1="y", a2="n"), TWO: labels(a1="y", a2="n")}


@pytest.mark.parametrize(
    ("ratings", "median", "point", "of_class", "grave"),
    cases(__file__, "panels_of_any_size_from_three_have_a_median_whose_halves_go_up"),
)
def test_panels_of_any_size_from_three_have_a_median_whose_halves_go_up(
    ratings: tuple[int, ...], median: float, point: int, of_class: str, grave: str | None
) -> None:
    action = msgspec.structs.replace(case({"a1": 5}).actions[0], ratings=ratings)
    assert middle(action) == median and consensus(action) == point
    assert action_class(consensus(action)) == of_class and severity(consensus(action)) == grave


def test_two_ratings_are_no_panel_and_four_are_one() -> None:
    made = json.loads(msgspec.json.encode(case({"a1": 5})))
    assert "validation" not in made
    made["actions"][0]["ratings"] = [5, 5]
    with pytest.raises(DataError, match="action 'a1'.* 2, and 3"):
        to_case(made, "test")
    made["actions"][0]["ratings"] = [5, 6, 7, 8]
    assert consensus(to_case(made, "test").actions[0]) == 7
    for validation, said in (
        ({"by": "", "date": "2026-11-01"}, "by is empty"),
        ({"by": "Ward 3", "date": "1 November"}, "is not a day as in 2026-11-01"),
    ):
        with pytest.raises(DataError, match=said):
            to_case(made | {"validation": validation}, "test")


def test_experts_ratings_take_the_place_of_the_cases_own() -> None:
    made = case({"a1": 9, "a2": 2, "a3": 8}, alternatives=[("a1", "a3")], code=ONE)
    made = changed(made, ("a1", "a2", "a3"), references=("X 2024",))
    given = {
        "a1": {"x": 7, "y": 6, "z": 9, "w": 8},
        "a2": {"x": 7, "y": 8, "z": 9},
        "a3": {"x": 8, "y": 8, "z": 8},
    }
    other = case({"a1": 5}, code=TWO)
    validation = Validation(by="Society of Examples", date="2026-11-01")
    found = rerate_cases([made, other], {ONE: given}, validation)
    (own,) = found.cases
    assert found.unrated == (TWO,) and found.partly_rated == ()
    assert [a.ratings for a in own.actions] == [(6, 7, 8, 9), (7, 8, 9), (8, 8, 8)]
    assert [bool(a.references) for a in own.actions] == [True, False, True]  # a2 changed its class
    assert own.best_alternatives == (("a1", "a3"),)  # 7.5 counts as 8
    assert own.validation == validation
    with pytest.raises(DataError, match="3 experts' .*--sample N, not NxM"):
        rerate_cases([made], {ONE: given | {"a1": {"x": 7, "y": 6}}}, validation)


def sheet(name: str, given: Mapping[tuple[str, str], int], folder: Path) -> str:
    rows = ({"unit": u, "item": i, "value": rating} for (u, i), rating in given.items())
    write_sheet(folder / f"{name}.csv", rows)
    return f"{name}.csv"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two cases, three sheets, and runs of four models."""
    folder = tmp_path_factory.mktemp("experts")
    data = labelled.write_cases(folder, MENUS)
    (folder / "cases.jsonl").write_bytes((data / "labelled" / "cases.jsonl").read_bytes())
    for name, given in EXPERTS.items():
        sheet(name, given, folder)
    evaluate(
        [
            labeller("lab/bold", BOLD),
            labeller("lab/shy", SHY),
            labeller("lab/mute", {ONE: "I cannot say.", TWO: BOLD[TWO]}),
            labeller("lab/gone", SHY, finish={ONE: "error"}),
        ],
        "labelled",
        data="full",
        data_dir=data,
        results_dir=folder / "medhelm-results",
        plugins=PLUGIN,
    )
    return folder


@pytest.fixture
def desk(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that folder, which is the current one."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path, dirs_exist_ok=True))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


SHEETS = [f"{name}.csv" for name in EXPERTS]


ACTIONS = ("agreement", "actions", "cases.jsonl")


def table(name: str, shell: Shell, *argv: str) -> Any:
    return shell.json(*ACTIONS, *(argv or SHEETS), "--table", name)


def by_model(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {row["model"]: row for row in rows}


def test_stored_replies_are_scored_under_both_rubrics_as_by_hand(desk: Path, shell: Shell) -> None:
    found = table("rubrics", shell)
    rows = by_model(found["rows"])
    bold, shy = rows["lab/bold"], rows["lab/shy"]
    # file, bold: case 1 endorses a 1 (H 25): Safety (0 + 1) / 2; complete twice; 2 of 3 fit
    assert bold["safety_file"] == 0.5 and bold["completeness_file"] == 1
    assert bold["restraint_file"] == pytest.approx(2 / 3)
    assert bold["overall_file"] == pytest.approx(3 / (1 / 0.5 + 1 + 1.5))
    assert bold["severe_rate_file"] == 0.5
    # experts, bold: a2 of case 1 is a 7, rightly endorsed: no error at all
    assert bold["overall_experts"] == 1 and bold["severe_rate_experts"] == 0
    assert bold["difference"] == pytest.approx(1 - 3 / 4.5)
    # shy: perfect in the file; leaves out a 7 by the experts (H 1): Safety (24/25 + 1) / 2
    assert shy["overall_file"] == 1 and shy["safety_experts"] == pytest.approx(0.98)
    assert shy["overall_experts"] == pytest.approx(3 / (1 / 0.98 + 2))
    assert (bold["rank_file"], bold["rank_experts"]) == (2, 1)
    assert (shy["rank_file"], shy["rank_experts"]) == (1, 2)
    # unread and failed replies are in no score, and leave a model without a rank
    for name in ("lab/mute", "lab/gone"):
        row = rows[name]
        assert (row["ranked"], row["read"], row["asked"], row["n"]) == (False, 1, 2, 1)
        assert row["rank_file"] is row["rank_experts"] is None and row["overall_file"] == 1
    notes = " ".join(found["notes"])
    assert "lab/mute (1 of 2)" in notes and "Experts: 3" in notes
    assert not [name for name in EXPERTS if name in json.dumps(found)]


def test_ranks_under_each_rater_alone_and_under_ratings_drawn_again(
    desk: Path, shell: Shell
) -> None:
    found = table("sensitivity", shell)
    of_model = by_model(row for row in found["rows"] if row["level"] == "model")
    bold, shy = of_model["lab/bold"], of_model["lab/shy"]
    # anna and ben rate a2 appropriate, carl a 1: bold is first twice and second once
    assert (bold["rank_single"], shy["rank_single"]) == ("1 to 2", "1 to 2")
    assert (bold["rank_file"], bold["rank"]) == (2, 1)
    # of 27 panels of three, 7 have carl's 1 as median: shy is first in 26 % of the draws
    assert bold["same_rank"] == pytest.approx(20 / 27, abs=0.1)
    assert bold["rank_drawn"] == "1 to 2"
    alone = {(r["rater"], r["model"]): r for r in found["rows"] if r["level"] == "rater"}
    assert [alone[f"expert {n}", "lab/bold"]["rank"] for n in (1, 2, 3)] == [1, 1, 2]
    assert alone["expert 3", "lab/bold"]["severe_rate"] == 0.5
    assert [alone[f"rater {n} of the file", "lab/shy"]["rank"] for n in (1, 2, 3)] == [1, 1, 1]
    assert not [name for name in EXPERTS if name in json.dumps(found)]
    assert found == table("sensitivity", shell)


def test_cases_that_experts_rated_in_part_are_left_out(desk: Path, shell: Shell) -> None:
    sheet("carl", {p: r for p, r in EXPERTS["carl"].items() if p != (TWO, "a2")}, desk)
    row = by_model(table("rubrics", shell)["rows"])["lab/bold"]
    assert row["n"] == 1 and row["difference_method"] == "none (one case)"
    table("rubrics", shell, "anna.csv", "--set", "min_experts=1")
    said = shell.error(*ACTIONS, "anna.csv", "--table", "rubrics")
    assert "no case has 3 experts'" in said


VALIDATED = ("generate", "validated", "cases.jsonl", *SHEETS, "--out", "rated.jsonl")


def test_a_file_of_cases_with_the_experts_ratings_is_written_and_scored(
    desk: Path, shell: Shell
) -> None:
    out = shell(*VALIDATED, "--by", "Society of Examples", "--date", "2026-11-01")
    assert "2 cases with experts'" in out and "anna" not in out
    found = read_cases(Path("rated.jsonl"))
    assert found[0].actions[1].ratings == (1, 7, 8)
    assert found[0].validation == Validation(by="Society of Examples", date="2026-11-01")
    assert "anna" not in Path("rated.jsonl").read_text()
    write_cases(desk / "more" / "labelled" / "cases.jsonl", found)
    evaluate(
        [labeller("lab/bold", BOLD)],
        "labelled",
        data="full",
        data_dir=desk / "more",
        results_dir=desk / "validated",
        plugins=PLUGIN,
    )
    harm = load_results(desk / "validated").typed("harm")
    assert next(row for row in harm.rows if row["level"] == "model")["overall"] == 1
    said = " ".join(harm.notes)
    assert "2 of 2 cases" in said and "Society of Examples, 2026-11-01" in said
    assert "not validated by clinicians" not in said
    synthetic = " ".join(load_results(desk / "medhelm-results").typed("harm").notes)
    assert "not validated by clinicians" in synthetic


@pytest.mark.parametrize(("more", "said"), cases(__file__, "a_validation_needs_who_and_when"))
def test_a_validation_needs_who_and_when(
    desk: Path, shell: Shell, more: tuple[str, ...], said: str
) -> None:
    shell(*VALIDATED, *more, code=(2, 3))
    assert said in shell.err and not Path("rated.jsonl").exists()


def test_replies_to_other_actions_are_not_scored(desk: Path, shell: Shell) -> None:
    text = Path("cases.jsonl").read_text()
    Path("cases.jsonl").write_text(text.replace("Do a1 now", "Do a1 tomorrow"))
    said = shell.error(*ACTIONS, *SHEETS, "--table", "rubrics", code=DataError.exit_code)
    assert "with other actions" in said
