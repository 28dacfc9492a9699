"""Labels by hand: a sheet of unmet criteria goes out, filled with types it comes in again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml

from medhelm import DataError, Episode, visible_text
from medhelm.plugin import UsageError, closest, ratings, runlog, sheet, stored_decisions

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


class FailureType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reason for which a criterion is not met."""

    id: str
    title: str
    text: str


@cache
def failure_types() -> dict[str, FailureType]:
    """Return the seven types and the one for all else, by id."""
    text = (resources.files(__package__) / "types.yaml").read_text("utf-8")
    values: Any = yaml.safe_load(text)
    return {t.id: t for t in msgspec.convert(values["types"], tuple[FailureType, ...])}


_NAMES = ("run", "case_id", "repeat", "criterion_id")
_COLUMNS = (*_NAMES, "request", "answer", "criterion", "finding", "type")


def write_sheet(path: Path, answers: Sequence[Answer]) -> int:
    """Write one unmet criterion a row, without models' names; return how many there are."""
    sheet.refuse_present(path)
    lines = [line for answer in answers for line in _lines(answer)]
    sheet.write_whole(path, sheet.to_csv(_COLUMNS, lines))
    return len(lines)


def _lines(answer: Answer) -> Iterator[dict[str, str]]:
    texts = {
        "request": stored_decisions.request_of(answer.episode.instance),
        "answer": visible_text(answer.episode.text),
    }
    for own in answer.unmet:
        name = map(str, answer.name(own.criterion.name))
        line = dict(zip(_NAMES, name, strict=True))
        yield line | texts | {"criterion": own.criterion.text, "finding": own.explanation}
        texts = {}


def read_labels(paths: Sequence[Path], answers: Sequence[Answer]) -> Mapping[Name, str]:
    """Return the types of filled sheets; empty cells are no label. Raises DataError.

    A label of what is not an unmet criterion of these runs is refused: the verdicts have changed since.
    """
    known = {answer.name(own.criterion.name) for answer in answers for own in answer.unmet}
    found: dict[Name, str] = {}
    for path in paths:
        for number, cells in ratings.read_filled(path):
            where = f"{path.name}, row {number}"
            ratings.check_columns(path.name, cells, (*_NAMES, "type"))
            if not cells["type"]:
                continue
            if cells["type"] not in failure_types():
                nearest = closest(cells["type"], failure_types())
                did = f"; did you mean {nearest[0]!r}?" if nearest else ""
                raise DataError(f"{where}: unknown type {cells['type']!r}{did}")
            repeat = int(cells["repeat"]) if cells["repeat"].isdecimal() else -1
            name = cells["run"], cells["case_id"], repeat, cells["criterion_id"]
            if name not in known:
                raise DataError(f"{where}: this is not an unmet criterion of the stored runs")
            if name in found:
                raise DataError(f"{where}: this criterion has a label already")
            found[name] = cells["type"]
    if not found:
        raise DataError(f"{', '.join(p.name for p in paths)}: no row has a type")
    return found
