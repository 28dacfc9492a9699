"""The table controls: how far each judge errs on answers whose verdicts are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from medhelm.grading.graders.controls import EMPTY, OTHER, RIGHT
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.judge_errors import LIMIT, grader_of, judge_errors
from medhelm.tables.study.study import Study

ALL = "all together"
CONTROLS = form(__file__, "controls")
_COUNTED = ("what", "wrong", "verdicts", "invalid", "cases", "runs")


def controls(study: Study) -> Table:
    """Return a row of each benchmark, judge and kind of error."""
    rows = [*_rows(study)]
    said = (
        "A control counts as one verdict for each item whose verdict is known: not for what an answer without "
        "content may have, nor for what every other answer has. An interval is Clopper and Pearson's for as many "
        "independent verdicts as those of the cases are worth; runs on the same cases count once. Judges "
        f"whose false positives may be above {LIMIT:.0%} rank nobody."
    )
    none = "No judge here was asked about controls."
    return study_table(study, CONTROLS, rows, [said if rows else none])


def _rows(study: Study) -> Iterator[Row]:
    for benchmark, panel in study.panels.items():
        records = [cell.record for cell in panel.cells.values()]
        first: dict[str, str] = {}
        for metric in study.metrics(benchmark):
            first.setdefault(grader_of(records[0], metric), metric)
        for metric in first.values():
            for one in judge_errors(records, metric, study.settings.confidence):
                row: Row = {"benchmark": benchmark, "metric": metric, "judge": one.judge or ALL}
                row |= {name: getattr(one, name) for name in _COUNTED} | one.row("share")
                yield row | {kind: _of(one.kinds.get(kind)) for kind in (EMPTY, OTHER, RIGHT)}


def _of(own: Mapping[str, int] | None) -> str | None:
    return f"{own['wrong']:,} of {own['verdicts']:,}" if own else None
