"""A published CSV table, plain or gzipped, a row at a time."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm.errors import DataError

_MAX_CELL = 2**31 - 1
"""The csv module's own limit of 131,072 characters is below the size of a long note."""


def read_table(
    path: Path, columns: Sequence[str] = (), separator: str = ",", *, is_strict: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows as texts by column, numbered from 1; blank lines are skipped.

    `columns` must be there; others may be. Without `is_strict` a quotation mark inside a cell is text. Raises DataError, which names file and
    row and shows no text.
    """
    csv.field_size_limit(_MAX_CELL)
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(
            path, "rt", encoding="utf-8-sig", newline=""
        ) as file:
            reader = csv.reader(file, delimiter=separator, strict=is_strict)
            header = next(reader, [])
            if missing := [name for name in columns if name not in header]:
                raise DataError(f"{path.name}: there is no column {', '.join(missing)}")
            for number, record in enumerate(filter(None, reader), 1):
                if len(record) != len(header):
                    raise DataError(
                        f"{path.name}, row {number}: {len(record)} cells, "
                        f"the header has {len(header)}"
                    )
                yield number, dict(zip(header, record))  # noqa: B905 - of one length, and read often
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(
            f"{path.name}: not a whole gzip file behind row {number}; download it again"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path.name}: not UTF-8 behind row {number}") from None
    except csv.Error as e:
        raise DataError(f"{path.name}, row {number + 1}: not CSV ({e})") from None
