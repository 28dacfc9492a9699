"""The page Encounters in a browser, and one case by two clinicians side by side."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm import JurySpec, evaluate
from medhelm.cli import run_command
from tests.benchmarks.encounters.players import reply
from tests.leaderboard.browsing import Opens, grid, opened
from tests.server import serve_in_thread

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PLUGIN = Path(__file__).parents[1] / "benchmarks" / "encounters" / "stage_plugin.py"


@pytest.fixture(scope="module")
def address(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encounters")
    (folder / "stage").mkdir()
    numbers = "".join(f"{json.dumps({'number': n})}\n" for n in range(12))
    (folder / "stage" / "stage.jsonl").write_text(numbers)
    models = "model=encounter/oracle,encounter/asks_everything"
    run = ["run", models, "benchmark=stage", "data=full", f"data_dir={folder}"]
    run += [f"plugins=[{PLUGIN}]"]
    build = ["leaderboard", "build", "--results-dir", f"{folder}/r"]
    build += ["--plugin", str(PLUGIN), "--out", f"{folder}/site"]
    with ThreadPoolExecutor(1) as pool:  # a browser keeps an event loop in this thread
        done = pool.map(run_command, ([*run, f"results_dir={folder}/r"], build))
        assert [*done] == [0, 0]
    return (folder / "site" / "index.html").as_uri()


def assert_radar(page: Page) -> None:
    """Check the radar by hand: of four items two are of PC, one of MK, one of PROF."""
    figure = page.get_by_role("figure", name="Competencies", exact=True)
    figure.scroll_into_view_if_needed()
    figure.locator(".plot[data-drawn] .polar").wait_for()
    traces = figure.locator(".plot").evaluate("e => e.data.map((t) => [t.name, t.theta, t.r])")
    around = ["PC", "MK", "PROF", "PC"]
    assert traces == [
        ["encounter/oracle", around, [1, 1, 1, 1]],
        ["encounter/asks_everything", around, [0.5, 0, 0, 0.5]],
    ]
    assert figure.locator(".plot .polar .scatterlayer .trace").count() == 2
    low, high = figure.locator(".plot").evaluate("e => e.layout.polar.radialaxis.range")
    assert (low, high) == (0, 1)


def traces(page: Page, name: str) -> list[list[object]]:
    """Return name, x and y of each trace of a figure."""
    figure = page.get_by_role("figure", name=name, exact=True)
    figure.scroll_into_view_if_needed()
    figure.locator(".plot[data-drawn]").wait_for()
    plot = figure.locator(".plot")
    return plot.evaluate("e => e.data.map((t) => [t.name ?? null, [...t.x], [...t.y]])")


def test_figures_of_the_paper(opens: Opens, address: str) -> None:
    """Six cases of each of two specialties: the oracle meets all items, the other one of four."""
    page = opens(address).open("encounters")
    oracle, asks = traces(page, "Distribution of scores")
    assert [oracle[2], asks[2]] == [[0] * 19 + [12], [0] * 5 + [12] + [0] * 14]
    oracle, asks = traces(page, "Specialties")
    assert (oracle[1], asks[1]) == ([1, 1], [0.25, 0.25])
    names = page.get_by_role("figure", name="Specialties", exact=True).locator(".plot")
    assert names.evaluate("e => e.layout.yaxis.ticktext") == ["Pediatrics", "Surgery"]
    oracle, asks = traces(page, "Length of input")
    assert (oracle[2], asks[2]) == ([1] * 10, [0.25] * 10)
    assert oracle[1] == sorted(oracle[1])  # type: ignore[type-var]


def test_clinicians_by_case_mean_and_one_case_side_by_side(opens: Opens, address: str) -> None:
    reader = opens(address)
    page = reader.open("encounters")
    models = grid(page.get_by_role("table", name="Completion by model"))
    by_model = {row[0].split(" ")[0]: row for row in models[1:]}
    case_mean = models[0].index("case mean")
    assert by_model["encounter/oracle"][case_mean].startswith("1.000")
    assert by_model["encounter/asks_everything"][case_mean].startswith("0.250")
    assert "script/packet" in page.locator("main").inner_text()
    played = grid(page.get_by_role("table", name="Faults by who played"))
    shares = {tuple(row[:3]): row[played[0].index("share")] for row in played[1:]}
    assert {key[:2] for key in shares} == {
        ("controller", "script/packet"),
        ("patient", "script/packet"),
        ("clinician", "encounter/oracle"),
        ("clinician", "encounter/asks_everything"),
    }
    assert shares["patient", "script/packet", "any"].startswith("0.0 %")
    assert shares["patient", "script/packet", "hint"] == "not checkable"
    said = grid(page.get_by_role("table", name="How much of its script the patient said"))
    assert said[1][said[0].index("unasked")].startswith("0.0 %")
    unmarked = grid(page.get_by_role("table", name="Scores without marked cases"))
    assert {row[unmarked[0].index("marked")] for row in unmarked[1:]} == {"0"}
    assert_radar(page)
    query = {"with": "encounter/asks_everything", "instance": "art0/scenario0"}
    page = opened(reader.go("run", "stage", "encounter/oracle", **query))
    items = grid(page.get_by_role("table", name="Items of the rubric"))
    assert items[0][1:] == ["A encounter/oracle", "B encounter/asks_everything"]
    assert len(items) == 5 and all("turn" in row[1] for row in items[1:])
    assert [("turn" in row[2]) for row in items[1:]] == [True, False, False, False]
    assert page.locator("ol.encounter-turns").count() == 2
    told = page.locator("ol.encounter-turns").first.inner_text()
    assert "Nurse: The drip is running." in told and "Since last night." in told


def run_judged(folder: Path) -> Path:
    """Run a model on the staged case with an evaluator that quotes; return the page of its site."""
    with serve_in_thread(by_body=reply) as server:
        one, judge = (server.model(f"lab/{name}") for name in ("one", "judge"))
        jury = JurySpec(name="one", judges=(judge,), quorum=1)
        evaluate(one, "stage", data="sample", jury=jury, results_dir=folder / "r", plugins=PLUGIN)
    build = ["leaderboard", "build", "--results-dir", f"{folder}/r", "--data", "sample"]
    assert run_command([*build, "--plugin", str(PLUGIN), "--out", f"{folder}/site"]) == 0
    return folder / "site" / "index.html"


def test_what_an_evaluator_quotes_stands_at_the_item(opens: Opens, tmp_path: Path) -> None:
    """Where the turn holds it: the judge shows each word of an item by all that was said in a turn."""
    with ThreadPoolExecutor(1) as pool:
        site = pool.submit(run_judged, tmp_path).result()
    page = opens(site.as_uri()).open("run", "stage", "lab/one", instance="art0/scenario0")
    items = grid(page.get_by_role("table", name="Items of the rubric"))
    met = [cells[1] for cells in items[1:] if "turn" in cells[1]]
    assert met and all("\u201c" in told for told in met)
    assert any("\u201cDoes she drink?\u201d" in told for told in met)
