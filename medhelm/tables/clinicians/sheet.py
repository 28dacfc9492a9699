"""The blinded rating sheet: a seeded, stratified sample of stored answers, and its key.

Per benchmark, as many answers of each third of the jury's scores. Items have opaque names in an
order without information. Their meaning is in the key, a file of its own.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from medhelm.errors import PrivacyRefused, RecordError, UsageError
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.schema.episode import Episode
from medhelm.schema.run import RunRecord
from medhelm.schema.score import Scoring
from medhelm.store.records import instance_key, order_key, read_plan
from medhelm.store.runlog import read_episodes
from medhelm.tables.clinicians.rated_answers import RunScores, check_one_jury, graded_runs, read_run
from medhelm.tables.clinicians.ratings import Key, KeyItem, key_path
from medhelm.tables.format.spreadsheet import refuse_present, to_csv, write_whole
from medhelm.tables.study.selection import Data, choose_runs, is_ranked

PER_BENCHMARK = 30
THIRDS = 3

_CASE = ("item", "rater", "benchmark", "task", "context", "question", "answer")
_NOT_RATED = "n/a"


@dataclass(frozen=True)
class Sheet:
    """Names the files that were written."""

    path: Path
    key: Path
    counts: Mapping[str, int]
    """Items by benchmark."""
    records: tuple[RunRecord, ...]
    """Records of the runs that were drawn from."""
    damaged: tuple[str, ...] = ()
    """Runs that could not be drawn from."""


@dataclass(frozen=True)
class _Candidate:
    """An answer that may be drawn."""

    own: RunScores
    key: int
    repeat: int
    score: float


def write_sheet(
    path: Path,
    results_dir: Path,
    *,
    per_benchmark: int = PER_BENCHMARK,
    seed: int = 0,
    text_of: Collection[str] = (),
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    benchmarks: Sequence[str] = (),
    models: Sequence[str] = (),
) -> Sheet:
    """Write a sheet and its key, both readable by their owner alone, and return what is in it.

    Models that read the gold are left out unless named. `text_of`: data classes besides public
    whose text may be written. Raises PrivacyRefused for others, UsageError where there is nothing
    to rate or a file is in the way, RecordError where one cannot be written.
    """
    key = key_path(path)
    refuse_present(path, key)
    runs, damaged = graded_runs(results_dir)
    if not benchmarks:
        runs = [r for r in runs if r.record.grading.jury is not None]
    if not models:
        runs = [r for r in runs if is_ranked(r.record.spec.model)]
    if not runs:
        raise UsageError(
            f"no run below {results_dir} has jury scores: ratings are of open-ended benchmarks"
        )
    chosen = choose_runs(
        runs, data=data, scoring=scoring, latest=latest, benchmarks=benchmarks, models=models
    )
    for run in chosen.runs:
        check_privacy(run.record, text_of)
    scores = [read_run(run) for run in chosen.runs]
    check_one_jury(scores)
    drawn = _draw(scores, per_benchmark, seed)
    if not drawn:
        raise UsageError("no answer has a score of the jury: there is nothing to rate")
    items, lines = _fill(drawn, seed)
    write_whole(path, to_csv([*_CASE, *_criteria(scores)], lines, _NOT_RATED))
    write_whole(
        key, msgspec.json.format(msgspec.json.encode(Key(seed=seed, items=items)), indent=1)
    )
    counts: dict[str, int] = defaultdict(int)
    for candidate in drawn:
        counts[candidate.own.run.benchmark] += 1
    return Sheet(path, key, dict(counts), tuple(s.run.record for s in scores), tuple(damaged))


def check_privacy(record: RunRecord, text_of: Collection[str]) -> None:
    """Raise PrivacyRefused for a benchmark whose text may not be written."""
    data_class = record.card.data_class
    if data_class != "public" and data_class not in text_of:
        raise PrivacyRefused(
            f"benchmark {record.card.name!r} is {data_class}: a sheet with its text is written only "
            f"with --text-of {data_class}; --benchmark chooses others"
        )


def _draw(scores: Iterable[RunScores], per_benchmark: int, seed: int) -> list[_Candidate]:
    """Return the drawn answers, benchmark by benchmark, each in an order that depends on the seed."""
    by_benchmark: dict[str, list[_Candidate]] = defaultdict(list)
    for own in scores:
        for (key, repeat), place in own.places.items():
            score = float(own.values[JURY][place])
            if not np.isnan(score):
                by_benchmark[own.run.benchmark].append(_Candidate(own, key, repeat, score))

    def chance(candidate: _Candidate) -> int:
        model = candidate.own.run.model
        return order_key(seed, f"{model}\0{candidate.key}\0{candidate.repeat}")

    found = []
    for _, candidates in sorted(by_benchmark.items()):
        candidates.sort(key=lambda c: (c.score, chance(c)))
        ends = [len(candidates) * i // THIRDS for i in range(THIRDS + 1)]
        thirds = [sorted(candidates[a:b], key=chance) for a, b in zip(ends, ends[1:], strict=False)]
        rounds = [c for i in range(per_benchmark) for third in thirds for c in third[i : i + 1]]
        found += sorted(rounds[:per_benchmark], key=chance)
    return found


def _fill(
    drawn: Sequence[_Candidate], seed: int
) -> tuple[dict[str, KeyItem], list[dict[str, str]]]:
    """Return the key's items and the sheet's rows."""
    episodes = _episodes(drawn)
    stands_for = []
    for candidate in drawn:
        run = candidate.own.run
        episode = episodes[run.folder, candidate.key, candidate.repeat]
        stands_for.append(
            KeyItem(
                benchmark=run.benchmark,
                model=run.model,
                instance=episode.instance.id,
                repeat=candidate.repeat,
                run=run.record.request_hash,
            )
        )
    # no two sheets share names of items, so that no key is taken for that of another sheet
    mark = hashlib.sha256(msgspec.json.encode([seed, stands_for])).hexdigest()[:6]
    items, lines = {}, []
    for number, (candidate, item) in enumerate(zip(drawn, stands_for, strict=True), 1):
        run = candidate.own.run
        episode = episodes[run.folder, candidate.key, candidate.repeat]
        if episode.instance.criteria:
            raise UsageError(
                f"{run.benchmark}: its instances are rated by criteria of their own, which the "
                "columns of a sheet cannot hold; --benchmark chooses others"
            )
        name = f"{mark}-{number:03d}"
        items[name] = item
        own = {c.name for c in candidate.own.terms.rubric.criteria}
        lines.append(
            {
                "item": name,
                "rater": "",
                "benchmark": run.record.card.title or run.benchmark,
                "task": run.record.card.instruction,
                "context": episode.instance.context,
                "question": episode.instance.question,
                "answer": episode.response.text,
                **{c: "" for c in own},
            }
        )
    return items, lines


def _episodes(drawn: Iterable[_Candidate]) -> dict[tuple[str, int, int], Episode]:
    """Return the stored episodes of the drawn answers; raises RecordError where one is gone."""
    wanted: dict[str, dict[tuple[int, int], _Candidate]] = defaultdict(dict)
    for candidate in drawn:
        wanted[candidate.own.run.folder][candidate.key, candidate.repeat] = candidate
    found: dict[tuple[str, int, int], Episode] = {}
    for folder, own in wanted.items():
        path = next(iter(own.values())).own.run.path.parents[1]
        for episode in read_episodes(path, read_plan(path)):
            place = (instance_key(episode.instance.id), episode.response.repeat)
            if place in own:
                found[folder, *place] = episode
        if any((folder, *place) not in found for place in own):
            raise RecordError(
                f"{path} does not hold every answer that it has scores of; grade it again with "
                "`medhelm score`"
            )
    return found


def _criteria(scores: Iterable[RunScores]) -> list[str]:
    return list(dict.fromkeys(c.name for own in scores for c in own.terms.rubric.criteria))
