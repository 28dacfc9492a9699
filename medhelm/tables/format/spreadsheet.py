"""CSV files and workbooks for spreadsheets: no cell is a formula, and whatever separator a
spreadsheet has put into a filled one is read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from medhelm.data.readers import read_csv, read_xlsx
from medhelm.errors import DataError
from medhelm.files.durable import os_errors_as
from medhelm.files.durable import write_whole as write_whole

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet would read these as the start of a formula, some in full width too."""

_WORKBOOK = "PK\x03\x04"
"""Files of .xlsx and .ods begin with these bytes of a zip archive."""


def guard(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def unguarded(text: str) -> str:
    """Return a cell's text without the mark that `guard` puts before it."""
    return text[1:] if text.startswith("'") and guard(text[1:]) == text else text


def csv_text(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a header and lines as CSV, every text guarded; None is an empty cell.

    Lines in a cell end with a newline: a lone carriage return would stay unquoted and end the row.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in (columns, *lines):
        writer.writerow([_cell(value) for value in line])
    return out.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return guard(value).replace("\r\n", "\n").replace("\r", "\n")


def to_csv(columns: Sequence[str], lines: Iterable[Mapping[str, str]]) -> bytes:
    """Return a sheet, with a mark by which spreadsheets know UTF-8."""
    cells = ([line.get(name, "") for name in columns] for line in lines)
    return csv_text(columns, cells).encode("utf-8-sig")


def to_workbook(columns: Sequence[str], lines: Iterable[Mapping[str, str]]) -> bytes:
    """Return a sheet as .xlsx, in which every cell is text."""
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook(write_only=True)
    page = book.create_sheet("ratings")
    page.append(list(columns))
    for line in lines:
        cells = (ILLEGAL_CHARACTERS_RE.sub(" ", line.get(name, "")) for name in columns)
        page.append([_cell(cell) for cell in cells])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def read_filled(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return rows with their numbers, cells stripped; rows without any text are left out.

    Raises DataError for a file that is not readable, not CSV or not UTF-8, and not .xlsx.
    """
    with os_errors_as(DataError, f"cannot read {path}"):
        with path.open("rb") as file:
            header = file.readline().decode("utf-8", "replace")
        is_workbook = header.startswith(_WORKBOOK)
        if is_workbook and path.suffix != ".xlsx":
            raise DataError(f"{path.name} is a workbook; save it as .xlsx or its sheet as CSV")
        found = read_xlsx(path) if is_workbook else read_csv(path)
        rows = [
            (number, {name.strip(): str(text).strip() for name, text in row.items()})
            for number, row in found
        ]
    return [(number, cells) for number, cells in rows if any(cells.values())]
