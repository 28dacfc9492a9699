"""One table of ratings, whoever rated what: unit, rater, item, value; and the sheets it is read from.

A unit is what a rater reads (an answer, a case, a dialogue), an item what is asked of it (a criterion, an
aspect). A sheet has one row for each item of a unit. Errors name file and row, never a text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

import msgspec

from medhelm.errors import DataError, closest
from medhelm.files.durable import os_errors_as
from medhelm.files.folders import entries
from medhelm.tables.format.spreadsheet import guard as guard
from medhelm.tables.format.spreadsheet import read_filled as read_filled
from medhelm.tables.format.spreadsheet import unguarded
from medhelm.tables.format.table import Settings
from medhelm.tables.format.table import several as several

if TYPE_CHECKING:
    from medhelm.stats.aggregation import Floats, Ints
    from medhelm.stats.agreement import Level

KEY_SCHEMA: Literal["medhelm.key/1"] = "medhelm.key/1"
KEY_SUFFIX = ".key.json"
COLUMNS = ("unit", "item", "text", "rater", "value")
_ANSWER = ("benchmark", "model", "instance")


class Item(NamedTuple):
    """One question about a unit."""

    name: str
    text: str = ""


@dataclass(frozen=True)
class Scale:
    """The values that a rating may have: whole numbers, and words for them."""

    low: int
    high: int
    points: tuple[tuple[str, str], ...] = ()
    """Pairs of a value as raters write it and its meaning."""
    words: Mapping[str, int] = field(default_factory=dict)
    """Further ways to write a value, in lower case. With words, numbers are not read."""

    def read(self, text: str) -> int | None:
        """Return a value; None for what is not on the scale."""
        if self.words:
            return self.words.get(text.casefold())
        value = whole_number(text.replace(",", "."))  # 8,0 as some spreadsheets write it
        return value if value is not None and self.low <= value <= self.high else None

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """Return every value that a rater may choose, and its meaning where it has one of its own."""
        if self.words:
            return self.points
        meanings = dict(self.points)
        return tuple((str(n), meanings.get(str(n), "")) for n in range(self.low, self.high + 1))

    @property
    def legend(self) -> str:
        """Return the values with their meanings, a line each."""
        return "\n".join(f"{point}: {meaning}" for point, meaning in self.points) or str(self)

    def __str__(self) -> str:
        if self.words:
            return " or ".join(point for point, _ in self.points)
        return f"a whole number from {self.low} to {self.high}"


YES_NO = Scale(
    0,
    1,
    points=(("yes", "it is so"), ("no", "it is not")),
    words={
        **dict.fromkeys(("met", "true", "1", "yes", "y", "是"), 1),
        **dict.fromkeys(("unmet", "not_met", "not met", "false", "0", "no", "n", "否"), 0),
    },
)


@dataclass(frozen=True)
class Unit:
    """One thing to rate, item by item."""

    name: str
    """As the sheet names it: it must not say whose work it is."""
    items: tuple[Item, ...]
    scale: Scale
    parts: tuple[tuple[str, str], ...] = ()
    """Heading and text of what a rater reads."""


U = TypeVar("U", bound=Hashable)


@dataclass(frozen=True)
class Rating(Generic[U]):
    """One value."""

    unit: U
    rater: str
    item: str
    value: float
    where: str = ""
    """File and row."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """The whole row."""


@dataclass(frozen=True)
class RatingTable(Generic[U]):
    """All ratings of some files."""

    ratings: tuple[Rating[U], ...]
    asked: Mapping[str, Collection[tuple[U, str]]]
    """By rater, in order of their names: the units and items that any row has, rated or not."""
    blank: int
    """Rows without a value."""

    @property
    def raters(self) -> tuple[str, ...]:
        """Return the names of all raters, also of those who rated nothing."""
        return tuple(self.asked)

    def matrix(self, places: Sequence[tuple[U, str]]) -> Floats:
        """Return the ratings (n, k) of units' items by rater; NaN where one did not rate."""
        import numpy as np

        line = {place: n for n, place in enumerate(places)}
        column = {rater: n for n, rater in enumerate(self.asked)}
        found = np.full((len(places), len(column)), np.nan)
        for rating in self.ratings:
            if (rating.unit, rating.item) in line:
                found[line[rating.unit, rating.item], column[rating.rater]] = rating.value
        return found


def agreement_of(
    given: Floats,
    level: Level = "ordinal",
    *,
    clusters: Ints | None = None,
    settings: Settings | None = None,
    names: Sequence[str] = (),
) -> dict[str, object]:
    """Return how far raters agree, of ratings (n, k): equal pairs, pairs within one point, alpha.

    With the clusters (n,) of the units there are intervals: of whole clusters drawn anew, and of alpha,
    whose clusters are left out in turn. `names` decide the draws.
    """
    import numpy as np

    from medhelm.stats.intervals import jackknife, seed_of
    from medhelm.stats.measured import column_mean, counted, krippendorff_alpha

    gaps = np.array([np.abs(a - b) for a, b in combinations(given.T, 2)], ndmin=2)
    pairs, units = np.nonzero(~np.isnan(gaps))
    row: dict[str, object] = {
        "units": int((~np.isnan(given)).any(axis=1).sum()),
        "pairs": len(pairs),
    }
    if not len(pairs):
        return row
    apart = gaps[pairs, units]
    measures = ("exact",) if level == "nominal" else ("exact", "within_one", "difference")
    codes = np.arange(len(given)) if clusters is None else clusters
    with_interval = () if clusters is None else measures
    settings = settings or Settings()
    found = counted(
        np.stack([apart == 0, apart <= 1, apart, np.ones(len(apart))], axis=1),
        codes[units],
        {name: column_mean(column) for column, name in enumerate(measures)},
        with_interval=with_interval,
        rates=with_interval[:2],
        draws=settings.draws,
        seed=seed_of(settings.bootstrap_seed, *names),
        confidence=settings.confidence,
    )
    row |= found.row | {"alpha": krippendorff_alpha(given, level)}
    if clusters is None:
        return row
    rows = np.unique(units)
    (alpha,) = jackknife(
        lambda kept: [krippendorff_alpha(given[rows[kept]], level)],
        np.unique(codes[rows], return_inverse=True)[1],
        settings.confidence,
    )
    return row | alpha.ends("alpha") | {"method": found.intervals["exact"].described}


# Rows in -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SheetRow:
    """A row of a file of ratings."""

    where: str
    """File and row."""
    path: Path
    rater: str
    cells: Mapping[str, str]


R = TypeVar("R", bound=SheetRow)


class Asked(NamedTuple, Generic[U]):
    """The unit of a row, and the values that its items may have."""

    unit: U
    name: str
    """As messages call it."""
    items: Sequence[Item]
    scale: Scale


def read_rows(paths: Sequence[Path], needed: Sequence[str] = ("unit",)) -> list[SheetRow]:
    """Return the rows of files of ratings. A file that names no rater is that of its name's.

    `needed`: columns that name a unit where the file has no column `unit`.
    """
    found: list[SheetRow] = []
    owners: dict[str, Path] = {}
    for path in paths:
        lines = read_filled(path)
        if not lines:
            continue
        names = ("unit",) if "unit" in lines[0][1] else tuple(needed)
        check_columns(path.name, lines[0][1], (*names, "item", "value"))
        is_named = any(cells.get("rater") for _, cells in lines)
        if not is_named and owners.setdefault(path.stem, path) is not path:
            raise DataError(
                f"{owners[path.stem]} and {path} name no rater and would be one rater, "
                f"{path.stem!r}: rename one, or give each file once"
            )
        for number, cells in lines:
            where = f"{path.name}, row {number}"
            rater = cells.get("rater", "") if is_named else path.stem
            if cells["value"] and not rater:
                raise DataError(f"{where}: rater is empty; a name or a number is needed")
            found.append(SheetRow(where, path, guard(rater), cells))
    if not found:
        listed = ", ".join(path.name for path in paths)
        raise DataError(f"{listed}: no row below names of columns; fill in some ratings first")
    return found


def to_table(rows: Iterable[R], asked: Callable[[R], Asked[U]]) -> RatingTable[U]:
    """Return what rows say; `asked` finds the unit of a row. Raises DataError for a row that fits none."""
    found: dict[tuple[U, str, str], Rating[U]] = {}
    places: dict[str, dict[tuple[U, str], None]] = {}
    blank = 0
    for row in rows:
        unit, name, items, scale = asked(row)
        item = row.cells["item"]
        text = known({i.name: i.text for i in items}, item, f"{row.where}: {name} has no item")
        if row.cells.get("text") and text and not is_same_text(row.cells["text"], text):
            raise DataError(
                f"{row.where}: the text of {name}, item {item}, is not that of what is rated here: "
                "was another version rated? Without the column text it is not compared"
            )
        if row.rater:
            places.setdefault(row.rater, {}).setdefault((unit, item))
        if not row.cells["value"]:
            blank += 1
            continue
        value = scale.read(row.cells["value"])
        if value is None:
            raise DataError(
                f"{row.where}: the value of {name}, item {item}, is not {scale}; leave it empty "
                "where a rater cannot say"
            )
        own = Rating(unit, row.rater, item, float(value), row.where, row.cells)
        first = found.setdefault((unit, item, row.rater), own)
        if first is not own:
            raise DataError(
                f"{row.where}: this rater rated {name}, item {item}, before, in {first.where}; keep one"
            )
    if not found:
        raise DataError("no row has a rating; fill in the column value")
    return RatingTable(tuple(found.values()), dict(sorted(places.items())), blank)


V = TypeVar("V")


def known(names: Mapping[str, V], name: str, what: str) -> V:
    """Return the value of a name; raises DataError that begins with `what` and offers the nearest."""
    if name in names:
        return names[name]
    near = "".join(f"; did you mean {n!r}?" for n in closest(name, names, 1))
    raise DataError(f"{what} {name[:40]!r}{near}")


def read_units(paths: Sequence[Path], units: Iterable[Unit]) -> RatingTable[str]:
    """Return the ratings of units that are known by the names on the sheet."""
    by_name = {unit.name: unit for unit in units}

    def asked(row: SheetRow) -> Asked[str]:
        unit = known(by_name, row.cells["unit"], f"{row.where}: there is no unit")
        return Asked(unit.name, unit.name, unit.items, unit.scale)

    return to_table(read_rows(paths), asked)


def is_same_text(cell: str, text: str) -> bool:
    """Return whether a cell holds a text, but for spaces and the mark against formulas."""
    a, b = (" ".join(unguarded(t.strip()).split()) for t in (cell, text))
    return a == b


def check_columns(file: str, there: Collection[str], needed: Collection[str]) -> None:
    """Raise DataError for the first column that a rating file lacks."""
    for name in needed:
        if name not in there:
            raise DataError(f"{file}: no column {name!r}; needed are {', '.join(needed)}")


def whole_number(text: str) -> int | None:
    """Return a whole number, as 4 or 4.0; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and value == int(value) else None


def blind_name(place: str) -> str:
    """Return the blind name of what lies at a place: 10 hex digits."""
    return hashlib.sha256(place.encode()).hexdigest()[:10]


# Blinded answers ---------------------------------------------------------------------------------


class Answer(NamedTuple):
    """Identifies a rated answer: one model's answer to one instance."""

    benchmark: str
    model: str
    instance: str
    repeat: int = 0


class KeyItem(msgspec.Struct, frozen=True, kw_only=True):
    """The stored answer behind an opaque name."""

    benchmark: str
    model: str
    instance: str
    repeat: int
    run: str
    """The request hash of the run that the text was taken from."""

    @property
    def answer(self) -> Answer:
        """Return the answer without its run."""
        return Answer(self.benchmark, self.model, self.instance, self.repeat)


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a blinded sheet."""

    schema: Literal["medhelm.key/1"] = KEY_SCHEMA
    seed: int
    items: dict[str, KeyItem]


def key_path(sheet: Path) -> Path:
    """Return where the key of a sheet lies."""
    return sheet.with_name(sheet.stem + KEY_SUFFIX)


def read_key(sheet: Path, key: Path | None = None) -> dict[str, KeyItem]:
    """Return what the units of a sheet stand for, by one key or by all keys beside the sheet."""
    found: dict[str, KeyItem] = {}
    for path in [key] if key else entries(sheet.parent, ends=(KEY_SUFFIX,)):
        with os_errors_as(DataError, f"cannot read the key {path}"):
            content = path.read_bytes()
        try:
            found |= msgspec.json.decode(content, type=Key).items
        except (msgspec.DecodeError, UnicodeDecodeError):
            if key:
                raise DataError(f"{path} is not a key that `medhelm agreement` wrote") from None
    return found


@dataclass(frozen=True)
class RatedRow(SheetRow):
    """A row of a file that rates stored answers."""

    answer: Answer
    run: str
    """The request hash that the key names; empty without a key."""
    has_repeat: bool


def read_ratings(paths: Sequence[Path], key: Path | None = None) -> list[RatedRow]:
    """Return the rows of files that rate stored answers: by `unit` and a key, which may be among them."""
    keys = [p for p in paths if p.name.endswith(KEY_SUFFIX)]
    key = key or (keys[0] if keys else None)
    rows = read_rows([p for p in paths if p not in keys], _ANSWER)
    known_items = {path: read_key(path, key) for path in {row.path for row in rows}}
    return [_rated(row, known_items[row.path], key) for row in rows]


def _rated(row: SheetRow, items: Mapping[str, KeyItem], key: Path | None) -> RatedRow:
    cells, same = row.cells, (row.where, row.path, row.rater, row.cells)
    if "unit" in cells:
        item = items.get(cells["unit"])
        if item is None:
            raise DataError(
                f"{row.where}: {key.name} does not know the unit {cells['unit']!r}; it is the key of "
                "another sheet"
                if key
                else f"{row.where}: no key in {row.path.parent} knows the unit {cells['unit']!r}; name "
                "the file that was written with the sheet beside this one"
            )
        return RatedRow(*same, item.answer, item.run, True)
    repeat = whole_number(cells.get("repeat", "") or "0")
    if repeat is None or repeat < 0:
        raise DataError(f"{row.where}: repeat must be a whole number from 0")
    benchmark, model, instance = (cells[name] for name in _ANSWER)
    return RatedRow(*same, Answer(benchmark, model, instance, repeat), "", "repeat" in cells)
