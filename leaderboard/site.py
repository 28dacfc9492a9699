"""Builds the site: collects runs, makes the pages, writes what has changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import msgspec

from medhelm import __version__
from medhelm.config import packaged_suites
from medhelm.errors import UsageError
from medhelm.files.durable import os_errors_as
from medhelm.models.identity import is_rankable, reads_prompt
from medhelm.plugins.registry import Registry
from medhelm.plugins.taxonomy import Taxonomy
from medhelm.proof.manifest import shipped_samples
from medhelm.schema.page import Page
from medhelm.schema.run import BenchmarkCard
from medhelm.store.kept_fidelity import read_kept
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.selection import GradedRun
from medhelm.tables.suites import grouped
from medhelm_leaderboard import publish
from medhelm_leaderboard.collect import Collected, Wanted, collect
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import SCHEMA, Content, Problem, page_table
from medhelm_leaderboard.plugin_pages import code_hash, usable
from medhelm_leaderboard.run_pages import fingerprint
from medhelm_leaderboard.scoring_pages import Made, SiteOptions, embedded, write_scoring
from medhelm_leaderboard.worker_pool import WorkerPool

_DAMAGED = "left out: it cannot be read; measure it again with `medhelm fidelity --keep`"

__all__ = ["Built", "SiteOptions", "build_site"]


@dataclass(frozen=True, kw_only=True)
class Built:
    """The result of a build."""

    index: Path
    models: int
    benchmarks: int
    runs: int
    written: int
    removed: int
    problems: tuple[Problem, ...]


def build_site(wanted: Wanted, out: Path, registry: Registry, options: SiteOptions) -> Built:
    """Build or renew the site `out`; raises UsageError, UnknownName, RecordError."""
    if options.agreement is not None:
        options = replace(
            options, agreement=publish.agreement(options.agreement, wanted.results_dir)
        )
    site = SiteFolder(out)
    try:
        site.open()
        return _build(site, wanted, registry, options)
    finally:
        site.close()


def _build(site: SiteFolder, wanted: Wanted, registry: Registry, options: SiteOptions) -> Built:
    found = collect(wanted, Aggregations(registry), shipped_samples(registry))
    secret = _secret(found, wanted.results_dir)
    pages, refused = usable(registry.pages.values())
    files = dict(assets(pages))
    if options.logo is not None:
        files |= [logo_file(options.logo)]
    kept, damaged = read_kept(wanted.results_dir)
    refused += [Problem(where=name, what=_DAMAGED) for name in damaged]
    inputs = _inputs(found, registry, options, files, secret, repr((kept, damaged)))
    made = Made(problems=[*found.problems, *refused])
    removed = 0
    before = site.before if site.is_whole() else None
    if before is None or before.inputs != inputs:
        site.begin()
        for name, content in files.items():
            site.put(name, content)
        workers = WorkerPool(site, wanted.results_dir, registry)
        try:
            workers.start(_by_benchmark(found))
            for scoring, cells in found.cells.items():
                write_scoring(site, scoring, cells, registry, pages, options, kept, made)
            made.problems += workers.finish()
        finally:
            workers.close()
        built_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        site.put_data("site", _site_page(site, found, registry, options, made, built_at))
        removed = site.finish(  # it names all other files
            {
                "medhelm": __version__,
                "built_at": built_at,
                "inputs": inputs,
                "problems": made.problems,
                "scores": made.scores,
                "ranks": made.ranks,
            }
        )
    else:
        made.problems = list(before.problems)
    shown = [c.run for cells in found.cells.values() for c in cells]
    return Built(
        index=site.path / "index.html",
        models=len({run.model for run in shown}),
        benchmarks=len({run.benchmark for run in shown}),
        runs=len(shown),
        written=site.written,
        removed=removed,
        problems=tuple(made.problems),
    )


def _secret(found: Collected, results: Path) -> str:
    """Return the mark of the key of published hashes; empty where none is published."""
    cells = (cell for own in found.cells.values() for cell in own)
    if all(publish.has_text(cell.record.card) for cell in cells):
        return ""
    return publish.key_mark(publish.publishing_key(results))


def _inputs(
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    files: Mapping[str, bytes],
    secret: str,
    kept: str,
) -> str:
    """Return a hash of all that the site is made of."""
    digest = hashlib.sha256(f"{SCHEMA} {__version__} {options!r} {kept}".encode())
    digest.update(repr([packaged_suites(), registry.taxonomy]).encode())
    digest.update(msgspec.json.encode(found.problems))
    for page in registry.pages.values():
        digest.update(f"{page.name} {page.title!r} {code_hash(page)}".encode())
    for cells in found.cells.values():
        digest.update(fingerprint((cell.run for cell in cells), secret).encode())
        firsts = {cell.run.benchmark: cell.record for cell in cells}.values()
        digest.update(repr([embedded(registry, record) for record in firsts]).encode())
    for name, content in files.items():
        digest.update(name.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _by_benchmark(found: Collected) -> list[list[GradedRun]]:
    """Return the runs of each benchmark under each scoring, whose pages are written together."""
    groups: dict[tuple[str, str], list[GradedRun]] = {}
    for scoring, cells in found.cells.items():
        for cell in cells:
            groups.setdefault((scoring, cell.run.benchmark), []).append(cell.run)
    return list(groups.values())


def _site_page(
    site: SiteFolder,
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    made: Made,
    built_at: str,
) -> Content:
    cells = [c for own in found.cells.values() for c in own]
    ordered = sorted(cells, key=lambda c: c.run.benchmark)
    cards = {c.run.benchmark: c.record.column_card for c in ordered}
    models = {c.run.model: c.record.spec.model for c in sorted(cells, key=lambda c: c.run.model)}
    juries = {c.run.benchmark: c.record.grading.raters for c in cells}
    agreement = None
    if options.agreement is not None:
        agreement = site.put_data("agreement", page_table(options.agreement))
    return {
        "schema": SCHEMA,
        "title": options.title,
        "logo": "" if options.logo is None else logo_file(options.logo)[0],
        "data": found.data,
        "medhelm": __version__,
        "built_at": built_at,
        "models": [
            {
                "name": name,
                "weights": spec.weights,
                "provider": spec.provider,
                "is_baseline": not reads_prompt(spec),
                "is_ranked": is_rankable(spec),
                "reasoning": spec.reasoning,
            }
            for name, spec in models.items()
        ],
        "benchmarks": [publish.benchmark_line(card) for card in cards.values()],
        "offline_jury": [b for b, jury in sorted(juries.items()) if jury and not jury.judges],
        "pages": [page for _, page in sorted(made.pages.items())],
        "incomplete": sorted(
            {(c.run.benchmark, c.run.model) for c in cells if c.record.state == "partial"}
        ),
        "taxonomy": _categories(registry.taxonomy, cards),
        "views": made.views,
        # What is shown where no suite is chosen; empty: all benchmarks, which are of one.
        "first_suite": next(iter(suites)) if len(suites := grouped(cards)) > 1 else "",
        "scorings": made.scorings,
        "problems": made.problems,
        "agreement": agreement,
        "downloads": made.downloads,
        "command": options.command,
    }


def _categories(taxonomy: Taxonomy, cards: dict[str, BenchmarkCard]) -> list[Content]:
    """Return the taxonomy with the benchmarks of the site on its subcategories and tasks."""
    found: list[Content] = []
    for category in taxonomy.categories:
        subcategories = []
        for sub in category.subcategories:
            own = [b for b, card in cards.items() if card.subcategory == sub.name]
            tasks = [
                {
                    "id": task.id,
                    "title": task.name,
                    "benchmarks": [b for b in own if task.id in cards[b].tasks],
                }
                for task in sub.tasks
            ]
            subcategories.append(
                {"id": sub.id, "title": sub.name, "tasks": tasks, "benchmarks": own}
            )
        found.append({"id": category.id, "title": category.name, "subcategories": subcategories})
    return found


_SCRIPTS, _STYLES = "<!-- scripts of plugins -->", "<!-- styles of plugins -->"
"""The places of `index.html` that take in what plugins' pages bring; the order of scripts is that of the navigation."""


_PICTURES = (".svg", ".png", ".jpg", ".webp")


def assets(pages: Iterable[Page]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of these files; raises UsageError where one cannot be read."""
    root = resources.files("medhelm_leaderboard")
    brought = dict(_of_plugins(pages))
    index = (root / "index.html").read_text("utf-8")
    scripts = [f'<script src="{name}"></script>' for name in brought if name.endswith(".js")]
    styles = [f'<link rel="stylesheet" href="{name}">' for name in brought if name.endswith(".css")]
    for mark, lines in ((_SCRIPTS, scripts), (_STYLES, styles)):
        index = index.replace(f"{mark}\n", "".join(f"{line}\n" for line in lines))
    yield "index.html", index.encode()
    yield from brought.items()
    for folder in ("app", "app/pages"):
        for entry in sorted((root / folder).iterdir(), key=lambda e: e.name):
            if entry.is_file() and entry.name.endswith((".js", ".css", ".svg")):
                yield f"{folder}/{entry.name}", entry.read_bytes()
    yield "app/plotly.min.js", _plotly()


def logo_file(path: Path) -> tuple[str, bytes]:
    """Return the name that a logo has in the site, and its content; raises UsageError."""
    suffix = path.suffix.lower()
    if suffix not in _PICTURES:
        raise UsageError(f"logo {path}: give a picture that ends in {', '.join(_PICTURES)}")
    with os_errors_as(UsageError, f"logo {path}"):
        return f"app/logo{suffix}", path.read_bytes()


def _of_plugins(pages: Iterable[Page]) -> Iterator[tuple[str, bytes]]:
    for page in pages:
        for path in filter(None, (page.script, page.style)):
            with os_errors_as(UsageError, f"page {page.name!r} in {page.origin}: {path}"):
                yield f"app/pages/{page.name}{path.suffix}", path.read_bytes()


def _plotly() -> bytes:
    spec = find_spec("plotly")  # importing it takes longer than building a small site
    if spec is None or spec.origin is None:
        raise UsageError("the package plotly is not installed; `pip install plotly`")
    script = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    try:
        return script.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"the package plotly has no {script.name}; install it again with `pip install plotly`"
        ) from None
