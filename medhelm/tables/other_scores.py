"""Scores that another tool gave, or a paper published, beside ours: never in an interval, a rank or a win rate."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from medhelm.errors import UsageError
from medhelm.files.durable import make_private, write_whole
from medhelm.prompts.messages import option_labels
from medhelm.schema.data import Instance
from medhelm.schema.score import Scoring
from medhelm.stats.aggregation import TIE
from medhelm.store.imported import Imported, TheirScore, read_imported
from medhelm.store.records import find_gradings
from medhelm.store.runlog import read_log
from medhelm.tables.benchmarks import benchmarks
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.instances import Line, data_class, places_of, read_lines
from medhelm.tables.notes import study_table
from medhelm.tables.study.selection import GradedRun, newest_gradings, of_names, read_graded
from medhelm.tables.study.study import Study

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
    notes = SCORERS.say(damaged="; ".join(damaged))
    for run in of_names(newest_gradings(wanted), benchmarks, models):
        if (own := read_imported(run.run_folder)) is None:
            continue
        rows += _rows(run, own)
        cell = f"{run.benchmark} x {run.model}"
        unmatched = (cell, len(own.unmatched)) if own.unmatched else None
        notes += SCORERS.say(unmatched=unmatched, closed=data_class([run]) != "public" and cell)
    if not rows:
        raise UsageError("no run here is imported from another tool; `medhelm import` brings some")
    return SCORERS.table(rows, notes)


def _rows(run: GradedRun, imported: Imported) -> Iterator[Row]:
    lines, has_text = read_lines(run), data_class([run]) == "public"
    places = {} if has_text else places_of([lines])
    instances = {e.instance.id: e.instance for e in read_log(run.run_folder)}
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
    is_there = any(row["source"] == "as published" for row in rows)
    said = AS_PUBLISHED.say(source=is_there, unmatched=bool(found) and not is_there, none=not found)
    return study_table(study, AS_PUBLISHED, rows, said)


def _title_of(names: Iterable[str], titles: Iterable[str]) -> str | None:
    """Return the title that a benchmark is published under: its name, or that without a QA at the end."""
    bare, own = {_bare(title): title for title in titles}, [*map(_bare, names)]
    tried = (*own, *(name.removesuffix("qa") for name in own))
    return next((bare[name] for name in tried if name in bare), None)


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
