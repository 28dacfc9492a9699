"""The page Coverage: its numbers, and the fidelity of the judge above them, measured or not."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics as sklearn_metrics

import medhelm
from medhelm.cli import run_command
from medhelm.schema.run import JurySpec
from medhelm.store.kept_fidelity import of_graders, read_kept
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from medhelm.tables.published import PublishedRuns
from medhelm_benchmarks.clinconsensus.page.page import page_data
from medhelm_leaderboard import publish
from medhelm_leaderboard.site import SiteOptions
from tests.leaderboard.browsing import DRAWS, Opens, World, grid, make, spelled
from tests.server import serve_in_thread

pytestmark = pytest.mark.slow

MODELS = ("baseline/lead", "baseline/random", "baseline/empty")
OPTIONS = SiteOptions(settings=Settings(draws=DRAWS))
SAMPLES = Path(__file__).parents[2] / "benchmarks/clinconsensus/samples/clinconsensus.jsonl"
CALL = ("fidelity", "--stored", "clinconsensus", "--data", "sample")


def says(prompt: str) -> str:
    """Meet some two thirds of all criteria, by their text and that of the answer."""
    criterion, answer = (
        re.findall(rf"<{tag} \w+>\n(.*?)\n</{tag}", prompt, re.DOTALL)[-1]
        for tag in ("criterion", "answer")
    )
    met = zlib.crc32((criterion + answer).encode()) % 3 > 0
    return json.dumps({"explanation": "So it is.", "criteria_met": met})


def write_graded(folder: Path) -> Path:
    with serve_in_thread(says) as server:
        one = server.model("j/one", endpoint_class="local")
        medhelm.evaluate(
            MODELS,
            "clinconsensus",
            data="sample",
            results_dir=folder / "results",
            jury=JurySpec(name="test", judges=(one,), quorum=1),
        )
    return folder / "results"


def write_experts(results: Path, folder: Path) -> tuple[list[bool], list[bool]]:
    """Write what experts say, every fifth time not what the judge does; return what both say."""
    assert run_command([*CALL, "--export", str(folder / "j"), "--results-dir", str(results)]) == 0
    judge: list[bool] = []
    experts: list[bool] = []
    with (folder / "experts.jsonl").open("w") as file:
        for path in sorted((folder / "j").iterdir()):
            for row in json.loads(path.read_text()):
                own = [d["criteria_met"] for d in row["criteria_results"]]
                other = [met != ((len(judge) + n) % 5 == 0) for n, met in enumerate(own)]
                judge += own
                experts += other
                for decision, met in zip(row["criteria_results"], other, strict=True):
                    decision["criteria_met"] = met
                model = path.name.removesuffix("_judge.json").replace("__", "/")
                file.write(json.dumps(row | {"model": row.get("model", model)}) + "\n")
    return judge, experts


def published(results: Path) -> PublishedRuns:
    loaded = load_results(results, data="sample")
    return publish.runs("fixed", loaded, Settings(draws=DRAWS), read_kept(results)[0])


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graded(tmp_path_factory.mktemp("graded"))


@pytest.fixture(scope="module")
def kept(graded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """A copy of the results with the judge's fidelity, and its macro F1 by another library."""
    folder = tmp_path_factory.mktemp("kept")
    results = Path(shutil.copytree(graded, folder / "results"))
    judge, experts = write_experts(results, folder)
    argv = [*CALL, "--experts", f"ward={folder / 'experts.jsonl'}", "--results-dir", str(results)]
    assert run_command([*argv, "--set", f"draws={DRAWS}", "--keep"]) == 0
    return results, float(sklearn_metrics.f1_score(experts, judge, average="macro"))


@pytest.fixture(scope="module")
def unmeasured(chromium: str, graded: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The site of the results without the judge's fidelity."""
    return make(lambda _: graded, tmp_path_factory.mktemp("unmeasured"), OPTIONS)


def rows(data: Any, name: str) -> list[Any]:
    return [row for table in data.tables if table.name == name for row in table.rows]


def test_a_judge_that_nobody_measured_is_unmeasured(graded: Path) -> None:
    data = page_data(published(graded))
    assert data is not None and rows(data, "judge_fidelity") == []
    (mark,) = [m for m in data.marks if m.kind == "warn"]
    assert "Graded by j/one" in mark.text and "unmeasured" in mark.text


def test_the_fidelity_of_the_judge_goes_with_the_scores(kept: tuple[Path, float]) -> None:
    results, expected = kept
    data = page_data(published(results))
    assert data is not None
    (row,) = rows(data, "judge_fidelity")
    assert (row["grader"], row["reference"], row["kind"]) == ("j/one", "ward", "judge")
    assert row["mf1"] == pytest.approx(expected) and row["mf1_low"] < expected < row["mf1_high"]
    assert row["decisions"] == 600  # of two models with answers
    assert not [m for m in data.marks if m.kind == "warn"]
    assert any(f"macro F1 of {expected:.3f} [" in m.text for m in data.marks)


def test_fidelity_is_of_the_very_grader(kept: tuple[Path, float], tmp_path: Path) -> None:
    results = Path(shutil.copytree(kept[0], tmp_path / "results"))
    path = results / "fidelity" / "clinconsensus.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"decisions": 600', b'"decisions": 900'))
    assert read_kept(results) == ({}, ["fidelity/clinconsensus.json"])
    path.write_bytes(whole)
    (found,) = read_kept(results)[0].values()
    (key,) = found.agreements[0].asked

    assert of_graders(found, [("j/one", key)]) == found.agreements
    assert of_graders(found, [("j/one", "0" * 16)]) == ()  # another mode, prompt or budget
    assert of_graders(found, [("j/one", key), ("j/one", "0" * 16)]) == ()
    assert of_graders(found, [("j/two", key)]) == () == of_graders(None, [("j/one", key)])


@pytest.mark.browser
def test_the_page_has_the_scores_and_above_them_the_judge(
    opens: Opens, kept: tuple[Path, float], tmp_path: Path
) -> None:
    results, expected = kept
    world = make(lambda _: results, tmp_path, OPTIONS)
    page = opens(world).open("coverage")
    tables = page.get_by_role("table").evaluate_all("all => all.map(t => t.caption.textContent)")
    places = [next(n for n, t in enumerate(tables) if t.startswith(s)) for s in _ORDER]
    assert places == sorted(places)
    (row,) = grid(page.get_by_role("table", name="Agreement of the judge"))[1:]
    assert row[:2] == ["j/one", "ward"] and row[2].startswith(f"{expected:.3f} [")
    table = world.table("coverage")
    own = {r["model"]: r for r in table.rows if r["level"] == "model"}
    shown = grid(page.get_by_role("table", name="Coverage by model"))[1:]
    assert {r[0] for r in shown} == set(own)
    for cells in shown:
        assert cells[1] == spelled(table, own[cells[0]], "coverage")
    assert "not clearance for clinical use" in page.locator("main").inner_text()


@pytest.mark.browser
def test_a_case_shows_each_criterion_with_its_verdict_and_explanation(
    opens: Opens, graded: Path, unmeasured: World
) -> None:
    page = opens(unmeasured).open("coverage")
    page.get_by_role("table", name="Coverage by model").get_by_role(
        "link", name="baseline/lead"
    ).click()
    page.get_by_role("link", name="clin-en-02").click()
    (log,) = graded.glob("runs/clinconsensus/baseline__lead/*/responses.jsonl")
    (answer,) = [
        line["response"]["text"]
        for line in map(json.loads, log.read_text().splitlines())
        if line["instance"]["id"] == "clin-en-02"
    ]
    (case,) = [
        row
        for row in map(json.loads, SAMPLES.read_text().splitlines())
        if row["case_id"] == "clin-en-02"
    ]
    shown = page.locator(".verdicts > li")
    shown.first.wait_for()
    assert shown.count() == len(case["rubrics"]) == 30
    words = set()
    for line, criterion in zip(shown.all_inner_texts(), case["rubrics"], strict=True):
        met = zlib.crc32((criterion["criterion"] + answer).encode()) % 3 > 0
        words.add("met" if met else "not met")
        first, second = (part for part in line.splitlines() if part.strip())
        assert first.endswith(criterion["criterion"])
        assert second.split(" So it is.") == ["met" if met else "not met", ""]
    assert len(words) == 2


_ORDER = ("Agreement of the judge", "Coverage by model", "Cases below the threshold")


@pytest.mark.browser
def test_the_page_says_that_nobody_measured_the_judge(opens: Opens, unmeasured: World) -> None:
    page = opens(unmeasured).open("coverage")
    text = page.locator("main").inner_text()
    assert text.index("unmeasured") < text.index("Coverage by model")
    assert page.get_by_role("table", name="Agreement of the judge").count() == 0
