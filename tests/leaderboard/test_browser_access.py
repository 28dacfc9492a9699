"""For every reader: keyboard, phones, dark, print, contrast, names for those who listen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.leaderboard.browsing import Opens, Reader, World, grid, opened
from tests.leaderboard.worlds import ONE, TWO

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PATHS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "overview": ((), {}),
    "heatmap": (("heatmap",), {}),
    "categories": (("categories",), {}),
    "cost": (("cost",), {}),
    "statistics": (("statistics",), {}),
    "jury": (("jury",), {}),
    "benchmarks": (("benchmarks",), {}),
    "benchmark": (("benchmark", "open"), {}),
    "run": (("run", "triage", ONE.name), {"with": TWO.name}),
    "outcomes": (("run", "mishaps", TWO.name), {}),
    "judged": (("run", "open", ONE.name), {}),
    "closed": (("run", "private", ONE.name), {}),
    "results": (("run", "open", ONE.name), {"tab": "results"}),
    "settings": (("run", "open", ONE.name), {"tab": "settings"}),
    "about": (("about",), {}),
}
LABELLED: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "harm": (("harm",), {}),
    "harm, closed": (
        ("harm",),
        {"benchmark": "labelled_private", "of": "severe", "show": "share"},
    ),
    "labelled benchmark": (("benchmark", "labelled"), {}),
    "labelled run": (("run", "labelled", "vendor/coarse"), {"with": "lab/bold"}),
}

# WCAG 2.2, relative luminance and contrast, of every element that has text of its own.
_CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    const own = parse(getComputedStyle(element).backgroundColor);
    return own.length === 4 && own[3] === 0 ? ground(element.parentElement)
      : over(own, own.length === 4 ? ground(element.parentElement) : own);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = new Map();
  for (const element of document.body.querySelectorAll("*")) {
    const words = [...element.childNodes].filter((n) => n.nodeType === Node.TEXT_NODE).map((n) => n.data.trim()).join(" ").trim();
    const style = getComputedStyle(element);
    const isOff = element.disabled || element.closest(":disabled, .unseen, .skip, noscript, option") || style.visibility !== "visible";
    if (!words || isOff || !element.getClientRects().length) continue;
    const isDrawn = element instanceof SVGElement;
    const under = ground(element);
    const ink = over(parse(isDrawn ? style.fill : style.color), under);
    const [high, low] = [light(ink), light(under)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    const key = JSON.stringify([ink, under, isLarge]);
    if (!found.has(key)) found.set(key, { ratio, least: isLarge ? 3 : 4.5, words: words.slice(0, 40), where: `${element.tagName}.${element.getAttribute("class")}`, ink, under });
  }
  return [...found.values()];
}"""

# What those who cannot see or point would miss.
_NAMES = """() => {
  const faults = [];
  const say = (what, e) => faults.push(`${what}: ${e.outerHTML.slice(0, 160)}`);
  const ids = new Map();
  for (const e of document.querySelectorAll("[id]")) ids.has(e.id) ? say("id twice", e) : ids.set(e.id, e);
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]"))
    for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"])
      if (e.hasAttribute(name) && !ids.has(e.getAttribute(name))) say(`${name} of nothing`, e);
  for (const e of document.querySelectorAll("button, a[href], summary"))
    if (!(e.textContent.trim() || e.ariaLabel)) say("no name", e);
  for (const e of document.querySelectorAll("select, input, textarea"))
    if (!(e.labels.length || e.ariaLabel)) say("no label", e);
  for (const e of document.querySelectorAll("table"))
    if (!e.caption || !e.caption.textContent.trim()) say("no caption", e);
  for (const e of document.querySelectorAll("th")) if (!e.scope) say("no scope", e);
  for (const e of document.querySelectorAll(".scroll, [role=region], nav"))
    if (!(e.ariaLabel || e.getAttribute("aria-labelledby"))) say("no label", e);
  const levels = [...document.querySelectorAll("main h1, main h2, main h3, main h4")].map((e) => Number(e.tagName[1]));
  if (levels.filter((l) => l === 1).length !== 1 || levels[0] !== 1) faults.push(`headings ${levels}`);
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) faults.push(`heading ${level} below ${levels[i - 1]}`); });
  if (document.documentElement.lang !== "en") faults.push("no language");
  for (const tag of ["header", "nav", "main", "footer"]) if (!document.querySelector(tag)) faults.push(`no ${tag}`);
  return faults;
}"""

# What hangs over the right edge of the page and is not in a container that scrolls by itself.
_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const isHeld = (e) => e.closest(".scroll, .plot, .unseen, #tip, pre");
  const wide = [...document.body.querySelectorAll("*")].filter((e) => !isHeld(e) && e.getBoundingClientRect().right > width + 1);
  return { page: document.documentElement.scrollWidth, body: document.body.scrollWidth, width, wide: wide.map((e) => e.outerHTML.slice(0, 120)) };
}"""


def visit(reader: Reader, name: str) -> Page:
    path, query = (PATHS | LABELLED)[name]
    return reader.go(*path, **query)


def visits(opens: Opens, full: World, labelled: World, **more: Any) -> Iterator[tuple[str, Page]]:
    """Show every page of two sites, one after the other."""
    for world, paths in ((full, PATHS), (labelled, LABELLED)):
        reader = opens(world, **more)
        reader.open("about")
        for name in paths:
            yield name, visit(reader, name)


# Names and keyboard ------------------------------------------------------------------------------


def test_everything_has_a_name(opens: Opens, full: World, demo: World, labelled: World) -> None:
    for name, page in visits(opens, full, labelled):
        assert opened(page).evaluate(_NAMES) == [], name
    page = opens(demo).open("jury")
    assert page.evaluate(_NAMES) == []


def reached(page: Page, steps: int) -> list[str]:
    """Return what has the focus, one step of Tab after another."""
    found = []
    for _ in range(steps):
        page.keyboard.press("Tab")
        found.append(
            page.evaluate(
                "(e => `${e.tagName} ${e.id || e.ariaLabel || e.textContent.slice(0, 30)}`)(document.activeElement)"
            )
        )
    return found


def test_tab_reaches_all_in_the_order_of_the_page(opens: Opens, full: World) -> None:
    page = opens(full).load()
    found = reached(page, 40)
    wanted = ["A skip", "A brand", "A Overview", "A About", "BUTTON theme", "SELECT filter-scoring"]
    wanted += ["SELECT filter-category", "SELECT filter-weights", "INPUT switch-by-default"]
    wanted += ["BUTTON CSV", "BUTTON JSON", "DIV Models ranked by win rate", "BUTTON rank▲"]
    wanted += ["BUTTON macro-average▼", "SUMMARY The 9 benchmarks of this selec"]
    places = [found.index(name) for name in wanted]
    assert places == sorted(places)


def test_the_focus_can_be_seen(opens: Opens, full: World) -> None:
    page = opens(full).load()
    for _ in range(20):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            """(e => [e, e.nextElementSibling].filter(Boolean).some((x) => {
              const s = getComputedStyle(x);
              return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
            }))(document.activeElement)"""
        )
        assert outline, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


def test_the_skip_link_leads_to_the_content(opens: Opens, full: World) -> None:
    page = opens(full).load("heatmap")
    page.keyboard.press("Tab")
    assert page.get_by_role("link", name="Skip to the content").is_visible()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("#/heatmap")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "filter-scoring"


def test_a_filter_keeps_the_focus_and_a_new_page_takes_it(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open()
    page.get_by_label("Weights", exact=True).focus()
    with reader.changes():
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "filter-weights"
    with reader.changes():
        page.get_by_role("link", name="Statistics").press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.title() == "Statistics – Ours"


# Charts ------------------------------------------------------------------------------------------


def test_charts_have_a_name_a_caption_and_a_table(opens: Opens, full: World) -> None:
    reader = opens(full, has_charts=True)
    reader.open("about")
    seen = 0
    for name in ("cost", "statistics", "jury", "benchmark"):
        page = visit(reader, name)
        for figure in page.locator("figure.chart").all():
            seen += 1
            title = figure.locator("h2").inner_text()
            assert page.get_by_role("figure", name=title, exact=True).count() == 1
            plot = figure.get_by_role("group", name=f"Chart: {title}")
            assert plot.locator("svg.main-svg").count() >= 1 and plot.locator("canvas").count() == 0
            assert len(figure.locator("figcaption").inner_text()) > 20
            behind = figure.locator("details")
            if behind.count():
                assert not behind.locator("table").is_visible()
                behind.locator("summary").click()
                table = behind.locator("table")
            else:
                table = figure.locator("xpath=following-sibling::*[1]//table")
            assert table.first.is_visible() and len(grid(table.first)) >= 2
    assert seen == 2 + 2 + 2 + 1


def test_charts_tell_details_and_send_nothing(opens: Opens, full: World) -> None:
    reader = opens(full, has_charts=True)
    page = reader.open("cost")
    for name, told in (
        ("cost", ("win rate 0.", "USD")),
        ("statistics", ("of the draws", "MDE")),
        ("jury", ("[", "judge")),
        ("benchmark", ("instances",)),
    ):
        page = visit(reader, name)
        for plot, words in zip(page.locator(".plot").all(), told, strict=True):
            plot.scroll_into_view_if_needed()
            seen = "all => all.findLastIndex((e) => Math.min(e.getBBox().width, e.getBBox().height) > 3)"
            points = plot.locator(".points path")
            points.nth(points.evaluate_all(seen)).hover(force=True)
            plot.locator(".hoverlayer .hovertext").first.wait_for()
            assert words in str(plot.locator(".hoverlayer").first.text_content())
    buttons = visit(reader, "cost").locator(".modebar-btn")
    titles = [str(b.get_attribute("data-title")) for b in buttons.all()]
    assert len(titles) == 2 * 6 and not any("loud" in t or "lotly" in t for t in titles)
    with page.expect_download() as found:
        buttons.first.click(force=True)
    assert found.value.suggested_filename.endswith(".png")


# Contrast ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(
    opens: Opens, full: World, demo: World, labelled: World, scheme: Any
) -> None:
    seen = 0
    for name, page in visits(opens, full, labelled, scheme=scheme):
        if name == "heatmap":
            page.locator("a.spot").first.focus()
        seen += check_contrast(opened(page) if name in LABELLED else page, name)
    seen += check_contrast(opens(demo, scheme=scheme).open(), "demo")
    assert seen > 140


def test_contrast_of_charts(opens: Opens, full: World) -> None:
    reader = opens(full, has_charts=True)
    reader.open("cost")
    for scheme in ("light", "dark", "light"):  # a chart is drawn anew where the system changes
        page = reader.page
        page.emulate_media(color_scheme=scheme)
        page.locator(".plot:not([data-drawn])").first.wait_for(state="detached")
        ink = {"light": "rgb(26, 34, 39)", "dark": "rgb(230, 235, 237)"}[scheme]
        page.wait_for_function(
            "ink => getComputedStyle(document.querySelector('.plot .xtick text')).fill === ink",
            arg=ink,
        )
        check_contrast(page, f"cost, {scheme}")


def check_contrast(page: Page, name: str) -> int:
    found = page.evaluate(_CONTRAST)
    low = [(name, round(f["ratio"], 2), f) for f in found if f["ratio"] < f["least"]]
    assert low == []
    return len(found)


def test_the_theme_can_be_chosen_and_stays(opens: Opens, full: World) -> None:
    reader = opens(full)
    page = reader.open()
    ground = "getComputedStyle(document.body.parentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    button = page.get_by_role("button", name="Theme: auto")
    button.click()
    assert page.get_by_role("button", name="Theme: light").is_visible()
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(ground) == "rgb(18, 23, 26)"
    page.reload()
    reader.wait()
    assert page.evaluate(ground) == "rgb(18, 23, 26)"
    page.get_by_role("button", name="Theme: dark").click()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == "rgb(18, 23, 26)"  # auto follows the system


# Phones and paper --------------------------------------------------------------------------------


def test_phones_scroll_down_only(opens: Opens, full: World, demo: World, labelled: World) -> None:
    for name, page in visits(opens, full, labelled, width=360, has_charts=True):
        found = opened(page).evaluate(_WIDE)
        assert found == {"page": 360, "body": 360, "width": 360, "wide": []}, (
            name,
            json.dumps(found),
        )
    page = opens(demo, width=360).open()
    assert page.evaluate(_WIDE)["page"] == 360


def test_the_menu_of_a_phone(opens: Opens, full: World) -> None:
    reader = opens(full, width=360)
    page = reader.open()
    link = page.get_by_role("link", name="Heatmap")
    assert not link.is_visible()
    page.get_by_role("button", name="Pages").click()
    assert link.is_visible()
    page.keyboard.press("Escape")
    assert not link.is_visible()
    page.get_by_role("button", name="Pages").press("Enter")
    with reader.changes():
        link.click()
    assert not link.is_visible() and page.locator("h1").inner_text() == "Heatmap"


def test_the_first_column_stays_in_sight_on_a_phone(opens: Opens, full: World) -> None:
    page = opens(full, width=360).open("benchmark", "triage")
    name = page.get_by_role("table", name="Models on").get_by_role("rowheader").first
    before = name.bounding_box()
    page.get_by_role("region", name="Models on").evaluate("e => { e.scrollLeft = 200; }")
    after = name.bounding_box()
    assert before is not None and after is not None and abs(before["x"] - after["x"]) <= 1


def test_paper_shows_tables_and_no_controls(opens: Opens, full: World) -> None:
    reader = opens(full, scheme="dark")
    reader.open("about")
    for name in ("overview", "heatmap", "categories", "cost", "benchmark", "run", "closed"):
        page = visit(reader, name)
        page.emulate_media(media="print")
        table = page.locator("#list" if name == "closed" else "main table:visible").first
        box = table.bounding_box()
        assert table.is_visible() and box is not None and box["height"] > 30
        assert not page.get_by_role("navigation", name="Pages", exact=True).is_visible()
        assert page.locator(".filters:visible").count() == 0
        held = "[...document.querySelectorAll('.scroll')].map((e) => getComputedStyle(e).overflowX)"
        assert set(page.evaluate(held)) <= {"visible"}  # nothing is cut off
        assert (
            page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            == "rgb(255, 255, 255)"
        )
        page.emulate_media(media="screen")
