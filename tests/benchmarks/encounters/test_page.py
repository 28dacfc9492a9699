"""The page Encounters: what it is given of open cases, and that nothing of closed ones leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm import Episode, Instance, Response
from medhelm.cli import run_command
from medhelm_benchmarks.encounters.grading.completion import ticks
from medhelm_benchmarks.encounters.grading.evaluator import Verdict
from medhelm_benchmarks.encounters.page.page import encounter_lines, item_lines
from tests.benchmarks.encounters.stage import CASE, clinician, play

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parent / "stage_plugin.py"


def test_ticks_name_items_by_place_and_turns() -> None:
    met, unmet, void = Verdict(met=True, turns=(1, 4)), Verdict(met=False), Verdict(fault="missing")
    assert ticks((met, unmet, void)) == ": 1@1,4 3?"
    assert ticks((unmet,)) == ""


def test_a_case_is_its_items_and_an_answer_its_turns() -> None:
    lines = item_lines(CASE)
    assert lines is not None and [line["competency"] for line in lines] == [
        "PC",
        "PC",
        "MK",
        "PROF",
    ]
    assert item_lines(Instance(id="x", payload={"a1": "text"})) is None
    found = encounter_lines(play(CASE, clinician(CASE, "oracle")), {})
    assert found is not None and found["states"] == ("arrival", "after_fluids")
    other = Episode(instance=CASE, response=Response(instance_id="x"), state={"turns": "no"})
    assert encounter_lines(other, {}) is None


@pytest.mark.parametrize("is_open", [True, False])
def test_text_of_closed_cases_never_leaves(is_open: bool, tmp_path: Path) -> None:
    text = PLUGIN.read_text().replace("Path(__file__).parent", f"Path({str(PLUGIN.parent)!r})")
    if not is_open:
        text = text.replace("redistributable=True", 'data_class="private"')
    plugin = tmp_path / "own_plugin.py"
    plugin.write_text(text)
    line = ["model=encounter/oracle,encounter/silent", "benchmark=stage", "data=sample"]
    results = tmp_path / "results"
    assert run_command(["run", *line, f"plugins=[{plugin}]", f"results_dir={results}"]) == 0
    site = tmp_path / "site"
    build = ["leaderboard", "build", "--results-dir", str(results), "--data", "sample"]
    assert run_command([*build, "--plugin", str(plugin), "--out", str(site)]) == 0
    written = {p.name: p.read_text("utf-8") for p in (site / "data").iterdir()}
    assert "case_mean" in written["table-fixed-encounters.js"]
    whole = "\n".join(written.values())
    for told in ("CANARY_RESULT", "CANARY_RUBRIC", "CANARY_CLINICIAN", "Since last night"):
        assert (told in whole) == is_open
    for hidden in ("CANARY_PATIENT", "CANARY_CONTROLLER"):
        assert hidden not in whole
