"""Stored gradings -> the answers of runs with the criteria that they do not meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.grading.graders.grader import judgement_key
from medhelm.grading.graders.panel import read_gradings
from medhelm.grading.rubric.grader import Explained, explained
from medhelm.schema.episode import Episode
from medhelm.schema.run import GraderTerms, RunRecord
from medhelm.store.records import grader_folder, order_key
from medhelm.tables.clinicians.rated_answers import RunChoice
from medhelm.tables.clinicians.stored_decisions import chosen_runs, rubric_terms, stored_episodes
from medhelm.tables.study.selection import Data

Name = tuple[str, str, int, str]
"""Request hash of the run, case, repeat and criterion: what a label is of."""


@dataclass(frozen=True)
class Answer:
    """One answer and what its judges find unmet."""

    run: Path
    record: RunRecord
    episode: Episode
    unmet: tuple[Explained, ...]

    @property
    def model(self) -> str:
        """Return the model that gave it."""
        return self.record.spec.model.name

    def name(self, criterion: str) -> Name:
        """Return what a label of one of its criteria is stored under."""
        episode = self.episode
        return self.record.request_hash, episode.instance.id, episode.repeat, criterion


def read_unmet(
    results_dir: Path, benchmark: str, *, data: Data | None, latest: bool, models: Sequence[str]
) -> list[Answer]:
    """Return the graded answers of the runs of a benchmark; raises UsageError where there is none."""
    found: list[Answer] = []
    choice = RunChoice(results_dir=results_dir, data=data, latest=latest, models=(*models,))
    for run, record in chosen_runs(choice, benchmark):
        terms = rubric_terms(record)
        if terms is not None:
            found += _of_run(run, record, terms)
    if not found:
        raise UsageError(
            f"no run of {benchmark} below {results_dir} has verdicts of a judge on single criteria"
        )
    return found


def _of_run(run: Path, record: RunRecord, terms: GraderTerms) -> Iterator[Answer]:
    said = [
        {key: explained(own) for key, own in read_gradings(grader_folder(run, judge, terms))}
        for judge in terms.jury.judges
    ]
    for episode in stored_episodes(run):
        key = judgement_key(episode)
        votes = [own[key] for own in said if own.get(key)]
        if votes:
            unmet = tuple(filter(None, map(_unmet, zip(*votes, strict=True))))
            yield Answer(run, record, episode, unmet)


def _unmet(votes: tuple[Explained, ...]) -> Explained | None:
    """Return a criterion that is not met by more than half of the valid verdicts, or by a tie.

    Without any valid verdict nobody has found that the answer fails.
    """
    valid = [vote for vote in votes if vote.is_met is not None]
    against = [vote for vote in valid if vote.is_met is False]
    return against[0] if against and 2 * len(against) >= len(valid) else None


def drawn(answers: Sequence[Answer], count: int, seed: int) -> list[Answer]:
    """Return so many answers of each model with unmet criteria; a larger draw holds a smaller one."""
    by_model: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.unmet:
            by_model.setdefault(answer.model, []).append(answer)

    def place(answer: Answer) -> int:
        episode = answer.episode
        return order_key(seed, f"{answer.model}\0{episode.instance.id}\0{episode.repeat}")

    return [a for own in by_model.values() for a in sorted(own, key=place)[:count]]
