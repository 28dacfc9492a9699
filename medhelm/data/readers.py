"""Data files -> rows, one at a time: CSV, JSON, Parquet, a spreadsheet, a folder of texts.

Every reader yields (number, row), counted from 1: the record, in JSON lines the line, in a
folder the file.
Errors are DataErrors that name file and place, never the text.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.data.archives import DAMAGED
from medhelm.errors import DataError
from medhelm.files.folders import entries

_Rows = Iterator[tuple[int, Mapping[str, Any]]]
_BOM = codecs.BOM_UTF8
_MAX_CELL = 2**31 - 1
"""The csv module's own limit of 131,072 characters is below the size of a long note."""
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
"""The marks between the cells of tables that spreadsheets write."""
_NAMED_MARK = re.compile(rf'"?sep=([{"".join(_SEPARATORS)}])"?\1*\s*', re.IGNORECASE)
"""Matches the first line by which a table names the mark between its cells, perhaps with empty cells behind."""
_NUL = "holds a NUL character; save the file as UTF-8"
"""UTF-16 text without a mark is valid UTF-8, with a NUL beside every letter."""


def read_file(path: Path) -> _Rows:
    """Yield the rows of a folder, or a file by its suffix; raises DataError for an unknown one."""
    if path.is_dir():
        return read_texts(path)
    if path.suffix in READERS and path.is_file():
        with path.open("rb") as file:
            if file.read(4) == b"PAR1":  # whatever its name says
                return read_parquet(path)
    if path.suffix not in READERS:
        known = ", ".join(READERS)
        raise DataError(f"{path.name}: no reader for {path.suffix or 'no suffix'}, only {known}")
    return READERS[path.suffix](path)


def read_csv(path: Path) -> _Rows:
    """Yield records with every cell as text. A record must be as long as the header.

    Between cells is the mark of a first line `sep=;`, as Excel writes it, else a comma (in .tsv a tab), or the
    one other mark that fits all records.
    """
    rows = _records(path, _separator(path))
    _, header = next(rows)
    named = [name for name in header if name.strip()]
    if len(set(named)) < len(named):
        raise DataError(f"{path.name}: a column name is there twice in the header")
    # one is an index; several are what a spreadsheet leaves behind, and hold nothing
    nameless = [i for i, name in enumerate(header) if not name.strip()]
    nameless = nameless if len(nameless) > 1 else []
    if any("\0" in name for name in header):
        raise DataError(f"{path.name}, header: {_NUL}")
    for number, record in rows:
        if any("\0" in cell for cell in record):
            raise DataError(f"{path.name}, row {number}: {_NUL}")
        if any(record[i].strip() for i in nameless):
            raise DataError(f"{path.name}, row {number}: a cell in a column without a name")
        yield number, dict(zip(header, record, strict=True))


def read_table(
    path: Path, columns: Sequence[str] = (), separator: str = ",", *, is_strict: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows as texts by column, numbered from 1; blank lines are skipped.

    `columns` must be there; others may be. Without `is_strict` a quotation mark inside a cell is text.
    Raises DataError, which names file and row and shows no text.
    """
    rows = _records(path, separator, is_strict=is_strict)
    _, header = next(rows)
    if missing := [name for name in columns if name not in header]:
        raise DataError(f"{path.name}: there is no column {', '.join(missing)}")
    for number, record in rows:
        yield number, dict(zip(header, record))  # noqa: B905 - of one length, and read often


def _records(
    path: Path, separator: str, *, is_strict: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """Yield the header of a table as number 0, then its records, each as long as the header; blank lines are none."""
    csv.field_size_limit(_MAX_CELL)
    number = 0
    by = "" if separator == "," else f" by {_SEPARATORS[separator]}"
    is_packed = path.suffix == ".gz"
    try:
        with (gzip.open if is_packed else open)(
            path, "rt", encoding="utf-8-sig", newline=""
        ) as file:
            if not _NAMED_MARK.fullmatch(file.readline()):
                file.seek(0)
            records = csv.reader(file, delimiter=separator, strict=is_strict)
            header = next(records, [])
            yield 0, header
            for number, record in enumerate(filter(None, records), 1):
                if len(record) != len(header):
                    raise DataError(
                        f"{path.name}, row {number}: {len(record)} cells{by}, "
                        f"the header has {len(header)}"
                    )
                yield number, record
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(
            f"{path.name}: not a whole gzip file behind row {number}; download it again"
        ) from None
    except UnicodeDecodeError:
        behind = f"{path.name}: not UTF-8 behind row {number}"
        raise DataError(behind if is_packed else _not_utf8(path)) from None
    except csv.Error as e:
        raise DataError(f"{path.name}, row {number + 1}: not CSV ({e})") from None


def _separator(path: Path) -> str:
    """Return the mark between a table's cells; where none fits all rows, the one that parts its header.

    The file is read for it only where its first line holds several marks. One that is not of the file's kind
    must part the header into more cells than that one does: else it is text, and a row is ragged. Raises
    DataError where two fit.
    """
    own = "\t" if path.suffix == ".tsv" else ","
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = file.readline()
    if named := _NAMED_MARK.fullmatch(header):
        return named[1]
    others = sorted((m for m in _SEPARATORS if m != own and m in header), key=header.count)
    if not others:
        return own
    more = [mark for mark in others if header.count(mark) > header.count(own)]
    fitting = [mark for mark in (own, *more) if _fits(path, mark)]
    if len(fitting) > 1:
        names = " and ".join(_SEPARATORS[mark] for mark in fitting)
        raise DataError(
            f"{path.name}: both {names} part all rows alike; save the file with a "
            f"{_SEPARATORS[own]} between its columns"
        )
    return fitting[0] if fitting else own if own in header else others[-1]


def _fits(path: Path, separator: str) -> bool:
    """Return whether a mark parts every row of a table into as many cells, two or more."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            records = csv.reader(file, delimiter=separator, strict=True)
            width = len(next(records, []))
            return width > 1 and all(len(record) == width for record in records if record)
    except (UnicodeDecodeError, csv.Error):  # said where the rows are read
        return False


def read_jsonl(path: Path) -> _Rows:
    """Yield the objects of JSON lines, also of a gzip file; blank lines are skipped."""
    offset = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.removeprefix(_BOM) if number == 1 else line
            if text.strip():
                where = f"{path.name}, row {number}"
                yield number, _object(_decode(text, where, offset), where)
            offset += len(line)


def read_gzip(path: Path) -> _Rows:
    """Yield the objects of JSON lines in a gzip file; raises DataError for any other one."""
    if not path.name.endswith(".jsonl.gz"):
        raise DataError(f"{path.name}: of gzip files only .jsonl.gz can be read")
    try:
        yield from read_jsonl(path)
    except (EOFError, OSError, zlib.error) as e:
        raise DataError(f"{path.name}: not readable as gzip ({type(e).__name__})") from None


def read_cells(path: Path) -> _Rows:
    """Yield the objects of JSON lines with every value as text, as a CSV file has it."""
    for number, row in read_jsonl(path):
        where = f"{path.name}, row {number}"
        yield number, {name: _cell(value, name, where) for name, value in row.items()}


def _cell(value: Any, name: str, where: str) -> str:
    if isinstance(value, dict | list):
        raise DataError(f"{where}: column {name[:40]!r} holds {_kind(value)}, expected a text")
    if isinstance(value, str) or value is None:
        return value or ""
    return msgspec.json.encode(value).decode()


def read_json(path: Path) -> _Rows:
    """Yield the objects of one JSON list. The file is held in memory."""
    rows = _decode(path.read_bytes().removeprefix(_BOM), path.name, 0)
    if not isinstance(rows, list):
        raise DataError(f"{path.name}: holds {_kind(rows)}, expected a list of objects")
    for number, row in enumerate(rows, 1):
        yield number, _object(row, f"{path.name}, row {number}")


def read_parquet(path: Path) -> _Rows:
    """Yield the records of a Parquet file, a batch of a row group at a time."""
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as e:
        raise DataError(
            f"{path.name}: not readable as Parquet behind row {number} ({type(e).__name__})"
        ) from None


def read_xlsx(path: Path) -> _Rows:
    """Yield the records of the first sheet with every cell as text. A whole number has no point."""
    from xml.etree.ElementTree import ParseError

    from openpyxl.utils.exceptions import InvalidFileException

    try:
        yield from _sheet_rows(path)
    except (InvalidFileException, ParseError, *DAMAGED, OSError, LookupError, TypeError) as e:
        raise DataError(f"{path.name}: not readable as xlsx ({type(e).__name__})") from None


def _sheet_rows(path: Path) -> _Rows:
    from openpyxl import load_workbook

    book = load_workbook(path, read_only=True, data_only=True)
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        header = [_sheet_cell(cell).strip() for cell in next(rows, ())]
        named = [name for name in header if name]
        if len(set(named)) < len(named):
            raise DataError(f"{path.name}: a column name is there twice in the header")
        for number, cells in enumerate(rows, 1):
            texts = [_sheet_cell(cell) for cell in cells]
            if any(texts):
                padded = texts + [""] * (len(header) - len(texts))
                yield number, {n: c for n, c in zip(header, padded, strict=False) if n}
    finally:
        book.close()


def _sheet_cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def read_texts(folder: Path) -> _Rows:
    """Yield name (without .txt) and text of each text file of a folder, in order of the names."""
    for number, path in enumerate(entries(folder, ends=(".txt",)), 1):
        try:
            yield number, {"name": path.stem, "text": path.read_text(encoding="utf-8-sig")}
        except UnicodeDecodeError:
            raise DataError(_not_utf8(path)) from None


READERS: Mapping[str, Callable[[Path], _Rows]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".jsonl": read_jsonl,
    ".gz": read_gzip,
    ".json": read_json,
    ".parquet": read_parquet,
    ".xlsx": read_xlsx,
}


def repeated_key(data: bytes | str) -> tuple[str, dict[str, Any]] | None:
    """Return the first key that occurs twice in one object of a JSON text, and that object.

    A decoder keeps the last value and says nothing: which one was meant is not known.
    """
    found: list[tuple[str, dict[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            found.append((next(name for name in names if names.count(name) > 1), value))
        return value

    json.loads(data, object_pairs_hook=keep, parse_int=str, parse_float=str)
    return found[0] if found else None


def _decode(data: bytes, where: str, offset: int) -> Any:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        try:
            data.decode()
        except UnicodeDecodeError as bad:
            raise DataError(f"{where}: not UTF-8 at byte {offset + bad.start}") from None
        raise DataError(
            f"{where}: not JSON ({' '.join(str(e).split())}); NaN and infinities are not JSON"
        ) from None
    if (repeated := repeated_key(data)) is not None:
        raise DataError(f"{where}: key {repeated[0][:40]!r} is there twice in one object")
    return value


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: holds {_kind(value)}, expected an object")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return names.get(type(value), "null" if value is None else "a number")


def _not_utf8(path: Path) -> str:
    """Return the message that names the first byte that is not UTF-8, and its line."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as e:
                where = f"byte {offset + e.start}; it is in line {number}"
                return f"{path.name}: not UTF-8 at {where}; save the file as UTF-8"
            offset += len(line)
    return f"{path.name}: not UTF-8; save the file as UTF-8"
