"""Pages of plugins: what they make of published runs, and what they show of an instance and an answer.

A page that fails costs only itself: one line names its plugin, and the rest of the site is built.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path

import msgspec

from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.page import Page
from medhelm.tables.format.table import Table
from medhelm.tables.instances import MetricLine, Transcript, by_call
from medhelm.tables.published import Mark, PageData, PublishedRuns
from medhelm_leaderboard import publish
from medhelm_leaderboard.pages import Content, PluginPage, Problem

_TABLE = re.compile(r"[a-z][a-z0-9_]*")

Details = tuple[tuple[str, msgspec.Raw], ...]
"""(page, what it shows), as the page's plugin returned it."""


class Unusable(Exception):
    """A page returned what cannot be put on a site; the text is of medhelm."""


def fault_of(page: Page, error: BaseException) -> str:
    """Return what went wrong in a page: the plugin's file and line, never the error's own text.

    That could hold a path of this machine, or data.
    """
    if isinstance(error, Unusable):
        return f"left out: the plugin {_plugin(page)}: {error}"
    folder = str(Path(page.origin).parent)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    place = f", {Path(own[-1].filename).name} line {own[-1].lineno}" if own else ""
    kind = type(error).__name__
    return f"left out: the plugin {_plugin(page)} failed ({kind}{place}); mend it or leave it out"


def _plugin(page: Page) -> str:
    return public_name(Path(page.origin))


def public_name(path: Path) -> str:
    """Return how a plugin is named in public: its package or its file, without the folders above."""
    if path.name == "__init__.py":
        return path.parent.name
    is_of_package = (path.parent / "__init__.py").is_file()
    return f"{path.parent.name}/{path.name}" if is_of_package else path.name


def own_pages() -> frozenset[str]:
    """Return the names of the site's own pages."""
    folder = resources.files("medhelm_leaderboard") / "app" / "pages"
    return frozenset(e.name.removesuffix(".js") for e in folder.iterdir() if e.name.endswith(".js"))


def usable(pages: Collection[Page]) -> tuple[list[Page], list[Problem]]:
    """Return the pages that a site can hold, and a line on each that bears a name of its own ones."""
    own = own_pages()
    taken = "left out: the plugin {} names it {!r}, as the site names one of its own; rename it"
    found = [page for page in pages if page.name not in own]
    return found, [
        Problem(where=f"the page {page.title}", what=taken.format(_plugin(page), page.name))
        for page in pages
        if page.name in own
    ]


def code_hash(page: Page) -> str:
    """Return a hash of the files that decide a page's data: those of its package, with all folders in it."""
    folder = Path(page.origin).parent
    is_package = (folder / "__init__.py").is_file()
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*") if is_package else folder.glob("*.py")):
        if "__pycache__" in path.parts or not path.is_file():
            continue
        with suppress(OSError):  # what only others may read
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(
                f"{path.relative_to(folder).as_posix()} {content}\n".encode("utf-8", "replace")
            )
    return found.hexdigest()


def runs_data(page: Page, runs: PublishedRuns, taken: Collection[str]) -> PageData | None:
    """Return what a page makes of the runs of a scoring, checked; raises what its plugin raises."""
    found = page.data(runs) if page.data is not None else None
    if found is None:
        return None
    if not isinstance(found, PageData):
        raise Unusable(f"its data are {type(found).__name__}, not PageData or None")
    if unknown := sorted(
        {*found.benchmarks, *(m.benchmark for m in found.marks)} - {*runs.study.cells}
    ):
        raise Unusable(f"it names {unknown[0]!r}, which is not a benchmark of these runs")
    names = list(taken)
    for table in found.tables:
        if not isinstance(table, Table) or not _TABLE.fullmatch(table.name):
            raise Unusable("a table is a Table with a name of lower-case letters, digits and _")
        if table.name in names:
            raise Unusable(f"it brings a table {table.name!r}, which the site has already")
        names.append(table.name)
    return found


def encoded(value: object) -> msgspec.Raw:
    """Return a plugin's value as JSON; raises Unusable."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        raise Unusable(f"a {type(value).__name__} in it cannot be written as JSON") from None


def page_line(page: Page, data: PageData, known: PluginPage | None) -> PluginPage:
    """Return a page for the first file of the site, with what another scoring has said of it."""
    own = [msgspec.convert(msgspec.to_builtins(mark), Mark) for mark in data.marks]
    marks = dict.fromkeys((*(known.marks if known else ()), *own))
    return PluginPage(
        name=page.name,
        title=page.title,
        benchmarks=tuple(sorted({*data.benchmarks, *(known.benchmarks if known else ())})),
        marks=tuple(sorted(marks, key=lambda m: (m.benchmark, m.kind != "warn"))),
    )


class PluginDetails:
    """Shows the instances and answers of one benchmark whose text is published."""

    def __init__(self, pages: Iterable[Page], transcript: Transcript | None = None) -> None:
        self._pages = tuple(pages)
        self._transcript = transcript
        self._failed: dict[str, Problem] = {}
        self._of_instances: dict[str, Details] = {}

    @property
    def problems(self) -> list[Problem]:
        """A line for each page that failed, which then shows nothing more."""
        return list(self._failed.values())

    def of_instance(self, instance: Instance) -> Content:
        """Return the `details` of an instance, and the page whose detail shows its `gold`."""
        details = self._instance(instance)
        shown = [name for name, _ in details]
        gold = [p.name for p in self._pages if p.shows_gold and p.name in shown]
        return ({"details": details} if details else {}) | ({"gold": gold[0]} if gold else {})

    def of_answer(self, episode: Episode, scores: Iterable[MetricLine]) -> Content:
        """Return the `details` of an answer, and the `turns` of an episode of many calls.

        System prompts and paths are not handed on to pages.
        """
        shown = [name for name, _ in self._instance(episode.instance)]
        own = [(p, p.answer) for p in self._pages if p.instance is None or p.name in shown]
        messages = tuple(m for m in episode.messages if m.role != "system")
        served = publish.plain_name(episode.response.served_model)
        response = msgspec.structs.replace(
            episode.response, served_model=served, address=msgspec.UNSET
        )
        stripped = msgspec.structs.replace(episode, messages=messages, response=response)
        values = {line.metric: line.value for line in scores}
        calls = {page: partial(answer, stripped, values) for page, answer in own if answer}
        details, turns = self._details(calls), tuple((self._transcript or by_call)(episode))
        return ({"details": details} if details else {}) | ({"turns": turns} if turns else {})

    def _instance(self, instance: Instance) -> Details:
        """Return the details of an instance, which each of its answers asks for."""
        if instance.id not in self._of_instances:
            calls = {p: partial(p.instance, instance) for p in self._pages if p.instance}
            self._of_instances[instance.id] = self._details(calls)
        return self._of_instances[instance.id]

    def _details(self, calls: Mapping[Page, Callable[[], object]]) -> Details:
        found = []
        for page, call in calls.items():
            if page.name in self._failed:
                continue
            try:
                if (value := call()) is not None:
                    found.append((page.name, encoded(value)))
            except (Exception, SystemExit) as e:  # the boundary to plugins
                where = f"the page {page.title}, its part of instances"
                self._failed[page.name] = Problem(where=where, what=fault_of(page, e))
        return tuple(found)
