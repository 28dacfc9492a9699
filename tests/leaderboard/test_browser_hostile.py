"""A site whose every name and text is an attack: nothing runs, nothing leaves, all is text."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browsing import Opens, Reader, World, grid, opened
from tests.leaderboard.hostile import (
    ATTACKS,
    FIRST,
    JUDGES,
    LONG,
    NAMES,
    RANKED,
    RUNNING,
    SECOND,
    TITLE,
    as_shown,
    code_of,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

CHARTS = ("cost", "statistics", "harm", "jury")

# What no page of ours makes, whatever it is given.
_INTRUDERS = """() => {
  const faults = [];
  const say = (what, e) => faults.push(`${what}: ${e.outerHTML.slice(0, 200)}`);
  if (window.__pwned !== undefined) faults.push(`ran: ${window.__pwned}`);
  if (Object.prototype.__pwned !== undefined || "toString" in Object.create(null)) faults.push("prototype");
  for (const e of document.scripts)
    if (e.textContent || !/^(app\\/(pages\\/)?|data\\/)[\\w.-]+\\.js$/.test(e.getAttribute("src"))) say("script", e);
  const foreign = "img, iframe, frame, object, embed, base, style, math, video, audio, form:not([role=search]), meta[http-equiv=refresh]";
  document.querySelectorAll(foreign).forEach((e) => say("element", e));
  for (const e of document.querySelectorAll("*")) {
    for (const { name, value } of e.attributes) {
      if (/^on/i.test(name) || name === "srcdoc" || name === "formaction") say("attribute", e);
      if (/^(href|src|action|xlink:href)$/.test(name) && /^\\s*(javascript|vbscript):/i.test(value)) say("address", e);
    }
  }
  for (const e of document.querySelectorAll("a[href]")) {
    const address = e.getAttribute("href");
    if (/evil\\.example/.test(address.split("#")[0])) say("link", e);
    if (!/^(#\\/|#main$|tables\\/|https:\\/\\/arxiv\\.org\\/)/.test(address)) say("link", e);
  }
  for (const e of document.querySelectorAll("link"))
    if (!/^(app\\/(pages\\/)?\\w+\\.css|data:,)$/.test(e.getAttribute("href"))) say("link", e);
  return faults;
}"""


def check(page: Page, where: str) -> None:
    assert page.evaluate(_INTRUDERS) == [], where


def head(text: str) -> str:
    """Return the begin of a text as it is to be read, short enough for every list."""
    return as_shown(text)[:90]


def text_of(found: Locator) -> str:
    return str(found.text_content())


def test_the_attacks_run_where_nobody_takes_care(browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script(
        """const ran = []; window.ran = ran;
        Object.defineProperty(window, "__pwned", { set: (v) => { ran.push(v); }, get: () => undefined });"""
    )
    page.goto("about:blank")
    page.on("dialog", lambda dialog: dialog.dismiss())
    body = "".join(f"<div>{text}</div>\n" for i, text in enumerate(ATTACKS) if i in RUNNING)
    page.set_content(f"<!doctype html><body>{body}</body>")
    page.wait_for_timeout(500)
    found = set(page.evaluate("window.ran"))
    page.close()
    assert found == RUNNING and len(ATTACKS) >= 30


# Pages -------------------------------------------------------------------------------------------


def test_names_are_text_on_the_pages_over_all(opens: Opens, hostile: World) -> None:
    reader = opens(hostile, has_charts=True)
    page = reader.open()
    check(page, "overview")
    assert text_of(page.locator("#brand")) == TITLE and page.title().endswith(TITLE)
    models = text_of(page.get_by_role("table"))
    assert all(head(name) in models for name in NAMES)
    for path in (
        "heatmap",
        "categories",
        "cost",
        "statistics",
        "harm",
        "jury",
        "benchmarks",
        "about",
    ):
        page = reader.go(path)
        check(page, path)
        opened(page)
        assert page.locator(".plot svg.main-svg").count() >= 2 or path not in CHARTS
        for plot in page.locator(".plot").all():
            plot.hover(position={"x": 400, "y": 120}, force=True)
        check(page, f"{path}, opened")
        found = text_of(page.locator("main"))
        if path in ("heatmap", "statistics", "cost"):
            names = RANKED if path == "statistics" else NAMES
            assert all(head(name) in found for name in names), path
        if path in ("heatmap", "benchmarks", "about"):
            assert all(head(title) in found for title in ATTACKS), path
        if path == "harm":
            assert all(head(specialty) in found for specialty in NAMES)
            marks = " ".join(page.locator("main .mark").all_text_contents())
            assert all(f"validated by {head(' '.join(n.splitlines()))}" in marks for n in NAMES)
            assert all(found.count(head(model.name)) >= 5 for model in (FIRST, SECOND))
    reader.go("heatmap")
    page.locator("a.spot").last.hover()
    page.get_by_role("tooltip").wait_for()
    check(page, "tip")
    judges = reader.go("jury").get_by_role("table", name="Judges by benchmark", exact=True)
    assert {row[0] for row in grid(judges)[1:]} == {as_shown(name) for name in JUDGES}


def test_cards_of_benchmarks_are_text(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    reader.open("about")
    for name, text in zip(NAMES, ATTACKS, strict=True):
        page = reader.go("benchmark", name)
        check(page, name[:40])
        found = text_of(page.locator("main"))
        assert text_of(page.locator("h1")).startswith(head(text))
        facts = page.locator("dl.facts dd").all_text_contents()
        # Category and task, source, citation, licence, version, split, cluster, hash, template.
        assert sum(head(text) in fact for fact in facts) >= 9, name
        assert text_of(page.locator("main > .lead")).startswith(as_shown(text)[:4000])
        assert text_of(page.locator("blockquote")).startswith(as_shown(text)[:19_000])
        assert found.count(head(text)) >= 14, name
        assert page.locator("main a[href^='http']").count() == 0
    reader = opens(hostile, has_charts=True)
    reader.open("about")
    for name in (NAMES[2], NAMES[22], NAMES[24]):
        page = reader.go("benchmark", name)
        page.locator(".plot").hover(position={"x": 400, "y": 60}, force=True)
        check(page, f"chart of {name}")


def test_settings_of_runs_are_text(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    reader.open("about")
    for place, name in enumerate(NAMES):
        page = reader.go("run", name, FIRST.name, tab=("results", "settings")[place % 2])
        check(page, name[:40])
        assert head(FIRST.name) in text_of(page.locator("h1"))
        found = text_of(page.locator("main"))
        assert found.count(head(name)) >= (4, 8)[place % 2], name
    page = reader.go("run", NAMES[23], FIRST.name, tab="settings")
    # A command with what a terminal would obey unseen is not offered for copying.
    assert "not offered for copying" in text_of(page.locator(".command").first)


# Instances ---------------------------------------------------------------------------------------


def step(reader: Reader, place: int) -> Page:
    """Show the next instance."""
    page = reader.page
    if place:
        page.get_by_role("button", name="Next instance").click()
        page.locator("#open-id", has_text=f"{place:02d}").wait_for()
    page.locator(".pane[aria-busy]").wait_for(state="detached")
    return page


def test_cases_and_answers_are_text(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    page = reader.open("run", "deep", FIRST.name, **{"with": SECOND.name})
    for place, text in enumerate(ATTACKS):
        page = step(reader, place)
        pane = page.locator("#pane")
        check(page, f"{place}")
        found = text_of(pane)
        # Case, question, gold or choice, key, criterion, metadata; and twice answer and reason.
        assert found.count(head(text)) >= 14, text[:60]
        pane.locator("details").evaluate_all("all => all.forEach((e) => { e.open = true; })")
        pane.locator(".message").nth(1).wait_for(state="attached")
        check(page, f"{place}, prompt")
        assert text_of(pane).count(head(text)) >= 16
    box = page.locator("#pane .textbox").first
    box.get_by_role("button", name="Show all").click()
    page.wait_for_timeout(500)
    assert text_of(box.locator(".long")) == ATTACKS[-1] and len(ATTACKS[-1]) > LONG
    check(page, "long")
    parts = page.get_by_label("Part", exact=True).locator("option")
    assert parts.count() == len(NAMES) + 1


def test_replies_of_judges_are_text(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    reader.open("run", "open", FIRST.name)
    for place, text in enumerate(ATTACKS):
        page = step(reader, place)
        judge = page.locator(".judges > li").first
        judge.locator("summary").click()
        judge.locator(".long").first.wait_for()
        check(page, f"{place}")
        assert text_of(judge).startswith(as_shown(JUDGES[0]))
        replies = judge.locator(".long").all_text_contents()
        assert replies and all(reply.startswith(head(text)) for reply in replies)
        assert text_of(page.locator("#pane .answer .long").first).startswith(head(text))


def test_labelled_actions_are_text(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    page = reader.open("run", "labelled", FIRST.name, **{"with": SECOND.name})
    for place, text in enumerate(ATTACKS):
        if place:
            page.get_by_role("button", name="Next instance").click()
            page.locator("#open-id", has_text=code_of(place)).wait_for()
        page.locator(".pane[aria-busy]").wait_for(state="detached")
        pane = page.locator("#pane")
        pane.locator("summary", has_text="All 23 actions").click()
        pane.get_by_role("table", name="Actions with their rubric").wait_for()
        check(page, f"{place}")
        # Case, question, three actions with their reference, specialty, two replies, four errors.
        heads = {head(text), head(" ".join(text.splitlines()))}  # an action is one line
        assert sum(text_of(pane).count(h) for h in heads) >= 14, text[:60]
        errors = pane.locator(".errors li")
        assert [text_of(e).split(" ")[:2] for e in errors.all()] == [
            ["severe", "omission"],
            ["severe", "commission"],
            ["moderate", "omission"],
        ]
    page = reader.go("harm", show="share", of="severe")
    spot = page.get_by_role("grid", name="Share by specialty").locator("a.spot").first
    spot.hover()
    assert text_of(page.get_by_role("tooltip")).startswith(as_shown(sorted(NAMES)[0])[:60])
    check(page, "tip of harm")


def test_any_text_can_be_searched(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    page = reader.open("run", "deep", FIRST.name)
    for text in ("<img src=x onerror", "(.*)+$[\\", "__proto__", "检查"):
        hits = sum(text in attack for attack in ATTACKS)
        page.get_by_role("searchbox").fill(text)
        with reader.changes():
            page.keyboard.press("Enter")
        page.get_by_role("progressbar").wait_for(state="detached")
        assert page.locator("#list a").count() == hits, text
        check(page, text)


# Addresses and downloads -------------------------------------------------------------------------


def test_addresses_are_text_too(opens: Opens, hostile: World) -> None:
    reader = opens(hostile)
    page = reader.open()
    for text in (NAMES[2], NAMES[9], NAMES[16], "__proto__", "hasOwnProperty", "%E0%A4%A"):
        for path, query in (
            ((text,), {}),
            (("benchmark", text, text), {}),
            (("run", text, text), {"tab": text}),
            (("overview",), dict.fromkeys(("sort", "by", "category", "access", "weights"), text)),
            (
                ("run", "deep", FIRST.name),
                {"instance": text, "q": text, "with": text, "page": text},
            ),
            (("run", "deep", FIRST.name), dict.fromkeys(("outcome", "part", "order", "min"), text)),
            (("heatmap",), {"colours": text, "scoring": text}),
            (("jury",), {"measure": text, "benchmark": text}),
            (("harm",), dict.fromkeys(("benchmark", "of", "show", "sort"), text)),
        ):
            reader.go(*path, **query)
            check(page, f"{path} {query}")
            assert page.locator("h1").count() == 1
    page.evaluate("location.hash = '#/%E0%A4%A'")
    page.get_by_role("heading", name="No such page").wait_for()


def test_downloads_hold_no_formula(opens: Opens, hostile: World, tmp_path: Path) -> None:
    page = opens(hostile).open()
    with page.expect_download() as found:
        page.get_by_role("button", name="CSV").click()
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))
    names = {row["model"] for row in rows}
    assert names == {f"'{name}" if name.startswith("=") else name for name in NAMES}
