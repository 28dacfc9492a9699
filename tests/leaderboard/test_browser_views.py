"""What a reader changes on the pages over all runs: sorting, filters, downloads, details on hover."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medhelm.config import packaged_suites
from medhelm.tables.format.table import Table
from tests.leaderboard.browsing import Opens, World, at, grid, rows_by_name, spelled
from tests.leaderboard.casting import CLOSED
from tests.leaderboard.worlds import BENCHMARKS, MODELS

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

ALL = [*BENCHMARKS, "open", *CLOSED]
CATEGORY = {name: str(v["category"]) for name, v in BENCHMARKS.items()}
CATEGORY |= dict.fromkeys(("open", *CLOSED), "Clinical Decision Support")
ACCESS = dict.fromkeys(ALL, "public") | {"gated": "gated", "private": "private"}


def overview(page: Page) -> Locator:
    return page.get_by_role("table", name="Models ranked by win rate")


def order(page: Page, column: int = 1) -> list[str]:
    return [row[column].split(" ")[0] for row in grid(overview(page))[1:]]


def sorted_names(table: Table, column: str, *, is_falling: bool) -> list[str]:
    known = [r for r in table.rows if r[column] is not None]
    known.sort(key=lambda r: r[column], reverse=is_falling)  # type: ignore[arg-type, return-value]
    return [str(r["model"]) for r in known]


def sorting(page: Page, heading: str) -> str | None:
    return page.get_by_role("columnheader", name=heading).first.get_attribute("aria-sort")


# Sorting -----------------------------------------------------------------------------------------


def test_sorting_by_click_and_what_the_address_keeps(opens: Opens, full: World) -> None:
    table = full.table("overall")
    reader = opens(full)
    page = reader.open()
    assert sorting(page, "rank") == "ascending" and sorting(page, "macro-average") is None
    button = page.get_by_role("button", name="macro-average")
    button.click()
    assert sorting(page, "macro-average") == "descending" and sorting(page, "rank") is None
    assert order(page) == sorted_names(table, "macro_average", is_falling=True)
    page.get_by_role("button", name="macro-average").click()
    assert sorting(page, "macro-average") == "ascending"
    assert order(page) == sorted_names(table, "macro_average", is_falling=False)
    assert page.url.endswith("sort=macro_average")
    page.reload()
    reader.wait()
    assert sorting(page, "macro-average") == "ascending"
    assert order(page) == sorted_names(table, "macro_average", is_falling=False)


def test_sorting_by_keyboard_tells_those_who_listen(opens: Opens, full: World) -> None:
    page = opens(full).open()
    page.get_by_role("button", name="model", exact=True).focus()
    page.keyboard.press("Enter")
    names = sorted(m.name for m in MODELS)
    assert order(page) == names and sorting(page, "model") == "ascending"
    assert page.get_by_role("status").inner_text() == "Sorted by model, ascending"
    page.keyboard.press("Space")  # the button that was pressed still has the focus
    assert order(page) == names[::-1] and sorting(page, "model") == "descending"


def test_what_is_missing_comes_last_either_way(opens: Opens, full: World) -> None:
    page = opens(full).open("heatmap")
    page.get_by_text("The same as a list").click()
    table = page.get_by_role("table", name="Scores as a list")
    own = full.table("benchmarks")
    known = sorted(r["normalised"] for r in own.rows if r["normalised"] is not None)
    first = [row[3][0] == "–" for row in grid(table)[1:]]
    assert any(first) and not all(first[first.index(True) :])  # they are in its midst
    for values in (known[::-1], known):
        table.get_by_role("columnheader", name="norm").get_by_role("button").click()
        cells = [row[3].split(" ")[0] for row in grid(table)[1:]]
        assert cells == [f"{v:.3f}" for v in values] + ["–"] * (len(own.rows) - len(known))


# Filters -----------------------------------------------------------------------------------------


def check_view(page: Page, world: World, chosen: list[str], by: str = "half") -> None:
    """Compare rows with the tables of exactly these benchmarks."""
    table = world.table("overall", rank_by=by, benchmarks=chosen)
    shown = rows_by_name(overview(page), name=1)
    assert list(shown) == [row["model"] for row in table.rows]
    for row in table.rows:
        cells = shown[str(row["model"])]
        assert cells[0].split(" (")[0] == spelled(table, row, "rank")
        assert cells[4].split(" (")[0] == spelled(table, row, "macro_average")
        assert cells[6].split(" (")[0] == spelled(table, row, "tie_group")
        assert cells[8].split(" (")[0] == spelled(table, row, "cut_share")
        assert cells[9].split(" (")[0] == spelled(table, row, "benchmarks")
    models = f"{len(table.rows)} models on {len(chosen)} benchmark{'s' * (len(chosen) > 1)}"
    assert page.locator(".lead").inner_text().startswith(models)


def test_filters_by_access_and_category(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open()
    check_view(page, full, ALL)
    for label, groups in (("Access of data", ACCESS), ("Category", CATEGORY)):
        options = page.get_by_label(label, exact=True).locator("option")
        values = [str(o.get_attribute("value")) for o in options.all()]
        assert set(values) == {"", *groups.values()}
        for value in sorted(set(groups.values())):
            reader.choose(label, value)
            check_view(page, full, [b for b in ALL if groups[b] == value])
        with reader.changes():
            page.get_by_role("button", name="Reset filters").click()
    reader.choose("Access of data", "gated")
    off = page.get_by_label("Category", exact=True).locator("option[disabled]")
    assert off.count() == len(set(CATEGORY.values())) - 1  # what would leave nothing is off
    reader.choose("Category", "Clinical Decision Support")
    check_view(page, full, ["gated"])
    for _ in range(2):
        with reader.changes():
            page.go_back()
    check_view(page, full, ALL)


def test_an_address_that_leaves_nothing_says_so(opens: Opens, full: World) -> None:
    page = opens(full).open("overview", access="gated", category="Medical Research Assistance")
    assert "No benchmark with runs passes" in page.locator("#nothing").inner_text()
    assert page.get_by_label("Access of data", exact=True).input_value() == "gated"


def test_the_filter_by_scoring(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open()
    reader.choose("Scoring", "helm")
    table = full.table("overall", scoring="helm")
    assert page.get_by_text("3 models on 1 benchmark").is_visible()
    assert [row[1] for row in grid(overview(page))[1:]] == [r["model"] for r in table.rows]
    page.get_by_role("link", name="Heatmap").click()
    page.get_by_role("grid").wait_for()
    scores = full.table("benchmarks", scoring="helm")
    cells = grid(page.get_by_role("grid"))[-1][1:]
    order_ = [str(r["model"]) for r in table.rows]
    rows = {str(r["model"]): r for r in scores.rows}
    assert cells == [spelled(scores, rows[m], "normalised") for m in order_]


def test_the_filter_by_weights_hides_rows_and_changes_no_rank(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open()
    whole = rows_by_name(overview(page), name=1)
    weights = {"open": ["lab/two-small"], "none": ["baseline/random", "baseline/oracle"]}
    weights["closed"] = [m for m in whole if m not in weights["open"] + weights["none"]]
    for value, models in weights.items():
        reader.choose("Weights", value)
        count = f"{len(models)} model{'s' * (len(models) > 1)}"
        assert page.locator("main .count").inner_text() == count
        assert page.get_by_role("status").inner_text() == count
        shown = rows_by_name(overview(page), name=1)
        assert shown == {m: whole[m] for m in models}


def test_the_filter_by_suite(opens: Opens, demo: World) -> None:
    reader = opens(demo)
    page = reader.open()
    members = packaged_suites()["medhelm_core"]
    reader.choose("Suite", "medhelm_core")
    chosen = sorted({"pubmed_qa", "medec"} & set(members))
    assert len(chosen) == 2
    check_view(page, demo, chosen)
    assert page.get_by_text("Offline jury.").count() == 0  # none of these is rated by it


def test_the_switch_between_the_win_rates(opens: Opens, demo: World) -> None:
    reader = opens(demo)
    page = reader.open()
    names = sorted({str(r["benchmark"]) for r in demo.table("benchmarks").rows})
    half, tied = (demo.table("overall", rank_by=by).rows for by in ("half", "literal"))
    assert [r["rank"] for r in tied] != [r["rank"] for r in half]  # so that the switch shows
    check_view(page, demo, names)
    with reader.changes():
        page.get_by_text("Ties win").click()
    assert page.get_by_text("a tie wins for both, as in the paper's text").is_visible()
    assert page.get_by_text("simultaneous over all pairs (Mogstad et al. 2024)").first.is_visible()
    assert page.get_by_label("Ties win").is_checked()
    check_view(page, demo, names, by="literal")
    with reader.changes():
        page.get_by_label("Ties win").press("ArrowLeft")
    check_view(page, demo, names)


# Downloads ---------------------------------------------------------------------------------------


def saved(page: Page, scope: Locator, kind: str, folder: Path) -> str:
    with page.expect_download() as found:
        scope.get_by_role("button", name=kind).click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path.read_text()


def test_downloads_hold_the_shown_rows(opens: Opens, full: World, tmp_path: Path) -> None:
    page = opens(full).open("overview", weights="closed", by="literal", sort="-macro_average")
    table = full.table("overall", rank_by="literal")
    rows = {str(r["model"]): r for r in table.rows}
    names = order(page)
    assert names == ["lab/one", "vendor/three"]
    tools = page.get_by_role("group", name="Download what is shown")
    text = saved(page, tools, "CSV", tmp_path)
    found = list(csv.DictReader(io.StringIO(text)))
    assert [r["model"] for r in found] == names
    for row in found:
        own = rows[row["model"]]
        assert float(row["win_rate_literal"]) == own["win_rate_literal"]  # every digit of the table
        assert float(row["macro_low"]) == own["macro_low"] and row["rank"] == str(own["rank"])
        assert row["flags"] == (own["flags"] or "")
    document = json.loads(saved(page, tools, "JSON", tmp_path))
    assert document["schema"] == "medhelm.table/1" and document["notes"] == list(table.notes)
    assert document["settings"] == dict(table.settings)
    for row in document["rows"]:
        own = rows[row["model"]]
        assert row == {name: own[name] for name in row} and "win_literal_high" in row


# Details of a cell -------------------------------------------------------------------------------


def details(table: Table, row: Any) -> dict[str, str]:
    shares = [
        f"{name.removeprefix('share_').replace('_', ' ')} {100 * row[name]:.1f} %"
        for name in (c.name for c in table.columns)
        if name.startswith("share_") and row[name]
    ]
    return {
        "Normalised": spelled(table, row, "normalised"),
        "Raw score": spelled(table, row, "score"),
        "n": spelled(table, row, "n"),
        "Scored": f"{row['scored']} of {row['planned']}",
        "Outcomes": ", ".join(shares),
        "Coverage": spelled(table, row, "coverage"),
    }


def tip(page: Page) -> dict[str, str]:
    box = page.get_by_role("tooltip")
    box.wait_for()
    terms, values = (box.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(terms, values, strict=True))


def cell(page: Page, title: str, place: int) -> Locator:
    row = page.get_by_role("grid").locator("tr", has=page.get_by_text(title, exact=True))
    return row.locator(".spot").nth(place)


def test_a_cell_tells_its_details_on_hover_and_on_focus(opens: Opens, full: World) -> None:
    table = full.table("benchmarks")
    rows = {(r["benchmark"], r["model"]): r for r in table.rows}
    page = opens(full).open("heatmap")
    models = [name.split(" ")[0] for name in grid(page.get_by_role("grid"))[0][1:]]
    for name in ("mishaps", "notes"):
        for place in (0, 2):
            spot = cell(page, str(BENCHMARKS[name]["title"]), place)
            expected = details(table, rows[name, models[place]])
            spot.hover()
            assert tip(page).items() >= expected.items()
            assert spot.get_attribute("aria-describedby") == "tip"
            page.mouse.move(2, 2)
            page.get_by_role("tooltip").wait_for(state="hidden")
            spot.focus()
            assert tip(page).items() >= expected.items()
            page.keyboard.press("Escape")
            page.get_by_role("tooltip").wait_for(state="hidden")
    assert len(details(table, rows["mishaps", models[0]])["Outcomes"].split(", ")) >= 7


def test_arrows_move_between_cells_and_enter_opens_the_run(opens: Opens, full: World) -> None:
    page = opens(full).open("heatmap")
    stops = page.locator(".spot[tabindex='0']")
    assert stops.count() == 1  # one stop for Tab
    stops.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    models = [name.split(" ")[0] for name in grid(page.get_by_role("grid"))[0][1:]]
    assert page.get_by_role("tooltip").locator("p").all_inner_texts() == ["gated", models[1]]
    page.keyboard.press("End")
    assert page.get_by_text("No score: no run.").is_visible()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name=f"{models[0]} on gated").wait_for()
    assert page.url.endswith(at("run", "gated", models[0]))


def test_pairs_tell_their_interval_and_p(opens: Opens, full: World) -> None:
    pairs = full.table("pairs")
    page = opens(full).open("statistics")
    row = next(
        r for r in pairs.rows if {r["model_a"], r["model_b"]} == {"lab/one", "lab/two-small"}
    )
    names = grid(page.get_by_role("grid"))[0][1:]
    line = page.get_by_role("grid").get_by_role("row", name=str(row["model_a"]), exact=False)
    line.last.locator("td").nth(names.index(str(row["model_b"]))).locator(".spot").hover()
    said = tip(page)
    low, high = (f"{row[end]:+.3f}" for end in ("low", "high"))
    assert said["Difference"] == f"{row['difference']:+.3f} [{low}, {high}]"
    assert said["p, Holm"] == spelled(pairs, row, "p_holm")
    assert said["Benchmarks"] == str(row["n_benchmarks"])
    ground = "all => all.map((e) => [e.textContent, getComputedStyle(e).backgroundColor])"
    for text, colour in page.locator(".spot.strong").evaluate_all(ground):
        red, _, blue = (int(v) for v in colour[4:-1].split(","))
        assert (blue > red) == text.startswith("+")  # blue is better, orange is worse


SPLIT_WORDS = """() => {
  const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.parentElement.offsetParent || node.parentElement.closest(".unseen, script, svg, pre, .hash")) continue;
    for (const word of node.data.matchAll(/\\p{L}{2,}/gu)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].filter((r) => r.width).map((r) => Math.round(r.top)));
      if (lines.size > 1) found.push(word[0]);
    }
  }
  return found;
}"""


def test_navigation_is_one_row_and_no_word_is_split(opens: Opens, demo: World) -> None:
    page = opens(demo, width=1280).open("benchmarks")
    tops = "() => new Set([...document.querySelectorAll('#nav li')].map((e) => e.offsetTop)).size"
    assert page.evaluate(tops) == 1
    for width in (1280, 390):
        reader = opens(demo, width=width)
        for name in ("overview", "statistics", "jury", "benchmarks", "about"):
            page = reader.open(name)
            assert page.evaluate(SPLIT_WORDS) == [], (width, name)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
