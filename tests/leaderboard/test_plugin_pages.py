"""Pages that plugins bring: in the browser, with hostile texts, of closed data, and broken ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medhelm.cli import run_command
from medhelm.errors import PluginError
from medhelm.plugins.registry import load_registry
from medhelm.schema.episode import Episode
from medhelm.schema.page import Page
from medhelm.store.records import instance_key
from medhelm.tables.format.table import Settings
from medhelm_leaderboard import run_pages, worker_pool
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.plugin_pages import PluginDetails, Unusable, code_hash, fault_of
from medhelm_leaderboard.site import Built, SiteOptions, build_site
from tests.leaderboard.browsing import Opens, grid
from tests.leaderboard.casting import CLOSED, data_of
from tests.leaderboard.hostile import ATTACKS, as_shown
from tests.leaderboard.test_border import every_byte
from tests.leaderboard.test_browser_hostile import check
from tests.registry.distributions import register
from tests.test_docs import check_docs

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Locator

ROOT = Path(__file__).parents[2]

HEAD = """
from pathlib import Path
from medhelm import Mark, Page, PageData, hookimpl

HERE = Path(__file__).parent

def page(**more):
    return Page(**{"name": "acme", "title": "Acme", "script": HERE / "acme.js"} | more)

"""
HOOK = """
@hookimpl
def medhelm_pages():
    return [page(data=data, instance=instance, answer=answer)]
"""
WHOLE = (
    HEAD
    + f"""
ATTACKS = {list(ATTACKS)!r}

def data(runs):
    marks = [Mark(benchmark=b, text=text) for b in runs.study.cells for text in ATTACKS]
    return PageData(benchmarks=list(runs.study.cells), marks=marks, values=ATTACKS)

def instance(own):
    return {{"__proto__": own.context, "all": ATTACKS}}

def answer(episode, scores):
    return [episode.response.text, scores, *ATTACKS]

@hookimpl
def medhelm_pages():
    style = HERE / "acme.css"
    return [page(title=ATTACKS[2], data=data, instance=instance, answer=answer, style=style, shows_gold=True)]
"""
)
SCRIPT = """"use strict";

(() => {
  const { h } = medhelm;
  const list = (texts) => h("ul", { class: "acme" }, texts.map((text) => h("li", null, medhelm.shown(text, 5000))));
  medhelm.page("acme", {
    render: async (view) => [h("h1", null, "Acme"), list(await medhelm.valuesOf(view.scoring, "acme"))],
    benchmarkLink: "Its attacks",
    item: (value) => list(value.all),
    answerTitle: "What Acme found",
    answer: (value, own) => list(own.slice(2)),
    texts: (value) => ["needle in the detail"],
  });
})();
"""


def bring(folder: Path, text: str, script: str = SCRIPT, *, installed: bool = False) -> Path:
    """Write a plugin with its script and stylesheet, perhaps as a distribution's package."""
    home = folder / "acme_pages" if installed else folder
    home.mkdir(parents=True, exist_ok=True)
    path = home / ("__init__.py" if installed else "acme_pages.py")
    path.write_text(text)
    (home / "acme.js").write_text(script)
    (home / "acme.css").write_text(".acme li { color: rgb(1, 2, 3); }\n")
    if installed:
        register(folder, "acme-pages")
    return path


def build(results: Path, out: Path, *plugins: Path, **wanted: list[str]) -> Built:
    """Build in a thread, since a browser may keep an event loop in this one."""
    registry = load_registry([str(path) for path in plugins])
    options = SiteOptions(settings=Settings(draws=10))
    with ThreadPoolExecutor(1) as pool:
        work = partial(build_site, Wanted(results_dir=results, **wanted), out, registry, options)
        return pool.submit(work).result()


WANTED = [as_shown(text)[:90] for text in ATTACKS]


def heads(found: Locator) -> list[str]:
    """Return the begin of each text: of long ones the rest is left out on purpose."""
    return [text[:90] for text in found.all_text_contents()]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Import the distribution of each test anew."""
    sys.modules.pop("acme_pages", None)
    yield
    sys.modules.pop("acme_pages", None)


# In the browser ------------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_distribution_brings_a_page_and_its_part_of_an_instance(
    opens: Opens, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(tmp_path / "lib", WHOLE, installed=True)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    built = build(results, tmp_path / "site")
    assert not built.problems
    reader = opens((tmp_path / "site" / "index.html").as_uri())
    page = reader.open("acme")
    shown = page.locator(".acme li")
    assert heads(shown) == WANTED
    assert shown.first.evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    check(page, "the page")
    here = page.locator("#nav a[aria-current]").text_content()
    assert here is not None and here == as_shown(ATTACKS[2])[:60]
    page = reader.go("benchmark", "open")
    assert page.locator("p.mark").count() == len(ATTACKS)
    check(page, "a benchmark")
    with reader.changes():
        page.get_by_role("link", name="Its attacks").click()
    assert page.locator("h1").text_content() == "Acme"
    page = reader.go("run", "open", "lab/one")
    case, answer = page.locator(".case .acme li"), page.locator(".answer .acme li")
    assert heads(case) == heads(answer) == WANTED
    assert page.locator(".answer h4", has_text="What Acme found").is_visible()
    gold = page.locator(".case .part", has=page.get_by_role("heading", name="Gold", exact=True))
    assert gold.locator(".acme").count() == gold.count() == 1  # in place of the reference
    check(page, "a run")
    page.get_by_role("searchbox").fill("needle in the")
    with reader.changes():
        page.keyboard.press("Enter")
    page.get_by_role("progressbar").wait_for(state="detached")
    assert "6 " in page.locator(".search-state").inner_text()
    for name in CLOSED:
        page = reader.go("run", name, "lab/one")
        assert page.locator("#no-text").is_visible() and not page.locator(".acme").count()


@pytest.mark.browser
def test_a_part_whose_script_fails_costs_only_itself(
    opens: Opens, results: Path, tmp_path: Path
) -> None:
    script = SCRIPT.replace("list(value.all)", "value.none.at(0)")
    build(results, tmp_path / "site", bring(tmp_path, WHOLE, script), benchmarks=["open"])
    page = opens((tmp_path / "site" / "index.html").as_uri()).open("run", "open", "lab/one")
    assert "This part cannot be shown." in page.locator(".case").inner_text()
    assert page.locator(".answer .acme li").count() == len(ATTACKS)


@pytest.mark.browser
def test_an_episode_of_many_calls_is_shown_turn_by_turn(
    opens: Opens, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def transcript(episode: Episode) -> list[tuple[str, str]]:
        return [
            (f"{who}{ATTACKS[2]}", f"{n} {text}") for n, text in enumerate(ATTACKS) for who in "AB"
        ]

    monkeypatch.setattr(
        run_pages, "PluginDetails", lambda pages, _: PluginDetails(pages, transcript)
    )
    build(results, tmp_path / "site")
    reader = opens((tmp_path / "site" / "index.html").as_uri())
    page = reader.open("run", "open", "lab/one")
    turns = page.locator(".answer .turns li")
    assert turns.count() == 2 * len(ATTACKS)
    wanted = [as_shown(f"{n} {text}")[:90] for n, text in enumerate(ATTACKS) for _ in "AB"]
    assert heads(turns.locator(".long")) == wanted
    assert turns.locator("p").first.text_content() == "A" + as_shown(ATTACKS[2])
    check(page, "turns")
    everything = every_byte(tmp_path / "site" / "data")
    assert everything.count(b'"turns":') == 12  # the answers of two models to the open benchmark
    for name in CLOSED:
        assert not reader.go("run", name, "lab/one").locator(".turns").count()


@pytest.mark.browser
def test_the_page_of_the_documentation(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in check_docs.blocks((ROOT / "CONTRIBUTING.md").read_text("utf-8")):
        if block.name.startswith("ward_pages/"):
            Path(block.name).parent.mkdir(exist_ok=True)
            Path(block.name).write_text(block.text)
    plugin = "ward_pages/__init__.py"
    with ThreadPoolExecutor(1) as pool:
        argv = ["run", "model=baseline/lead", "benchmark=medec", "data=sample", "results_dir=r"]
        assert pool.submit(run_command, argv).result() == 0
    build(Path("r"), tmp_path / "site", Path(plugin))
    reader = opens((tmp_path / "site" / "index.html").as_uri())
    table = grid(reader.open("length").get_by_role("table", name="Tokens by answer"))
    assert table[0] == ["benchmark", "model", "tokens by answer"] and len(table) == 2
    assert table[1][:2] == ["medec", "baseline/lead"]
    page = reader.go("run", "medec", "baseline/lead")
    page.locator(".case", has_text="words to read").wait_for()


# What a page gets of closed data -----------------------------------------------------------------

GREEDY = (
    HEAD
    + """
def data(runs):
    cells = [cell for own in runs.study.cells.values() for cell in own.values()]
    tags = [[cell.run.benchmark, sorted(runs.metadata(cell).items())] for cell in cells]
    keys = [[s.ids.tolist(), s.clusters.tolist()] for c in cells for s in c.scores.values()]
    return PageData(benchmarks=[], values=[repr(runs), repr(cells), repr(vars(runs.study)), tags, keys])

def instance(own):
    return [own.id, own.context]

def answer(episode, scores):
    return repr(episode)
"""
    + HOOK
)


def test_a_page_that_publishes_all_it_gets_publishes_nothing_closed(
    results: Path, tmp_path: Path
) -> None:
    built = build(results, tmp_path / "site", bring(tmp_path, GREEDY))
    assert not built.problems
    (scoring,) = data_of(tmp_path / "site", "site")["scorings"]
    found = json.dumps(data_of(tmp_path / "site", dict(scoring["values"])["acme"]))
    assert '"ward": "WARD1"' in found and "lab/one" in found  # of the open benchmark
    everything = every_byte(tmp_path / "site")
    planted = b"".join(p.read_bytes() for p in results.parent.rglob("*") if p.is_file())
    for kind in ("ID", "CONTEXT", "QUESTION", "GOLD", "KEY", "PATIENT", "WARD"):
        assert f"CANARY{kind}".encode() in planted
        assert f"CANARY{kind}".encode() not in everything
    for word in ("PATHCANARY", "SYSTEMCANARY", "PROMPTCANARY", "SOURCECANARY", "PLUGINCANARY"):
        assert word.encode() not in everything, word
    assert str(results).encode() not in everything
    for name in CLOSED:
        assert str(instance_key(f"CANARYID{name}0")) not in found
    assert str(instance_key("IDopen0")) in found


# Pages that cannot be used -----------------------------------------------------------------------

GOOD = """
def data(runs):
    return PageData(benchmarks=list(runs.study.cells))

def instance(own):
    return 1

def answer(episode, scores):
    return 1
"""


@pytest.fixture(scope="module")
def plain(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the open benchmark as they are published without a plugin."""
    out = tmp_path_factory.mktemp("plain")
    build(results, out, benchmarks=["open"])
    assert [*(out / "tables").rglob("*.csv")]
    return out / "tables"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("PageData(benchmarks=list(runs.study.cells))", "1 / 0"), r"failed \(ZeroDivisionError, acme_pages.py line 12\)"),
        (("PageData(benchmarks=list(runs.study.cells))", "open('/etc/CANARY')"), "FileNotFoundError"),
        (("PageData(benchmarks=list(runs.study.cells))", "exit(3)"), "SystemExit"),
        (("PageData(benchmarks=list(runs.study.cells))", "[]"), "its data are list"),
        (("list(runs.study.cells)", "['opne']"), "names 'opne', which is not a benchmark"),
        (("list(runs.study.cells)", "[], values={1: object()}"), "cannot be written as JSON"),
        (("list(runs.study.cells)", "[], marks=[Mark(benchmark='open', text=7)]"), "ValidationError"),
        (("list(runs.study.cells)", "[], tables=[runs]"), "a table is a Table"),
        (("return 1\n\ndef answer", "return own.none\n\ndef answer"), "AttributeError"),
        (("scores):\n    return 1", "scores):\n    return object()"), "cannot be written as JSON"),
    ],
)  # fmt: skip
def test_a_page_that_fails_is_named_in_one_line_and_the_rest_is_built(
    results: Path, plain: Path, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    assert change[0] in GOOD
    plugin = bring(tmp_path / "own", HEAD + GOOD.replace(*change) + HOOK)
    built = build(results, tmp_path / "site", plugin, benchmarks=["open"])
    (problem,) = built.problems
    assert problem.where.startswith("the page Acme") and "\n" not in problem.what
    assert "the plugin acme_pages.py" in problem.what  # without the folders above it
    assert re.search(said, problem.what), problem.what
    assert "CANARY" not in problem.what
    for path in plain.rglob("*.csv"):
        other = tmp_path / "site" / "tables" / path.relative_to(plain)
        assert other.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "named"), [("own.py", "own.py"), ("p/__init__.py", "p"), ("p/page.py", "p/page.py")]
)
def test_a_page_is_named_by_its_package_or_file_without_the_folders_above(
    tmp_path: Path, name: str, named: str
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").touch()
    page = Page(name="acme", title="Acme", script=tmp_path / "a.js", origin=str(tmp_path / name))
    assert fault_of(page, Unusable("why")) == f"left out: the plugin {named}: why"


def test_other_processes_ask_the_plugin_too(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And name what failed there; the plugin's path holds a blank, and a folder is named `x.py`."""
    code = GOOD.replace("scores):\n    return 1", "scores):\n    return 1 // 0")
    plugin = bring(tmp_path / "a folder", HEAD + code + HOOK)
    (plugin.parent / "x.py").mkdir()
    alone = build(results, tmp_path / "alone", plugin)
    monkeypatch.setattr(worker_pool, "_FEW", 0)
    monkeypatch.setattr(worker_pool.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(worker_pool.WorkerPool, "_work_here", lambda self: {})
    built = build(results, tmp_path / "site", plugin)
    assert built.problems == alone.problems and len(built.problems) == 1
    for path in (tmp_path / "alone" / "data").glob("text-*"):
        other = tmp_path / "site" / "data" / path.name
        assert b'["acme",1]' in path.read_bytes() and other.read_bytes() == path.read_bytes()


def test_a_table_that_the_site_has_is_not_replaced(results: Path, tmp_path: Path) -> None:
    code = GOOD.replace("list(runs.study.cells)", "[], tables=[own_table(runs)]")
    code += "\ndef own_table(runs):\n    from medhelm.tables.overall import overall\n    return overall(runs.study)\n"
    built = build(
        results, tmp_path / "site", bring(tmp_path, HEAD + code + HOOK), benchmarks=["open"]
    )
    assert ["'overall', which the site" in p.what for p in built.problems] == [True]


def test_a_page_may_not_bear_the_name_of_one_of_the_sites_own(
    results: Path, tmp_path: Path
) -> None:
    hook = HOOK.replace("page(", "page(name='overview', ")
    built = build(results, tmp_path / "site", bring(tmp_path, HEAD + GOOD + hook))
    (problem,) = built.problems
    assert "acme_pages.py" in problem.what and "'overview'" in problem.what
    own = (ROOT / "leaderboard" / "app" / "pages" / "overview.js").read_bytes()
    assert (tmp_path / "site" / "app" / "pages" / "overview.js").read_bytes() == own


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("name='harm', ", "page 'harm' is defined twice"),
        ("name='../x', ", "a name is lower-case letters"),
        ("title=' ', ", "title is empty"),
        ("script=HERE / 'none.js', ", "none.js does not exist"),
        ("script='acme.js', ", "script is a pathlib.Path"),
        ("style=HERE / 'acme.js', ", "acme.js is not a .css file"),
    ],
)
def test_a_page_that_cannot_be_put_on_a_site_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, said: str
) -> None:
    text = HEAD + GOOD + HOOK.replace("page(", f"page({more}")
    plugin = bring(tmp_path, text)
    with pytest.raises(PluginError, match=said) as caught:
        load_registry([str(plugin)])
    assert "acme_pages.py" in str(caught.value) and "\n" not in str(caught.value)
    bring(tmp_path / "lib", text, installed=True)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    registry = load_registry()
    (broken,) = registry.broken
    assert broken.plugin.startswith("acme-pages") and said in broken.reason
    assert registry.pages["harm"].title == "Harm" and "acme" not in registry.pages


def test_another_page_or_another_code_of_it_renews_the_site(results: Path, tmp_path: Path) -> None:
    plugin, site = bring(tmp_path, HEAD + GOOD + HOOK), tmp_path / "site"
    assert build(results, site).written
    assert build(results, site, plugin).written and (site / "app/pages/acme.js").is_file()
    assert build(results, site, plugin).written == 0
    plugin.write_text(plugin.read_text().replace("return 1", "return 2"))
    assert build(results, site, plugin).written
    texts = b"".join(p.read_bytes() for p in (site / "data").glob("answers-*"))
    assert b'["acme",2]' in texts and b'["acme",1]' not in texts
    assert build(results, site).removed and not (site / "app/pages/acme.js").exists()


def test_every_file_of_a_package_counts_in_the_hash_of_its_page(tmp_path: Path) -> None:
    """Of a package those in its folders, too; of a single file only the modules beside it."""
    package = tmp_path / "acme"
    (package / "tables" / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "page").mkdir()
    (package / "page" / "__init__.py").write_text("")

    def brought_by(origin: Path) -> Page:
        return Page(name="acme", title="Acme", script=tmp_path / "a.js", origin=str(origin))

    page, single = brought_by(package / "__init__.py"), brought_by(tmp_path / "one.py")
    deep = brought_by(package / "page" / "page.py")  # of a package inside: the whole counts too
    seen, alone, deeper = {code_hash(page)}, code_hash(single), {code_hash(deep)}
    for n, name in enumerate(("tables/one.py", "tables/deep/two.py", "tables/deep/rules.yaml")):
        for text in ("a", "b"):
            (package / name).write_text(text)
            seen.add(code_hash(page))
            deeper.add(code_hash(deep))
        assert len(seen) == 1 + 2 * (n + 1)
    (package / "tables" / "one.py").rename(package / "tables" / "other.py")
    seen.add(code_hash(page))
    assert len(seen) == 8 and len(deeper) == 7 and code_hash(single) == alone
    (tmp_path / "beside.py").write_text("x = 1")
    assert code_hash(deep) not in deeper  # since the renaming
    deeper.add(code_hash(deep))
    (tmp_path / "beside.py").write_text("x = 2")
    assert code_hash(deep) in deeper and code_hash(page) in seen
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "one.pyc").write_text("x")
    assert code_hash(page) in seen
