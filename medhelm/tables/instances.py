"""Stored answers as a reader looks at them: what was asked, the reply, what was read of it, its scores and verdicts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_args

import msgspec

from medhelm.data.rubrics import criteria_of
from medhelm.errors import RecordError, UnknownName
from medhelm.extract.marks import split_thoughts
from medhelm.grading.answer_form import stated
from medhelm.grading.graders.grader import NOT_ASKED, judgement_key
from medhelm.grading.panels import REASONS, end_of
from medhelm.grading.rubric.grader import explained
from medhelm.plugins.registry import Registry
from medhelm.schema.data import DataClass, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import GraderTerms, JuryTerms, RunRecord, RunSpec
from medhelm.schema.score import Metric, Outcome
from medhelm.store.records import judge_folders
from medhelm.store.runlog import read_keyed, read_log
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.selection import GradedRun

_SCORES = ("instance_id", "repeat", "metric", "value", "outcome", "extracted", "reason", "metadata")

Key = tuple[str, int]
"""Id of an instance, and the place of the repeat."""
Row = dict[str, Any]
Transcript = Callable[[Episode], Iterable[tuple[str, str]]]
"""Returns who said what in an episode of many calls, in order; nothing of one with a single call."""


class MetricLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One metric's score of an answer."""

    metric: str
    value: float | None
    outcome: Outcome
    reason: str


class JudgeReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One judge's verdict on an answer."""

    judge: str
    ended: str
    ratings: tuple[int | None, ...] | None
    """1 or 0 of a binary criterion; None: no valid verdict."""
    reasons: tuple[str, ...]
    """One of each rating; empty where the judge gave none."""
    replies: tuple[str, ...]
    """Raw replies, repairs included."""


class Line(NamedTuple):
    """The scores of one answer, the main metric first."""

    extracted: str
    scores: tuple[MetricLine, ...]
    part: str


@dataclass
class Lines:
    """The lines of one run in the order of the site: by id, then repeat."""

    keys: list[Key]
    found: dict[Key, Line]


def read_lines(run: GradedRun, named: Callable[[str], str] = str) -> Lines:
    """Return what every metric, as it is `named`, said of every answer of a run; raises RecordError."""
    record = run.record
    main, has_parts = record.grading.metrics[0].name, bool(record.grading.parts)
    found: dict[Key, list[MetricLine]] = defaultdict(list)
    about: dict[Key, tuple[str, str]] = {}
    named = cache(named)
    for batch in read_scores(run, _SCORES):
        columns = [batch.column(name).to_pylist() for name in _SCORES]
        for instance, repeat, name, value, outcome, read, reason, more in zip(
            *columns, strict=True
        ):
            metric = named(name)
            line = MetricLine(metric=metric, value=value, outcome=outcome, reason=reason or "")
            key = (instance, repeat)
            if metric == main:
                found[key].insert(0, line)
                part = json.loads(more or "{}").get("part", "") if has_parts else ""
                about[key] = (read or "", str(part))
            else:
                found[key].append(line)
    lines = {k: Line(about[k][0], tuple(found[k]), about[k][1]) for k in about}
    return Lines(sorted(lines), lines)


@dataclass(frozen=True)
class Judge:
    """One judge of a run, and its last verdict on each answer."""

    name: str
    terms: JuryTerms | GraderTerms
    replies: Mapping[int, JudgeReply]
    """By `judged_key`."""

    def on(self, key: int) -> JudgeReply:
        """Return its verdict on the answer with a `judged_key`, or that it was not asked."""
        return self.replies.get(key) or JudgeReply(
            judge=self.name, ended=NOT_ASKED, ratings=None, reasons=(), replies=()
        )

    def asked(self, instance: Instance) -> tuple[str, ...]:
        """Return the names of the criteria that its ratings are of, in their order."""
        if isinstance(self.terms, JuryTerms):
            return tuple(c.name for c in criteria_of(self.terms.rubric, instance))
        return tuple(c.name for c in instance.criteria)


def main_metric(record: RunRecord, registry: Callable[[], Registry]) -> Metric | None:
    """Return the main metric of a run that asked for a schema, whose answers may be in its parts; else None."""
    asking, main = record.spec.asking, record.grading.metrics[0]
    if asking is None or asking.form != "schema":
        return None
    try:
        return registry().metric(main.name, main.scoring)
    except UnknownName:  # of a plugin that is not here
        return None


def judged_key(episode: Episode, spec: RunSpec, metric: Metric | None) -> int:
    """Return the `judgement_key` of what judges were given of a reply: the answer in the form that was asked for."""
    if spec.asking is not None and spec.asking.form != "text":
        episode = stated(episode, spec.asking, metric, spec.answer)
    return judgement_key(episode)


def read_judges(run: GradedRun, keys: Collection[int] | None = None) -> list[Judge]:
    """Return the judges of a run with their verdicts; of the answers with these keys, None: of all."""
    folder, found = run.run_folder, []
    for terms in run.record.grading.judged_by:
        for judge, own in zip(terms.jury.judges, judge_folders(folder, terms), strict=True):
            said = {
                key: _verdict(judge.name, grading)
                for key, grading in read_keyed(own)
                if keys is None or key in keys
            }
            found.append(Judge(judge.name, terms, said))
    return found


def _verdict(judge: str, grading: Episode) -> JudgeReply:
    """Return what a judge said: of a jury its scores, of binary criteria each with its explanation."""
    said = explained(grading)
    met = tuple(None if d.is_met is None else int(d.is_met) for d in said)
    scores = grading.state.get("scores")
    return JudgeReply(
        judge=judge,
        ended=end_of(grading),
        ratings=tuple(scores) if scores else met or None,
        reasons=tuple(grading.state.get(REASONS) or (d.explanation for d in said)),
        replies=tuple(call.response.text for call in grading.calls),
    )


def by_call(episode: Episode) -> Iterator[tuple[str, str]]:
    """Yield who said what in an episode of many calls, one reply a call."""
    for call in episode.calls:
        yield call.role, call.response.text


def instances(
    run: GradedRun,
    transcript: Transcript | None = None,
    *,
    has_text: bool,
    metric: Metric | None = None,
    places: Mapping[str, int] | None = None,
    ids: Sequence[str] = (),
    takes: Callable[[MetricLine], bool] = lambda _: True,
    limit: int | None = None,
    named: Callable[[str], str] = str,
) -> tuple[list[Row], int, int]:
    """Return answers of a run by id and repeat; then how many fit whatever the limit, and of how many.

    `transcript` is that of the run's protocol, `metric` its `main_metric`. Without `has_text` all that quotes an instance or a reply
    is None, and the id of an instance is `#` and its place (in `places`, by default in the run). `ids` of instances, none is all; `takes` is asked about the main metric's score of each; `named` returns a metric's name in the record of the one in the scores.
    Raises UnknownName for an id that the run does not have, RecordError where its files cannot be read.
    """
    lines = read_lines(run, named)
    known = places_of([lines])
    hidden = {} if has_text else places or known  # ids may be those of people
    for name in ids:
        if name not in known:
            near = known if has_text else ()
            raise UnknownName("instance", name, near, f"{run.model} was asked {len(known):,}.")
    asked = [key for key in lines.keys if not ids or key[0] in ids]
    fitting = [key for key in asked if takes(lines.found[key].scores[0])]
    keys = dict.fromkeys(fitting[:limit])
    try:
        log = read_log(run.run_folder) if keys else ()
        episodes = {k: e for e in log if (k := (e.instance.id, e.repeat)) in keys}
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{run.folder}: responses.jsonl cannot be read") from None
    if lost := [key for key in keys if key not in episodes]:
        raise RecordError(
            f"{run.folder}: responses.jsonl does not hold {len(lost)} of {len(keys)} answers, such "
            f"as {_named(lost[0][0], hidden)!r}; the same `medhelm run` asks them again"
        )
    judged = {key: judged_key(episodes[key], run.record.spec, metric) for key in keys}
    judges = read_judges(run, {*judged.values()})
    rows = []
    for key in keys:
        episode, line = episodes[key], lines.found[key]
        texts = _texts(episode, line, transcript or by_call)
        said = [(judge.on(judged[key]), judge.asked(episode.instance)) for judge in judges]
        rows.append(
            {
                **{"benchmark": run.benchmark, "model": run.model},
                **{"instance_id": _named(key[0], hidden), "repeat": key[1]},
                **{"score": line.scores[0].value, "outcome": line.scores[0].outcome},
                **(texts if has_text else dict.fromkeys(texts)),
                "judges": [_judge(reply, criteria, has_text) for reply, criteria in said],
                "outcomes": {score.metric: score.outcome for score in line.scores},
                **{score.metric: score.value for score in line.scores},
                **{"finish": episode.finish, "error": episode.error},
                **msgspec.to_builtins(episode.usage),
                **{"latency_s": episode.response.latency_s, "run": run.folder},
            }
        )
    return rows, len(fitting), len(lines.keys)


def places_of(runs: Iterable[Lines]) -> dict[str, int]:
    """Return the place of each instance among those of some runs, from 1."""
    ids = sorted({instance for run in runs for instance, _ in run.keys})
    return {instance: place for place, instance in enumerate(ids, start=1)}


def _named(instance: str, hidden: Mapping[str, int]) -> str:
    return f"#{hidden[instance]}" if hidden else instance


def _texts(episode: Episode, line: Line, transcript: Transcript) -> Row:
    """Return what quotes an instance or a reply, in the order in which a reader wants it."""
    instance, (thoughts, reply) = episode.instance, split_thoughts(episode.text)
    prompt = episode.messages or next((c.messages for c in episode.calls if c.messages), ())
    return {
        "context": instance.context,
        "question": instance.question,
        "choices": instance.choices,
        "prompt": tuple((m.role, m.content) for m in prompt),
        "references": instance.references,
        "criteria": tuple(f"{c.name}: {c.text}" for c in instance.criteria),
        "turns": tuple(transcript(episode)) if episode.calls else (),
        "thoughts": thoughts,
        "reply": reply,
        "read": line.extracted,
        "reasons": {s.metric: s.reason for s in line.scores if s.reason},
    }


def _judge(reply: JudgeReply, criteria: Sequence[str], has_text: bool) -> Row:
    names = [*criteria, *(f"criterion {n}" for n in range(len(criteria), len(reply.ratings or ())))]
    return {
        "judge": reply.judge,
        "ended": reply.ended,
        "ratings": dict(zip(names, reply.ratings or (), strict=False)),
        "reasons": dict(zip(names, reply.reasons, strict=False)) if has_text else None,
        "replies": reply.replies if has_text else None,
    }


def data_class(runs: Iterable[GradedRun]) -> DataClass:
    """Return the strictest class of data that any of some runs states."""
    order = get_args(DataClass)
    return max((run.record.card.data_class for run in runs), key=order.index, default="public")
