"""Stored answers as a reader looks at them: what was asked, the reply, what was read of it, its scores and verdicts."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import msgspec

from medhelm.data.rubrics import criteria_of
from medhelm.errors import RecordError, UnknownName
from medhelm.extract.marks import split_thoughts
from medhelm.grading.graders.grader import NOT_ASKED, judgement_key
from medhelm.grading.graders.panel import REASONS, end_of, read_gradings
from medhelm.grading.rubric.grader import explained
from medhelm.schema.data import DataClass, Instance
from medhelm.schema.episode import Episode, Message
from medhelm.schema.run import GraderTerms, JuryTerms
from medhelm.schema.score import Outcome
from medhelm.store.records import judge_folders
from medhelm.store.runlog import read_log
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.selection import GradedRun

if TYPE_CHECKING:
    import pandas as pd

_SCORES = ("instance_id", "repeat", "metric", "value", "outcome", "extracted", "reason", "metadata")

Key = tuple[str, int]
"""Id of an instance, and the place of the repeat."""
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
                about[key] = (read or "", _part(more) if has_parts else "")
            else:
                found[key].append(line)
    lines = {k: Line(about[k][0], tuple(found[k]), about[k][1]) for k in about}
    return Lines(sorted(lines), lines)


def _part(metadata: str | None) -> str:
    return str(json.loads(metadata or "{}").get("part", ""))


@dataclass(frozen=True)
class Judge:
    """One judge of a run, and its last verdict on each answer."""

    name: str
    terms: JuryTerms | GraderTerms
    said: Mapping[int, JudgeReply]
    """By `judgement_key`."""

    def on(self, key: int) -> JudgeReply:
        """Return its verdict on the answer with a `judgement_key`, or that it was not asked."""
        return self.said.get(key) or JudgeReply(
            judge=self.name, ended=NOT_ASKED, ratings=None, reasons=(), replies=()
        )

    def asked(self, instance: Instance) -> tuple[str, ...]:
        """Return the names of the criteria that its ratings are of, in their order."""
        if isinstance(self.terms, JuryTerms):
            return tuple(c.name for c in criteria_of(self.terms.rubric, instance))
        return tuple(c.name for c in instance.criteria)


def read_judges(run: GradedRun, keys: Collection[int] | None = None) -> list[Judge]:
    """Return the judges of a run with their verdicts; of the answers with these keys, None: of all."""
    folder, found = run.path.parents[1], []
    for terms in run.record.grading.judged_by:
        for judge, own in zip(terms.jury.judges, judge_folders(folder, terms), strict=True):
            said = {
                key: _verdict(judge.name, grading)
                for key, grading in read_gradings(own)
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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One stored answer with all that is known of it."""

    run: GradedRun
    episode: Episode
    line: Line
    judges: tuple[tuple[JudgeReply, tuple[str, ...]], ...]
    """Each judge's verdict, and the criteria that its ratings are of."""
    turns: tuple[tuple[str, str], ...]
    """(who, text) of an episode of many calls."""

    @property
    def prompt(self) -> tuple[Message, ...]:
        """Return what the model under test was sent first; empty for a rule, which is handed the instance."""
        first = next((c.messages for c in self.episode.calls if c.messages), ())
        return self.episode.messages or first

    @property
    def thoughts(self) -> str:
        """Return what of the reply's text are thoughts."""
        return split_thoughts(self.episode.text)[0]

    @property
    def reply(self) -> str:
        """Return what of the reply's text are no thoughts."""
        return split_thoughts(self.episode.text)[1]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which answers of a run are looked at."""

    ids: Sequence[str] = ()
    """Of instances; none: all."""
    outcomes: Collection[Outcome] = ()
    """By the main metric; none: all."""
    score: tuple[float, float] | None = None
    """Lowest and highest value of the main metric."""
    limit: int | None = None

    def takes(self, key: Key, line: Line) -> bool:
        """Return whether an answer is one of these, whatever the limit."""
        main = line.scores[0]
        if self.ids and key[0] not in self.ids:
            return False
        if self.outcomes and main.outcome not in self.outcomes:
            return False
        if self.score is None:
            return True
        low, high = self.score
        return main.value is not None and low - _SLACK <= main.value <= high + _SLACK


_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of a run that were looked for."""

    shown: list[Answer]
    found: int
    """Those that fit, before the limit."""
    total: int
    unread: int
    """Those to be shown whose text the log does not hold any more."""


def instances(
    run: GradedRun, wanted: Wanted | None = None, transcript: Transcript | None = None
) -> Answers:
    """Return the answers of a run by id and repeat, with the verdicts of all judges.

    `transcript` is that of the run's protocol. Raises UnknownName for an id that the run does not
    have, RecordError where its files cannot be read.
    """
    wanted, lines = wanted or Wanted(), read_lines(run)
    known = dict.fromkeys(instance for instance, _ in lines.keys)
    for name in wanted.ids:
        if name not in known:
            hint = f"{run.benchmark} x {run.model} has {len(known):,} instances."
            # ids of data that are not public may be those of people
            raise UnknownName("instance", name, known if is_public([run]) else (), hint)
    fitting = [key for key in lines.keys if wanted.takes(key, lines.found[key])]
    keys = dict.fromkeys(fitting[: wanted.limit])
    try:
        log = read_log(run.path.parents[1]) if keys else ()
        episodes = {k: e for e in log if (k := (e.instance.id, e.repeat)) in keys}
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{run.folder}: responses.jsonl cannot be read") from None
    judged = {key: judgement_key(episode) for key, episode in episodes.items()}
    judges = read_judges(run, {*judged.values()})
    shown = [
        Answer(
            run=run,
            episode=episode,
            line=lines.found[key],
            judges=tuple((j.on(judged[key]), j.asked(episode.instance)) for j in judges),
            turns=tuple((transcript or by_call)(episode)) if episode.calls else (),
        )
        for key in keys
        if (episode := episodes.get(key)) is not None
    ]
    return Answers(
        shown=shown, found=len(fitting), total=len(lines.keys), unread=len(keys) - len(shown)
    )


def data_class(runs: Iterable[GradedRun]) -> DataClass:
    """Return the strictest class of data that any of some runs states."""
    order = get_args(DataClass)
    return max((run.record.card.data_class for run in runs), key=order.index, default="public")


def is_public(runs: Iterable[GradedRun]) -> bool:
    """Return whether the texts of some runs are of public data."""
    return data_class(runs) == "public"


def frame_of(answers: Iterable[Answer], *, has_text: bool) -> pd.DataFrame:
    """Return a DataFrame with a row an answer; without `has_text` its columns of texts are missing."""
    import pandas as pd

    rows = [_row(answer, has_text) for answer in answers]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["instance_id", "score", "outcome"])


def _row(answer: Answer, has_text: bool) -> dict[str, Any]:
    episode, main = answer.episode, answer.line.scores[0]
    instance, response = episode.instance, episode.response
    texts = {
        "read": answer.line.extracted,
        "reason": main.reason,
        "context": instance.context,
        "question": instance.question,
        "choices": instance.choices,
        "references": instance.references,
        "prompt": tuple((m.role, m.content) for m in answer.prompt),
        "reply": answer.reply,
        "thoughts": answer.thoughts,
        "turns": answer.turns,
        "judges": [msgspec.to_builtins(said) | {"criteria": c} for said, c in answer.judges],
    }
    return {
        "benchmark": answer.run.benchmark,
        "model": answer.run.model,
        "instance_id": instance.id,
        "repeat": episode.repeat,
        "metric": main.metric,
        "score": main.value,
        "outcome": main.outcome,
        **(texts if has_text else dict.fromkeys(texts)),
        "finish": response.finish,
        "error": response.error,
        "input_tokens": response.usage.input_tokens,
        "output_tokens": response.usage.output_tokens,
        "latency_s": response.latency_s,
        "run": answer.run.folder,
        **{line.metric: line.value for line in answer.line.scores[1:]},
    }
