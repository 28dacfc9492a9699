"""The blinded sheet on which a rater rates cases or encounters, and the page to read beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from medhelm.store.records import order_key
from medhelm.tables.format.spreadsheet import refuse_present, to_csv, write_whole
from medhelm_benchmarks.encounters.experts.units import SCALE, Unit, Units

_COLUMNS = ("unit", "aspect", "question", "rating")
_RATE = "Rate each aspect of each unit from 1 to 5, or leave it empty where you cannot say."
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


@dataclass(frozen=True)
class EncounterSheet:
    """Names the files that were written."""

    path: Path
    page: Path
    units: int


def write_encounter_sheet(
    path: Path, units: Units, *, most: int | None = None, seed: int = 0
) -> EncounterSheet:
    """Write a sheet and its page, readable by their owner alone; return what is in it.

    `most` draws a sample by the seed, whose order is the sheet's. A larger sample holds the smaller one.
    Raises UsageError where a file is in the way, RecordError where one cannot be written.
    """
    page = path.with_name(f"{path.stem}.page.html")
    refuse_present(path, page)
    drawn = sorted(units.units, key=lambda unit: order_key(seed, unit.name))[:most]
    lines = [
        {"unit": unit.name, "aspect": aspect, "question": question, "rating": ""}
        for unit in drawn
        for aspect, question in units.aspects.items()
    ]
    head = f"<p>{_RATE}</p>{defined(SCALE)}<h2>Aspects</h2>{defined(units.aspects.items())}"
    write_whole(page, page_of(head, drawn).encode())
    write_whole(path, to_csv(_COLUMNS, lines))
    return EncounterSheet(path, page, len(drawn))


def defined(terms: Iterable[tuple[str, str]]) -> str:
    """Return terms and their meaning as a list of a page."""
    return f"<dl>{''.join(f'<dt>{escape(a)}</dt><dd>{escape(b)}</dd>' for a, b in terms)}</dl>"


def page_of(head: str, units: Iterable[Unit]) -> str:
    """Return units as a page that holds no script and asks for nothing."""
    parts = [_HEAD, head]
    for unit in units:
        shown = "".join(
            f"<h3>{escape(heading)}</h3><pre>{escape(text)}</pre>" for heading, text in unit.parts
        )
        parts.append(f"<section><h2>{unit.name}</h2>{shown}</section>")
    return "\n".join(parts) + "\n</body>\n</html>\n"
