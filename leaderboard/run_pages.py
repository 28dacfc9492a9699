"""The pages of the runs of one benchmark: scores of every answer, and the texts that may be shown.

Instances are stored once for all models, in the order of their ids, and each run has its answers in
the same order: as shards that are cut by size, so that one page never loads much.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from medhelm.errors import RecordError
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.page import Page
from medhelm.schema.run import fields_of
from medhelm.store.runlog import read_log
from medhelm.tables.instances import (
    JudgeReply,
    Line,
    Lines,
    Transcript,
    judged_key,
    main_metric,
    read_judges,
    read_lines,
)
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import own_words, publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Content, Problem
from medhelm_leaderboard.plugin_pages import PluginDetails

SHARD = 256 * 1024
"""Bytes of JSON in a shard, but for one instance that is longer."""

_encode = msgspec.json.Encoder().encode

Shards = tuple[tuple[int, str], ...]
"""(first line, key of the data file), in order."""


def short_hash(*names: str) -> str:
    """Return 12 hex digits for names: data files bear no name that data could choose."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:12]


def run_key(scoring: str, benchmark: str, model: str) -> str:
    """Return the key of the page of a run."""
    return f"run-{short_hash(scoring, benchmark)}-{short_hash(model)}"


def fingerprint(runs: Iterable[GradedRun], secret: str) -> str:
    """Return a hash of all that the pages of these runs are made of."""
    found = hashlib.sha256(secret.encode())
    for own in runs:
        folder = own.run_folder
        files = [own.path / "scores.parquet", folder / "responses.jsonl"]
        files += sorted(folder.glob("*/*/responses.jsonl"))  # of judges and graders
        found.update(msgspec.json.encode(own.record))
        found.update(repr([own.folder, *map(_stat, files)]).encode())
    return found.hexdigest()


def _stat(path: Path) -> tuple[str, int, int]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return path.name, -1, -1
    return path.name, stat.st_size, stat.st_mtime_ns


def write_runs(
    site: SiteFolder,
    runs: Sequence[GradedRun],
    results: Path,
    pages: Iterable[Page] = (),
    transcript: Transcript | None = None,
) -> list[Problem]:
    """Write the pages of the runs of one benchmark and scoring; return what cannot be read."""
    lines: dict[str, Lines] = {}
    problems: list[Problem] = []
    for run in runs:
        try:
            lines[run.model] = read_lines(run, publish.metric_name)
        except RecordError:
            problems.append(Problem(where=run.folder, what="its scores.parquet is damaged"))
    readable, card = [run for run in runs if run.model in lines], runs[0].record.card
    if publish.has_text(card):
        return problems + _write_open(site, readable, lines, PluginDetails(pages, transcript))
    secret = publish.publishing_key(results)
    state = publish.why_closed(runs[0].record)
    for run in readable:
        own = lines[run.model]
        ids = {i: publish.hashed_id(secret, card.name, i) for i, _ in own.keys}
        own.keys.sort(key=lambda k: (ids[k[0]], k[1]))  # the order of ids would reveal them
        page = _page(run, own, [ids[i] for i, _ in own.keys])
        site.put_data(_key(run), page | {"note": f"{state}: scores and hashes only."})
    return problems


def _write_open(
    site: SiteFolder,
    runs: Sequence[GradedRun],
    lines: Mapping[str, Lines],
    details: PluginDetails,
) -> list[Problem]:
    problems = []
    ids = sorted({instance for own in lines.values() for instance, _ in own.keys})
    texts = _Texts({instance: place for place, instance in enumerate(ids)})
    answers: dict[str, Shards] = {}
    for run in runs:
        name = _key(run).replace("run-", "answers-", 1)
        try:
            answers[run.model] = _write_answers(site, name, run, lines[run.model], texts, details)
        except RecordError:
            what = "its answers cannot be read; its page shows scores without text"
            problems.append(Problem(where=run.folder, what=what))
    scoring = runs[0].record.grading.scoring
    group = short_hash(scoring, runs[0].benchmark)
    instances = (_instance(i, texts, details) for i in texts.ids)
    shards = _shards(site, f"text-{group}", [*map(_encode, instances)]) if answers else ()
    for run in runs:
        ids = [i for i, _ in lines[run.model].keys]
        place = [texts.ids[i] for i in ids]
        own = {
            "answers": answers.get(run.model, ()),
            "texts": shards,
            "place": [] if place == [*range(len(place))] else place,
            "note": ""
            if run.model in answers
            else "The answers of this run cannot be read: scores only.",
        }
        site.put_data(_key(run), _page(run, lines[run.model], ids) | own)
    return problems + details.problems


def _key(run: GradedRun) -> str:
    return run_key(run.record.grading.scoring, run.benchmark, run.model)


def facts_of(run: GradedRun) -> Content:
    """Return what decided a run and what came of it, without a line of any instance."""
    record, spec = run.record, run.record.spec
    return {
        "benchmark": spec.column,
        "model": spec.model.name,
        "scoring": record.grading.scoring,
        "folder": run.folder,
        **fields_of(record, "request_hash", "grading_hash", "state", "instances"),
        "settings": publish.settings(record),
        "provenance": publish.provenance(record),
        "served": publish.served(record),
        "usage": publish.usage(record.own.usage),
        "judges": [
            {
                "name": judge.model.name,
                "judgements": sorted(judge.ends.items()),
                **fields_of(judge.usage, "input_tokens", "output_tokens"),
            }
            for judge in record.graders
        ],
        "metrics": [m.name for m in record.grading.metrics],
        "results": [(r.metric, r.value, r.counted, r.scored) for r in record.results],
        "command": own_words.run_command(record),  # that makes it again
    }


def _page(run: GradedRun, own: Lines, ids: Sequence[str]) -> Content:
    """Return one run: its settings, and its lines as lists in one order, without text.

    Ids are those of the source where text is published, else hashes of the whole instance.
    """
    record, spec = run.record, run.record.spec
    found = [own.found[key] for key in own.keys]
    ends = [line.scores[0].outcome for line in found]
    outcomes = [*dict.fromkeys(ends)]
    parts = record.grading.parts if publish.has_text(record.card) else ()
    places = {part: place for place, part in enumerate(parts)}
    return facts_of(run) | {
        "parts": parts,
        "outcomes": outcomes,
        "ids": ids,
        "repeat": [repeat for _, repeat in own.keys] if spec.repeats > 1 else [],
        "part": [places.get(line.part, -1) for line in found] if parts else [],
        "outcome": [outcomes.index(end) for end in ends],  # on the main metric
        "value": [line.scores[0].value for line in found],
        "answers": [],  # (first line, key) of its shards
        "texts": [],  # (first place, key) of the shards of the benchmark's instances
        "place": [],  # of each line's instance in `texts`; empty: as in the lines
        "note": "",  # the reason, where there is no text
    }


# Texts -------------------------------------------------------------------------------------------


@dataclass
class _Texts:
    """Instances of one benchmark as they are seen in its runs."""

    ids: dict[str, int]
    """Id -> place."""
    prompts: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """Prompt of each instance as the first model was asked."""
    instances: dict[str, Instance] = field(default_factory=dict)


def _write_answers(
    site: SiteFolder,
    name: str,
    run: GradedRun,
    lines: Lines,
    texts: _Texts,
    details: PluginDetails,
) -> Shards:
    """Write the answers of a run and return its shards; what it sees of instances goes into `texts`."""
    judges, spec, metric = read_judges(run), run.record.spec, main_metric(run.record, load_registry)
    has_prompt = own_words.is_prompt_packaged(spec)
    found: dict[tuple[str, int], bytes] = {}
    try:
        for episode in read_log(run.run_folder):
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
    texts: _Texts, episode: Episode, *, has_prompt: bool
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
) -> Content:
    response = episode.response
    return {
        **fields_of(response, "text", "finish", "error"),
        **fields_of(line, "extracted", "scores"),
        "judges": judges,
        "latency_s": round(response.latency_s, 3),
        **fields_of(response.usage, "input_tokens", "output_tokens"),
        "prompt": prompt,  # where it differs from the instance's
        **details.of_answer(episode, line.scores),
    }


def _instance(name: str, texts: _Texts, details: PluginDetails) -> Content | None:
    """Return an instance with its prompt; None where it is only in a run whose log cannot be read."""
    if (instance := texts.instances.get(name)) is None:
        return None
    own = details.of_instance(instance)
    is_shown = "gold" in own  # by a page of a plugin, in place of references and answer key
    return {
        **fields_of(instance, "id", "context", "question", "choices"),
        "references": () if is_shown else instance.references,
        "answer_key": () if is_shown else tuple(instance.answer_key.items()),
        "metadata": tuple(instance.metadata.items()),
        "criteria": tuple((c.name, c.text) for c in instance.criteria),
        "prompt": texts.prompts.get(name, ()),  # as models are asked; empty: only baselines ran
        **own,
    }


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
