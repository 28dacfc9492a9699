"""Scores of one run with their intervals, whatever other models were asked."""

from __future__ import annotations

import math

from medhelm.plugins.registry import Registry
from medhelm.schema.run import RunRecord
from medhelm.tables.format.table import Settings
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.cells import Cell, read_cell
from medhelm.tables.study.judge_errors import grader_of
from medhelm.tables.study.selection import GradedRun
from medhelm.tables.study.study import Estimate, Study

STAND_IN = "the offline jury, a stand-in for judges"


def read_alone(run: GradedRun, registry: Registry) -> tuple[Study, Cell]:
    """Return a study of one run, and its cell; raises RecordError."""
    cell = read_cell(run, Aggregations(registry))
    return Study([cell], Settings()), cell


def estimates_of(study: Study, cell: Cell) -> dict[str, Estimate]:
    """Return the estimate of each metric of the one run of a study; none of a metric without a value."""
    of = {name: study.estimates(cell.run.benchmark, name) for name in cell.scores}
    found = {name: own.get(cell.run.model) for name, own in of.items()}
    return {name: own for name, own in found.items() if own and not math.isnan(own.score)}


def label(record: RunRecord, metric: str) -> str:
    """Return a metric's name; where no model judged for it, with that."""
    return f"{metric}, by {STAND_IN}" if is_stand_in(record, metric) else metric


def is_stand_in(record: RunRecord, metric: str) -> bool:
    """Return whether no model judged for a metric that needs judges."""
    raters = record.grading.raters
    return bool(grader_of(record, metric)) and raters is not None and not raters.judges
