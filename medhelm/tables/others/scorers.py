"""Scores of another tool beside ours on the same answers: where they differ, on which instances, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import ascii_uppercase

from medhelm.errors import UsageError
from medhelm.prompts.messages import option_labels
from medhelm.schema.data import Instance
from medhelm.schema.score import Scoring
from medhelm.stats.aggregation import TIE
from medhelm.store.imported import Imported, TheirScore, read_imported
from medhelm.store.records import find_gradings
from medhelm.store.runlog import read_log
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.instances import Line, data_class, places_of, read_lines
from medhelm.tables.study.selection import GradedRun, newest_gradings, of_names, read_graded

SCORERS = form(__file__, "scorers")


def scorers(
    results: Path, scoring: Scoring, benchmarks: Iterable[str] | None, models: Iterable[str]
) -> Table:
    """Return the scores of the imported runs of a folder, theirs and ours.

    Raises UsageError where there is none, UnknownName for a name without a run.
    """
    rows: list[Row] = []
    damaged: list[str] = []
    graded = read_graded(find_gradings(results), damaged)
    wanted = [run for run in graded if run.record.grading.scoring == scoring]
    notes = [f"Left out, damaged: {'; '.join(damaged)}."] * bool(damaged)
    for run in of_names(newest_gradings(wanted), benchmarks, models):
        if (own := read_imported(run.path.parents[1])) is None:
            continue
        rows += _rows(run, own)
        cell = f"{run.benchmark} x {run.model}"
        if own.unmatched:
            notes.append(
                f"{cell}: {len(own.unmatched):,} answers of the tool's are not in the run."
            )
        if data_class([run]) != "public":
            notes.append(f"{cell}: ids and texts are withheld, the data are not public.")
    if not rows:
        raise UsageError("no run here is imported from another tool; `medhelm import` brings some")
    return SCORERS.table(rows, notes)


def _rows(run: GradedRun, imported: Imported) -> Iterator[Row]:
    lines, has_text = read_lines(run), data_class([run]) == "public"
    places = {} if has_text else places_of([lines])
    instances = {e.instance.id: e.instance for e in read_log(run.path.parents[1])}
    own: Row = {"benchmark": run.benchmark, "model": run.model}
    own["metric"] = run.record.grading.metrics[0].name
    found: dict[str, list[tuple[float | None, float | None, Row]]] = defaultdict(list)
    for answer in imported.answers:
        line = lines.found.get((answer.instance_id, answer.repeat))
        is_other = _is_other_gold(answer.target, instances.get(answer.instance_id))
        for score in answer.scores:
            ours, name = line.scores[0].value if line else None, answer.instance_id
            row: Row = {"level": "instance", "repeat": answer.repeat}
            row |= {"theirs": score.value, "ours": ours}
            row["instance_id"] = name if has_text else f"#{places.get(name)}"
            row["why"] = _why(line, score, is_other)
            if has_text:
                row |= {"their_read": score.read, "read": line.extracted if line else None}
            row = own | {"their_metric": score.metric} | row
            found[score.metric].append((score.value, ours, row))
    for metric, every in found.items():
        both = [(a, b) for a, b, _ in every if a is not None and b is not None]
        apart = [row for a, b, row in every if _differ(a, b)]
        theirs, ours = [sum(side) / len(both) for side in zip(*both, strict=True)] or [None, None]
        counts = {"n": len(both), "differ": len(apart), "theirs": theirs, "ours": ours}
        yield {**own, "their_metric": metric, "level": "benchmark", **counts}
        yield from apart


def _differ(theirs: float | None, ours: float | None) -> bool:
    if theirs is None or ours is None:
        return theirs is not ours
    return abs(theirs - ours) > TIE


def _why(line: Line | None, score: TheirScore, is_other_gold: bool) -> str:
    """Return the first thing in which the two scores part."""
    if line is None:
        return "it is not graded here"
    reasons = {
        "another gold": is_other_gold,
        "the tool gave no score": score.value is None,
        f"{line.scores[0].outcome} here": line.scores[0].outcome != "scored",
        "the tool read no answer": not score.read,
        "another answer was read": score.read.strip() != line.extracted.strip(),
        "the same answer was read and is rated by another rule": True,
    }
    return next(why for why, holds in reasons.items() if holds)


def _is_other_gold(target: str, instance: Instance | None) -> bool:
    """Return whether the tool's gold is another one than ours; no where that cannot be told."""
    target = target.strip()
    if instance is None or not instance.references or not target:
        return False
    if not instance.choices:
        return target not in instance.references
    shown = [*instance.choices, *option_labels(instance)]
    named = dict(zip(shown, ascii_uppercase[: len(instance.choices)] * 2, strict=True))
    return target in named and named[target] not in instance.references
