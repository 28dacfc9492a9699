"""The page of the published tables: what comes out of the authors' figures, and how it is made."""

from __future__ import annotations

import csv
import os
import random
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.test_docs import load_script

ROOT = Path(__file__).parent.parent
_BESIDE = ROOT.parent / "shared"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("published_page")


@pytest.fixture(scope="module")
def figures() -> Path:
    """The authors' published figures, where they lie beside the checkout or beside the data."""
    data = os.environ.get("MEDHELM_DATA_DIR")
    for shared in (_BESIDE, *([Path(data).parent] if data else [])):
        if (folder := shared / "reference" / "published").is_dir():
            return folder
    pytest.skip("no copy of the published figures")


@pytest.fixture(scope="module")
def sections(script: ModuleType, figures: Path) -> dict[str, list[list[str]]]:
    """The cells of each section's table, made anew."""
    page = script.render(script.read_copy(figures), script.PAGE.read_text(encoding="utf-8"))
    assert page == script.PAGE.read_text(encoding="utf-8"), "run scripts/published_page.py COPY"
    found = {}
    for head, text in re.findall(r"^## ([^:\n]+).*?\n(.*?)(?=^## |\Z)", page, re.M | re.S):
        lines = [line for line in text.splitlines() if line.startswith("|")][2:]
        found[head] = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return found


@pytest.mark.slow
def test_what_comes_out_of_the_published_figures(sections: dict[str, list[list[str]]]) -> None:
    def same(table: str, column: int) -> int:
        return sum("**" not in row[column] for row in sections[table][:9])

    assert [same("Table 1", c) for c in range(1, 6)] == [8, 3, 7, 9, 9]
    ranges = sections["The ranges by category"]
    assert len(ranges) == 5 and not any("**" in cell for row in ranges for cell in row)
    assert [same("Table 3", c) for c in (1, 2)] == [9, 9]
    totals = {row[0]: numbers(row[5]) for row in sections["Table 3"]}
    apart = {name: abs(made - printed) for name, (printed, made) in totals.items()}
    assert apart.pop("DeepSeek R1") > 90 and apart.pop("all nine") > 90
    assert len(apart) == 9 and max(apart.values()) < 0.05  # charged otherwise: one of them
    effects = sections["Table E4"]
    assert len(effects) == 18 and not any("**" in row[1] for row in effects)


def numbers(cell: str) -> tuple[float, float]:
    one, other = re.findall(r"\d[\d,]*\.\d+", cell)
    return float(one.replace(",", "")), float(other.replace(",", ""))


def test_printed_sds_of_win_rates_count_ties_for_neither(script: ModuleType, figures: Path) -> None:
    printed = script.read_printed()
    with (figures / "scores.csv").open(newline="") as file:
        lines = {line["Model"]: line for line in csv.DictReader(file)}
    heads = {head.split(" - ")[0]: head for head in next(iter(lines.values()))}
    scores = np.asarray(
        [
            [float(lines[m["name"]][heads[b["scores"]]]) for b in printed.benchmarks.values()]
            for m in printed.models
        ]
    )
    for i, model in enumerate(printed.models):
        shares = [(scores[i] > rival).mean() for j, rival in enumerate(scores) if j != i]
        assert round(float(np.std(shares)), 2) == model["table_1"][1], model["name"]


# Made-up figures ---------------------------------------------------------------------------------


def write_copy(folder: Path, script: ModuleType, *, is_clone: bool) -> Path:
    """Write figures of the published form, as a clone of the repository or as a folder of files."""
    printed, rng = script.read_printed(), random.Random(3)
    jury = {"aci_bench", "mediqa_qa", "mtsamples"}
    heads = {
        name: f"{own['scores']} - {'Jury Score' if name in jury else 'EM'}"
        for name, own in printed.benchmarks.items()
    }
    scores = [
        {"Model": m["name"], "Mean win rate": "0.5"}
        | {
            h: str(round(rng.uniform(1, 5) if n in jury else rng.random(), 3))
            for n, h in heads.items()
        }
        for m in printed.models
    ]
    costs = [
        {
            "Model": model["costs"],
            "Benchmark": own["costs"],
            "Test Instances": "100",
            "Total Input Tokens": "1000000",
            "Total Output Tokens": "100000",
            "Total Judge Input Tokens": "1,000,000" if name in jury else "0",
            "Total Judge Output Tokens": "0",
        }
        for model in printed.models
        for name, own in printed.benchmarks.items()
    ]
    names = (
        ("data/leaderboard.csv", "data/costs.csv")
        if is_clone
        else ("scores.csv", "tokens_and_costs.csv")
    )
    for name, rows in zip(names, (scores, costs), strict=True):
        write(folder / name, rows)
    if is_clone:
        ratings = [
            rating(rng, who, name, i) for name in script.RATED for i in range(8) for who in "AB"
        ]
        write(folder / "src" / "medhelm" / "open-ended-evals" / "output.csv", ratings)
    return folder


def rating(rng: random.Random, who: str, dataset: str, instance: int) -> dict[str, Any]:
    own = {axis: rng.randint(1, 5) for axis in ("accuracy", "completeness", "clarity")}
    judged = {f"llm_{axis}": 1 + (instance * 7 % 9) / 2 for axis in own}
    where = {"dataset_name": dataset, "model_key": "m", "instance_id": f"{dataset}-{instance}"}
    return {"username": f"Dr {who}", **where, **own, **judged}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_a_page_of_made_up_figures(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    clone = write_copy(tmp_path / "clone", script, is_clone=True)
    files = write_copy(tmp_path / "files", script, is_clone=False)
    monkeypatch.setattr(script, "PAGE", tmp_path / "published.md")
    with pytest.raises(SystemExit, match="has no ratings"):
        script.main([str(files)])
    assert script.main([str(clone)]) == 0
    page = (tmp_path / "published.md").read_text(encoding="utf-8")
    # 35 x (1 x 0.71 + 0.1 x 0.71) USD; 3 x 1 million tokens read by judges at 2.5 + 3 + 0.71
    assert re.search(r"172\.45, \*\*27\.3[34]\*\* \| 767\.13, \*\*18\.63\*\*", page)
    assert "16 answers" in page and "Dr A" not in page
    assert script.main([str(files), "--check"]) == 0, "without ratings what is made of them stays"
    (tmp_path / "published.md").write_text(page.replace("16 answers", "17 answers"))
    assert script.main([str(clone), "--check"]) == 1
    assert "is out of date" in capsys.readouterr().out


def test_a_folder_that_is_no_copy_is_refused(script: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"data/leaderboard\.csv nor scores\.csv"):
        script.read_copy(tmp_path)
