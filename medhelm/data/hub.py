"""Rows of data sets on the Hugging Face hub: loaded, and cached, by the `datasets` library.

`load` alone asks the network. It leaves a record, `<name>.hub`, where the file would lie: which rows
came, their checksum, and the files of the library's cache that hold them. Rows are read from there
as long as they have that checksum.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import DataError
from medhelm.files.durable import AtomicFile
from medhelm.schema.data import HubSource, Row


class HubRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`<name>.hub`: the rows of one source as they came from the hub."""

    source: HubSource
    rows: int
    rows_sha256: str
    """Checksum of the rows, in their order."""
    sha256: str
    """The hash of the file that they came in; of several files that of the rows."""
    cached: tuple[str, ...]
    """The files of the cache of `datasets` that hold them."""

    @property
    def is_cached(self) -> bool:
        """Return whether the rows are still in the cache."""
        return all(Path(name).is_file() for name in self.cached)


def record_path(path: Path) -> Path:
    """Return where the record of a source lies whose file belongs at a path."""
    return path.with_name(f"{path.name}.hub")


def read_record(path: Path, hub: HubSource) -> HubRecord | None:
    """Return the record of a source; None where there is none, or one of another source."""
    try:
        found = msgspec.json.decode(record_path(path).read_bytes(), type=HubRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.source == hub else None


def write_record(path: Path, record: HubRecord) -> None:
    """Store the record of a source whose file belongs at a path."""
    with AtomicFile(record_path(path)) as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=1))


def cached_rows(record: HubRecord) -> Iterator[tuple[int, Row]]:
    """Yield the rows of the cache with their number, from 1; they are not held in memory."""
    import datasets

    number = 0
    for name in record.cached:
        for row in datasets.Dataset.from_file(name):
            number += 1
            yield number, row


def is_unchanged(record: HubRecord) -> bool:
    """Return whether the cached rows have the checksum. Unchanged files are read once a process."""
    try:
        states = tuple((s.st_size, s.st_mtime_ns) for s in (Path(n).stat() for n in record.cached))
        return _checksum(record, states) == record.rows_sha256
    except Exception:  # of pyarrow, by what is wrong with a damaged file
        return False


@lru_cache(maxsize=256)
def _checksum(record: HubRecord, states: tuple[tuple[int, int], ...]) -> str:
    return rows_sha256(row for _, row in cached_rows(record))


def rows_sha256(rows: Iterable[Row]) -> str:
    """Return the checksum of rows: the sha256 of their JSON lines."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(msgspec.json.encode(row) + b"\n")
    return digest.hexdigest()


def load(path: Path, hub: HubSource, *, again: bool = False) -> HubRecord:
    """Return the record of a source that `datasets` has loaded from the hub, or has in its cache.

    `path`: where its file would lie. `again`: whatever the cache holds. Raises DataError.
    """
    import datasets

    with _asking(path, hub):
        arguments, files = _resolved(hub)
        paths = [_downloaded(hub, name) for name in files]
        if "keep_default_na" in arguments:  # a cell of a table is the text that it is
            with paths[0].open(encoding="utf-8-sig", newline="") as table:
                names = next(csv.reader(table))
            arguments["features"] = datasets.Features(
                {name: datasets.Value("string") for name in names}
            )
        mode = "force_redownload" if again else None
        rows = datasets.load_dataset(**arguments, split=hub.split, download_mode=mode)
        rows_hash = sha256 = rows_sha256(rows)
        if len(paths) == 1:
            with paths[0].open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return HubRecord(
        source=hub,
        rows=len(rows),
        rows_sha256=rows_hash,
        sha256=sha256,
        cached=tuple(file["filename"] for file in rows.cache_files),
    )


def _downloaded(hub: HubSource, address: str) -> Path:
    """Return the path of a file of the repository in the cache, where `datasets` finds it, too."""
    from huggingface_hub import hf_hub_download

    if not address.startswith(_HUB):
        return Path(address)
    name = address.partition(f"@{hub.revision}/")[2]
    return Path(hf_hub_download(hub.repo, name, repo_type="dataset", revision=hub.revision))


def files_of(path: Path, hub: HubSource) -> list[tuple[str, int]]:
    """Return the files that a source is loaded from, and their bytes, as the hub states them."""
    from huggingface_hub import HfFileSystem

    with _asking(path, hub):
        files, system = _resolved(hub)[1], HfFileSystem()
        return [
            (
                name,
                system.info(name)["size"] if name.startswith(_HUB) else Path(name).stat().st_size,
            )
            for name in files
        ]


_HUB = "hf://"


class _OtherRevision(Exception):
    """The hub was not reached, and the cache holds something else."""


def _resolved(hub: HubSource) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments for `load_dataset`, and the addresses of the files of the split.

    Where the hub cannot be reached `datasets` takes any revision that it has, and a folder of the
    repository's name before both: neither is taken here.
    """
    import datasets

    chosen: dict[str, Any] = {"path": hub.repo, "name": hub.config, "revision": hub.revision}
    if hub.file:
        chosen["data_files"] = {hub.split: hub.file}
    builder = datasets.load_dataset_builder(**chosen)
    is_local = Path(hub.repo).is_absolute()
    if builder.config.data_files is None or not (is_local or builder.hash == hub.revision):
        raise _OtherRevision
    if hasattr(builder.config, "keep_default_na"):
        chosen["keep_default_na"] = False
    return chosen, list(builder.config.data_files.get(hub.split, ()))


@contextlib.contextmanager
def _asking(path: Path, hub: HubSource) -> Iterator[None]:
    """Keep the libraries from printing; raise DataError for what they raise."""
    import datasets
    import huggingface_hub

    fix = f"without network put {path.name} into {path.parent}"
    with contextlib.ExitStack() as undone:
        for bars in (datasets.utils, huggingface_hub.utils):
            if not bars.are_progress_bars_disabled():
                bars.disable_progress_bars()
                undone.callback(bars.enable_progress_bars)
        for log in (datasets.utils.logging, huggingface_hub.utils.logging):
            undone.callback(log.set_verbosity, log.get_verbosity())
            log.set_verbosity(log.CRITICAL)
        try:
            yield
        except _OtherRevision:
            why = "is not in the cache and the hub was not reached"
            raise DataError(f"{hub} {why}; {fix}") from None
        except Exception as e:  # the hub's clients raise errors of several HTTP libraries
            reason = type(e).__name__
            raise DataError(f"{hub} cannot be loaded from the hub ({reason}); {fix}") from None
