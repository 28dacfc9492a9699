"""The marks of a review: a log that each is appended to, and the table of ratings that it makes.

A mark counts once its line is on the disk. The table is made anew from the log at every start and
after every mark, so that whoever reads it sees all marks at any moment.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from medhelm.errors import RecordError, RunLocked, UsageError
from medhelm.files.durable import os_errors_as
from medhelm.store.appendlog import AppendLog, mend_log, with_checksum, without_checksum
from medhelm.tables.clinicians.ratings import COLUMNS, Item, Rating, RatingTable, Unit, agreement_of
from medhelm.tables.clinicians.sheet import MARKS_SUFFIX, RATINGS_SUFFIX, Review, row_of
from medhelm.tables.format.spreadsheet import csv_text, write_whole

if TYPE_CHECKING:
    from medhelm.stats.agreement import Level

OVERSEER = "overseer"
"""The name of the one who sees progress and agreement, and rates nothing."""

_NAME = re.compile(r"\w[\w .-]{0,39}")


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mark as a rater sends it. An empty value says that the rater cannot say."""

    unit: str
    item: str
    value: str
    more: dict[str, str] = {}
    """Further columns of the sheet."""


class Mark(Asked, frozen=True, kw_only=True):
    """A mark as it is stored; the last one of an item counts."""

    rater: str
    sheet: str
    """The hash of the file that was served."""
    at: float


class Marks(AppendLog):
    """All marks of a review; whoever opens it holds its lock until `close`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.with_name(path.stem + MARKS_SUFFIX))
        self.table_path = path.with_name(path.stem + RATINGS_SUFFIX)
        self.lock_path = path.with_name(f"{path.stem}.lock")
        self.review, self._digest = _read_review(path)
        self.units = {unit.name: unit for unit in self.review.units}
        self._found: dict[tuple[str, str], dict[str, Mark]] = {}
        """By rater and unit: the marks of its items."""
        self._rows: dict[tuple[str, str, int], str] = {}
        """The same as rows of the table, by rater, unit and place of the item."""
        try:
            self._take_lock()
            aside = self.log_path.with_suffix(".damaged")
            self.mended = sum(mend_log(self.log_path, aside, self._take))
            self._open_log()
            self._write_table()
        except RunLocked:
            raise RunLocked(f"{path} is served already; stop the other process first") from None
        except BaseException:
            self.close()
            raise

    def _take(self, line: bytes) -> bool:
        """Read a line of the log; return whether it is whole."""
        try:
            mark = msgspec.json.decode(without_checksum(line) or b"", type=Mark)
        except msgspec.DecodeError:
            return False
        if mark.sheet != self._digest:
            raise RecordError(
                f"{self.log_path} holds marks of another sheet; move it away, or put that sheet back"
            )
        self._keep(mark)
        return True

    def _keep(self, mark: Mark) -> None:
        self._found.setdefault((mark.rater, mark.unit), {})[mark.item] = mark
        unit, more = self.units[mark.unit], (mark.more.get(name, "") for name in self.review.more)
        place, item = next(p for p in enumerate(unit.items) if p[1].name == mark.item)
        cells = (*row_of(unit, item).values(), mark.rater, mark.value, *more)
        self._rows[mark.rater, mark.unit, place] = csv_text(cells, ())

    def add(self, rater: str, asked: Asked) -> None:
        """Store a mark: it is on the disk when this returns. Raises UsageError for what is not asked."""
        self._check(asked)
        own = msgspec.structs.asdict(asked)
        mark = Mark(**own, rater=rater, sheet=self._digest, at=time.time())
        self._append_line(with_checksum(msgspec.json.encode(mark)))
        self.sync()
        self._keep(mark)
        self._write_table()

    def _check(self, asked: Asked) -> None:
        unit = self.units.get(asked.unit)
        if unit is None or asked.item not in {item.name for item in unit.items}:
            raise UsageError("there is no such item to rate")
        if asked.value and unit.scale.read(asked.value) is None:
            raise UsageError(f"the value is {unit.scale}")
        for name, text in asked.more.items():
            if not re.fullmatch(self.review.more.get(name, "(?!)"), text):
                raise UsageError(f"{name}: {dict(self.review.rules).get(name, 'no such column')}")

    def of(self, rater: str, unit: Unit) -> Mapping[str, Mark]:
        """Return a rater's marks of a unit, by item."""
        return self._found.get((rater, unit.name), {})

    def done(self, rater: str) -> list[bool]:
        """Return whether a rater has marked every item, unit by unit."""
        return [len(self.of(rater, unit)) == len(unit.items) for unit in self.review.units]

    def _write_table(self) -> None:
        """Write the ratings as `medhelm agreement` reads them."""
        rows = (row for _, row in sorted(self._rows.items()))
        head = csv_text((*COLUMNS, *self.review.more), ())
        write_whole(self.table_path, "".join((head, *rows)).encode("utf-8-sig"))

    def agreement(self) -> list[dict[str, object]]:
        """Return how far raters agree: on all items of a scale, and on each that several units have."""
        rated = [
            Rating(mark.unit, rater, mark.item, float(value))
            for (rater, _), marks in self._found.items()
            for mark in marks.values()
            if (value := self.units[mark.unit].scale.read(mark.value)) is not None
        ]
        table = RatingTable(tuple(rated), {rater: () for rater, _ in self._found}, 0)
        groups: dict[tuple[str, Item], list[tuple[str, str]]] = defaultdict(list)
        for unit, item in [(u, item) for u in self.review.units for item in u.items]:
            for own in (Item("all items", unit.scale.legend), item):
                groups[unit.scale.legend, own].append((unit.name, item.name))
        found: list[dict[str, object]] = []
        for (scale, item), places in groups.items():
            if len(places) > 1 or item.text == scale:
                level: Level = "nominal" if self.units[places[0][0]].scale.words else "ordinal"
                measures = agreement_of(table.matrix(places), level)
                found.append({"item": item.name, "text": item.text, **measures})
        return found


def _read_review(path: Path) -> tuple[Review, str]:
    with os_errors_as(UsageError, f"cannot read {path}"):
        content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=Review), hashlib.sha256(content).hexdigest()[:16]
    except msgspec.DecodeError:
        fix = "`medhelm agreement WORD --template NAME.json` writes one"
        raise UsageError(f"{path} is not a sheet for a browser; {fix}") from None


def rater_codes(path: Path, raters: Iterable[str]) -> dict[str, str]:
    """Return the codes of raters and of the overseer; those that a review has already stay.

    Without names all raters that have a code. Raises UsageError for a name that cannot be one.
    """
    file = path.with_name(f"{path.stem}.codes.json")
    raw = file.read_bytes() if file.exists() else b"{}"
    try:
        known = msgspec.json.decode(raw, type=dict[str, str])
    except msgspec.DecodeError:
        raise RecordError(f"{file} cannot be read; remove it, and all get new codes") from None
    names = list(dict.fromkeys(raters)) or [name for name in known if name != OVERSEER]
    if not names:
        raise UsageError("name those who rate: --raters NAME ...")
    for name in names:
        if not _NAME.fullmatch(name) or name == OVERSEER:
            raise UsageError(f"--raters {name}: a name of letters, digits, spaces, . and -")
    found = {name: known.get(name) or secrets.token_hex(12) for name in (*names, OVERSEER)}
    write_whole(file, msgspec.json.format(msgspec.json.encode(known | found), indent=1))
    return found
