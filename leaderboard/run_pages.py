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
from medhelm.tables.instances import Line, Lines, Transcript, read_lines
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Content, Problem
from medhelm_leaderboard.plugin_pages import PluginDetails
from medhelm_leaderboard.texts import (
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
        files += sorted(folder.glob("judges/*/grades.jsonl"))
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
    state = f"The data are {card.data_class}"
    state = state if card.data_class != "public" else "The data are not declared redistributable"
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


def _page(run: GradedRun, own: Lines, ids: Sequence[str]) -> Content:
    """Return one run: its settings, and its lines as lists in one order, without text.

    Ids are those of the source where text is published, else hashes of the whole instance.
    """
    record, spec = run.record, run.record.spec
    found = [own.found[key] for key in own.keys]
    outcomes, outcome = _legend([line.scores[0].outcome for line in found])
    return {
        "benchmark": spec.column,
        "model": spec.model.name,
        "scoring": record.grading.scoring,
        "folder": run.folder,
        "request_hash": record.request_hash,
        "grading_hash": record.grading_hash,
        "state": record.state,
        "instances": record.instances,
        "settings": publish.settings(record),
        "provenance": publish.provenance(record),
        "served": publish.served(record),
        "usage": publish.usage(record.own.usage),
        "judges": [
            {
                "name": judge.model.name,
                "judgements": sorted(judge.ends.items()),
                "input_tokens": judge.usage.input_tokens,
                "output_tokens": judge.usage.output_tokens,
            }
            for judge in record.graders
        ],
        "metrics": [m.name for m in record.grading.metrics],
        "results": [(r.metric, r.value, r.counted, r.scored) for r in record.results],
        "command": publish.run_command(record),  # that makes it again; empty where none can be told
        "parts": record.grading.parts if publish.has_text(record.card) else (),
        "outcomes": outcomes,
        "ids": ids,
        "repeat": [repeat for _, repeat in own.keys] if spec.repeats > 1 else [],
        "part": _parts(record.grading.parts, found) if publish.has_text(record.card) else [],
        "outcome": outcome,  # on the main metric, as places in `outcomes`
        "value": [line.scores[0].value for line in found],
        "answers": [],  # (first line, key) of its shards
        "texts": [],  # (first place, key) of the shards of the benchmark's instances
        "place": [],  # of each line's instance in `texts`; empty: as in the lines
        "note": "",  # the reason, where there is no text
    }


def _legend(values: Sequence[_T]) -> tuple[tuple[_T, ...], tuple[int, ...]]:
    """Return the different values in the order of their first place, and each as such a place."""
    names = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return tuple(names), tuple(names[value] for value in values)


def _parts(parts: Sequence[str], lines: Sequence[Line]) -> list[int]:
    """Return the place of each line's part; -1 where it has none. Empty without parts."""
    names = {part: place for place, part in enumerate(parts)}
    return [names.get(line.part, -1) for line in lines] if parts else []
