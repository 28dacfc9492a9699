"""The pages of one scoring: its tables and views, those of plugins, a page of each benchmark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import msgspec
import numpy as np

from medhelm.config import packaged_suites
from medhelm.errors import MedhelmError, PluginError, RecordError
from medhelm.grading.grade import AS_FIXED
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import read_manifest
from medhelm.schema.page import Page
from medhelm.schema.run import MetricRef, RunRecord, fields_of
from medhelm.schema.score import Scoring
from medhelm.store.kept_fidelity import KeptFidelity
from medhelm.tables import notes
from medhelm.tables.format import formats
from medhelm.tables.format.table import Settings, Table
from medhelm.tables.known_tables import find_tables, published_table
from medhelm.tables.overall import OVERALL, categories, overall
from medhelm.tables.published import PublishedRuns
from medhelm.tables.results import Results
from medhelm.tables.study.cells import Cell
from medhelm.tables.study.study import Panel, Study
from medhelm.tables.suites import suites_apart
from medhelm.tables.table_spec import TableRequest, TableSpec
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import Rank, Score, SiteFolder
from medhelm_leaderboard.pages import Content, PluginPage, Problem, page_table
from medhelm_leaderboard.plugin_pages import encoded, fault_of, page_line, runs_data
from medhelm_leaderboard.run_pages import run_key, short_hash

_NEEDED = ("benchmarks", "overall")
"""Tables of which the site's other pages are made."""


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """The settings of a build besides the selection of runs."""

    title: str = "medhelm leaderboard"
    logo: Path | None = None
    settings: Settings = Settings()
    agreement: Table | None = None
    command: str = "medhelm leaderboard build"


@dataclass
class Made:
    """The additions of all scorings' pages to the site's first page and to `build.json`."""

    scorings: list[Content] = field(default_factory=list)
    views: list[Content] = field(default_factory=list)
    """Choices of filters, each with the key of the tables of the benchmarks that it leaves."""
    downloads: list[Content] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    pages: dict[str, PluginPage] = field(default_factory=dict)


_Rendered = tuple[str, bytes, Mapping[str, bytes]]
"""The title of a table, its data for pages, and its files by the ending of their names."""


def _rendered(table: Table) -> _Rendered:
    forms = {"csv": formats.to_csv(table), "json": formats.to_json(table)}
    files = {form: text.encode() for form, text in forms.items()}
    return table.title, msgspec.json.encode(page_table(table)), files


def write_scoring(
    site: SiteFolder,
    scoring: Scoring,
    cells: tuple[Cell, ...],
    registry: Registry,
    pages: Iterable[Page],
    options: SiteOptions,
    kept: Mapping[str, KeptFidelity],
    made: Made,
) -> None:
    """Write all pages of one scoring and note in `made` what was written."""
    loaded = Results(cells, known=find_tables(registry.files))
    study = loaded.study(options.settings)
    tables = _tables(loaded, study, options.settings, scoring, made)
    runs = publish.runs(scoring, loaded, options.settings, kept)
    shown = {name: _rendered(table) for name, table in tables.items()}
    values = _plugin_pages(site, runs, pages, shown, made)
    keys = []
    for name, (title, data, files) in shown.items():
        keys.append((name, site.put_data(f"table-{scoring}-{name}", data)))
        for form, content in files.items():
            path = f"tables/{scoring}/{name}.{form}"
            site.put(path, content)
            made.downloads.append(
                {"title": title, "path": path, "format": form, "scoring": scoring}
            )
    benchmarks, run_keys = [], []
    for benchmark, own in study.cells.items():
        key = write_benchmark(site, study, benchmark, tables["benchmarks"], registry)
        benchmarks.append((benchmark, key))
        run_keys += [(benchmark, model, run_key(scoring, benchmark, model)) for model in own]
    made.views += _views(site, scoring, study, packaged_suites())
    lines = [publish.run_line(cell.record) for cell in cells]
    made.scorings.append(  # with the keys of its data files
        {
            "scoring": scoring,
            "tables": keys,
            "benchmarks": benchmarks,
            "runs": run_keys,
            "values": values,
            "made": site.put_data(f"made-{scoring}", msgspec.json.encode(lines)),
        }
    )
    made.scores += _scores(scoring, tables["benchmarks"], study)
    ranks = tables["overall"].rows
    made.ranks += [msgspec.convert({**row, "scoring": scoring}, Rank) for row in ranks]


def _plugin_pages(
    site: SiteFolder,
    runs: PublishedRuns,
    pages: Iterable[Page],
    shown: dict[str, _Rendered],
    made: Made,
) -> list[tuple[str, str]]:
    """Add the tables of plugins' pages; return the keys of what else they read, by page."""
    keys = []
    for page in pages:
        where = f"the page {page.title}, scoring={runs.scoring}"
        try:
            data = runs_data(page, runs, shown)
            if data is None:
                continue
            own = {table.name: _rendered(table) for table in data.tables}
            line = page_line(page, data, made.pages.get(page.name))
            values = None if data.values is None else encoded(data.values)
        except (Exception, SystemExit) as e:  # the boundary to plugins
            made.problems.append(Problem(where=where, what=fault_of(page, e)))
            continue
        if data.left_out:
            made.problems.append(Problem(where=where, what=f"left out: {data.left_out}"))
        made.pages[page.name] = line
        shown.update(own)
        if values is not None:
            key = site.put_data(f"page-{runs.scoring}-{page.name}", bytes(values))
            keys.append((page.name, key))
    return keys


def _tables(
    loaded: Results, study: Study, settings: Settings, scoring: str, made: Made
) -> dict[str, Table]:
    asked = loaded.request(settings, metrics="all")
    of_suite = replace(asked, study=next(iter(suites_apart(study).values())))
    specs = [
        (spec, of_suite if spec.is_of_suite and spec.name != "benchmarks" else asked)
        for spec in loaded.known.specs.values()
    ]
    closed = frozenset(b for b, panel in study.panels.items() if not publish.has_text(panel.card))
    return published_tables(specs, closed, made.problems, f", scoring={scoring}", _NEEDED)


def published_tables(
    specs: Iterable[tuple[TableSpec, TableRequest]],
    closed: frozenset[str],
    problems: list[Problem],
    of: str = "",
    needed: Collection[str] = ("benchmarks",),
) -> dict[str, Table]:
    """Return what may be shown of tables, by name; one that fails is a problem, or raises if it is needed."""
    tables: dict[str, Table] = {}
    for spec, asked in specs:
        try:
            table = published_table(spec, asked, closed) if spec.publish is not None else None
        except (PluginError, RecordError) as e:
            is_of_plugin = isinstance(e, PluginError)
            if is_of_plugin and spec.name in needed:
                raise
            # else of a table that needs the metadata of instances, in words that name a path
            what = str(e) if is_of_plugin else f"left out: {publish.NO_METADATA}"
            problems.append(Problem(where=f"the table {spec.name}{of}", what=what))
        else:
            tables |= {spec.name: table} if table is not None else {}
    return tables


def _scores(scoring: str, table: Table, study: Study) -> Iterator[Score]:
    for row in table.rows:
        if row["grading_hash"] is None:
            continue
        spec = study.cells[str(row["benchmark"])][str(row["model"])].record.spec
        panel = study.panel(str(row["benchmark"]), str(row["metric"]))
        more = {
            "scoring": scoring,
            "version": f"{spec.benchmark_version}, metric {panel.metric.version}, "
            f"data {spec.dataset_sha256[:12]}",
            "value": row["score"],
            "grading": row["grading_hash"],
        }
        yield msgspec.convert({**row, **more}, Score)


def _views(
    site: SiteFolder, scoring: str, study: Study, suites: Mapping[str, Iterable[str]]
) -> list[Content]:
    """Write the tables of every choice of filters that leaves a benchmark; return the choices.

    A choice of suite, access and category leaves some benchmarks, never of two suites that are apart:
    without a choice those of the first one. Ranks and win rates on them are computed here, so that
    the page only chooses. They are those of `medhelm tables --benchmark ...`.
    """
    views: list[Content] = []
    done: dict[tuple[str, ...], str] = {}
    cards = {b: panel.card for b, panel in study.panels.items()}
    apart = {name: set(own.cells) for name, own in suites_apart(study).items()}
    first, *others = apart
    fitting = {n: set(m) & set(cards) for n, m in suites.items()}
    shown = {name: apart[name] for name in others} | {
        n: m
        for n, m in fitting.items()
        if n not in apart and m and any(m < whole for whole in apart.values())
    }
    named = {"": apart[first], **shown}
    classes = ("", *sorted({c.data_class for c in cards.values()}))
    groups = ("", *sorted({c.category for c in cards.values()}))
    for suite, access, category in product(named, classes, groups):
        chosen = tuple(
            b
            for b, card in cards.items()
            if b in set(named[suite])
            and access in ("", card.data_class)
            and category in ("", card.category)
        )
        if not chosen:
            continue
        if chosen not in done:
            done[chosen] = _view(site, scoring, study, chosen)
        choice = {"suite": suite, "access": access, "category": category}
        views.append({"scoring": scoring, **choice, "key": done[chosen]})
    return views


def _view(site: SiteFolder, scoring: str, study: Study, chosen: tuple[str, ...]) -> str:
    part = study.on(chosen)
    page: Content = {
        "benchmarks": chosen,
        "half": page_table(overall(part)),
        "literal": page_table(
            replace(overall(study.on(chosen, "literal")), columns=OVERALL.columns)
        ),
        "categories": page_table(categories(part)),
    }
    return site.put_data(f"view-{short_hash(scoring, *chosen)}", page)


_BINS = 20


def write_benchmark(
    site: SiteFolder, study: Study, benchmark: str, scores: Table, registry: Registry
) -> str:
    """Write the page of a benchmark and return its key; `scores` is the whole table of all."""
    panel = study.panels[benchmark]
    records = [cell.record for cell in panel.cells.values()]
    record = next((r for r in records if r.spec.asking is None), records[0])
    own = [r for r in scores.rows if r["benchmark"] == benchmark]
    edges = np.linspace(panel.metric.minimum, panel.metric.maximum, _BINS + 1)
    own_scores = replace(scores, rows=tuple(own), title=f"Scores on {benchmark}")
    page = _page(record, panel) | {
        "embedded": embedded(registry, record),
        "scores": page_table(own_scores),  # of `--table benchmarks --metrics all`
        "bins": edges.tolist(),  # of equal width
        "histograms": [
            {"model": m, "counts": np.histogram(panel.scores(m).values, edges)[0].tolist()}
            for m in panel.cells
        ],
    }
    return site.put_data(f"benchmark-{short_hash(record.grading.scoring, benchmark)}", page)


def _page(record: RunRecord, panel: Panel) -> Content:
    card, spec, terms = record.column_card, record.spec, record.grading.jury
    is_open = card.data_class == "public"
    return {
        **publish.benchmark_line(card),
        **fields_of(card, "description", "licence", "curation", "citation"),
        "source": card.source if is_open else "",
        "version": spec.benchmark_version,
        **fields_of(spec, "split", "dataset_sha256"),
        **fields_of(spec, "prompt_name", "prompt_version", "prompt_sha256"),
        "instruction": publish.instruction(card),
        "cluster": card.cluster,
        "instances": max(c.record.instances for c in panel.cells.values()),
        "max_output_tokens": max(c.record.spec.max_output_tokens for c in panel.cells.values()),
        "metrics": [  # the main one first
            (
                m.name,
                _version(m, record.grading.scoring),
                m.minimum,
                m.maximum,
                m.floor,
                m.higher_is_better,
                m.aggregation,
            )
            for m in record.grading.metrics
        ],
        "jury": notes.jury_name(panel),
        "rubric": [(c.name, c.text) for c in terms.rubric.criteria] if terms and is_open else [],
    }


def _version(metric: MetricRef, scoring: Scoring) -> str:
    """Return a metric's version, and that it is not a published one where that is asked for."""
    return metric.version if metric.scoring == scoring else f"{metric.version} ({AS_FIXED})"


def embedded(registry: Registry, record: RunRecord) -> list[tuple[str, float | None]]:
    """Return what answers without a model score, where the manifest is of the same data."""
    spec, metric = record.spec, record.grading.metrics[0].name
    with suppress(MedhelmError):  # a benchmark whose plugin is not here has no manifest
        facts = read_manifest(registry.benchmark(spec.benchmark), spec.data)
        if facts is None or (facts.version, facts.dataset_sha256) != (
            spec.benchmark_version,
            spec.dataset_sha256,
        ):
            return []
        helm = facts.scores_helm if record.grading.scoring == "helm" else {}
        return [
            (answer, helm.get(answer, {}).get(metric, own[metric]))
            for answer, own in facts.scores.items()
            if metric in own
        ]
    return []
