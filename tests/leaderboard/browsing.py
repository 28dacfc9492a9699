"""A browser for tests: sites of many kinds, pages that note what should not happen, and readers of both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

import pytest

from medhelm.cli import run_command
from medhelm.plugins.registry import load_registry
from medhelm.tables.format.table import Column, Settings, Table
from medhelm.tables.loading import load_results
from medhelm.tables.results import Results
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.site import SiteOptions, build_site
from tests.leaderboard.hostile import TITLE, write_hostile
from tests.leaderboard.labelling import write_labelled
from tests.leaderboard.worlds import write_demo, write_full, write_ratings
from tests.once import once

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
DRAWS = 50
PATIENCE_MS = 15_000

_READY = """const ready = () => new Promise((done, fail) => {
  const busy = "main[aria-busy], .pane[aria-busy], .plot:not([data-drawn]), #versions:not([data-filled])";
  const end = Date.now() + %d;
  const look = () => {
    const unfinished = document.querySelector(busy);
    if (document.documentElement.dataset.ready && !unfinished) done();
    else if (Date.now() > end) fail(new Error(`not ready: ${unfinished ? unfinished.outerHTML.slice(0, 200) : ""}`));
    else setTimeout(look, 5);
  };
  look();
});"""

_GO = """const go = (hash) => new Promise((done) => {
  if (location.hash === hash) return done();
  document.addEventListener("medhelm:placed", () => done(), { once: true });
  location.hash = hash;
});"""

_MARK = """turn => document.addEventListener("medhelm:placed", () => {
  document.documentElement.dataset.turn = turn;
}, { once: true })"""

# Text as it is read: what is hidden from the eye alone counts, what is hidden from all does not.
_GRID = """table => {
  const text = (node) => {
    if (node.nodeType === Node.TEXT_NODE || node.matches(".shown")) return node.textContent;
    return node.ariaHidden === "true" ? "" : [...node.childNodes].map(text).join(" ");
  };
  const cells = (row) => [...row.children].map((cell) => text(cell).replace(/\\s+/g, " ").trim());
  return [...table.querySelectorAll("tr")].map(cells);
}"""


_NO_CHARTS = "var Plotly = { react: () => Promise.resolve(), purge: () => {} };"


@dataclass(frozen=True)
class World:
    """A results folder and the site that was built from it."""

    results: Path
    site: Path
    light: Path
    """The same site with a chart library that draws nothing: reading the real one takes seconds."""

    def table(
        self,
        name: str,
        metrics: Any = "main",
        rank_by: Any = "half",
        scoring: Any = "fixed",
        benchmarks: Iterable[str] = (),
    ) -> Table:
        """Return a table of the results, made without the site."""
        found = _load(self.results, scoring, tuple(benchmarks))
        return found.typed(name, Settings(draws=DRAWS, rank_by=rank_by), metrics=metrics)


@cache
def _load(results: Path, scoring: Any, benchmarks: tuple[str, ...]) -> Results:
    return load_results(results, scoring=scoring, benchmarks=benchmarks)


@dataclass
class Reader:
    """One page of a browser and all that went wrong on it."""

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _turn: int = 0

    def __post_init__(self) -> None:
        own = self.address.rsplit("/", 1)[0] + "/"
        page = self.page
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self.faults.append(f"failed: {request.url[:200]}"))
        page.on("dialog", self._dismiss)
        page.on("popup", lambda other: self.faults.append(f"popup: {other.url[:200]}"))

        def note(request: Any) -> None:
            self.requests.append(request.url)
            if not request.url.startswith((own, "data:", "blob:")):
                self.faults.append(f"left the site: {request.url[:200]}")

        page.on("request", note)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self.faults.append(f"console {message.type}: {message.text[:500]}")

    def _dismiss(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message[:200]}")
        dialog.dismiss()

    def open(self, *path: str, **query: str) -> Page:
        """Show an address afresh: loads the site unless it is there, with nothing left of before."""
        if not self.page.url.startswith(self.address):
            return self.load(*path, **query)
        self.go("-")
        return self.go(*path, **query)

    def load(self, *path: str, **query: str) -> Page:
        """Load the site anew at an address, as one who follows a link from elsewhere."""
        self.page.goto("about:blank")
        self.requests.clear()
        self.page.goto(self.address + at(*path, **query))
        return self.wait()

    def go(self, *path: str, **query: str) -> Page:
        """Go to another address of the site that is open."""
        ready = _READY % PATIENCE_MS
        self.page.evaluate(
            f"hash => {{ {ready} {_GO} return go(hash).then(ready); }}", at(*path, **query)
        )
        return self.page

    @contextmanager
    def changes(self) -> Iterator[None]:
        """Wait until what is done inside has changed the page."""
        self._turn += 1
        self.page.evaluate(_MARK, self._turn)
        yield
        self.page.locator(f"html[data-turn='{self._turn}']").wait_for(state="attached")
        self.wait()

    def choose(self, label: str, value: str) -> None:
        """Choose an option of a control."""
        with self.changes():
            self.page.get_by_label(label, exact=True).select_option(value)

    def wait(self) -> Page:
        """Wait until the page stands, its charts drawn and its files read."""
        self.page.evaluate(f"() => {{ {_READY % PATIENCE_MS} return ready(); }}")
        return self.page

    def loaded(self, kind: str) -> list[str]:
        """Return the data files of a kind that were read, in order."""
        return [n for r in self.requests if (n := r.rsplit("/", 1)[-1]).startswith(f"{kind}-")]


def at(*path: str, **query: str) -> str:
    """Return the part of an address behind the file."""
    asked = "?" + urlencode(query) if query else ""
    return "#/" + "/".join(quote(part, safe="") for part in path or ("overview",)) + asked


def opened(page: Page) -> Page:
    """Open all that is folded."""
    page.locator("summary").evaluate_all(
        "all => all.forEach((e) => { e.parentElement.open = true; })"
    )
    return page


# What the page shows ---------------------------------------------------------------------------


def grid(table: Locator) -> list[list[str]]:
    """Return the cells of a table as text, its head first."""
    found: list[list[str]] = table.evaluate(_GRID)
    return found


def rows_by_name(table: Locator, name: int = 0) -> dict[str, list[str]]:
    """Return the rows of a table by the text of one column."""
    return {row[name].split(" ")[0]: row for row in grid(table)[1:]}


def spelled(table: Table, row: Mapping[str, Any], name: str, *ends: str) -> str:
    """Return a value as it is to be read, from the column's digits alone; with its interval."""
    column = next(c for c in table.columns if c.name == name)
    text = _spelled(column, row[name])
    ends = ends or column.interval or ()
    if not ends or row[name] is None or row[ends[0]] is None:
        return text
    return f"{text} [{', '.join(_spelled(column, row[end]) for end in ends)}]"


def _spelled(column: Column, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if column.is_percent:
        return f"{100 * value:.{column.digits}f} %"
    if column.name in ("p", "p_holm") and value < 10**-column.digits:
        return f"<{10**-column.digits:.{column.digits}f}"
    return f"{value:,}" if column.type == "integer" else f"{value:,.{column.digits}f}"


# Fixtures --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return where Chromium lies; tests without it or Playwright's package are skipped."""
    if find_spec("playwright") is None:
        pytest.skip("Playwright's package is not installed (pip install playwright)")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no Chromium on PATH ({', '.join(NAMES)})")
    return found


def make(write: Callable[[Path], Path], folder: Path, options: SiteOptions) -> World:
    """Write results and build their site in a thread: a browser keeps an event loop in this one."""

    def work() -> World:
        world = World(write(folder), folder / "site", folder / "light")
        build_site(Wanted(results_dir=world.results), world.site, load_registry(), options)
        lighten(world)
        return world

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def share(
    factory: pytest.TempPathFactory,
    name: str,
    write: Callable[[Path], Path],
    options: SiteOptions,
    then: Callable[[World], None] = lambda world: None,
) -> World:
    """Return a world that one worker makes for all; no test changes it."""

    def fill(folder: Path) -> None:
        world = make(write, folder, options)
        then(world)
        (folder / "where").write_text(str(world.results))

    folder = once(factory, name, fill)
    return World(Path((folder / "where").read_text()), folder / "site", folder / "light")


def lighten(world: World) -> None:
    """Make the copy of a site that draws no chart."""
    shutil.copytree(world.site, world.light, copy_function=os.link, dirs_exist_ok=True)
    (world.light / "app" / "plotly.min.js").unlink()
    (world.light / "app" / "plotly.min.js").write_text(_NO_CHARTS)


@pytest.fixture(scope="session")
def full(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A site of full data of every class, a jury, two scorings, parts, repeats, all outcomes."""
    options = SiteOptions(settings=Settings(draws=DRAWS), title="Ours", command="medhelm it")
    return share(tmp_path_factory, "full", write_full, options)


@pytest.fixture(scope="session")
def demo(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The site of the demo, of fewer benchmarks, with clinicians' ratings."""
    options = SiteOptions(settings=Settings(draws=DRAWS))
    return share(tmp_path_factory, "demo", write_demo, options, with_ratings)


def with_ratings(world: World) -> None:
    """Build a site anew with a sheet of ratings."""
    sheet = write_ratings(world.results, world.results.parent / "ratings.csv")
    argv = ["leaderboard", "build", "--results-dir", str(world.results), "--draws", str(DRAWS)]
    assert run_command([*argv, "--out", str(world.site), "--ratings", str(sheet)]) == 0
    shutil.rmtree(world.light)
    lighten(world)


@pytest.fixture(scope="session")
def labelled(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A site of labelled actions: open cases of four models, and closed ones."""
    options = SiteOptions(settings=Settings(draws=DRAWS))
    return share(tmp_path_factory, "labelled", write_labelled, options)


@pytest.fixture(scope="session")
def hostile(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> World:
    """A site whose every text is an attack."""
    options = SiteOptions(settings=Settings(draws=10), title=TITLE)
    return share(tmp_path_factory, "hostile", write_hostile, options)


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Start the browser; of one module, since other tests need an event loop of their own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Who runs as root, as in a container, has no sandbox.
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


class Pages:
    """The pages of one module: loading the site takes longer than most tests, so that they stay."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._readers: list[Reader] = []
        self.used: list[Reader] = []

    def give(
        self,
        world: World | str,
        *,
        width: int = 1280,
        scheme: Literal["light", "dark"] = "light",
        has_charts: bool = False,
    ) -> Reader:
        """Return a page of a site that the test does not hold already; charts are left out if they may."""
        if isinstance(world, World):
            world = ((world.site if has_charts else world.light) / "index.html").as_uri()
        free = (r for r in self._readers if r.address == world and r not in self.used)
        reader = next(free, None) or self._make(world)
        reader.page.set_viewport_size({"width": width, "height": 900})
        reader.page.emulate_media(media="screen", color_scheme=scheme, reduced_motion="reduce")
        reader.page.mouse.move(0, 0)
        self.used.append(reader)
        return reader

    def _make(self, address: str) -> Reader:
        page = self._browser.new_context().new_page()
        page.set_default_timeout(PATIENCE_MS)
        self._readers.append(Reader(page, address))
        return self._readers[-1]


Opens = Callable[..., Reader]


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Pages:
    """Keep the pages of a module."""
    return Pages(browser)


@pytest.fixture
def opens(pages: Pages) -> Iterator[Opens]:
    """Return `opens(world, ...)`, which gives a page; at the end none may have a fault."""
    yield pages.give
    faults = [fault for reader in pages.used for fault in reader.faults]
    for reader in pages.used:
        reader.faults.clear()
    pages.used.clear()
    if faults:
        pytest.fail("\n".join(faults))
