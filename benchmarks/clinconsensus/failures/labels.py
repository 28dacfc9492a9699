"""Labels by hand: a sheet of unmet criteria goes out, filled with types it comes in again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import yaml

from medhelm import DataError, visible_text
from medhelm.plugin import closest, ratings, sheet, stored_decisions
from medhelm_benchmarks.clinconsensus.failures.unmet import Answer, Name


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
