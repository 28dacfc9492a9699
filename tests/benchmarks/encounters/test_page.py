"""The page Encounters: what it is given of open cases, and that nothing of closed ones leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.cli import run_command
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.grading.completion import ticks
from medhelm_benchmarks.encounters.grading.evaluator import Verdict
from tests.benchmarks.encounters.stage import PLUGIN, plugin_of

pytestmark = pytest.mark.slow


def test_ticks_name_items_by_place_and_turns() -> None:
    met, unmet, void = Verdict(met=True, turns=(1, 4)), Verdict(met=False), Verdict(fault="missing")
    assert ticks((met, unmet, void)) == ": 1@1,4 3?"
    assert ticks((unmet,)) == ""


SAID, ITEM = "a lorry driver, has walked in", "Asks about allergies"
SCRIPT = "Short answers, frightened"
STAGED = ("CANARY_RESULT", "CANARY_RUBRIC", "CANARY_CLINICIAN", "Since last night")


def site_of(folder: Path, *runs: Sequence[str], plugin: Path) -> str:
    """Return all data of a site that shows runs of the oracle."""
    for line in runs:
        given = ("model=encounter/oracle", "data=sample", f"results_dir={folder / 'r'}")
        code = run_command(["run", *given, f"plugins=[{plugin}]", *line])
        assert code in (0, 6)  # a rule scores no item of a rubric of theirs
    build = ["leaderboard", "build", "--results-dir", str(folder / "r"), "--data", "sample"]
    assert run_command([*build, "--plugin", str(plugin), "--out", str(folder / "site")]) == 0
    return "\n".join(p.read_text("utf-8") for p in sorted((folder / "site" / "data").iterdir()))


def test_open_and_bundled_cases_are_shown_turn_by_turn(tmp_path: Path) -> None:
    """Of MedSP1000, whose own cases may not be redistributed, the bundled ones."""
    runs = [["benchmark=stage"], ["benchmark=medsp1000"]]
    whole = site_of(tmp_path, *runs, plugin=PLUGIN)
    assert all(text in whole for text in (*STAGED, SAID, ITEM, "The cardiologist on call"))
    hidden = ("CANARY_PATIENT", "CANARY_CONTROLLER", SCRIPT)  # what roles are played from
    assert not [text for text in hidden if text in whole]


OWN_CASES = """
from dataclasses import replace
from pathlib import Path
from medhelm import Benchmark, hookimpl
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000

@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [replace(MEDSP1000, name="ward_cases", samples=Path(__file__).parent / "ward.jsonl")]
"""


@pytest.mark.parametrize("change", ["private", "rubric", "samples"])
def test_closed_cases_and_what_a_user_brings_beside_bundled_ones_are_never_shown(
    change: str, tmp_path: Path
) -> None:
    """A rubric of theirs for our cases; our cases with theirs among them, under a name of their own."""
    rows = MEDSP1000.samples.read_text("utf-8") if MEDSP1000.samples else ""
    line, plugin = ["benchmark=stage"], plugin_of(tmp_path, is_private=change == "private")
    if change == "rubric":
        names = [json.loads(row)["case"].split("/") for row in rows.splitlines()]
        own = [{"case_id": c, "scenario": s, "PC": ["CANARY of a ward"]} for c, s in names]
        (tmp_path / "CANARY.jsonl").write_text("\n".join(map(json.dumps, own)))
        line = ["benchmark=medsp1000", f"grader.rubric={tmp_path / 'CANARY.jsonl'}"]
    elif change == "samples":
        (tmp_path / "ward.jsonl").write_text(rows.replace(SAID, "CANARY, a patient of ours"))
        line = ["benchmark=ward_cases"]
        plugin.write_text(OWN_CASES)
    whole = site_of(tmp_path, line, plugin=plugin)
    assert not [shown for shown in ("CANARY", ITEM, *STAGED) if shown in whole]
    assert "case_mean" in whole
