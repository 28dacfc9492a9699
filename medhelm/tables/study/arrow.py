"""Columns of scores.parquet -> numpy arrays, straight from Arrow's buffers.

Arrow's own conversion imports pandas, which takes longer than most tables do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from medhelm.data.sources import file_sha256
from medhelm.errors import RecordError
from medhelm.stats.aggregation import Floats
from medhelm.store.records import SCORES_HASH
from medhelm.tables.study.selection import GradedRun

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 4096


def read_scores(run: GradedRun, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of `scores.parquet` of a graded run in batches.

    Raises RecordError for a damaged file, and for one that is not of the same grading as the
    summary.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run.path / "scores.parquet"
    expected = run.record.provenance.get(SCORES_HASH)
    try:
        if expected and file_sha256(path) != expected:
            raise RecordError(
                f"{path} is damaged or not that of its summary.json; `medhelm score` writes both again"
            )
        there = pq.read_schema(path).names
        missing = [c for c in columns if c not in there]
        if missing:
            raise RecordError(
                f"{path} has no column {missing[0]!r}; `medhelm score` writes it again"
            )
        coded = [c for c in ("metric", "outcome") if c in there]
        with pq.ParquetFile(path, page_checksum_verification=True, read_dictionary=coded) as file:
            for group in range(file.num_row_groups):  # a reader over all keeps what it has read
                yield from file.iter_batches(
                    _BATCH, row_groups=[group], columns=list(columns), use_threads=False
                )
    except FileNotFoundError:
        raise RecordError(f"{path} is missing; `medhelm score` writes it again") from None
    except (OSError, UnicodeDecodeError, pa.ArrowException) as e:
        fix = "`medhelm score` writes it again"
        raise RecordError(f"{path} cannot be read ({type(e).__name__}); {fix}") from None


def numbers(column: pa.Array) -> NDArray[Any]:
    """Return a column of numbers (n,), as floats with NaN for null where there are nulls.

    Raises ValueError for a column of another type.
    """
    try:
        dtype = np.dtype(str(column.type))
    except TypeError:
        raise ValueError(f"a column of type {column.type}, where numbers belong") from None
    validity, data = column.buffers()
    values = _buffer_values(data, dtype)[column.offset : column.offset + len(column)]
    if not column.null_count:
        return values
    return np.where(_bits(validity, column), values.astype(np.float64), np.nan)


def codes(column: pa.DictionaryArray | pa.StringArray) -> tuple[NDArray[np.int64], list[str]]:
    """Return a column of few different names as (n,) places in a list of names; -1 for null."""
    is_encoded = hasattr(column, "indices")  # encoding imports 6 MB of pyarrow
    encoded = column if is_encoded else column.dictionary_encode()
    places = np.nan_to_num(numbers(encoded.indices), nan=-1)
    return places.astype(np.int64), encoded.dictionary.to_pylist()


def maps(column: pa.MapArray, rows: NDArray[np.bool_]) -> tuple[tuple[str, ...], Floats]:
    """Return the names (k,) in the maps of some rows (a mask), and their floats as (rows, k).

    Raises ValueError where they are missing, not finite, or where a row has other names or the same
    ones in another order.
    """
    if not rows.any():
        return (), np.empty((0, 1))
    at = _spread(column, rows)
    places, names = codes(column.keys)
    own = places[at]
    if (own != own[0]).any() or len(set(own[0])) < len(own[0]) or own[0].min() < 0:
        raise ValueError("rows with sums of different names")
    return tuple(names[place] for place in own[0]), _finite(numbers(column.items)[at])


def _spread(column: pa.ListArray, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the places (rows, k) in a column's values of the lists of some rows."""
    _, offsets = column.buffers()[:2]
    ends = _buffer_values(offsets, np.dtype(np.int32))[
        column.offset : column.offset + len(column) + 1
    ]
    lengths = np.diff(ends)[rows]
    size = int(lengths[0])
    if size < 1 or (lengths != size).any():
        raise ValueError("rows with a value have no statistics, or of different length")
    return np.asarray(ends[:-1][rows][:, None] + np.arange(size), dtype=np.int64)


def _finite(found: NDArray[Any]) -> Floats:
    if not np.isfinite(found).all():
        raise ValueError("statistics that are not finite")
    return found.astype(np.float64, copy=False)


def _buffer_values(buffer: pa.Buffer | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(buffer, dtype) if buffer is not None else np.empty(0, dtype)


def _bits(validity: pa.Buffer, column: pa.Array) -> NDArray[np.bool_]:
    bits = np.unpackbits(_buffer_values(validity, np.dtype(np.uint8)), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(np.bool_)
