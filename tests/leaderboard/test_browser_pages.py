"""Every page in a browser, from disk and from the server, and the numbers that it shows."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browsing import Opens, World, grid, rows_by_name, spelled
from tests.leaderboard.casting import CLOSED, data_of
from tests.leaderboard.worlds import BENCHMARKS, ONE
from tests.quiz import command, environment

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def served(full: World) -> Iterator[str]:
    """The address of the site as the command serves it."""
    argv = command("leaderboard", "serve", str(full.site), "--port", "0")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        yield found.group() + "index.html"
        process.terminate()


def test_every_page_opens_from_the_server(opens: Opens, served: str) -> None:
    assert served.startswith("http://127.0.0.1:")
    reader = opens(served, has_charts=True)
    reader.open()
    names = "overview heatmap categories cost statistics jury benchmarks about"
    runs = [("run", name, ONE.name) for name in ("open", "private")]
    for path in [*zip(names.split()), ("benchmark", "open"), ("benchmark", "private"), *runs]:
        page = reader.go(*path)
        heading = page.locator("h1").inner_text()
        assert heading and "cannot" not in heading and "No such" not in heading, path
        assert page.get_by_role("alert").count() == 0, path
        assert heading in page.title()
    for path, tab in itertools.product(runs, ("results", "settings")):
        page = reader.go(*path, tab=tab)
        assert page.locator("main h2").count() >= 2, (path, tab)


def test_the_first_view_of_another_address_than_the_overview(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.load("benchmark", "triage", metric="exact_match")
    assert page.locator("h1").inner_text() == "Triage of chest pain"
    page = reader.load("nowhere")
    assert page.locator("h1").inner_text() == "No such page"
    page = reader.load("run", "triage", "lab/none")
    assert "no run of this model" in page.locator("main").inner_text()


def test_a_file_that_is_missing_is_named(opens: Opens, full: World) -> None:
    (scoring, _) = data_of(full.site, "site")["scorings"]
    lost = full.light / "data" / f"{dict(scoring['tables'])['ranks']}.js"
    content = lost.read_bytes()
    lost.unlink()  # a link: the site itself keeps it
    try:
        reader = opens(full)
        page = reader.load("statistics")
        said = page.get_by_role("alert").inner_text()
        assert lost.name in said and "missing or damaged" in said
        assert any("ERR_FILE_NOT_FOUND" in fault for fault in reader.faults)
        reader.faults.clear()
    finally:
        lost.write_bytes(content)


# The numbers -------------------------------------------------------------------------------------


def overview_rows(page: Page) -> dict[str, list[str]]:
    return rows_by_name(page.get_by_role("table", name="Models ranked by win rate"), name=1)


@pytest.mark.parametrize("by", ["half", "literal"])
def test_the_overview_shows_the_table(opens: Opens, full: World, by: str) -> None:
    table = full.table("overall", rank_by=by)
    shown = overview_rows(opens(full).open("overview", by=by))
    other = "_literal" if by == "literal" else ""
    names = ["rank", "model", f"win_rate{other}", f"win{other}_sd", "macro_average", "macro_sd"]
    names += ["tie_group", "coverage", "cut_share", "benchmarks", "total_cost_usd"]
    assert list(shown) == [row["model"] for row in table.rows]
    for row in table.rows:
        cells = shown[str(row["model"])]
        expected = [spelled(table, row, name) for name in names]
        expected[2] = spelled(table, row, names[2], f"win{other}_low", f"win{other}_high")
        assert [c.split(" (")[0] for c in cells[:1]] == expected[:1]
        assert cells[1].startswith(expected[1])
        assert [c.split(" (")[0] for c in cells[2:-1]] == expected[2:]
        assert cells[-1] == (row["flags"] or "")


def test_the_heatmap_shows_the_table(opens: Opens, full: World) -> None:
    table = full.table("benchmarks")
    page = opens(full).open("heatmap")
    shown = grid(page.get_by_role("grid"))
    models = [name.split(" ")[0] for name in shown[0][1:]]
    assert models == [row["model"] for row in full.table("overall").rows]
    titles = {str(v["title"]): name for name, v in BENCHMARKS.items()}
    cells = {titles.get(row[0], row[0]): row[1:] for row in shown[1:] if len(row) > 1}
    assert set(cells) == {row["benchmark"] for row in table.rows}
    for row in table.rows:
        cell = cells[str(row["benchmark"])][models.index(str(row["model"]))]
        assert cell.split(" ")[0] == spelled(table, row, "normalised"), row
        if row["score"] is None:
            assert cell == "– (no run)"
        for flag in str(row["flags"] or "").split():
            assert flag in cell


def test_the_categories_show_the_table(opens: Opens, full: World) -> None:
    table = full.table("categories")
    page = opens(full).open("categories")
    seen = 0
    for level in ("category", "subcategory"):
        shown = grid(page.get_by_role("grid", name=f"Means by {level} and model"))
        cells = {row[0]: row[1:] for row in shown if len(row) > 1}
        for row in table.rows:
            if row["level"] == level:
                place = cells[level].index(str(row["model"]))
                assert cells[str(row[level])][place] == spelled(table, row, "mean").split(" ")[0]
                seen += 1
    assert seen == len(table.rows) > 20
    tree = page.locator(".tree > details").nth(0).inner_text()
    assert "2 of 4 subcategories" in tree


def test_the_taxonomy_names_what_covers_a_task(opens: Opens, full: World) -> None:
    page = opens(full).open("categories")
    page.get_by_role("button", name="Open all").click()
    task = page.locator("li.covered", has_text="Interpret ECG")
    assert task.get_by_role("link").inner_text() == "Triage of chest pain"
    assert page.locator("li.bare").count() == 118 - 2


@pytest.mark.parametrize("name", ["triage", "letters", "open", "private", "mishaps"])
def test_the_page_of_a_benchmark_shows_the_table(opens: Opens, full: World, name: str) -> None:
    table = full.table("benchmarks", metrics="all")
    title = BENCHMARKS.get(name, {}).get("title", name)
    page = opens(full).open("benchmark", name)
    shown = rows_by_name(page.get_by_role("table", name=f"Models on {title}"))
    rows = [r for r in table.rows if r["benchmark"] == name and r["is_main"]]
    assert set(shown) == {r["model"] for r in rows}
    for row in rows:
        cells = [*shown[str(row["model"])]]
        if any(r["mean_of"] for r in rows):
            assert cells.pop(4) == row["mean_of"]
        _, score, normalised, n, scored, left, coverage, cut, _, status, flags = cells
        assert cut.split(" (")[0] == spelled(table, row, "cut_share")
        assert status == row["status"] and flags == (row["flags"] or "")
        assert left == (row["not_scored"] or "")
        if row["score"] is None:
            assert score == "– (no run)" and scored == "–"
            continue
        assert score == spelled(table, row, "score")
        assert normalised == spelled(table, row, "normalised")
        assert (n, coverage) == (spelled(table, row, "n"), spelled(table, row, "coverage"))
        assert scored == f"{row['scored']}/{row['planned']}"
    counts = page.get_by_role("table", name="Instances by score and model", include_hidden=True)
    sums = {row[0]: sum(int(c.replace(",", "")) for c in row[1:]) for row in grid(counts)[1:]}
    assert sums == {str(r["model"]): r["n"] for r in rows if r["score"] is not None}


def test_answers_without_a_model_are_those_of_the_manifest(opens: Opens, demo: World) -> None:
    page = opens(demo).open("benchmark", "medec")
    shown = rows_by_name(page.get_by_role("table", name="Scores of answers without a model"))
    assert shown["oracle"][1] == "1.000" and shown["empty"][1] == "0.000"
    assert "Synthetic samples" in page.get_by_role("complementary").inner_text()


def test_the_statistics_show_the_tables(opens: Opens, full: World) -> None:
    page = opens(full).open("statistics")
    pairs, ranks, mde = (full.table(name) for name in ("pairs", "ranks", "mde"))
    shown = grid(page.get_by_role("grid"))
    cells = {row[0]: row[1:] for row in shown}
    models = shown[0][1:]
    for row in pairs.rows:
        a, b = str(row["model_a"]), str(row["model_b"])
        text = spelled(pairs, row, "difference").split(" ")[0]
        there, back = cells[a][models.index(b)], cells[b][models.index(a)]
        assert isinstance(row["difference"], float) and isinstance(row["p_holm"], float)
        signed = f"+{text}" if row["difference"] > 0 else text
        untold = " (not told apart)" if row["p_holm"] >= 0.05 else ""
        assert there == signed + untold
        assert back.lstrip("+-") == there.lstrip("+-") and (back[0] != there[0] or text == "0.000")
    drawn = page.get_by_role("table", name="Share of the draws", include_hidden=True)
    shares = rows_by_name(drawn)
    assert len(ranks.rows) >= 4
    for row in ranks.rows:
        assert shares[str(row["model"])][int(str(row["rank"]))] == spelled(ranks, row, "share")
    behind = page.get_by_role("table", name="Minimum detectable effect", include_hidden=True)
    titles = {str(v["title"]): name for name, v in BENCHMARKS.items()}
    found = {titles.get(r[0], r[0]): r for r in grid(behind)[1:]}
    for row in mde.rows:
        cells_ = found[str(row["benchmark"])]
        expected = [spelled(mde, row, n) for n in ("mde", "mde_sd", "mde_median", "mde_clustered")]
        assert [c.split(" (")[0] for c in cells_[5:9]] == expected


def test_the_costs_show_the_tables(opens: Opens, full: World) -> None:
    page = opens(full).open("cost")
    overall, cost = full.table("overall"), full.table("cost")
    table = page.get_by_role("table", name="Win rate and cost of models", include_hidden=True)
    shown = rows_by_name(table)
    for row in overall.rows:
        if row["ranked"]:
            expected = [
                spelled(overall, row, n) for n in ("total_cost_usd", "cost_usd", "jury_cost_usd")
            ]
            assert [c.split(" (")[0] for c in shown[str(row["model"])][2:5]] == expected
    assert {name: cells[-1] for name, cells in shown.items()} == {
        "lab/one": "yes", "lab/two-small": "yes", "vendor/three": "no",
        "baseline/random": "– (price or usage is unknown)",
    }  # fmt: skip
    spent = rows_by_name(page.get_by_role("table", name="Tokens, prices and USD by model"))
    for row in cost.rows:
        cells = spent[str(row["model"])] if row["level"] == "model" else spent["all"]
        for place, name in (
            (2, "runs"),
            (3, "requests"),
            (4, "input_tokens"),
            (6, "output_tokens"),
        ):
            assert cells[place] == spelled(cost, row, name)
    assert list(spent)[-1] == "all"


def test_the_jury_shows_the_table(opens: Opens, full: World) -> None:
    page = opens(full).open("jury")
    jury = full.table("jury")
    behind = page.get_by_role(
        "table", name="Agreement of the judges by benchmark", include_hidden=True
    )
    shown = rows_by_name(behind)
    for row in (r for r in jury.rows if r["level"] == "agreement"):
        cells = shown[str(row["benchmark"])]
        assert cells[1] == row["jury"] == "panel"
        assert cells[3:6] == [spelled(jury, row, n) for n in ("alpha", "icc_single", "icc_mean")]
    judges = {
        (r[0], r[1]): r for r in grid(page.get_by_role("table", name="Judges by benchmark"))[1:]
    }
    rows = [r for r in jury.rows if r["level"] == "judge"]
    assert len(judges) == len(rows) == 3 * 4
    for row in rows:
        cells = judges[str(row["judge"]), str(row["benchmark"])]
        names = ("rated", "shown", "coverage", "score", "alpha_without", "rank_shift")
        assert cells[2:8] == [spelled(jury, row, n) for n in names]
    page.get_by_label("Benchmark", exact=True).select_option("private")
    left = page.get_by_role("table", name="Scores and ranks with one judge left out, private")
    cells = rows_by_name(left)["lab/one"]
    own = {
        r["judge"]: r
        for r in jury.rows
        if r["level"] == "left out" and r["model"] == "lab/one" and r["benchmark"] == "private"
    }
    for place, judge in enumerate(("judge/strict", "judge/mild", "judge/own")):
        row = own[judge]
        score = spelled(jury, row, "score").split(" ")[0]
        assert cells[3 + place].startswith(f"{row['rank']} {score}")
    assert cells[5].endswith("family")


def test_the_jury_of_the_demo_and_its_clinicians(opens: Opens, demo: World) -> None:
    page = opens(demo).open("jury")
    assert "graders by rule" in page.locator("#stand-in").inner_text()
    table = page.get_by_role("table", name="Agreement with clinicians", include_hidden=True)
    site = data_of(demo.site, "site")
    agreement = data_of(demo.site, site["agreement"])
    assert len(grid(table)) == len(agreement["rows"]) + 1 > 3
    names = [c["name"] for c in agreement["columns"]]
    first = dict(zip(names, agreement["rows"][0], strict=True))
    assert f"{first['icc']:.2f} [{first['icc_low']:.2f}, {first['icc_high']:.2f}]" in str(
        grid(table)
    )


def test_the_list_of_benchmarks(opens: Opens, full: World) -> None:
    page = opens(full).open("benchmarks")
    table = page.get_by_role("table", name="Benchmarks of this site")
    rows = {row[0]: row for row in grid(table)[1:]}
    assert set(rows) == {v["title"] for v in BENCHMARKS.values()} | {"open", *CLOSED}
    assert rows["private"][3] == "private" and rows["private"][-1] == "no"
    assert rows["Triage of chest pain"][1] == "Clinical Decision Support"
    assert rows["Triage of chest pain"][4:] == ["exact_match", "40", "5", "yes"]
    happened = next(r for r in full.table("benchmarks").rows if r["benchmark"] == "mishaps")
    assert rows["Everything that can happen"][5] == str(happened["n"]) == "10"
    page.get_by_role("searchbox").fill("visits")
    table.get_by_role("rowheader", name="Triage").wait_for(state="detached")
    assert {row[0] for row in grid(table)[1:]} == {"Coding of visits", "Notes of visits"}
    page.get_by_role("link", name="Coding of visits").click()
    page.get_by_role("heading", name="Coding of visits", level=1).wait_for()


def test_about_tells_versions_and_how_to_reproduce(opens: Opens, full: World) -> None:
    page = opens(full).open("about")
    text = page.locator("main").inner_text()
    site = data_of(full.site, "site")
    assert site["medhelm"] in text and site["command"] in text
    rows = {row[0]: row for row in grid(page.get_by_role("table", name="Versions and hashes"))[1:]}
    (scoring, _) = site["scorings"]
    for name, key in scoring["benchmarks"]:
        card = data_of(full.site, key)
        assert rows[card["title"] or name][4] == card["dataset_sha256"]
    assert "A made-up set of cases" in page.locator("#citations").inner_text()
    links = page.get_by_role("table", name="Downloads").get_by_role("link")
    paths = [link.get_attribute("href") for link in links.all()]
    assert len(paths) == 2 * 2 * 9 and all((full.site / str(p)).is_file() for p in paths)
