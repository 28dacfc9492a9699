"""Scores of another tool beside ours on the same answers: where they differ, on which instances, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from string import ascii_uppercase

from medhelm.errors import UsageError
from medhelm.prompts.messages import option_labels
from medhelm.schema.data import Instance
from medhelm.schema.score import Scoring
from medhelm.stats.aggregation import TIE
from medhelm.store.imported import Imported, TheirAnswer, TheirScore, read_imported
from medhelm.store.records import find_gradings
from medhelm.store.runlog import read_log
from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.format.table import Part, Row, Table, make_table
from medhelm.tables.instances import Key, Line, data_class, places_of, read_lines
from medhelm.tables.study.selection import GradedRun, newest_gradings, of_names, read_graded

COLUMNS = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("model", "name of the model, with the tool that asked", "model"),
    text("level", "benchmark, or instance: an answer that both scored otherwise"),
    text("their_metric", "the tool's name of its score", "their metric"),
    text("metric", "name of our main metric", "our metric"),
    text("instance_id", "id of the instance", "instance"),
    count("repeat", "place of the repeat, from 0", "repeat"),
    count("n", "answers that both gave a value", "n"),
    number(
        "theirs",
        "the tool's score, of a benchmark its mean over them",
        "",
        "theirs",
        digits=3,
        is_main=True,
    ),
    number(
        "ours",
        "our score, of a benchmark its mean over them",
        "metric",
        "ours",
        digits=3,
        is_main=True,
    ),
    count("differ", "answers whose two scores differ, or of which one is missing", "differ"),
    text("their_read", "the answer that the tool read", "they read", absent=""),
    text("read", "the answer that we read", "we read", absent=""),
    text("why", "why the two differ", "why", absent=""),
)
_PARTS = (
    Part(
        level="benchmark",
        title="Means over the answers that both gave a value",
        columns=("benchmark", "model", "their_metric", "metric", "n", "theirs", "ours", "differ"),
    ),
    Part(
        level="instance",
        title="Answers whose two scores differ",
        group=("benchmark", "model", "their_metric"),
        columns=("instance_id", "repeat", "theirs", "ours", "their_read", "read", "why"),
    ),
)


def scorers(
    results: Path, scoring: Scoring, benchmarks: Iterable[str] | None, models: Iterable[str]
) -> Table:
    """Return the scores of the imported runs of a folder, theirs and ours.

    Raises UsageError where there is none, UnknownName for a name without a run.
    """
    rows: list[Row] = []
    closed: dict[str, None] = {}
    damaged: list[str] = []
    graded = [r for r in read_graded(find_gradings(results), damaged) if _is_of(r, scoring)]
    runs = of_names(newest_gradings(graded), benchmarks, models)
    found = [(run, own) for run in runs if (own := read_imported(run.path.parents[1])) is not None]
    if not found:
        raise UsageError("no run here is imported from another tool; `medhelm import` brings some")
    for run, imported in found:
        has_text = data_class([run]) == "public"
        if not has_text:
            closed[run.benchmark] = None
        rows += _rows(run, imported, has_text=has_text)
    notes = [
        *[f"Left out, damaged: {'; '.join(damaged)}."] * bool(damaged),
        "Both scored the same replies. Their mean is over the answers that both gave a value, so that it "
        "is not the mean that the tool reports where some are missing.",
        *_unmatched(found),
    ]
    if closed:
        notes.append(f"Ids and texts are withheld, the data are not public: {', '.join(closed)}.")
    return make_table("scorers", "theirs and ours", COLUMNS, rows, notes, {}, parts=_PARTS)


def _is_of(run: GradedRun, scoring: Scoring) -> bool:
    return run.record.grading.scoring == scoring


def _rows(run: GradedRun, imported: Imported, *, has_text: bool) -> Iterator[Row]:
    lines = read_lines(run)
    places = {} if has_text else places_of([lines])
    pairs: dict[str, list[tuple[Key, TheirAnswer, TheirScore]]] = defaultdict(list)
    for answer in imported.answers:
        for score in answer.scores:
            pairs[score.metric].append(((answer.instance_id, answer.repeat), answer, score))
    shared = {
        "benchmark": run.benchmark,
        "model": run.model,
        "metric": run.record.grading.metrics[0].name,
    }
    unlike = {
        key for own in pairs.values() for key, _, s in own if _differ(lines.found.get(key), s)
    }
    log = read_log(run.path.parents[1]) if unlike else ()
    instances = {e.instance.id: e.instance for e in log if (e.instance.id, e.repeat) in unlike}
    for metric, own in pairs.items():
        values = [(s.value, _value(lines.found.get(key))) for key, _, s in own]
        both = [(a, b) for a, b in values if a is not None and b is not None]
        apart = [one for one in own if _differ(lines.found.get(one[0]), one[2])]
        named = shared | {"their_metric": metric}
        yield named | {
            "level": "benchmark",
            "n": len(both),
            "theirs": sum(a for a, _ in both) / len(both) if both else None,
            "ours": sum(b for _, b in both) / len(both) if both else None,
            "differ": len(apart),
        }
        for (instance_id, repeat), answer, score in apart:
            line = lines.found.get((instance_id, repeat))
            yield named | {
                "level": "instance",
                "instance_id": f"#{places[instance_id]}" if places else instance_id,
                "repeat": repeat,
                "theirs": score.value,
                "ours": _value(line),
                "their_read": score.read if has_text else None,
                "read": line.extracted if has_text and line is not None else None,
                "why": _why(line, answer, score, instances.get(instance_id), has_text=has_text),
            }


def _value(line: Line | None) -> float | None:
    return line.scores[0].value if line is not None else None


def _differ(line: Line | None, score: TheirScore) -> bool:
    ours = _value(line)
    if ours is None or score.value is None:
        return ours is not score.value
    return abs(ours - score.value) > TIE


def _why(
    line: Line | None,
    answer: TheirAnswer,
    score: TheirScore,
    instance: Instance | None,
    *,
    has_text: bool,
) -> str:
    """Return the first thing in which the two scores part."""
    if line is None:
        return "it is not graded here"
    if (gold := _other_gold(answer.target, instance)) and has_text:
        return f"other gold: theirs {answer.target}, ours {gold}"
    if gold:
        return "other gold"
    if score.value is None:
        return "the tool gave no score"
    ours = line.scores[0]
    if ours.outcome != "scored":
        return f"{ours.outcome} here" + f": {ours.reason}" * bool(ours.reason and has_text)
    if not score.read:
        return "the tool read no answer"
    if score.read.strip() != line.extracted.strip():
        return "another answer was read"
    return "the same answer was read and is rated by another rule"


def _other_gold(target: str, instance: Instance | None) -> str:
    """Return our gold where the tool's is another; empty where they are one, or theirs cannot be told."""
    if instance is None or not instance.references or not target.strip():
        return ""
    if not instance.choices:
        return "" if target.strip() in instance.references else " / ".join(instance.references)
    named: Mapping[str, str] = {
        **dict(zip(instance.choices, ascii_uppercase, strict=False)),
        **dict(zip(option_labels(instance), ascii_uppercase, strict=False)),
    }
    theirs = named.get(target.strip())
    is_other = theirs is not None and theirs not in instance.references
    return " / ".join(instance.references) if is_other else ""


def _unmatched(found: Iterable[tuple[GradedRun, Imported]]) -> Iterator[str]:
    for run, imported in found:
        if n := len(imported.unmatched):
            yield (
                f"{run.benchmark} x {run.model}: {n:,} answer(s) of the tool's are to no question of the "
                f"benchmark; imported.json in {run.path.parents[1].name} names each, with the reason."
            )
