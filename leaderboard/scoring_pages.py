"""The pages of one scoring: its tables and views, a page of each benchmark, keys of its runs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from medhelm.config import packaged_suites
from medhelm.errors import RecordError
from medhelm.plugins.registry import Registry
from medhelm.tables import formats
from medhelm.tables.cells import Cell
from medhelm.tables.harm import has_labels
from medhelm.tables.results import Results
from medhelm.tables.study import Study
from medhelm.tables.table import Settings, Table
from medhelm.tables.validity import Validity
from medhelm_leaderboard import publish
from medhelm_leaderboard.benchmark_pages import write_benchmark
from medhelm_leaderboard.build_state import Made
from medhelm_leaderboard.files import Rank, Score, SiteFolder
from medhelm_leaderboard.pages import Download, Problem, ScoringPages, page_table
from medhelm_leaderboard.run_pages import run_key
from medhelm_leaderboard.views import write_views

_TABLES = ("overall", "benchmarks", "categories", "mde", "cost", "jury", "pairs", "ranks")

_NO_METADATA = "left out: metadata in a scores.parquet cannot be read; `medhelm score` writes it"


def write_scoring(
    site: SiteFolder,
    scoring: str,
    cells: tuple[Cell, ...],
    registry: Registry,
    settings: Settings,
    made: Made,
) -> None:
    """Write all pages of one scoring and note in `made` what was written."""
    loaded = Results(cells)
    study = loaded.study(settings)
    tables = _tables(loaded, study, settings, scoring, made)
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


def _tables(
    loaded: Results, study: Study, settings: Settings, scoring: str, made: Made
) -> dict[str, Table]:
    """Return the tables of the site by name; that of harm where any action is labelled."""
    tables = {
        name: loaded.typed(name, settings, metrics="all" if name == "benchmarks" else "main")
        for name in _TABLES
    }
    cards = {b: panel.card for b, panel in study.panels.items() if has_labels(study, b)}
    if not cards:
        return tables
    validity: dict[str, Validity] = {}
    try:
        validity = loaded.validity(settings)
        table = loaded.typed("harm", settings)
        tables["harm"] = publish.harm(table, cards.values(), validity)
    except RecordError:  # the only table here that needs the metadata of instances
        where = f"the page Harm, scoring={scoring}"
        made.problems.append(Problem(where=where, what=_NO_METADATA))
    for benchmark, card in cards.items():
        line = publish.labelled_line(benchmark, card, validity.get(benchmark))
        known = made.labelled.get(benchmark, line)
        made.labelled[benchmark] = msgspec.structs.replace(
            line,
            validated=tuple(dict.fromkeys((*known.validated, *line.validated))),
            warning=known.warning or line.warning,
        )
    return tables


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
