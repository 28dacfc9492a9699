"""Graded runs of a folder -> `Results`. A folder that cannot be read is named in a note, the others are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from medhelm.config import convert
from medhelm.errors import RecordError, UsageError, below
from medhelm.plugins.registry import Registry, load_registry
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunRecord, RunSpec
from medhelm.schema.score import Scoring
from medhelm.store.records import find_gradings, find_runs, find_unreadable, read_plan
from medhelm.store.remote_runs import results_folder
from medhelm.tables.format.table import several
from medhelm.tables.known_tables import KnownTables, find_tables
from medhelm.tables.results import Results
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.cells import read_cell
from medhelm.tables.study.selection import (
    ChosenRuns,
    Data,
    GradedRun,
    RunChoice,
    read_graded,
)


def load_results(
    results_dir: str | Path,
    *,
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    benchmarks: Iterable[str] | None = None,
    models: Iterable[str] | None = None,
    runs: Iterable[str | Path] = (),
    plugins: Iterable[str | Path] | Registry = (),
    tables: KnownTables | None = None,
) -> Results:
    """Return the results of a folder, or behind a URL that they were pushed to, ready for tables.

    `data`: sample or full; None takes full runs where there is any. `latest`: the newest of
    several runs of one model on one benchmark, which are an error otherwise. `benchmarks` and
    `models` name those to take, also as patterns like "openai/*"; None is all. `runs`: folders of runs, or of their gradings, to
    take where a model has several on a benchmark. `plugins`: files of plugins whose metrics and
    tables are wanted beside those of installed ones, or all plugins as `load_registry` returns them;
    `tables`: those found already. Raises UsageError where there is no run or where runs cannot share
    one column, UnknownName for a name without runs.
    """
    convert(scoring, Scoring, "load_results: scoring")
    if data is not None:
        convert(data, Data, "load_results: data")
    folder, (aggregations, files) = results_folder(results_dir), _known(plugins)
    benchmarks, models = list(benchmarks or ()), list(models or ())
    graded, damaged = _records(find_gradings(folder), aggregations)
    stored = _ungraded(folder, graded, scoring, damaged)
    damaged += [f"{path}: {why}" for path, why in find_unreadable(folder)]
    named: dict[str, Any] = {"benchmarks": benchmarks, "models": models, "folders": [*runs]}
    choice = RunChoice(data=data, scoring=scoring, latest=latest, **named)
    stored = [*filter(choice.names, stored)]
    fix = f"`medhelm score{'' if scoring == 'fixed' else f' --scoring {scoring}'}`"
    seen = f" ({len(damaged)} damaged: {damaged[0]})" if damaged else ""
    _refuse_ungraded(graded, stored, benchmarks, models, f"{fix} grades stored responses{seen}")
    if not graded:
        raise UsageError(
            f"no graded run {below(folder)}{seen}; `medhelm run results_dir={folder}` writes "
            "there, `medhelm score` grades stored responses"
        )
    chosen = choice.of(graded)
    stored = [s for s in stored if s.data == chosen.data]
    said = [f"Not graded: {_names(stored)}; {fix} grades them."] if stored else []
    left = {(s.column, s.model.name): s.model for s in stored}
    known = tables or find_tables(files)
    return _results_of(chosen, aggregations, damaged, known, said, left)


def _known(plugins: Iterable[str | Path] | Registry) -> tuple[Aggregations, tuple[str, ...]]:
    """Return the aggregations of plugins, which are read where one is looked up, and their files."""
    if isinstance(plugins, Registry):
        return Aggregations(plugins), plugins.files
    files = tuple(map(str, plugins))
    return Aggregations(load_registry(files) if files else None), files


def _ungraded(
    folder: Path, runs: Iterable[GradedRun], scoring: Scoring, damaged: list[str]
) -> list[RunSpec]:
    """Return the stored runs without a readable grading of a scoring; adds what is unreadable."""
    graded = {run.run_folder for run in runs if run.record.grading.scoring == scoring}
    found = []
    for path in find_runs(folder):
        if path not in graded:
            try:
                found.append(read_plan(path).spec)
            except RecordError as e:
                damaged.append(str(e))
    return found


def _refuse_ungraded(
    runs: Sequence[GradedRun],
    stored: Sequence[RunSpec],
    benchmarks: Sequence[str],
    models: Sequence[str],
    fix: str,
) -> None:
    """Raise UsageError where all runs of those asked for are stored but not graded."""
    if stored and not runs:
        raise UsageError(f"no run is graded; stored and not graded: {_names(stored)}; {fix}")
    graded = [run.record.spec for run in runs]
    for kind, wanted, names_of in (
        ("benchmark", benchmarks, lambda spec: spec.names),
        ("model", models, lambda spec: (spec.model.name,)),
    ):
        known, there = ({n for spec in specs for n in names_of(spec)} for specs in (stored, graded))
        if lacking := [name for name in wanted if name in known - there]:
            raise UsageError(f"no run of {kind} {lacking[0]} is graded; {fix}")


def _names(specs: Sequence[RunSpec]) -> str:
    return several([*dict.fromkeys(f"{s.column} x {s.model.name}" for s in specs)])


def load_gradings(
    folders: Iterable[Path], *, plugins: Iterable[str | Path] | Registry = ()
) -> Results:
    """Return the results of these grading folders, which one command made; see `load_results`."""
    aggregations, files = _known(plugins)
    runs, damaged = _records(folders, aggregations)
    if not runs:
        raise UsageError(f"no graded run could be read: {'; '.join(damaged) or 'none is named'}")
    chosen = RunChoice(scoring=runs[0].record.grading.scoring).of(runs)
    return _results_of(chosen, aggregations, damaged, find_tables(files))


def _results_of(
    chosen: ChosenRuns,
    aggregations: Aggregations,
    damaged: list[str],
    known: KnownTables,
    run_notes: Iterable[str] = (),
    ungraded: Mapping[tuple[str, str], ModelSpec] | None = None,
) -> Results:
    cells, unread = [], {}
    for run in chosen.runs:
        try:
            cells.append(read_cell(run, aggregations))
        except RecordError as e:
            damaged.append(str(e))
            unread[run.benchmark, run.model] = run.record.spec.model
    if not cells:
        raise UsageError(f"no run could be read: {damaged[0]}")
    lost = f"Left out, damaged or unreadable: {several(damaged, sep='; ')}."
    notes = [*chosen.notes, *run_notes, *[lost] * bool(damaged)]
    variants = [partial(read_cell, run, aggregations) for run in chosen.variants]
    return Results(cells, notes, ungraded, unread, known, aggregations, variants)


def _records(
    gradings: Iterable[Path], aggregations: Aggregations
) -> tuple[list[GradedRun], list[str]]:
    """Return the graded runs of grading folders, and what is wrong with the others."""
    runs, damaged = [], list[str]()
    for run in read_graded(gradings, damaged):
        if fault := record_fault(run.record, aggregations):
            damaged.append(f"{run.folder} {fault}")
        else:
            runs.append(run)
    return runs, damaged


def record_fault(record: RunRecord, aggregations: Aggregations) -> str:
    """Return what makes a record useless for tables; empty if nothing does."""
    for metric in record.grading.metrics:
        if not metric.minimum < metric.maximum:
            return f"gives {metric.name} the empty range {metric.minimum:g} to {metric.maximum:g}"
        if fault := aggregations.fault(metric):
            return fault
    return "" if record.grading.metrics else "names no metric"
