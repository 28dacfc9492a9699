"""Source files of a benchmark: where they lie, and whether they are right.

A file lies at `<data root>/<benchmark>/<name>`. The hash of a source without a pinned one
is recorded in `<name>.sha256` when it is first fetched. The hash of a folder is that of the list
of its files: in it, `LC_ALL=C sha256sum * | sha256sum`. Files in folders below it are listed by their
paths.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shlex
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from medhelm.config import data_root
from medhelm.data.hub import HubRecord, is_unchanged, read_record
from medhelm.data.readers import READERS
from medhelm.errors import DataError, PluginError
from medhelm.files.durable import why
from medhelm.files.folders import entries
from medhelm.schema.data import PART, Benchmark, HubDataset, SourceFile


def file_path(benchmark: Benchmark, source: SourceFile, root: Path) -> Path:
    """Return where a file is expected; raises PluginError for a name that leaves the folder.

    A table that users fill (`Benchmark.columns`) may be JSON lines in place of CSV.
    """
    name = Path(source.name)
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise PluginError(
            f"benchmark {benchmark.name!r}: file name {source.name!r} leaves its folder"
        )
    path = root / benchmark.name / name
    lines = path.with_suffix(".jsonl")
    if benchmark.columns and path.suffix == ".csv" and lines.is_file() and not path.exists():
        return lines
    return path


def is_there(source: SourceFile, path: Path) -> bool:
    """Return whether a source is at a path, as a file or as the folder that it is."""
    return path.is_dir() if source.folder else path.is_file()


def has_files(benchmark: Benchmark, sources: Sequence[SourceFile], root: Path) -> bool:
    """Return whether all of these sources lie on this machine."""
    return all(is_found(benchmark, source, root) for source in sources)


def default_split(benchmark: Benchmark, root: Path) -> str:
    """Return the split of the full data that is read where none is named.

    It is the first one. Where its files are missing, it is a part of the published set that is there.
    """
    dataset = benchmark.dataset
    first, *others = dataset.splits
    if has_files(benchmark, dataset.needed(first), root):
        return first
    parts = (s for s in others if s.startswith(PART))
    return next((s for s in parts if has_files(benchmark, dataset.needed(s), root)), first)


def source_sha256(source: SourceFile, path: Path, *, now: bool = False) -> str:
    """Return the sha256 of a source: of its bytes, or of what a gzip file holds (`now`: read again).

    What is no whole gzip file has the hash of its bytes' hash, which is never the pinned one.
    """
    if source.hashed_unpacked:
        try:
            return _hash_unpacked(path) if now else _hashed(path, _state(path), _hash_unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return hashlib.sha256(hash_file(path).encode()).hexdigest()
    return hash_file(path) if now else file_sha256(path)


def _hash_unpacked(path: Path) -> str:
    digest = hashlib.sha256()
    with gzip.open(path) as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file or folder. An unchanged file is read once per process."""
    if path.is_dir():
        return _hash_folder(path, file_sha256)
    return _hashed(path, _state(path), hash_file)


def _state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=8192)
def _hashed(path: Path, state: tuple[int, int], hash_one: Callable[[Path], str]) -> str:
    return hash_one(path)


def hash_file(path: Path) -> str:
    """Return the sha256 of a file or folder, read now."""
    if path.is_dir():
        return _hash_folder(path, hash_file)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_folder(path: Path, hash_one: Callable[[Path], str]) -> str:
    """Return the hash of the listing of a folder and those in it; what is hidden is left out."""
    files = {f.relative_to(path): f for f in entries(path, is_deep=True) if f.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files, key=lambda f: os.fsencode(f.as_posix())):
        listed = os.fsencode(name.as_posix())
        digest.update(f"{hash_one(files[name])}  ".encode() + listed + b"\n")
    return digest.hexdigest()


def fetch_command(benchmark: str, root: Path) -> str:
    """Return the command that fetches a benchmark's files into `root`."""
    where = "" if root == data_root(None) else f" --data-dir {shlex.quote(str(root))}"
    return f"medhelm data fetch {benchmark}{where}"


def origin_of(source: SourceFile) -> str:
    """Return where a source comes from; empty where a user must bring it."""
    return f"Hugging Face dataset {source.hub}" if source.hub else source.url


def wanted_sources(benchmark: Benchmark, *, examples: bool) -> tuple[SourceFile, ...]:
    """Return the sources that are fetched: those that hold worked examples alone only where these are wanted."""
    files = benchmark.dataset.files
    return tuple(s for s in files if examples or s.splits != (benchmark.examples,))


def can_fetch(benchmark: Benchmark) -> bool:
    """Return whether `medhelm data fetch` can get any file of a benchmark."""
    return any(source.is_fetchable for source in benchmark.dataset.files)


def first_step(benchmark: Benchmark) -> str:
    """Return a user's first step for data that cannot be fetched; empty where none is known."""
    if benchmark.columns:
        return f"`medhelm data template {benchmark.name}` writes a file to fill in"
    if benchmark.how_to_get:
        step = benchmark.how_to_get[0].rstrip(".")
        return f"first step: {step} (`medhelm describe {benchmark.name}` has all)"
    return ""


def how_to_get(benchmark: Benchmark, root: Path) -> str:
    """Return the command that fetches a benchmark's data, or where to put its files and how."""
    files = benchmark.dataset.needed(benchmark.dataset.splits[0])
    if not all(f.is_fetchable for f in files):
        missing = [f for f in files if not is_found(benchmark, f, root)]
        names = ", ".join(f.name for f in missing or files)
        put = f"put {names} into {root / benchmark.name}"
        return "; ".join(filter(None, [put, first_step(benchmark)]))
    return f"medhelm data fetch {benchmark.name}"


def check_file(benchmark: Benchmark, source: SourceFile, root: Path) -> Path:
    """Return the path of a file that is there and has its hash; raises DataError with the fix."""
    path = file_path(benchmark, source, root)
    command = fetch_command(benchmark.name, root)
    if benchmark.columns and path.suffix == ".csv" and path.with_suffix(".jsonl").is_file():
        raise DataError(
            f"{benchmark.name}: both {path.name} and {path.stem}.jsonl are in {path.parent}; "
            "move one of them away"
        )
    if not is_there(source, path):
        fixes = [f"run `{command}`" if source.url else f"put {path.name} into {path.parent}"]
        fixes += filter(None, [first_step(benchmark)])
        raise DataError(f"{benchmark.name}: {path} is missing; {'; '.join(fixes)}")
    try:
        expected, found = expected_sha256(source, path), source_sha256(source, path)
    except OSError as e:
        raise DataError(f"{benchmark.name}: cannot read {path}: {why(e)}") from None
    if expected and found != expected:
        fix = f"run `{command}` to replace it" if source.url else "put the right file there"
        if not source.sha256:
            fix += f", or delete {record_path(path).name} if this one is meant"
        if source.url and source.folder:
            fix = f"move the folder away and run `{command}`"
        raise DataError(
            f"{benchmark.name}: {path} has sha256 {found[:12]}..., "
            f"expected {expected[:12]}...; {fix}"
        )
    return path


def expected_sha256(source: SourceFile, path: Path) -> str:
    """Return the pinned hash, else the recorded one, else an empty text."""
    record = record_path(path)
    if source.sha256 or not record.is_file():
        return source.sha256
    words = record.read_text(encoding="utf-8", errors="replace").split(maxsplit=1)
    return words[0] if words else ""


def record_path(path: Path) -> Path:
    """Return where the hash of the first fetch is recorded."""
    return path.with_name(path.name + ".sha256")


def files_beside(benchmark: Benchmark, source: SourceFile, root: Path) -> list[Path]:
    """Return the files below `root` that a source is read from; none where they are not there.

    Of a data set of the hub these are what a user put there, named after the split. Whoever asks whether the data are there asks here or `is_found`.
    """
    dataset, path = benchmark.dataset, file_path(benchmark, source, root)
    if isinstance(dataset, HubDataset) and source.hub:
        files = sorted(p for p in path.parent.glob("*") if p.suffix in READERS and p.is_file())
        return of_split(files, source.hub.split, dataset.splits)
    return [path] if is_there(source, path) else []


def hub_record(benchmark: Benchmark, source: SourceFile, root: Path) -> HubRecord | None:
    """Return the record of the rows of a source that came from the hub; None without one."""
    path = file_path(benchmark, source, root)
    return read_record(path, source.hub) if source.hub else None


def is_found(benchmark: Benchmark, source: SourceFile, root: Path) -> bool:
    """Return whether a source can be read without network. Nothing is read."""
    if files_beside(benchmark, source, root):
        return True
    record = hub_record(benchmark, source, root)
    return record is not None and record.is_cached


def check_cached(benchmark: Benchmark, source: SourceFile, root: Path) -> HubRecord:
    """Return the record of a source whose cached rows have their checksum; raises DataError."""
    path, command = file_path(benchmark, source, root), fetch_command(benchmark.name, root)
    record = hub_record(benchmark, source, root)
    if record is None or not record.is_cached:
        lacks = "is missing" if record is None else "is no longer in the cache of datasets"
        raise DataError(f"{benchmark.name}: {path} {lacks}; run `{command}`")
    if fault := pin_fault(source, record):
        raise DataError(f"{benchmark.name}: {fault}")
    if not is_unchanged(record):
        raise DataError(
            f"{benchmark.name}: the rows of {source.name} in the cache of datasets are not those "
            f"that were fetched; run `{command}` to replace them"
        )
    return record


def pin_fault(source: SourceFile, record: HubRecord) -> str:
    """Return what is wrong with the hash of the file that came from the hub; empty: nothing."""
    if not source.sha256 or record.sha256 == source.sha256:
        return ""
    return f"{source.hub} has sha256 {record.sha256[:12]}..., expected {source.sha256[:12]}..."


def of_split(paths: Sequence[Path], split: str, splits: Sequence[str]) -> list[Path]:
    """Return the files named after the split; of a data set with one split, else all."""
    named = [p for p in paths if re.match(rf"{re.escape(split)}(?![a-z0-9])", p.stem)]
    return named if named or len(splits) > 1 else list(paths)
