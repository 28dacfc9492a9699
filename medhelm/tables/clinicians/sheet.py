"""The blinded sheet: a table to fill in (CSV or Excel), the page to read beside it, and its key."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

import msgspec

from medhelm.errors import PrivacyRefused, UsageError
from medhelm.schema.run import RunRecord
from medhelm.store.records import order_key
from medhelm.tables.clinicians.ratings import COLUMNS, Key, KeyItem, Unit, key_path
from medhelm.tables.format.spreadsheet import refuse_present as refuse_present
from medhelm.tables.format.spreadsheet import to_csv as to_csv
from medhelm.tables.format.spreadsheet import to_workbook
from medhelm.tables.format.spreadsheet import write_whole as write_whole

PAGE_SUFFIX = ".page.html"
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>To rate</title>
<style>
body { font: 1rem/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; font: inherit; }
section { border-top: 1px solid; }
</style>
</head>
<body>
"""


@dataclass(frozen=True, kw_only=True)
class RatingSheet:
    """Units in the order in which a rater sees them."""

    units: tuple[Unit, ...]
    stands_for: Mapping[str, KeyItem] = field(default_factory=dict)
    """By name of the unit, the stored answer that it is; the key."""
    rules: tuple[tuple[str, str], ...] = ()
    """Names of columns, and the rule by which each is filled in."""
    more: tuple[str, ...] = ()
    """Columns to fill in besides the value."""
    notes: tuple[str, ...] = ()
    """Lines for the one who writes the sheet, not for raters."""


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


def blinded(
    answers: Sequence[tuple[KeyItem, Unit]], seed: int
) -> tuple[tuple[Unit, ...], dict[str, KeyItem]]:
    """Return units under opaque names, and what they stand for."""
    # no two sheets share names of units, so that no key is taken for that of another sheet
    content = msgspec.json.encode([seed, [item for item, _ in answers]])
    mark = hashlib.sha256(content).hexdigest()[:6]
    names = [f"{mark}-{number:03d}" for number in range(1, len(answers) + 1)]
    units = tuple(replace(u, name=n) for n, (_, u) in zip(names, answers, strict=True))
    return units, dict(zip(names, (item for item, _ in answers), strict=True))


def page_path(sheet: Path) -> Path:
    """Return where the units of a sheet can be read."""
    return sheet.with_name(sheet.stem + PAGE_SUFFIX)


def write_sheet(path: Path, sheet: RatingSheet, seed: int = 0) -> list[Path]:
    """Write a sheet, its page and its key, readable by their owner alone; return these files.

    A name that ends in .xlsx makes a workbook. Raises UsageError where a file is in the way.
    """
    if not sheet.units:
        raise UsageError("there is nothing to rate")
    files = [path, page_path(path), *([key_path(path)] if sheet.stands_for else [])]
    refuse_present(*files)
    columns = (*COLUMNS, *sheet.more)
    write = to_workbook if path.suffix == ".xlsx" else to_csv
    write_whole(files[1], to_page(sheet).encode())
    write_whole(path, write(columns, list(_lines(sheet.units))))
    if sheet.stands_for:
        key = msgspec.json.encode(Key(seed=seed, items=dict(sheet.stands_for)))
        write_whole(files[2], msgspec.json.format(key, indent=1))
    return files


def _lines(units: Iterable[Unit]) -> Iterator[dict[str, str]]:
    for unit in units:
        for item in unit.items:
            yield {"unit": unit.name, "item": item.name, "text": " ".join(item.text.split())}


def to_page(sheet: RatingSheet) -> str:
    """Return units as a page that holds no script and asks for nothing."""
    scales = list(dict.fromkeys(unit.scale.points for unit in sheet.units))
    items = list(dict.fromkeys(unit.items for unit in sheet.units))
    parts = [
        _HEAD,
        "<p>Rate each item of the sheet: one row an item, the rating in the column value. Leave a "
        "value empty where you cannot say, and the other columns as they are.</p>",
        *(_defined(points) for points in scales if points),
        *([_defined(sheet.rules)] if sheet.rules else []),
        *([f"<h2>Items</h2>{_defined(items[0])}"] if len(items) == 1 < len(sheet.units) else []),
    ]
    for unit in sheet.units:
        shown = "".join(f"<h3>{escape(h)}</h3><pre>{escape(t)}</pre>" for h, t in unit.parts)
        parts.append(f"<section><h2>{escape(unit.name)}</h2>{shown}</section>")
    return "\n".join(parts) + "\n</body>\n</html>\n"


def _defined(terms: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(a)}</dt><dd>{escape(b)}</dd>' for a, b in terms)}</dl>"


def check_privacy(record: RunRecord, text_of: Collection[str]) -> None:
    """Raise PrivacyRefused for a benchmark whose text may not be written."""
    data_class = record.card.data_class
    if data_class != "public" and data_class not in text_of:
        raise PrivacyRefused(
            f"benchmark {record.card.name!r} is {data_class}: its text leaves the results folder only "
            f"with --text-of {data_class}; or choose other benchmarks"
        )
