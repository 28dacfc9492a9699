"""Instances and answers of one benchmark -> shards that the instance browser loads one at a time.

Instances are stored once for all models, in the order of their ids. Each run has its answers in the
same order. A shard is cut by size, so that one page never loads much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from medhelm.errors import RecordError
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.store.runlog import read_log
from medhelm.tables.instances import JudgeReply, Line, Lines, judged_key, main_metric, read_judges
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import AnswerLine, InstanceLine
from medhelm_leaderboard.plugin_pages import PluginDetails

SHARD = 256 * 1024
"""Bytes of JSON in a shard, but for one instance that is longer."""

_encode = msgspec.json.Encoder().encode

Shards = tuple[tuple[int, str], ...]
"""(first line, key of the data file), in order."""


@dataclass
class BenchmarkTexts:
    """Instances of one benchmark as they are seen in its runs."""

    ids: dict[str, int]
    """Id -> place."""
    prompts: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Prompt of each instance as the first model was asked."""
    instances: dict[str, Instance] = field(default_factory=dict)


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
    judges, spec, metric = read_judges(run), run.record.spec, main_metric(run.record, load_registry)
    has_prompt = publish.has_prompt(spec)
    found: dict[tuple[str, int], bytes] = {}
    try:
        for episode in read_log(run.path.parents[1]):
            key = (episode.instance.id, episode.response.repeat)
            if key in lines.found:
                prompt = _see(texts, episode, has_prompt=has_prompt)
                judged = judged_key(episode, spec, metric) if judges else 0
                said = tuple(judge.on(judged) for judge in judges)
                found[key] = _encode(_answer(episode, lines.found[key], said, prompt, details))
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{run.folder}: responses.jsonl cannot be read") from None
    if len(found) < len(lines.keys):
        raise RecordError(
            f"{run.folder}: responses.jsonl holds {len(found)} of {len(lines.keys)} answers"
        )
    return _shards(site, name, [found[key] for key in lines.keys])


def _see(
    texts: BenchmarkTexts, episode: Episode, *, has_prompt: bool
) -> tuple[tuple[str, str], ...] | None:
    """Keep an instance and its prompt when first seen; return the prompt where it differs."""
    instance = episode.instance
    texts.instances.setdefault(instance.id, instance)
    if not (episode.messages and has_prompt):
        return None
    # A system prompt is its owner's: the page of the run names its hash.
    prompt = tuple((m.role, m.content) for m in episode.messages if m.role != "system")
    first = texts.prompts.setdefault(instance.id, prompt)
    return None if first == prompt else prompt


def _answer(
    episode: Episode,
    line: Line,
    judges: tuple[JudgeReply, ...],
    prompt: tuple[tuple[str, str], ...] | None,
    details: PluginDetails,
) -> AnswerLine:
    response = episode.response
    return AnswerLine(
        text=response.text,
        finish=response.finish,
        error=response.error,
        extracted=line.extracted,
        scores=line.scores,
        judges=judges,
        latency_s=round(response.latency_s, 3),
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        prompt=prompt,
        details=details.of_answer(episode, line.scores),
        turns=details.turns(episode),
    )


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
