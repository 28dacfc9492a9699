"""The page Coverage: its data, of the runs whose criteria have a threshold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm import Mark, Page, PageData, PublishedRuns
from medhelm.errors import RecordError

if TYPE_CHECKING:
    from medhelm.tables.format.table import Table
    from medhelm.tables.study.study import Study

_HERE = Path(__file__).parent
_FIDELITY = (
    "Graded by {judges}. How far it agrees with physicians is not in these runs: `medhelm fidelity` "
    "measures it, and scores are to be read beside that."
)


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the table of coverage and the hits behind it; None where no criteria have a threshold."""
    from medhelm_benchmarks.clinconsensus.tables.coverage import (
        NOT_CLEARANCE,
        coverage,
        has_coverage,
    )

    found = [b for b in runs.study.cells if has_coverage(runs.study, b)]
    if not found:
        return None
    marks = [Mark(benchmark=b, text=NOT_CLEARANCE) for b in found]
    marks += [
        Mark(benchmark=b, text=_FIDELITY.format(judges=_judges(runs.study, b)), kind="warn")
        for b in found
    ]
    try:
        table = _without_slices(coverage(runs.study, runs.metadata), runs.closed)
    except RecordError as e:  # slices need the metadata of instances
        return PageData(benchmarks=found, marks=marks, left_out=str(e))
    return PageData(
        benchmarks=found,
        tables=[table],
        marks=marks,
        values={b: _hits(runs.study, b) for b in found},
    )


def _judges(study: Study, benchmark: str) -> str:
    raters = next(iter(study.cells[benchmark].values())).record.grading.raters
    names = [judge.name for judge in raters.judges] if raters is not None else []
    return ", ".join(names) or "a rule that sees shared words, a stand-in"


def _without_slices(table: Table, closed: frozenset[str]) -> Table:
    """Return the table without slices of benchmarks of which nobody may know the cases."""
    rows = tuple(r for r in table.rows if r["level"] != "slice" or r["benchmark"] not in closed)
    return replace(table, rows=rows)


def _hits(study: Study, benchmark: str) -> dict[str, Any] | None:
    """Return the threshold and how many cases have 0, 1, ... N hits, by model."""
    from medhelm_benchmarks.clinconsensus.tables.coverage import hits_of

    own = hits_of(study, benchmark)
    if own is None:
        return None
    return {"k": own.k, "n": own.n, "counts": {m: own.counts(m) for m in own.of}}


COVERAGE = Page(name="coverage", title="Coverage", script=_HERE / "coverage.js", data=page_data)
