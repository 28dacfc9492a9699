"""The tables with a row of each benchmark and model: benchmarks, and exposure, which says what was public when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np

from medhelm.errors import UsageError
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Outcome
from medhelm.stats import aggregation as stats
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import FLAGS_COLUMN, NOT_GRADED, study_table
from medhelm.tables.spending import (
    COSTS,
    USAGE,
    cost_columns,
    jury_usage,
    usage_columns,
    without_headings,
)
from medhelm.tables.study.cells import Cell
from medhelm.tables.study.judge_errors import ERRORS, error_columns, grader_of
from medhelm.tables.study.study import Panel, Study

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

BENCHMARKS = form(
    __file__,
    "benchmarks",
    spending=without_headings((*USAGE, *COSTS)),
    errors=tuple(replace(c, is_default=False) for c in ERRORS),
    flags=(FLAGS_COLUMN,),
)


def benchmarks(study: Study, metrics: str = "main") -> Table:
    """Return one row per benchmark and model, a model without a run included.

    `metrics`: `main`, or `all` for the secondary ones too.
    """
    if metrics not in ("main", "all"):
        raise UsageError(f"metrics must be main or all, not {metrics!r}")
    rows: list[Row] = []
    for benchmark in study.panels:
        names = study.metrics(benchmark)
        for name in names if metrics == "all" else names[:1]:
            rows += _benchmark_rows(study, benchmark, name)
    methods = sorted({str(r["interval_method"]) for r in rows if "interval_method" in r})
    said = f"Intervals at {study.settings.confidence:.0%}: {'; '.join(methods)}."
    own = [*notes.of_runs(rows, study), said]
    return study_table(study, BENCHMARKS, rows, own, is_ranking=True)


_OF_ONE = ("score", "n", "scored", "not_scored", "total_cost_usd", "answer_s")


def of_one_run(table: Table) -> Table:
    """Return the table of a single run with what a reader wants of it: outcomes, cost and time too."""
    flags = ["flags"] if any(row["flags"] for row in table.rows) else []
    chosen = table.choose([*_OF_ONE, *flags])
    heads = {"total_cost_usd": "USD", "answer_s": "s/answer"}
    named = (replace(c, heading=heads.get(c.name, c.heading)) for c in chosen.columns)
    said = tuple(n for n in chosen.notes if not n.startswith("Not scored: "))  # a column says it
    return replace(chosen, columns=tuple(named), notes=said)


def _benchmark_rows(study: Study, benchmark: str, metric: str) -> list[Row]:
    panel = study.panel(benchmark, metric)
    found = study.estimates(benchmark, metric)
    shared: Row = {
        "benchmark": benchmark,
        "category": panel.card.category,
        "subcategory": panel.card.subcategory,
        "metric": metric,
        "is_main": metric == study.panels[benchmark].metric.name,
        "is_common": benchmark in study.ranking.benchmarks,
    }
    ordered = sorted(found, key=lambda m: (-np.nan_to_num(found[m].normalised, nan=-1.0), m))
    rows = [
        shared
        | found[m].row(
            *("n", "clusters", "normalised", "standard_error", "design_effect", "interval_method")
        )
        | _run_columns(panel.cells[m], panel)
        | {"model": m, "status": _status(study, panel, m)}
        for m in ordered
    ]
    missing = [m for m in study.models if m not in found and m in study.contenders]
    return rows + [
        shared
        | {"model": m, "status": "not graded" if panel.unfit.get(m) == NOT_GRADED else "missing"}
        for m in missing
    ]


def _status(study: Study, panel: Panel, model: str) -> str:
    if model not in study.contenders:
        return "not ranked"
    return "left out" if model in panel.unfit else "ranked"


def _run_columns(cell: Cell, panel: Panel) -> Row:
    metric, record = panel.metric, cell.record
    scores, planned = cell.scores[metric.name], cell.planned(metric.name)
    is_mean, repeats = metric.aggregation == "mean", record.spec.repeats
    worst = metric.minimum if metric.higher_is_better else metric.maximum
    mute = scores.outcomes.get("uninformative", 0)
    rows = sum(scores.outcomes.values()) - mute
    others = {o: n for o, n in scores.outcomes.items() if o != "scored" and n}
    if planned > rows:
        others["not run"] = planned - rows
    bound = stats.worst_case(scores.total, scores.counted, planned - scores.counted, worst)
    parts, _ = cell.parts(metric.name)
    again, verdicts_again = notes.asked_again(record, metric.name)
    row: Row = {
        "mean_of": f"{parts} part{'s' * (parts != 1)}" if parts else None,
        "refused_in_words": cell.result(metric.name).refused_in_words,
        "read_by_model": notes.read_by_model(record, metric.name),
        "asked_again": again,
        "verdicts_asked_again": verdicts_again,
        "worst_case": bound if is_mean else None,
        "planned": planned,
        "counted": scores.counted,
        "scored": scores.outcomes.get("scored", 0),
        "coverage": cell.coverage(metric.name),
        "not_scored": ", ".join(f"{n:,} {o}" for o, n in others.items()),
        "repeats": repeats,
        "flags": " ".join(notes.flags(cell, metric.name)),
        "jury": notes.jury_name(panel) if grader_of(record, metric.name) else None,
        **cost_columns([record]),
        **error_columns([record], metric.name, 0.95),
        "request_hash": record.request_hash,
        "grading_hash": record.grading_hash,
        "run": cell.run.folder,
        "answer_s": _answer_seconds(record, rows + mute),
        **usage_columns(record.own.usage),
        **jury_usage([record]),
    }
    if scores.counted:
        row["score_all"] = float(scores.pooling(scores.sums.sum(0)))
    ended = cell.ended_at_budget(metric.name)
    row |= {"cut": ended - scores.outcomes.get("truncated", 0), "ended_at_budget": ended}
    if planned:
        row["cut_share"] = ended / planned
        row |= {f"share_{o}": scores.outcomes.get(o, 0) / planned for o in OUTCOMES}
        row["share_not_run"] = (planned - rows) / planned
        row["share_uninformative"] = mute / (planned + mute)
    if repeats > 1 and scores.counted:
        lowest = scores.low if metric.higher_is_better else scores.high
        row |= {"worst_of_repeats": lowest.mean(), "repeat_sd": scores.spread.mean()}
    return row


def _answer_seconds(record: RunRecord, answers: int) -> float | None:
    """Return the mean time of an answer; None where nothing was waited for."""
    waited = float(record.provenance.get("answer_seconds", "0"))
    timed = int(record.provenance.get("answers_timed", answers))
    return waited / timed if waited and timed else None


EXPOSURE = form(__file__, "exposure")


def exposure(study: Study) -> Table:
    """Return one row per benchmark and model: when items and training data are from, the score."""
    return study_table(study, EXPOSURE, _exposure_rows(study))


def _exposure_rows(study: Study) -> Iterator[Row]:
    for benchmark, panel in study.panels.items():
        found = study.estimates(benchmark)
        for model in sorted(found, key=lambda m: (m not in study.ranked, m)):
            since = panel.card.public_since
            cutoff = panel.cells[model].record.spec.model.training_cutoff
            yield {
                "benchmark": benchmark,
                "model": model,
                "public_since": since or None,
                "training_cutoff": cutoff or None,
                "public_before_cutoff": was_public(since, cutoff),
                **found[model].row(),
            }


def was_public(since: str, cutoff: str) -> str:
    """Return yes, no, or why it cannot be said, from two dates of any precision."""
    if not since or not cutoff:
        return "not known"
    precision = min(len(since), len(cutoff))
    one, two = since[:precision], cutoff[:precision]
    if one == two:
        return "same day" if precision == 10 else "same month" if precision == 7 else "same year"
    return "yes" if one < two else "no"
