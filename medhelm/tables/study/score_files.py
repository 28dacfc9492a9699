"""Read `scores.parquet` of graded runs, in batches, so that no file is held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medhelm.data.sources import file_sha256
from medhelm.errors import RecordError
from medhelm.store.records import SCORES_HASH
from medhelm.tables.study.cells import (
    CHOSEN_COLUMNS,
    METADATA_COLUMNS,
    Cell,
    read_chosen,
    read_metadata,
)
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


def metadata_of(cell: Cell) -> dict[int, dict[str, str]]:
    """Return the metadata of the instances of a run by their keys; raises RecordError."""
    scores = read_scores(cell.run, METADATA_COLUMNS)
    try:
        return read_metadata(scores)
    except ValueError as e:
        raise RecordError(f"{cell.run.folder}: scores.parquet: {e}") from None


def chosen_of(cell: Cell) -> dict[tuple[int, int], str]:
    """Return what was read in the answers of a run, by instance and repeat; raises RecordError."""
    return read_chosen(read_scores(cell.run, CHOSEN_COLUMNS), cell.record.grading.metrics[0].name)
