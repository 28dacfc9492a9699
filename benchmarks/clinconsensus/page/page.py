"""The page Coverage: its data, of the runs whose criteria have a threshold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from medhelm import Mark, Page, PageData, PublishedRuns
from medhelm.plugin import RecordError, column_kinds

if TYPE_CHECKING:
    from medhelm import Study, Table


def fidelity_table(runs: PublishedRuns, benchmarks: Iterable[str]) -> Table:
    """Return a row for each judge and group of the benchmarks."""
    rows = [
        {
            **{k: v for k, v in msgspec.structs.asdict(own).items() if k != "asked"},
            "benchmark": benchmark,
            "kind": "judge" if own.asked else "experts",
        }
        for benchmark in benchmarks
        for own in runs.fidelity.get(benchmark, ())
    ]
    return column_kinds.form(__file__, "judge_fidelity").table(rows)


_HERE = Path(__file__).parent
_UNMEASURED = (
    "Graded by {judges}. How far this agrees with physicians is unmeasured here: `medhelm fidelity --stored "
    "{benchmark} --experts NAME=FILE --keep` measures it, and scores are to be read beside that."
)
_MEASURED = (
    "Graded by {judge}, which agrees with the experts {experts} at a macro F1 of {mf1:.3f}{ends}."
)
_EXPERTS = " The experts {reference} and {grader} agree with each other at {mf1:.3f}."


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the table of coverage and the hits behind it; None where no criteria have a threshold."""
    from medhelm import TableRequest
    from medhelm_benchmarks.clinconsensus.tables.coverage import (
        NOT_CLEARANCE,
        coverage,
        has_coverage,
    )

    found = [b for b in runs.study.cells if has_coverage(runs.study, b)]
    if not found:
        return None
    marks = [Mark(benchmark=b, text=NOT_CLEARANCE) for b in found]
    marks += [mark for b in found for mark in _fidelity_marks(runs, b)]
    fidelity = [fidelity_table(runs, found)]
    try:
        table = _without_slices(
            coverage(TableRequest(study=runs.study, metadata=runs.metadata)), runs.closed
        )
    except RecordError as e:  # slices need the metadata of instances
        return PageData(benchmarks=found, tables=fidelity, marks=marks, left_out=str(e))
    return PageData(
        benchmarks=found,
        tables=[*fidelity, table],
        marks=marks,
        values={b: _hits(runs.study, b) for b in found},
    )


def _fidelity_marks(runs: PublishedRuns, benchmark: str) -> Iterator[Mark]:
    """Yield how each judge behind the scores agrees with experts, or that nobody measured it."""
    measured = runs.fidelity.get(benchmark, ())
    for own in measured:
        if own.asked and own.mf1 is not None:
            has_ends = own.mf1_low is not None and own.mf1_high is not None
            ends = f" [{own.mf1_low:.3f}, {own.mf1_high:.3f}]" if has_ends else ""
            said = _MEASURED.format(judge=own.grader, experts=own.reference, mf1=own.mf1, ends=ends)
            for pair in measured:
                if not pair.asked and pair.mf1 is not None:
                    said += _EXPERTS.format(
                        reference=pair.reference, grader=pair.grader, mf1=pair.mf1
                    )
            yield Mark(benchmark=benchmark, text=said)
    names = _judges(runs.study, benchmark) - {own.grader for own in measured if own.asked}
    if names or not measured:
        judges = ", ".join(sorted(names)) or "a rule that sees shared words, a stand-in"
        said = _UNMEASURED.format(judges=judges, benchmark=benchmark)
        yield Mark(benchmark=benchmark, text=said, kind="warn")


def _judges(study: Study, benchmark: str) -> set[str]:
    """Return the names of the judges behind any of the scores; none where a rule has graded."""
    cells = study.cells[benchmark].values()
    found = [cell.record.grading.raters for cell in cells]
    return {judge.name for raters in found if raters is not None for judge in raters.judges}


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
