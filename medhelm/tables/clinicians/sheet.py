"""The blinded sheet: a table to fill in (CSV or Excel) or a file for the browser, and its key."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.errors import PrivacyRefused, UsageError
from medhelm.schema.run import RunRecord
from medhelm.store.records import order_key
from medhelm.tables.clinicians.ratings import COLUMNS, Item, Key, KeyItem, Unit, key_path
from medhelm.tables.format.spreadsheet import to_csv as to_csv
from medhelm.tables.format.spreadsheet import to_workbook
from medhelm.tables.format.spreadsheet import write_whole as write_whole

MARKS_SUFFIX, RATINGS_SUFFIX = ".marks.jsonl", ".ratings.csv"
"""Beside a sheet for a browser: the marks as they are made, and the table of ratings that they are."""
_CELL = 32_000
"""Letters that a cell of a workbook holds, nearly."""


@dataclass(frozen=True, kw_only=True)
class RatingSheet:
    """Units in the order in which a rater sees them."""

    units: tuple[Unit, ...]
    stands_for: Mapping[str, KeyItem] = field(default_factory=dict)
    """By name of the unit, the stored answer that it is; the key."""
    rules: tuple[tuple[str, str], ...] = ()
    """Names of columns, and the rule by which each is filled in."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Columns to fill in besides the value, and the regular expression that each matches."""
    notes: tuple[str, ...] = ()
    """Lines for the one who writes the sheet, not for raters."""

    @classmethod
    def blinded(
        cls, answers: Sequence[tuple[KeyItem, Unit]], seed: int, notes: Sequence[str] = ()
    ) -> RatingSheet:
        """Return a sheet of units under opaque names."""
        # no two sheets share names of units, so that no key is taken for that of another sheet
        content = msgspec.json.encode([seed, [item for item, _ in answers]])
        mark = hashlib.sha256(content).hexdigest()[:6]
        names = [f"{mark}-{number:03d}" for number in range(1, len(answers) + 1)]
        units = tuple(replace(u, name=n) for n, (_, u) in zip(names, answers, strict=True))
        key = dict(zip(names, (item for item, _ in answers), strict=True))
        return cls(units=units, stands_for=key, notes=(*notes,))

    def write(self, path: Path, seed: int = 0, then: Sequence[str] = ()) -> list[Path]:
        """Write a sheet and its key, readable by their owner alone; return these files.

        A name that ends in .xlsx makes a workbook, one in .json a file for `medhelm review serve`.
        Raises UsageError where a file is in the way.
        """
        if not self.units:
            raise UsageError("there is nothing to rate")
        files = [path, *([key_path(path)] if self.stands_for else [])]
        rated = [path.with_name(path.stem + suffix) for suffix in (MARKS_SUFFIX, RATINGS_SUFFIX)]
        if there := [file for file in (*files, *rated) if file.exists()]:
            raise UsageError(
                f"{there[0]} is there already, of a sheet that may have been rated; give this one another "
                f"name, such as {path.stem}-2{path.suffix}"
            )
        if path.suffix == ".json":
            more = dict(self.more)
            review = Review(then=(*then,), units=self.units, rules=self.rules, more=more)
            write_whole(path, msgspec.json.encode(review))
        else:
            lines = list(_lines(self))
            names = (*COLUMNS, *self.more, *(name for line in lines for name in line))
            write = to_workbook if path.suffix == ".xlsx" else to_csv
            write_whole(path, write([*dict.fromkeys(names)], lines))
        if self.stands_for:
            key = msgspec.json.encode(Key(seed=seed, items=dict(self.stands_for)))
            write_whole(files[1], msgspec.json.format(key, indent=1))
        return files


@dataclass(frozen=True)
class Sample:
    """The most that goes on a sheet; None takes all."""

    units: int | None = None
    items: int | None = None
    seed: int = 0

    def of(self, units: Iterable[Unit]) -> tuple[Unit, ...]:
        """Return units in an order drawn by the seed; a larger sample holds the smaller one."""
        return tuple(sorted(units, key=lambda u: order_key(self.seed, u.name))[: self.units])

    def of_items(self, unit: Unit) -> Unit:
        """Return a unit with its items in an order drawn by the seed, or as many of them."""
        own = sorted(unit.items, key=lambda i: order_key(self.seed, f"{unit.name}\0{i.name}"))
        return replace(unit, items=tuple(own[: self.items]))


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A sheet as it is rated in a browser; it says nothing of what its units stand for."""

    schema: Literal["medhelm.review/1"] = "medhelm.review/1"
    then: tuple[str, ...]
    """The command that reads the ratings, without their file."""
    units: tuple[Unit, ...]
    rules: tuple[tuple[str, str], ...] = ()
    more: dict[str, str] = {}


def _lines(sheet: RatingSheet) -> Iterator[dict[str, str]]:
    """Yield the items of each unit; the first has what is to be read, in as many cells as it needs."""
    for unit in sheet.units:
        parts = [*unit.parts, ("Values", unit.scale.legend), *sheet.rules]
        text = "\n\n".join(f"{heading}\n{text}" for heading, text in parts)
        pieces = [text[at : at + _CELL] for at in range(0, len(text), _CELL)]
        shown = {f"shown {n}" if n > 1 else "shown": p for n, p in enumerate(pieces, start=1)}
        for item in unit.items:
            yield row_of(unit, item) | shown
            shown = {}


def row_of(unit: Unit, item: Item) -> dict[str, str]:
    """Return the cells that name an item."""
    return {"unit": unit.name, "item": item.name, "text": " ".join(item.text.split())}


def check_privacy(records: Iterable[RunRecord], text_of: Collection[str]) -> None:
    """Raise PrivacyRefused for benchmarks whose text may not be written; their samples are of their class, too."""
    found = {(record.card.name, record.card.data_class) for record in records}
    closed = sorted(one for one in found if one[1] != "public" and one[1] not in text_of)
    if closed:
        named = ", ".join(f"{name!r} is {data_class}" for name, data_class in closed)
        needed = " ".join(sorted({data_class for _, data_class in closed} | {*text_of}))
        raise PrivacyRefused(
            f"benchmark {named}: text of such data and of their samples leaves the results folder only with "
            f"--text-of {needed}; or choose other benchmarks"
        )
