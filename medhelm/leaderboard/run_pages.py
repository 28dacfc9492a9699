"""The pages of the runs of one benchmark: scores of every answer, and the texts that may be shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from medhelm.errors import RecordError
from medhelm.leaderboard import publish
from medhelm.leaderboard.files import SiteFolder
from medhelm.leaderboard.pages import JudgeLine, Problem, RunPage
from medhelm.leaderboard.texts import (
    BenchmarkTexts,
    Line,
    Lines,
    Shards,
    places,
    read_lines,
    write_answers,
    write_instances,
)
from medhelm.schema import BenchmarkCard
from medhelm.tables.cells import Cell

_T = TypeVar("_T")


def short_hash(*names: str) -> str:
    """Return 12 hex digits for names: data files bear no name that data could choose."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:12]


def run_key(scoring: str, benchmark: str, model: str) -> str:
    """Return the key of the page of a run."""
    return f"run-{short_hash(scoring, benchmark)}-{short_hash(model)}"


def fingerprint(cells: Sequence[Cell]) -> str:
    """Return a hash of all that the pages of these runs are made of."""
    found = hashlib.sha256()
    for cell in cells:
        run = cell.run.path.parents[1]
        files = [cell.run.path / "scores.parquet", run / "responses.jsonl"]
        files += sorted(run.glob("judges/*/grades.jsonl"))
        found.update((cell.run.path / "summary.json").read_bytes())
        found.update(repr([cell.run.folder, *map(_stat, files)]).encode())
    return found.hexdigest()


def _stat(path: Path) -> tuple[str, int, int]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return path.name, -1, -1
    return path.name, stat.st_size, stat.st_mtime_ns


def write_runs(
    site: SiteFolder,
    scoring: str,
    cells: Mapping[str, Cell],
    results: Path,
    problems: list[Problem],
) -> None:
    """Write the pages of the runs of one benchmark; what cannot be read is said in `problems`."""
    some = next(iter(cells.values()))
    card = some.record.card
    group = short_hash(scoring, card.name)
    lines: dict[str, Lines] = {}
    for model, cell in cells.items():
        try:
            lines[model] = read_lines(cell)
        except RecordError:
            problems.append(Problem(where=cell.run.folder, what="its scores.parquet is damaged"))
    if not publish.has_text(card):
        key = publish.publishing_key(results)
        for model, own in lines.items():
            ids = {i: publish.hashed_id(key, card.name, i) for i, _ in own.keys}
            own.keys.sort(key=lambda k: (ids[k[0]], k[1]))  # the order of ids would tell of them
            page = _page(cells[model], own, [ids[i] for i, _ in own.keys], note=_why_hidden(card))
            site.put_data(run_key(scoring, card.name, model), page)
        return
    texts = places(lines.values())
    answers: dict[str, Shards] = {}
    for model, own in lines.items():
        name = f"answers-{group}-{short_hash(model)}"
        try:
            answers[model] = write_answers(site, name, cells[model], own, texts)
        except RecordError:
            what = "its answers cannot be read; the page shows scores without text"
            problems.append(Problem(where=cells[model].run.folder, what=what))
    shards = write_instances(site, f"text-{group}", texts) if answers else ()
    for model, own in lines.items():
        page = _with_text(cells[model], own, answers.get(model, ()), shards, texts)
        site.put_data(run_key(scoring, card.name, model), page)


def _why_hidden(card: BenchmarkCard) -> str:
    if card.data_class != "public":
        return f"The data are {card.data_class}: scores and hashes only."
    return "The licence of the data does not allow to publish their text: scores and hashes only."


def _with_text(
    cell: Cell, own: Lines, answers: Shards, shards: Shards, texts: BenchmarkTexts
) -> RunPage:
    place = tuple(texts.ids[i] for i, _ in own.keys)
    return _page(
        cell,
        own,
        [i for i, _ in own.keys],
        answers=answers,
        texts=shards,
        place=() if place == tuple(range(len(place))) else place,
        note="" if answers else "The answers of this run cannot be read: scores only.",
    )


def _page(
    cell: Cell,
    own: Lines,
    ids: Sequence[str],
    *,
    answers: Shards = (),
    texts: Shards = (),
    place: tuple[int, ...] = (),
    note: str = "",
) -> RunPage:
    record, spec = cell.record, cell.record.spec
    found = [own.found[key] for key in own.keys]
    outcomes, outcome = _legend([line.scores[0].outcome for line in found])
    return RunPage(
        benchmark=spec.benchmark,
        model=spec.model.name,
        scoring=record.grading.scoring,
        folder=cell.run.folder,
        request_hash=record.request_hash,
        grading_hash=record.grading_hash,
        state=record.state,
        instances=record.instances,
        settings=tuple(publish.settings(record)),
        provenance=tuple(publish.provenance(record)),
        served=tuple(publish.served(record)),
        usage=tuple(publish.usage(record.usage)),
        judges=tuple(
            JudgeLine(
                name=judge.judge.name,
                judgements=tuple(sorted(judge.judgements.items())),
                input_tokens=judge.usage.input_tokens,
                output_tokens=judge.usage.output_tokens,
            )
            for judge in record.judges
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
