"""Instances and answers of one benchmark -> shards that the instance browser loads one at a time.

Instances are stored once for all models, in the order of their ids. Each run has its answers in the
same order. A shard is cut by size, so that one page never loads much.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from medhelm.errors import RecordError
from medhelm.grading.graders.grader import NOT_ASKED, judgement_key
from medhelm.grading.graders.panel import REASONS, end_of, read_gradings
from medhelm.grading.rubric.grader import explained
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import RunRecord
from medhelm.store.records import judge_folders
from medhelm.store.runlog import read_log
from medhelm.tables.study.cells import read_scores
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import AnswerLine, InstanceLine, JudgeReply, MetricLine
from medhelm_leaderboard.plugin_pages import PluginDetails

SHARD = 256 * 1024
"""Bytes of JSON in a shard, but for one instance that is longer."""

_SCORES = ("instance_id", "repeat", "metric", "value", "outcome", "extracted", "reason", "metadata")
_encode = msgspec.json.Encoder().encode

Shards = tuple[tuple[int, str], ...]
"""(first line, key of the data file), in order."""


class Line(NamedTuple):
    """The scores of one answer, the main metric first."""

    extracted: str
    scores: tuple[MetricLine, ...]
    part: str


@dataclass
class Lines:
    """The lines of one run in the order of the site: by id, then repeat."""

    keys: list[tuple[str, int]]
    found: dict[tuple[str, int], Line]


@dataclass
class BenchmarkTexts:
    """Instances of one benchmark as they are seen in its runs."""

    ids: dict[str, int]
    """Id -> place."""
    prompts: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Prompt of each instance as the first model was asked."""
    instances: dict[str, Instance] = field(default_factory=dict)


def read_lines(run: GradedRun) -> Lines:
    """Return what every metric said of every answer of a run; raises RecordError."""
    record = run.record
    main, has_parts = record.grading.metrics[0].name, bool(record.grading.parts)
    found: dict[tuple[str, int], list[MetricLine]] = defaultdict(list)
    about: dict[tuple[str, int], tuple[str, str]] = {}
    public = cache(publish.metric_name)
    for batch in read_scores(run, _SCORES):
        columns = [batch.column(name).to_pylist() for name in _SCORES]
        for instance, repeat, name, value, outcome, read, reason, more in zip(
            *columns, strict=True
        ):
            metric = public(name)
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


def places(runs: Iterable[Lines]) -> BenchmarkTexts:
    """Return the empty texts of a benchmark whose instances are those of all its runs."""
    ids = sorted({instance for run in runs for instance, _ in run.keys})
    return BenchmarkTexts({instance: place for place, instance in enumerate(ids)})


def write_answers(
    site: SiteFolder,
    name: str,
    run: GradedRun,
    lines: Lines,
    texts: BenchmarkTexts,
    details: PluginDetails,
) -> Shards:
    """Write the answers of a run and return its shards; raises RecordError where its log is unread.

    What it sees of instances goes into `texts`.
    """
    folder = run.path.parents[1]
    judged = _judgements(folder, run.record)
    found: dict[tuple[str, int], bytes] = {}
    try:
        for episode in read_log(folder):
            key = (episode.instance.id, episode.response.repeat)
            if key in lines.found:
                prompt = _see(texts, episode)
                found[key] = _encode(_answer(episode, lines.found[key], judged, prompt, details))
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{run.folder}: responses.jsonl cannot be read") from None
    if len(found) < len(lines.keys):
        raise RecordError(
            f"{run.folder}: responses.jsonl holds {len(found)} of {len(lines.keys)} answers"
        )
    return _shards(site, name, [found[key] for key in lines.keys])


def _see(texts: BenchmarkTexts, episode: Episode) -> tuple[tuple[str, str], ...] | None:
    """Keep an instance and its prompt when first seen; return the prompt where it differs."""
    instance = episode.instance
    texts.instances.setdefault(instance.id, instance)
    if not episode.messages:
        return None
    # A system prompt is its owner's: the page of the run names its hash.
    prompt = tuple((m.role, m.content) for m in episode.messages if m.role != "system")
    first = texts.prompts.setdefault(instance.id, prompt)
    return None if first == prompt else prompt


def _answer(
    episode: Episode,
    line: Line,
    judged: Sequence[tuple[str, Mapping[int, JudgeReply]]],
    prompt: tuple[tuple[str, str], ...] | None,
    details: PluginDetails,
) -> AnswerLine:
    response = episode.response
    key = judgement_key(episode) if judged else 0
    return AnswerLine(
        text=response.text,
        finish=response.finish,
        error=response.error,
        extracted=line.extracted,
        scores=line.scores,
        judges=tuple(said.get(key) or _not_asked(judge) for judge, said in judged),
        latency_s=round(response.latency_s, 3),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        prompt=prompt,
        details=details.of_answer(episode, line.scores),
        turns=details.turns(episode),
    )


def _not_asked(judge: str) -> JudgeReply:
    return JudgeReply(judge=judge, ended=NOT_ASKED, ratings=None, reasons=(), replies=())


def _grading(judge: str, grading: Episode) -> JudgeReply:
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


def _judgements(run: Path, record: RunRecord) -> list[tuple[str, Mapping[int, JudgeReply]]]:
    """Return each judge's last judgement of every answer."""
    found: list[tuple[str, Mapping[int, JudgeReply]]] = []
    for terms in record.grading.judged_by:
        for judge, own in zip(terms.jury.judges, judge_folders(run, terms), strict=True):
            gradings = read_gradings(own)
            found.append((judge.name, {key: _grading(judge.name, g) for key, g in gradings}))
    return found


def write_instances(
    site: SiteFolder, name: str, texts: BenchmarkTexts, details: PluginDetails
) -> Shards:
    """Write the instances of a benchmark and return its shards."""
    lines = []
    for i in texts.ids:
        instance = texts.instances.get(i)  # None: only in a run whose log cannot be read
        prompt = texts.prompts.get(i, ())
        lines.append(b"null" if instance is None else _encode(_instance(instance, prompt, details)))
    return _shards(site, name, lines)


def _instance(
    instance: Instance, prompt: tuple[tuple[str, str], ...], details: PluginDetails
) -> InstanceLine:
    own, gold = details.of_instance(instance)
    return InstanceLine(
        id=instance.id,
        context=instance.context,
        question=instance.question,
        choices=instance.choices,
        references=() if gold else instance.references,
        answer_key=() if gold else tuple(instance.answer_key.items()),
        metadata=tuple(instance.metadata.items()),
        criteria=tuple((c.name, c.text) for c in instance.criteria),
        prompt=prompt,
        details=own,
        gold=gold,
    )


def _shards(site: SiteFolder, name: str, lines: Sequence[bytes]) -> Shards:
    """Write encoded lines as shards `name-0`, `name-1`, ..."""
    found = []
    for number, (start, part) in enumerate(_cut(lines)):
        key = f"{name}-{number}"
        site.put_data(key, b"[" + b",".join(part) + b"]")
        found.append((start, key))
    return tuple(found)


def _cut(lines: Sequence[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    start, part, size = 0, list[bytes](), 0
    for number, line in enumerate(lines):
        if part and size + len(line) > SHARD:
            yield start, part
            start, part, size = number, [], 0
        part.append(line)
        size += len(line)
    if part:
        yield start, part
