"""Scores that the MedHELM paper published, beside those of runs: never in an interval, a rank or a win rate."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.files.durable import make_private, write_whole
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Study

AS_PUBLISHED = form(__file__, "as_published")
_BETWEEN = " - "


def bring_scores(paths: Sequence[Path], results: Path) -> str:
    """Keep the authors' table beside the runs, and return what it holds; raises UsageError for another file."""
    try:
        (path,) = paths
        rows = [*_read(path)]
    except (ValueError, KeyError, csv.Error):
        raise UsageError(
            f"{paths[0]} is not the authors' table of scores (data/leaderboard.csv of som-shahlab/medhelm): "
            f"a column Model, and of each benchmark a column of numbers like 'MedQA{_BETWEEN}EM'"
        ) from None
    make_private(_place(results).parent)
    write_whole(_place(results), path.read_bytes())
    models, titles = ({row[at] for row in rows} for at in (0, 1))
    return (
        f"{len(rows):,} scores of {len(models)} models on {len(titles)} benchmarks. "
        "`medhelm tables --table as_published` shows them beside runs"
    )


def _place(results: Path) -> Path:
    return results / "as_published" / "medhelm_paper.csv"


def _read(path: Path) -> Iterator[tuple[str, str, str, float]]:
    """Yield model, title, metric and score of the authors' table; raises ValueError for another file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [*csv.DictReader(file)]
    heads = [head for head in (rows or [{}])[0] if head and _BETWEEN in head]
    if not heads:
        raise ValueError
    for head in heads:
        title, _, metric = head.rpartition(_BETWEEN)
        for row in rows:
            if row[head]:
                yield row["Model"], title, metric, float(row[head])


def as_published(study: Study) -> Table:
    """Return the scores of runs, on each benchmark with the published ones behind them."""
    cells = [cell for own in study.cells.values() for cell in own.values()]
    found = {p: [*_read(p)] for c in cells if (p := _place(c.run.path.parents[5])).is_file()}
    mine: dict[str, list[Row]] = defaultdict(list)
    kept = ("benchmark", "model", "metric", "score", "low", "high", "n")
    for row in benchmarks(study).rows if found else ():
        if row["score"] is not None:
            mine[str(row["benchmark"])].append({**{k: row[k] for k in kept}, "source": "runs"})
    rows: list[Row] = []
    for name, own in mine.items():
        titles = {score[1] for scores in found.values() for score in scores}
        title = _title_of((name, study.panels[name].card.title), titles)
        others = [s for scores in found.values() for s in scores if s[1] == title]
        rows += own
        for model, _, metric, score in sorted(others, key=lambda s: -s[3]):
            one: Row = {"benchmark": name, "model": model, "metric": metric, "score": score}
            rows.append(one | {"source": "as published"})
    said = (
        "As published, without instances: other prompts, judges and budgets, so that no interval, rank or "
        "win rate here holds any of them. Source: MedHELM (arXiv 2505.23802), som-shahlab/medhelm."
        if found
        else "Nothing published is here: `medhelm import medhelm_paper FILE` brings the paper's scores."
    )
    return study_table(study, AS_PUBLISHED, rows, [said])


def _title_of(names: Iterable[str], titles: Iterable[str]) -> str | None:
    """Return the title that a benchmark is published under: its name, or that without a QA at the end."""
    bare, own = {_bare(title): title for title in titles}, [*map(_bare, names)]
    tried = (*own, *(name.removesuffix("qa") for name in own))
    return next((bare[name] for name in tried if name in bare), None)


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
