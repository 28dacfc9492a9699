"""The pages of the runs of one benchmark: scores of every answer, and the texts that may be shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from medhelm.errors import RecordError
from medhelm.schema.page import Page
from medhelm.schema.run import BenchmarkCard
from medhelm.tables.instances import Line, Lines, Transcript, read_lines
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import JudgeLine, Problem, RunPage
from medhelm_leaderboard.plugin_pages import PluginDetails
from medhelm_leaderboard.texts import (
    BenchmarkTexts,
    Shards,
    places,
    write_answers,
    write_instances,
)

_T = TypeVar("_T")


def short_hash(*names: str) -> str:
    """Return 12 hex digits for names: data files bear no name that data could choose."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:12]


def run_key(scoring: str, benchmark: str, model: str) -> str:
    """Return the key of the page of a run."""
    return f"run-{short_hash(scoring, benchmark)}-{short_hash(model)}"


def fingerprint(runs: Iterable[GradedRun], secret: str) -> str:
    """Return a hash of all that the pages of these runs are made of.

    `secret`: the mark of the key of published hashes, empty where none is published.
    """
    found = hashlib.sha256(secret.encode())
    for own in runs:
        folder = own.path.parents[1]
        files = [own.path / "scores.parquet", folder / "responses.jsonl"]
        files += sorted(folder.glob("*/*/responses.jsonl"))
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
    readable = [run for run in runs if run.model in lines]
    if publish.has_text(runs[0].record.card):
        return problems + _write_open(site, readable, lines, PluginDetails(pages, transcript))
    _write_hidden(site, readable, lines, publish.publishing_key(results))
    return problems


def _write_hidden(
    site: SiteFolder, runs: Sequence[GradedRun], lines: Mapping[str, Lines], key: bytes
) -> None:
    for run in runs:
        own, card = lines[run.model], run.record.card
        ids = {i: publish.hashed_id(key, card.name, i) for i, _ in own.keys}
        own.keys.sort(key=lambda k: (ids[k[0]], k[1]))  # the order of ids would reveal them
        page = _page(run, own, [ids[i] for i, _ in own.keys], note=_why_hidden(card))
        site.put_data(_key(run), page)


def _write_open(
    site: SiteFolder,
    runs: Sequence[GradedRun],
    lines: Mapping[str, Lines],
    details: PluginDetails,
) -> list[Problem]:
    problems = []
    texts = places(lines.values())
    answers: dict[str, Shards] = {}
    for run in runs:
        name = _key(run).replace("run-", "answers-", 1)
        try:
            answers[run.model] = write_answers(site, name, run, lines[run.model], texts, details)
        except RecordError:
            what = "its answers cannot be read; its page shows scores without text"
            problems.append(Problem(where=run.folder, what=what))
    scoring = runs[0].record.grading.scoring
    group = short_hash(scoring, runs[0].benchmark)
    shards = write_instances(site, f"text-{group}", texts, details) if answers else ()
    for run in runs:
        page = _with_text(run, lines[run.model], answers.get(run.model, ()), shards, texts)
        site.put_data(_key(run), page)
    return problems + details.problems


def _key(run: GradedRun) -> str:
    return run_key(run.record.grading.scoring, run.benchmark, run.model)


def _why_hidden(card: BenchmarkCard) -> str:
    if card.data_class != "public":
        return f"The data are {card.data_class}: scores and hashes only."
    return "The data are not declared redistributable: scores and hashes only."


def _with_text(
    run: GradedRun, own: Lines, answers: Shards, shards: Shards, texts: BenchmarkTexts
) -> RunPage:
    place = tuple(texts.ids[i] for i, _ in own.keys)
    return _page(
        run,
        own,
        [i for i, _ in own.keys],
        answers=answers,
        texts=shards,
        place=() if place == tuple(range(len(place))) else place,
        note="" if answers else "The answers of this run cannot be read: scores only.",
    )


def _page(
    run: GradedRun,
    own: Lines,
    ids: Sequence[str],
    *,
    answers: Shards = (),
    texts: Shards = (),
    place: tuple[int, ...] = (),
    note: str = "",
) -> RunPage:
    record, spec = run.record, run.record.spec
    found = [own.found[key] for key in own.keys]
    outcomes, outcome = _legend([line.scores[0].outcome for line in found])
    return RunPage(
        benchmark=spec.column,
        model=spec.model.name,
        scoring=record.grading.scoring,
        folder=run.folder,
        request_hash=record.request_hash,
        grading_hash=record.grading_hash,
        state=record.state,
        instances=record.instances,
        settings=tuple(publish.settings(record)),
        provenance=tuple(publish.provenance(record)),
        served=tuple(publish.served(record)),
        usage=tuple(publish.usage(record.own.usage)),
        judges=tuple(
            JudgeLine(
                name=judge.model.name,
                judgements=tuple(sorted(judge.ends.items())),
                input_tokens=judge.usage.input_tokens,
                output_tokens=judge.usage.output_tokens,
            )
            for judge in record.graders
        ),
        metrics=tuple(m.name for m in record.grading.metrics),
        results=tuple((r.metric, r.value, r.counted, r.scored) for r in record.results),
        command=publish.run_command(record),
        parts=record.grading.parts if publish.has_text(record.card) else (),
        outcomes=outcomes,
        ids=tuple(ids),
        repeat=tuple(repeat for _, repeat in own.keys) if spec.repeats > 1 else (),
        part=_parts(record.grading.parts, found) if publish.has_text(record.card) else (),
        outcome=outcome,
        value=tuple(line.scores[0].value for line in found),
        answers=answers,
        texts=texts,
        place=place,
        note=note,
    )


def _legend(values: Sequence[_T]) -> tuple[tuple[_T, ...], tuple[int, ...]]:
    """Return the different values in the order of their first place, and each as such a place."""
    names = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return tuple(names), tuple(names[value] for value in values)


def _parts(parts: Sequence[str], lines: Sequence[Line]) -> tuple[int, ...]:
    """Return the place of each line's part; -1 where it has none. Empty without parts."""
    if not parts:
        return ()
    names = {part: place for place, part in enumerate(parts)}
    return tuple(names.get(line.part, -1) for line in lines)
