"""The answers of a blinded sheet: a seeded sample, stratified by the jury's scores.

Per benchmark, as many answers of each third of the jury's scores.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.errors import RecordError, UsageError
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.plugins.registry import load_registry
from medhelm.schema.episode import Episode
from medhelm.store.records import instance_key, order_key, read_plan
from medhelm.tables.clinicians.rated_answers import (
    RunChoice,
    RunScores,
    check_one_jury,
    graded_runs,
    read_run,
    rubric_items,
    rubric_scale,
)
from medhelm.tables.clinicians.ratings import KeyItem, Unit
from medhelm.tables.clinicians.sheet import RatingSheet, Sample, blinded, check_privacy
from medhelm.tables.instances import main_metric
from medhelm.tables.study.selection import is_ranked

PER_BENCHMARK = 30
_THIRDS = 3


@dataclass(frozen=True)
class _Candidate:
    """An answer that may be drawn."""

    own: RunScores
    key: int
    repeat: int
    score: float


def answer_sheet(choice: RunChoice, sample: Sample, text_of: Collection[str] = ()) -> RatingSheet:
    """Return a sheet of stored answers; `sample.units` counts those of each benchmark.

    Models that read the gold are left out unless named. `text_of`: data classes besides public
    whose text may be written. Raises PrivacyRefused for others, UsageError where there is nothing
    to rate.
    """
    runs, damaged = graded_runs(choice.results_dir)
    if not choice.benchmarks:
        runs = [r for r in runs if r.record.grading.jury is not None]
    if not choice.models:
        runs = [r for r in runs if is_ranked(r.record.spec.model)]
    if not runs:
        raise UsageError(
            f"no run below {choice.results_dir} has jury scores: ratings are of open-ended benchmarks"
        )
    chosen = choice.of(runs)
    for run in chosen.runs:
        check_privacy(run.record, text_of)
    scores = [read_run(run) for run in chosen.runs]
    check_one_jury(scores)
    drawn = _draw(scores, sample.units or PER_BENCHMARK, sample.seed)
    if not drawn:
        raise UsageError("no answer has a score of the jury: there is nothing to rate")
    episodes = _episodes(drawn)
    units, key = blinded([_unit(c, episodes) for c in drawn], sample.seed)
    counts = Counter(c.own.run.benchmark for c in drawn)
    shown = ", ".join(f"{name} {n}" for name, n in counts.items())
    notes = [f"answers by benchmark: {shown}", *(f"left out, damaged: {d}" for d in damaged[:3])]
    return RatingSheet(units=units, stands_for=key, notes=tuple(notes))


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
        ends = [len(candidates) * i // _THIRDS for i in range(_THIRDS + 1)]
        thirds = [sorted(candidates[a:b], key=chance) for a, b in zip(ends, ends[1:], strict=False)]
        rounds = [c for i in range(per_benchmark) for third in thirds for c in third[i : i + 1]]
        found += sorted(rounds[:per_benchmark], key=chance)
    return found


def _unit(
    candidate: _Candidate, episodes: dict[tuple[str, int, int], Episode]
) -> tuple[KeyItem, Unit]:
    """Return what a drawn answer is, and what a rater reads of it."""
    run, rubric = candidate.own.run, candidate.own.terms.rubric
    episode = episodes[run.folder, candidate.key, candidate.repeat]
    instance, card = episode.instance, run.record.card
    if instance.criteria:
        raise UsageError(
            f"{run.benchmark}: its instances are rated by criteria of their own: "
            f"`medhelm agreement criteria {run.benchmark}`; --benchmark chooses others"
        )
    parts = (
        ("Benchmark", card.title or run.benchmark),
        ("Task", card.instruction),
        ("Context", instance.context),
        ("Question", instance.question),
        ("Answer", episode.response.text),
    )
    item = KeyItem(
        benchmark=run.benchmark,
        model=run.model,
        instance=instance.id,
        repeat=candidate.repeat,
        run=run.record.request_hash,
    )
    shown = tuple((heading, text) for heading, text in parts if text.strip())
    return item, Unit("", rubric_items(rubric), rubric_scale(rubric), shown)


def _episodes(drawn: Sequence[_Candidate]) -> dict[tuple[str, int, int], Episode]:
    """Return the stored episodes of the drawn answers; raises RecordError where one is gone."""
    wanted: dict[str, dict[tuple[int, int], _Candidate]] = defaultdict(dict)
    for candidate in drawn:
        wanted[candidate.own.run.folder][candidate.key, candidate.repeat] = candidate
    found: dict[tuple[str, int, int], Episode] = {}
    for folder, own in wanted.items():
        run = next(iter(own.values())).own.run
        path, metric = run.path.parents[1], main_metric(run.record, load_registry)
        for episode in stated_episodes(path, read_plan(path), metric):
            place = (instance_key(episode.instance.id), episode.response.repeat)
            if place in own:
                found[folder, *place] = episode
        if any((folder, *place) not in found for place in own):
            raise RecordError(
                f"{path} does not hold every answer that it has scores of; grade it again with "
                "`medhelm score`"
            )
    return found
