"""Scores that others published, beside those of runs: never in an interval, a rank or a win rate."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain

from medhelm.store.as_published import PublishedScore, read_published
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.column_kinds import count, measured, text
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Study

AS_PUBLISHED = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("model", "name of the model, or as the publication has it", "model"),
    text("source", "runs: a graded run; as published: a score without instances", "source"),
    text("metric", "name of the metric, or as the publication has it", "metric"),
    *measured("score", "the score", "metric", "score", digits=3, is_main=True),
    count("n", "instances with a value; missing of what is published", "n"),
)


def as_published(study: Study) -> Table:
    """Return the scores of runs, on each benchmark with those that others published behind them."""
    folders = {c.run.path.parents[5] for own in study.cells.values() for c in own.values()}
    publications = [*chain.from_iterable(read_published(folder) for folder in sorted(folders))]
    others: dict[str, list[PublishedScore]] = defaultdict(list)
    for score in chain.from_iterable(p.scores for p in publications):
        others[score.benchmark].append(score)
    own: dict[str, list[Row]] = defaultdict(list)
    kept = ("benchmark", "model", "metric", "score", "low", "high", "n")
    for row in benchmarks(study).rows if publications else ():
        if row["score"] is not None:
            own[str(row["benchmark"])].append({k: row[k] for k in kept} | {"source": "runs"})
    rows: list[Row] = []
    for benchmark, mine in own.items():
        rows += mine
        rows += (
            {
                **{"benchmark": benchmark, "model": one.model, "source": "as published"},
                **{"metric": one.metric, "score": one.score},
            }
            for one in sorted(others[benchmark], key=lambda one: -one.score)
        )
    said = (
        "As published, without instances: other prompts, judges and budgets, so that no interval, rank or "
        f"win rate here holds any of them. Source: {'; '.join(p.source for p in publications)}."
        if publications
        else "Nothing published is here: `medhelm import medhelm_paper FILE` brings the paper's scores."
    )
    return study_table(
        study,
        "as_published",
        "Runs and published scores",
        AS_PUBLISHED,
        rows,
        [said],
        group=("benchmark",),
    )
