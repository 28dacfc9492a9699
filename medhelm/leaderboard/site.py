"""Builds the site: collects runs, makes the pages, writes what has changed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import msgspec

from medhelm import __version__
from medhelm.config import packaged_suites
from medhelm.errors import UsageError
from medhelm.leaderboard import publish
from medhelm.leaderboard.benchmark_pages import embedded, write_benchmark
from medhelm.leaderboard.collect import Collected, Wanted, collect
from medhelm.leaderboard.crew import Crew
from medhelm.leaderboard.files import Group, Rank, Score, SiteFolder
from medhelm.leaderboard.pages import (
    SCHEMA,
    BenchmarkLine,
    CategoryLine,
    Download,
    ModelCard,
    Problem,
    ScoringPages,
    SitePage,
    SubcategoryLine,
    TaskLine,
    View,
    page_table,
)
from medhelm.leaderboard.run_pages import file_starts, fingerprint, run_key, short_hash
from medhelm.leaderboard.views import write_views
from medhelm.registry import Registry
from medhelm.schema import BenchmarkCard
from medhelm.tables import formats
from medhelm.tables.cells import Cell
from medhelm.tables.results import Results
from medhelm.tables.selection import GradedRun, is_ranked
from medhelm.tables.study import Study
from medhelm.tables.table import Settings, Table
from medhelm.taxonomy import Taxonomy

_TABLES = ("overall", "benchmarks", "categories", "mde", "cost", "jury", "pairs", "ranks")


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """What a build is told besides which runs to take."""

    title: str = "medhelm leaderboard"
    settings: Settings = Settings()
    agreement: Table | None = None
    """The table of agreement with clinicians, where ratings are at hand."""
    command: str = "medhelm leaderboard build"


@dataclass(frozen=True, kw_only=True)
class Built:
    """What a build did."""

    index: Path
    models: int
    benchmarks: int
    runs: int
    written: int
    removed: int
    problems: tuple[Problem, ...]


@dataclass
class _Made:
    """What the pages of all scorings add to the site's first page and to `build.json`."""

    scorings: list[ScoringPages] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    downloads: list[Download] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)


def build_site(wanted: Wanted, out: Path, registry: Registry, options: SiteOptions) -> Built:
    """Build or renew the site `out`; raises UsageError, UnknownName, RecordError.

    A folder that is no site of ours is refused. Where nothing has changed nothing is written.
    """
    if options.agreement is not None:
        options = replace(options, agreement=publish.agreement(options.agreement, wanted.results))
    site = SiteFolder(out)
    try:
        site.open()
        return _build(site, wanted, registry, options)
    finally:
        site.close()


def _build(site: SiteFolder, wanted: Wanted, registry: Registry, options: SiteOptions) -> Built:
    found = collect(wanted)
    secret = _secret(found, wanted.results)
    look = dict(_look())
    inputs = _inputs(found, registry, options, look, secret)
    made = _Made(problems=list(found.problems))
    removed = 0
    if site.before is None or site.before.inputs != inputs or not site.is_whole():
        site.begin()
        for name, content in look.items():
            site.put(name, content)
        crew = Crew(site, wanted.results)
        try:
            crew.start(_changed_groups(site, found, made, secret))
            for scoring, cells in found.cells.items():
                _write_scoring(site, scoring, cells, registry, options, made)
            for group, problems in crew.finish().items():
                made.groups[group] = msgspec.structs.replace(made.groups[group], problems=problems)
        finally:
            crew.close()
        made.problems += [p for group in made.groups.values() for p in group.problems]
        removed = _write_first_page(site, found, registry, options, made, inputs)
    elif site.before is not None:
        made.problems += [p for group in site.before.groups.values() for p in group.problems]
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
    look: Mapping[str, bytes],
    secret: str,
) -> str:
    """Return a hash of all that the site is made of."""
    digest = hashlib.sha256(f"{SCHEMA} {__version__} {options!r}".encode())
    digest.update(repr([packaged_suites(), registry.taxonomy]).encode())
    digest.update(msgspec.json.encode(found.problems))
    for cells in found.cells.values():
        digest.update(fingerprint((cell.run for cell in cells), secret).encode())
        digest.update(repr([embedded(registry, cell.record) for cell in _firsts(cells)]).encode())
    for name, content in look.items():
        digest.update(name.encode() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _firsts(cells: Iterable[Cell]) -> Iterable[Cell]:
    """Return one cell of each benchmark."""
    return {cell.run.benchmark: cell for cell in cells}.values()


# The look --------------------------------------------------------------------------------------


def _look() -> Iterator[tuple[str, bytes]]:
    """Yield the files that are the same in every site; raises UsageError without a chart library."""
    root = resources.files("medhelm_leaderboard")
    yield "index.html", (root / "index.html").read_bytes()
    for folder in ("app", "app/pages"):
        for entry in sorted((root / folder).iterdir(), key=lambda e: e.name):
            if entry.is_file() and entry.name.endswith((".js", ".css", ".svg")):
                yield f"{folder}/{entry.name}", entry.read_bytes()
    spec = find_spec("plotly")  # importing it takes longer than building a small site
    if spec is None or spec.origin is None:
        raise UsageError("the package plotly is not installed; `pip install plotly`")
    script = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    try:
        yield "app/plotly.min.js", script.read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"the package plotly has no {script.name}; install it again with `pip install plotly`"
        ) from None


# The pages of one scoring ----------------------------------------------------------------------


def _write_scoring(
    site: SiteFolder,
    scoring: str,
    cells: tuple[Cell, ...],
    registry: Registry,
    options: SiteOptions,
    made: _Made,
) -> None:
    """Write all pages of one scoring and note in `made` what was written."""
    loaded = Results(cells)
    study = loaded.study(options.settings)
    tables = {
        name: loaded.typed(
            name, options.settings, metrics="all" if name == "benchmarks" else "main"
        )
        for name in _TABLES
    }
    keys = []
    for name, table in tables.items():
        keys.append((name, site.put_data(f"table-{scoring}-{name}", page_table(table))))
        for form, content in (("csv", formats.to_csv(table)), ("json", formats.to_json(table))):
            path = f"tables/{scoring}/{name}.{form}"
            site.put(path, content.encode())
            made.downloads.append(
                Download(title=table.title, path=path, format=form, scoring=scoring)
            )
    benchmarks, runs = [], []
    for benchmark, own in study.cells.items():
        key = write_benchmark(site, study, benchmark, tables["benchmarks"], registry)
        benchmarks.append((benchmark, key))
        runs += [(benchmark, model, run_key(scoring, benchmark, model)) for model in own]
    made.views += write_views(site, scoring, study, packaged_suites())
    lines = [publish.run_line(cell.record) for cell in cells]
    made.scorings.append(
        ScoringPages(
            scoring=scoring,
            tables=tuple(keys),
            benchmarks=tuple(benchmarks),
            runs=tuple(runs),
            made=site.put_data(f"made-{scoring}", msgspec.json.encode(lines)),
        )
    )
    made.scores += _scores(scoring, tables["benchmarks"], study)
    made.ranks += _ranks(scoring, tables["overall"])


def _changed_groups(
    site: SiteFolder, found: Collected, made: _Made, secret: str
) -> dict[str, list[GradedRun]]:
    """Return the runs of each benchmark whose run pages are to be written; the others are kept."""
    groups: dict[str, list[GradedRun]] = {}
    for scoring, cells in found.cells.items():
        for cell in cells:
            groups.setdefault(short_hash(scoring, cell.run.benchmark), []).append(cell.run)
    before = site.before.groups if site.before else {}
    changed = {}
    for name, runs in groups.items():
        is_open = publish.has_text(runs[0].record.card)
        made.groups[name] = Group(inputs=fingerprint(runs, "" if is_open else secret))
        known = before.get(name)
        is_same = known is not None and known.inputs == made.groups[name].inputs
        if known is not None and is_same and site.keep(file_starts(name)):
            made.groups[name] = known
        else:
            changed[name] = runs
    return changed


def _scores(scoring: str, table: Table, study: Study) -> Iterator[Score]:
    for row in table.rows:
        if row["grading_hash"] is None:
            continue
        spec = study.cells[str(row["benchmark"])][str(row["model"])].record.spec
        panel = study.panel(str(row["benchmark"]), str(row["metric"]))
        yield msgspec.convert(
            {
                "scoring": scoring,
                "benchmark": row["benchmark"],
                "model": row["model"],
                "metric": row["metric"],
                "version": f"{spec.benchmark_version}, metric {panel.metric.version}, "
                f"data {spec.dataset_sha256[:12]}",
                "value": row["score"],
                "low": row["low"],
                "high": row["high"],
                "n": row["n"],
                "grading": row["grading_hash"],
            },
            Score,
        )


def _ranks(scoring: str, table: Table) -> Iterator[Rank]:
    for row in table.rows:
        wanted = ("model", "rank", "win_rate", "macro_average")
        yield msgspec.convert({"scoring": scoring} | {n: row[n] for n in wanted}, Rank)


# The first page --------------------------------------------------------------------------------


def _write_first_page(
    site: SiteFolder,
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    made: _Made,
    inputs: str,
) -> int:
    """Write what names all other files; return how many of before are gone."""
    built_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    site.put_data("site", _site_page(site, found, registry, options, made, built_at))
    return site.finish(
        {
            "medhelm": __version__,
            "built_at": built_at,
            "inputs": inputs,
            "groups": made.groups,
            "scores": made.scores,
            "ranks": made.ranks,
        }
    )


def _site_page(
    site: SiteFolder,
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    made: _Made,
    built_at: str,
) -> SitePage:
    cells = [c for own in found.cells.values() for c in own]
    cards = {c.run.benchmark: c.record.card for c in sorted(cells, key=lambda c: c.run.benchmark)}
    models = {c.run.model: c.record.spec.model for c in sorted(cells, key=lambda c: c.run.model)}
    juries = {c.run.benchmark: c.record.grading.jury for c in cells}
    agreement = None
    if options.agreement is not None:
        agreement = site.put_data("agreement", page_table(options.agreement))
    return SitePage(
        title=options.title,
        data=found.data,
        medhelm=__version__,
        built_at=built_at,
        models=tuple(
            ModelCard(
                name=name,
                weights=spec.weights,
                provider=spec.provider,
                is_baseline=spec.provider == "baseline",
                is_ranked=is_ranked(spec),
                reasoning=spec.reasoning,
            )
            for name, spec in models.items()
        ),
        benchmarks=tuple(_line(card) for card in cards.values()),
        offline_jury=tuple(
            b for b, terms in sorted(juries.items()) if terms and not terms.jury.judges
        ),
        incomplete=tuple(
            sorted({(c.run.benchmark, c.run.model) for c in cells if c.record.state == "partial"})
        ),
        taxonomy=tuple(_categories(registry.taxonomy, cards)),
        views=tuple(made.views),
        scorings=tuple(made.scorings),
        problems=tuple(made.problems),
        agreement=agreement,
        downloads=tuple(made.downloads),
        command=options.command,
    )


def _line(card: BenchmarkCard) -> BenchmarkLine:
    return BenchmarkLine(
        name=card.name,
        title=card.title,
        category=card.category,
        subcategory=card.subcategory,
        access=card.data_class,
        has_text=publish.has_text(card),
        tasks=card.tasks,
    )


def _categories(taxonomy: Taxonomy, cards: dict[str, BenchmarkCard]) -> Iterator[CategoryLine]:
    for category in taxonomy.categories:
        subcategories = []
        for sub in category.subcategories:
            own = [b for b, card in cards.items() if card.subcategory == sub.name]
            tasks = tuple(
                TaskLine(
                    id=task.id,
                    title=task.name,
                    benchmarks=tuple(b for b in own if task.id in cards[b].tasks),
                )
                for task in sub.tasks
            )
            subcategories.append(
                SubcategoryLine(id=sub.id, title=sub.name, tasks=tasks, benchmarks=tuple(own))
            )
        yield CategoryLine(id=category.id, title=category.name, subcategories=tuple(subcategories))
