"""Rating files: who gave what to which answer, and the key that turns blinded items into answers.

A row names its answer by `benchmark`, `model`, `instance` (and `repeat`), or by the `item` of a
sheet that `sheet` wrote, whose key lies beside it. Errors name file and row, never a text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec

from medhelm.errors import DataError
from medhelm.files.durable import why
from medhelm.files.folders import entries
from medhelm.schema.data import Rubric
from medhelm.tables.format.spreadsheet import read_filled

KEY_SCHEMA: Literal["medhelm.key/1"] = "medhelm.key/1"
KEY_SUFFIX = ".key.json"
_NAMES = ("benchmark", "model", "instance")


class Answer(NamedTuple):
    """Identifies a rated answer: one model's answer to one instance."""

    benchmark: str
    model: str
    instance: str
    repeat: int = 0


class KeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the meaning of an opaque item."""

    benchmark: str
    model: str
    instance: str
    repeat: int
    run: str
    """The request hash of the run that the text was taken from."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a blinded sheet."""

    schema: Literal["medhelm.key/1"] = KEY_SCHEMA
    seed: int
    items: dict[str, KeyItem]


@dataclass(frozen=True)
class Rating:
    """One row of a rating file."""

    where: str
    """File and row."""
    rater: str
    answer: Answer
    run: str
    """The request hash that the key names; empty without a key."""
    has_repeat: bool
    cells: Mapping[str, str]


def key_path(sheet: Path) -> Path:
    """Return where the key of a sheet lies."""
    return sheet.with_name(sheet.stem + KEY_SUFFIX)


def read_ratings(paths: Sequence[Path], key: Path | None = None) -> list[Rating]:
    """Return the rows of rating files that are not blank; raises DataError.

    `key` is that of blinded sheets; None looks for keys in the folder of each sheet.
    """
    found = [rating for path in paths for rating in _read(path, key)]
    if not found:
        names = ", ".join(p.name for p in paths)
        raise DataError(f"{names}: no row below names of columns; fill in some ratings first")
    return found


def _read(path: Path, key: Path | None) -> Iterator[Rating]:
    rows = read_filled(path)
    is_blinded = bool(rows) and "item" in rows[0][1]
    needed = ("rater", "item") if is_blinded else ("rater", *_NAMES)
    if rows:
        check_columns(path.name, rows[0][1], needed)
    items = items_of(path, key) if is_blinded else {}
    for number, cells in rows:
        where = f"{path.name}, row {number}"
        if is_blinded:
            if cells["item"] not in items:
                raise DataError(
                    f"{where}: no key in {path.parent} knows the item {cells['item']!r}; "
                    "--key FILE names the one that was written with the sheet"
                    if key is None
                    else f"{where}: {key.name} does not know the item {cells['item']!r}; it is the "
                    "key of another sheet"
                )
            item = items[cells["item"]]
            answer = Answer(item.benchmark, item.model, item.instance, item.repeat)
            yield Rating(where, cells["rater"], answer, item.run, True, cells)
        else:
            repeat = whole_number(cells.get("repeat", "") or "0")
            if repeat is None or repeat < 0:
                raise DataError(f"{where}: repeat must be a whole number from 0")
            benchmark, model, instance = (cells[name] for name in _NAMES)
            answer = Answer(benchmark, model, instance, repeat)
            yield Rating(where, cells["rater"], answer, "", "repeat" in cells, cells)


def check_columns(file: str, there: Collection[str], needed: Collection[str]) -> None:
    """Raise DataError for the first column that a rating file lacks."""
    for name in needed:
        if name not in there:
            raise DataError(f"{file}: no column {name!r}; needed are {', '.join(needed)}")


def items_of(sheet: Path, key: Path | None) -> dict[str, KeyItem]:
    """Return the meaning of the items of a sheet."""
    found: dict[str, KeyItem] = {}
    for path in [key] if key else entries(sheet.parent, ends=(KEY_SUFFIX,)):
        try:
            found |= msgspec.json.decode(path.read_bytes(), type=Key).items
        except OSError as e:
            raise DataError(f"cannot read the key {path}: {why(e)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            if key:
                raise DataError(f"{path} is not a key that `medhelm agreement` wrote") from None
    return found


def composite(rating: Rating, rubric: Rubric) -> float | None:
    """Return the mean over the rubric's criteria; None where no cell is filled; raises DataError."""
    names = [c.name for c in rubric.criteria]
    check_columns(rating.where, rating.cells, names)
    texts = {name: rating.cells[name] for name in names}
    if not any(texts.values()):
        return None
    for name, text in texts.items():
        if not text:
            raise DataError(f"{rating.where}: {name} is empty; rate all of {', '.join(names)}")
        value = whole_number(text)
        if value is None or not rubric.minimum <= value <= rubric.maximum:
            raise DataError(
                f"{rating.where}: {name} is not a whole number from {rubric.minimum} to "
                f"{rubric.maximum}"
            )
    if not rating.rater:
        raise DataError(
            f"{rating.where}: rater is empty; a name or a number of the rater is needed"
        )
    return fmean(float(text) for text in texts.values())


def whole_number(text: str) -> int | None:
    """Return a whole number, as 4 or 4.0; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None
