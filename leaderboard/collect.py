"""Results folder -> the runs that a site shows, and what could not be shown and why.

Runs that cannot be compared remove only their benchmark from the site, a damaged folder only
itself. Messages about them name run folders, never a path of the machine and never data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np

from medhelm.errors import PluginError, RecordError, UsageError, below
from medhelm.schema.data import DataClass
from medhelm.schema.score import Scoring
from medhelm.store.records import find_gradings, find_runs, find_unreadable, read_plan, read_record
from medhelm.tables.loading import record_fault
from medhelm.tables.study.aggregations import Aggregations
from medhelm.tables.study.cells import Cell, read_cell
from medhelm.tables.study.selection import Data, GradedRun, RunChoice, is_named, of_names
from medhelm_leaderboard import publish
from medhelm_leaderboard.pages import Problem
from medhelm_leaderboard.plugin_pages import public_name

_DAMAGED = "damaged, left out: {}; `medhelm score` writes gradings again"


@dataclass(frozen=True, kw_only=True)
class Wanted(RunChoice):
    """The choice of runs that go on the site: a benchmark whose runs do not fit together is left out."""

    access: Collection[DataClass] = ()
    """Empty: all."""


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The cells of each scoring that has any, and what was left out."""

    cells: dict[Scoring, tuple[Cell, ...]]
    problems: tuple[Problem, ...]
    data: Data
    variants: Mapping[Scoring, Sequence[GradedRun]] = field(default_factory=dict)
    """Runs that asked the questions of these in other forms."""


def collect(wanted: Wanted, aggregations: Aggregations, samples: Mapping[str, str]) -> Collected:
    """Return the runs to show; raises UsageError where there is none, UnknownName."""
    problems: list[Problem] = []
    runs = _sound(_wanted(_graded(wanted, problems, samples), wanted), aggregations, problems)
    has_full = any(r.record.spec.data == "full" for r in runs)
    data: Data = wanted.data or ("full" if has_full else "sample")
    _name_ungraded(wanted, {r.run_folder for r in runs}, problems)
    cells: dict[Scoring, tuple[Cell, ...]] = {}
    variants: dict[Scoring, list[GradedRun]] = {}
    for scoring in get_args(Scoring):
        own = [r for r in runs if r.record.grading.scoring == scoring]
        chosen, variants[scoring] = _choose(own, scoring, data, wanted.latest, problems)
        if found := tuple(
            c for run in chosen if (c := _read_cell(run, aggregations, problems)) is not None
        ):
            cells[scoring] = found
    if not cells:
        why = f": {problems[0].where}: {problems[0].what}" if problems else ""
        raise UsageError(
            f"no graded run to publish {below(wanted.results_dir)}{why}; "
            f"`medhelm run results_dir={wanted.results_dir}` makes some"
        )
    if left := sum(r.record.spec.data != data for r in runs):
        other = "bundled samples" if data == "full" else "full data"
        problems.append(
            Problem(where="all benchmarks", what=f"{left} gradings on {other} are not shown")
        )
    return Collected(cells=cells, problems=tuple(problems), data=data, variants=variants)


def benchmarks_of(wanted: Wanted) -> list[str]:
    """Return the names of the benchmarks that may be on the site; raises UnknownName."""
    return sorted({run.benchmark for run in _wanted(_graded(wanted, [], {}), wanted)})


def _graded(wanted: Wanted, problems: list[Problem], samples: Mapping[str, str]) -> list[GradedRun]:
    """Return every grading that can be read, under the strictest class of its benchmark's data."""
    runs: list[GradedRun] = []
    for path, why in find_unreadable(wanted.results_dir):
        _name_unread(wanted, path.relative_to(wanted.results_dir).as_posix(), why, problems)
    for path in find_gradings(wanted.results_dir):
        folder = path.relative_to(wanted.results_dir).as_posix()
        try:
            record = read_record(path)
        except RecordError:
            what = _DAMAGED.format("its summary.json cannot be read")
            _name_unread(wanted, folder, what, problems)
            continue
        runs.append(GradedRun(path, folder, record))
    return publish.strictest(runs, samples)


def _name_unread(wanted: Wanted, folder: str, what: str, problems: list[Problem]) -> None:
    """Say that a folder is damaged. Where runs are chosen, name only what surely was chosen."""
    if wanted.benchmarks and not all(
        is_named(n, wanted.benchmarks) for n in folder.split("/")[1:2]
    ):
        return
    is_chosen = not (wanted.access or wanted.models)  # nobody can tell of what class or model it is
    problems.append(Problem(where=folder if is_chosen else "a run", what=what))


def _sound(
    runs: Sequence[GradedRun], aggregations: Aggregations, problems: list[Problem]
) -> list[GradedRun]:
    found = []
    for run in runs:
        if fault := record_fault(publish.named(run).record, aggregations):
            problems.append(Problem(where=run.folder, what=_DAMAGED.format(f"it {fault}")))
        else:
            found.append(run)
    return found


def _wanted(runs: list[GradedRun], wanted: Wanted) -> list[GradedRun]:
    chosen = of_names(runs, wanted.benchmarks, wanted.models) if runs else []
    return [r for r in chosen if not wanted.access or r.record.card.data_class in wanted.access]


def _name_ungraded(wanted: Wanted, graded: Collection[Path], problems: list[Problem]) -> None:
    """Say of stored runs without a grading that: they are still running, or were stopped."""
    for path in find_runs(wanted.results_dir):
        if path in graded or any((path / "gradings").glob("*/summary.json")):
            continue
        folder = path.relative_to(wanted.results_dir).as_posix()
        try:
            spec = read_plan(path).spec
        except RecordError:
            what = _DAMAGED.format("its spec.json cannot be read")
            _name_unread(wanted, folder, what, problems)
            continue
        if wanted.access or not wanted.names(spec):
            continue
        what = "has no grading yet: it is still running, or `medhelm score` grades what is stored"
        problems.append(Problem(where=folder, what=what))


def _choose(
    runs: Sequence[GradedRun],
    scoring: Scoring,
    data: Data,
    latest: bool,
    problems: list[Problem],
) -> tuple[list[GradedRun], list[GradedRun]]:
    """Return the runs of each benchmark whose runs can be compared, and those of their other forms."""
    by_benchmark: dict[str, list[GradedRun]] = defaultdict(list)
    for run in runs:
        if run.record.spec.data == data:
            by_benchmark[run.benchmark].append(run)
    found, variants = list[GradedRun](), list[GradedRun]()
    for benchmark, own in sorted(by_benchmark.items()):
        by_path = {run.path: run for run in own}
        shown = [publish.named(run) for run in own]
        try:
            chosen = RunChoice(data=data, scoring=scoring, latest=latest).of(shown)
            found += [by_path[run.path] for run in chosen.runs]
            variants += [by_path[run.path] for run in chosen.variants]
        except UsageError as e:
            problems.append(Problem(where=f"{benchmark}, scoring={scoring}", what=f"left out: {e}"))
    return found, variants


def _read_cell(run: GradedRun, aggregations: Aggregations, problems: list[Problem]) -> Cell | None:
    try:
        cell = read_cell(run, aggregations)
        if fault := _fault(cell, aggregations):
            problems.append(Problem(where=run.folder, what=f"left out: {fault}"))
            return None
        scores = {publish.metric_name(name): own for name, own in cell.scores.items()}
        return Cell(publish.named(run), scores)
    except RecordError:
        what = _DAMAGED.format("its scores.parquet cannot be read")
        problems.append(Problem(where=run.folder, what=what))
        return None


def _fault(cell: Cell, aggregations: Aggregations) -> str:
    """Return why a metric of a run has no value by its plugin's aggregation; empty where all have one."""
    for metric in cell.record.grading.metrics:
        own = cell.scores[metric.name]
        if not len(own.sums):
            continue
        total = own.sums.sum(axis=0)
        try:
            for sums in (total, np.stack([total, total])):
                own.pooling(sums)
            own.pooling.extremes(own.sums, metric.minimum, metric.maximum)
        except PluginError as e:
            plugin = public_name(aggregations.origin(metric))
            return f"metric {metric.name!r} of the plugin {plugin}: {e}"
    return ""
