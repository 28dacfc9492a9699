"""The page Encounters: what it is given of open cases, and that nothing of closed ones leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm import evaluate
from medhelm.cli import run_command
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.grading.completion import ticks
from medhelm_benchmarks.encounters.grading.evaluator import Verdict

pytestmark = pytest.mark.slow

PLUGIN = Path(__file__).parent / "stage_plugin.py"


def test_ticks_name_items_by_place_and_turns() -> None:
    met, unmet, void = Verdict(met=True, turns=(1, 4)), Verdict(met=False), Verdict(fault="missing")
    assert ticks((met, unmet, void)) == ": 1@1,4 3?"
    assert ticks((unmet,)) == ""


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


def site_of(results: Path, out: Path, *more: str) -> str:
    build = ["leaderboard", "build", "--results-dir", str(results), "--data", "sample", *more]
    assert run_command([*build, "--out", str(out)]) == 0
    return "\n".join(p.read_text("utf-8") for p in sorted((out / "data").iterdir()))


SAID, ITEM = "a lorry driver, has walked in", "Asks about allergies"
SCRIPT = "Short answers, frightened"


def test_bundled_cases_are_shown_turn_by_turn(tmp_path: Path) -> None:
    """Of MedSP1000, whose own cases may not be redistributed."""
    evaluate("encounter/oracle", "medsp1000", data="sample", results_dir=tmp_path / "r")
    whole = site_of(tmp_path / "r", tmp_path / "site")
    assert SAID in whole and ITEM in whole and "The cardiologist on call" in whole
    assert SCRIPT not in whole  # what the patient is played from


OWN_CASES = """
from dataclasses import replace
from pathlib import Path
from medhelm import Benchmark, hookimpl
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000

@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [replace(MEDSP1000, name="ward_cases", samples=Path(__file__).parent / "ward.jsonl")]
"""


@pytest.mark.parametrize("change", ["rubric", "samples"])
def test_what_a_user_brings_beside_bundled_cases_is_never_shown(
    change: str, tmp_path: Path
) -> None:
    """A rubric of theirs for our cases; our cases with theirs among them, under a name of their own."""
    rows = MEDSP1000.samples.read_text("utf-8") if MEDSP1000.samples else ""
    line, build = ["model=encounter/oracle", "data=sample", f"results_dir={tmp_path / 'r'}"], []
    if change == "rubric":
        names = [json.loads(row)["case"].split("/") for row in rows.splitlines()]
        own = [{"case_id": c, "scenario": s, "PC": ["CANARY of a ward"]} for c, s in names]
        (tmp_path / "CANARY.jsonl").write_text("\n".join(map(json.dumps, own)))
        line += ["benchmark=medsp1000", f"grader.rubric={tmp_path / 'CANARY.jsonl'}"]
    else:
        (tmp_path / "ward.jsonl").write_text(rows.replace(SAID, "CANARY, a patient of ours"))
        (tmp_path / "ward_plugin.py").write_text(OWN_CASES)
        line += ["benchmark=ward_cases", f"plugins=[{tmp_path / 'ward_plugin.py'}]"]
        build = ["--plugin", str(tmp_path / "ward_plugin.py")]
    assert run_command(["run", *line]) in (0, 6)  # a rule scores no item of a rubric of theirs
    whole = site_of(tmp_path / "r", tmp_path / "site", *build)
    assert "CANARY" not in whole and ITEM not in whole and "case_mean" in whole
