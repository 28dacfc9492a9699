"""Stored gradings -> the answers of runs with the criteria that they do not meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm import Episode
from medhelm.plugin import UsageError, runlog, stored_decisions

Name = tuple[str, str, int, str]
"""Request hash of the run, case, repeat and criterion: what a label is of."""


@dataclass(frozen=True)
class Answer:
    """One answer and what its judges find unmet."""

    run: Path
    record: stored_decisions.RunRecord
    episode: Episode
    unmet: tuple[stored_decisions.Explained, ...]

    @property
    def model(self) -> str:
        """Return the model that gave it."""
        return self.record.spec.model.name

    def name(self, criterion: str) -> Name:
        """Return what a label of one of its criteria is stored under."""
        episode = self.episode
        return self.record.request_hash, episode.instance.id, episode.repeat, criterion


def read_unmet(
    results_dir: Path,
    benchmark: str,
    *,
    data: stored_decisions.Data | None,
    latest: bool,
    models: Sequence[str],
) -> list[Answer]:
    """Return the graded answers of the runs of a benchmark; raises UsageError where there is none."""
    found: list[Answer] = []
    choice = stored_decisions.RunChoice(
        results_dir=results_dir, data=data, latest=latest, models=(*models,)
    )
    for run, record in stored_decisions.chosen_runs(choice, benchmark):
        for episode, votes in stored_decisions.explained_answers(run, record):
            unmet = tuple(filter(None, map(_unmet, zip(*votes, strict=True))))
            found.append(Answer(run, record, episode, unmet))
    if not found:
        raise UsageError(
            f"no run of {benchmark} below {results_dir} has verdicts of a judge on single criteria"
        )
    return found


def _unmet(votes: tuple[stored_decisions.Explained, ...]) -> stored_decisions.Explained | None:
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
        return runlog.order_key(seed, f"{answer.model}\0{episode.instance.id}\0{episode.repeat}")

    return [a for own in by_model.values() for a in sorted(own, key=place)[:count]]
