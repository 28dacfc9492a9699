"""Labels by hand: a sheet of unmet criteria goes out, filled with types it comes in again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from medhelm import DataError, Episode, Settings, Table, UsageError, visible_text
from medhelm.plugin import (
    column_kinds,
    intervals,
    measured,
    ratings,
    runlog,
    sheet,
    stored_decisions,
)

Name = tuple[str, str, int, str]
"""Request hash of the run, case, repeat and criterion: what a label is of."""


@dataclass(frozen=True)
class Answer:
    """One answer and what its judges find unmet."""

    run: stored_decisions.GradedRun
    episode: Episode
    unmet: tuple[stored_decisions.Explained, ...]

    @property
    def model(self) -> str:
        """Return the model that gave it."""
        return self.run.model

    def name(self, criterion: str) -> Name:
        """Return what a label of one of its criteria is stored under."""
        episode = self.episode
        return self.run.record.request_hash, episode.instance.id, episode.repeat, criterion


def read_unmet(choice: stored_decisions.RunChoice, benchmark: str) -> list[Answer]:
    """Return the graded answers of the runs of a benchmark; raises UsageError where there is none."""
    found: list[Answer] = []
    for run, episode, votes in stored_decisions.explained_answers(choice, benchmark):
        unmet = tuple(filter(None, map(_unmet, zip(*votes, strict=True))))
        found.append(Answer(run, episode, unmet))
    if not found:
        raise UsageError(
            f"no run of {benchmark} below {choice.results_dir} has verdicts of a judge on single "
            "criteria"
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

    return [a for own in by_model.values() for a in sorted(own, key=_place(seed))[:count]]


def _place(seed: int) -> Callable[[Answer], int]:
    return lambda answer: runlog.order_key(
        seed, f"{answer.model}\0{answer.episode.instance.id}\0{answer.episode.repeat}"
    )


class FailureType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason for which a criterion is not met."""

    id: str
    title: str
    text: str


@cache
def failure_types() -> dict[str, FailureType]:
    """Return the seven types and the one for all else, by id."""
    raw = Path(__file__).with_name("types.yaml").read_bytes()
    found = msgspec.yaml.decode(raw, type=dict[str, tuple[FailureType, ...]])
    return {own.id: own for own in found["types"]}


def failure_sheet(answers: Sequence[Answer], seed: int) -> sheet.RatingSheet:
    """Return a sheet of unmet criteria, without models' names; the seed gives their order."""
    units = [_unit(a) for a in sorted(answers, key=_place(seed + 1))]
    return sheet.RatingSheet.blinded(units, seed)


def _unit(answer: Answer) -> tuple[ratings.KeyItem, ratings.Unit]:
    """Return what an answer is, and what its unmet criteria are labelled by."""
    run, case, repeat, _ = answer.name("")
    benchmark = answer.run.record.card.name
    stands_for = ratings.KeyItem(
        benchmark=benchmark, model=answer.model, instance=case, repeat=repeat, run=run
    )
    parts = (
        ("Request", stored_decisions.request_of(answer.episode.instance)),
        ("Answer", visible_text(answer.episode.text)),
        ("Findings", "\n".join(f"{u.criterion.name}: {u.explanation}" for u in answer.unmet)),
    )
    return stands_for, ratings.Unit("", *_asked(answer), parts)


def _asked(answer: Answer) -> tuple[tuple[ratings.Item, ...], ratings.Scale]:
    types = failure_types()
    points = tuple((t.id, t.text) for t in types.values())
    scale = ratings.Scale(0, len(types) - 1, points, {t: n for n, t in enumerate(types)})
    return tuple(ratings.Item(u.criterion.name, u.criterion.text) for u in answer.unmet), scale


def read_labels(paths: Sequence[Path], answers: Sequence[Answer]) -> Mapping[Name, str]:
    """Return the types of filled sheets; empty cells are no label. Raises DataError.

    A label of what is not an unmet criterion of these runs is refused: the verdicts have changed since.
    """
    known = {answer.name("")[:3]: answer for answer in answers}

    def asked(row: ratings.RatedRow) -> ratings.Asked[tuple[str, str, int]]:
        name = (row.run, row.answer.instance, row.answer.repeat)
        if name not in known:
            raise DataError(f"{row.where}: this is not an answer of the stored runs")
        return ratings.Asked(name, f"the answer to {name[1]}", *_asked(known[name]))

    types = [*failure_types()]
    found: dict[Name, str] = {}
    places: dict[Name, str] = {}
    for label in ratings.to_table(ratings.read_ratings(paths), asked).ratings:
        name = (*label.unit, label.item)
        if name in found:
            where = f"{label.where}: this criterion has a label already, in {places[name]}"
            raise DataError(where)
        found[name], places[name] = types[int(label.value)], label.where
    return found


UNLABELLED = "unlabelled"


def failures_table(
    answers: Sequence[Answer], labels: Mapping[Name, str], by: str, settings: Settings
) -> Table:
    """Return how often each type is the reason. `by`: who labelled."""
    rows = [*_rows(answers, labels, settings)]
    for model in sorted({a.model for a in answers}):
        rows += _rows([a for a in answers if a.model == model], labels, settings, model)
    said = (
        f"Labelled by {by}. Shares are of the labelled criteria; what has no label is counted apart. "
        "Intervals: bootstrap over whole cases.",
        "The types say what to look at. They are not rates of failures in practice.",
    )
    return column_kinds.form(__file__, "failures").table(rows, said, settings.of_draws)


def _rows(
    answers: Sequence[Answer],
    labels: Mapping[Name, str],
    settings: Settings,
    model: str | None = None,
) -> Iterator[dict[str, object]]:
    names = [(a.name(u.criterion.name), a.episode.instance.id) for a in answers for u in a.unmet]
    given = [(labels[name], case) for name, case in names if name in labels]
    types = failure_types()
    cases = {case: code for code, case in enumerate(dict.fromkeys(case for _, case in given))}
    ones = np.asarray([[*(label == own for own in types), True] for label, _ in given], float)
    found = measured.counted(
        ones.reshape(len(given), len(types) + 1),
        np.asarray([cases[case] for _, case in given], dtype=np.int64),
        {own: measured.column_mean(column) for column, own in enumerate(types)},
        with_interval=types,
        draws=settings.draws,
        seed=intervals.seed_of(settings.bootstrap_seed, "failures", model or ""),
        confidence=settings.confidence,
    )
    head: dict[str, object] = {"level": "model" if model else "overall", "model": model}
    head |= {"labelled": len(given), "unmet": len(names)}
    for own in types.values():
        hits = sum(label == own.id for label, _ in given)
        row = {**head, "type": own.id, "title": own.title, "criteria": hits}
        if given:
            row |= {"share": found.values[own.id], **found.intervals[own.id].columns("share")}
        yield row
    rest = {"type": UNLABELLED, "title": "No label", "criteria": len(names) - len(given)}
    yield head | rest
