"""Data files -> rows -> checked instances, streamed.

Files lie at `<data root>/<benchmark>/<file>`. Their hashes are checked when a data set is
opened. Nothing here keeps a whole file in memory but the reader of `.json` and what a
benchmark's own `read` does.
"""

from __future__ import annotations

import hashlib
import re
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import msgspec

from medhelm.data.hub import cached_rows
from medhelm.data.instance_ids import ContentIds, SmallHashSet, hash64
from medhelm.data.readers import read_cells, read_file, read_jsonl
from medhelm.data.rubrics import check_criteria
from medhelm.data.sources import (
    check_cached,
    check_file,
    default_split,
    file_path,
    file_sha256,
    files_beside,
    of_split,
    source_sha256,
)
from medhelm.errors import DataError, MedhelmError, PluginError, UnknownName
from medhelm.schema.data import (
    Benchmark,
    FileDataset,
    HubDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
)
from medhelm.schema.type_errors import explain

MAX_CHOICES = len(ascii_uppercase)
_INSTANCE = msgspec.json.Decoder(Instance)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_Located = tuple[str, Row | LeftOut]
"""The place of a row ('test.csv, row 3'), and the row."""


@dataclass(frozen=True)
class RowCounts:
    """Numbers of rows of one reading that are not instances of their own."""

    copies: Counter[str] = field(default_factory=Counter)
    """Rows without ids that repeat another one, by that one's id."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that the benchmark leaves out, by reason."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The rows and instances of one split of a benchmark. Every call reads from the start."""

    benchmark: Benchmark
    data: Literal["sample", "full"]
    split: str
    sha256: str
    """Hash of what decides the rows: files and split, or hub repository, revision and split."""
    folder: Path
    """Folder of the files (see `data_folder`)."""
    read: Callable[[], Iterator[_Located]]
    """Opens the rows anew."""
    change: Callable[[Instance], Instance | None] | None = None
    """Returns a checked instance in another form, None to leave it out; None: as it is."""

    def rows(self) -> Iterator[Row]:
        """Yield the rows as their reader gives them; raises DataError."""
        for _, row in self.read():
            if not isinstance(row, LeftOut):
                yield row

    def instances(self, counts: RowCounts | None = None) -> Iterator[Instance]:
        """Yield checked instances, ids filled, in the order of the file.

        An instance without an id gets 16 hex digits of the sha256 of context, question,
        choices and references; the second, third, ... of identical ones get `-2`, `-3`, ...
        Raises DataError naming benchmark, place and field for an instance that cannot be
        asked or scored, and where there is none at all. Ids that repeat are left to
        `find_duplicate_ids`.
        """
        names, is_empty = ContentIds(), True
        counts = counts or RowCounts()
        for place, row in self.read():
            try:
                mapped = row if isinstance(row, LeftOut) else self._map(row)
                if isinstance(mapped, LeftOut):
                    counts.left_out[mapped.reason] += 1
                    continue
                instance = check_instance(self.benchmark, mapped)
            except _Fault as e:
                raise DataError(f"{self.benchmark.name}: {place}: {e}") from None
            if not instance.id:
                name, is_copy = names.name(instance)
                if is_copy:
                    counts.copies[name] += 1
                own = f"{name}-{is_copy + 1}" if is_copy else name
                instance = msgspec.structs.replace(instance, id=own)
            changed = instance if self.change is None else self.change(instance)
            if changed is not None:
                is_empty = False
                yield changed
        if is_empty:
            name, why = self.benchmark.name, self._why(counts)
            raise DataError(f"{name}: split {self.split!r} has no instance{why}")

    def _why(self, counts: RowCounts) -> str:
        """Return why there is no instance, as far as it is known."""
        dataset = self.benchmark.dataset
        if counts.left_out:
            return f"; {left_out_note(counts.left_out)}"
        if self.data == "sample" or not self.benchmark.columns:
            return ""
        path = file_path(self.benchmark, dataset.needed(self.split)[0], self.folder.parent)
        return f"; {path.name} holds no row of data"

    def _map(self, row: Row) -> Instance | LeftOut:
        row, column = _Checked(row), self.benchmark.dataset.split_column
        if column:
            row[column] = self.split
        try:
            return self.benchmark.to_instance(row)
        except _NoColumn as e:
            raise _Fault(f"there is no column {e.args[0]!r}") from None
        except DataError as e:
            raise _Fault(str(e)) from None
        except (Exception, SystemExit) as e:  # of a plugin; its text could be clinical
            raise _Fault(f"to_instance failed: {_blame(self.benchmark, e)}") from None


class _Fault(Exception):
    """The fault of one row, without any of its text."""


class _NoColumn(KeyError):
    """A row was asked for a column that it does not have."""


class _Checked(dict[str, Any]):
    """A row that separates a missing column from any other KeyError of a plugin."""

    def __missing__(self, key: str) -> Any:
        raise _NoColumn(key)


def open_dataset(
    benchmark: Benchmark, data: Literal["sample", "full"], *, split: str | None = None, root: Path
) -> Dataset:
    """Return the data of a benchmark: its bundled samples, or a split of the files below `root`.

    Raises DataError for a missing or changed file, UnknownName for an unknown split.
    """
    splits = benchmark.dataset.splits
    chosen = split or (splits[0] if data == "sample" else default_split(benchmark, root))
    if chosen not in splits:
        raise UnknownName("split", chosen, splits, f"{benchmark.name} has {', '.join(splits)}.")
    if data == "sample":
        sha256, read = _open_samples(benchmark)
    else:
        sha256, read = _open_files(benchmark, benchmark.dataset, chosen, root)
    folder = data_folder(benchmark, data, root)
    return Dataset(
        benchmark=benchmark, data=data, split=chosen, sha256=sha256, folder=folder, read=read
    )


def is_redistributable(benchmark: Benchmark, data: str, split: str, sha256: str) -> bool:
    """Return whether the text of a data set may be republished.

    Files of a user's in place of a hub's rows may hold anything: by their hash they are other data.
    """
    source = benchmark.dataset
    if data == "sample" or not benchmark.redistributable:
        return benchmark.redistributable
    if isinstance(source, HubDataset):
        return sha256 == hashlib.sha256(_identity(source, split).encode()).hexdigest()
    return all(file.redistributable for file in source.needed(split))


def open_rows(benchmark: Benchmark, path: Path, split: str) -> Dataset:
    """Return the data of one file of the user's, with rows like the benchmark's; raises DataError."""
    if not path.is_file():
        raise DataError(f"{benchmark.name}: there is no file {path}")
    source = SourceFile(name=path.name)
    part = _Part(path.name, partial(read_file, path), source)
    return Dataset(
        benchmark=benchmark,
        data="full",
        split=split,
        sha256=file_sha256(path),
        folder=path.parent,
        read=lambda: _locate(benchmark, [part]),
    )


def data_folder(benchmark: Benchmark, data: Literal["sample", "full"], root: Path) -> Path:
    """Return where a benchmark's files lie: `<root>/<benchmark>`, or the folder of its samples."""
    return _samples(benchmark).parent if data == "sample" else root / benchmark.name


def find_duplicate_ids(dataset: Dataset) -> list[str]:
    """Return the ids that more than one instance has, in order of their second occurrence.

    Takes 10 to 20 bytes an instance: 64-bit hashes first, then, only if some repeat, a
    second reading that compares the ids themselves.
    """
    hashes = SmallHashSet()
    repeated = {h for i in dataset.instances() if not hashes.add(h := hash64(i.id.encode()))}
    if not repeated:
        return []
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for instance in dataset.instances():
        if hash64(instance.id.encode()) not in repeated:
            continue
        if instance.id in seen:
            twice[instance.id] = None
        seen.add(instance.id)
    return list(twice)


def left_out_note(left_out: Mapping[str, int]) -> str:
    """Return how many rows are left out and why; empty where none is."""
    if not left_out:
        return ""
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in left_out.items())
    return f"{sum(left_out.values()):,} row(s) are left out: {reasons}"


def check_instance(benchmark: Benchmark, instance: object) -> Instance:
    """Return the instance with its fields' types checked. The error names the field only."""
    if not isinstance(instance, Instance):
        found = "None" if instance is None else type(instance).__name__
        raise _Fault(
            f"to_instance gave {found}, not an Instance, or LeftOut('why') for a row to leave out"
        )
    try:
        instance = _INSTANCE.decode(msgspec.json.encode(instance))
    except msgspec.ValidationError as e:
        raise _Fault(explain(e, Instance)) from None
    except UnicodeEncodeError:
        raise _Fault("the text holds half of a surrogate pair, which UTF-8 cannot write") from None
    except TypeError as e:
        raise _Fault(f"a field has a value of the wrong type ({e})") from None
    if benchmark.answer in ("text", "labels") and not all(r.strip() for r in instance.references):
        # An empty cell is not a gold: it would make an answer that says nothing right.
        golds = tuple(r for r in instance.references if r.strip())
        instance = msgspec.structs.replace(instance, references=golds)
    if not (instance.context.strip() or instance.question.strip() or instance.turns):
        raise _Fault("context and question are both empty")
    if instance.criteria:
        try:
            check_criteria(instance.criteria, "its criteria")
        except PluginError as e:
            raise _Fault(str(e)) from None
    if instance.choices or benchmark.answer == "choice":
        _check_choices(instance)
    elif benchmark.answer == "number":
        if not instance.references or not instance.references[0].strip():
            raise _Fault("references: there is no gold")
        if any(_NOT_FINITE.fullmatch(r.strip()) for r in instance.references):
            raise _Fault("references: a gold is not a finite number")
    elif benchmark.answer == "labels" and benchmark.labels:
        unknown = set(instance.references) - set(benchmark.labels)
        if unknown:
            raise _Fault(f"references: {len(unknown)} label(s) are not among the declared ones")
    return instance


def _check_choices(instance: Instance) -> None:
    n = len(instance.choices)
    if not 1 <= n <= MAX_CHOICES:
        raise _Fault(f"choices: there are {n} options, expected 1 to {MAX_CHOICES}")
    if not all(choice.strip() for choice in instance.choices):
        raise _Fault("choices: an option is empty")
    letters = ascii_uppercase[:n]
    if not instance.references:
        raise _Fault("references: there is no gold")
    if any(len(r) != 1 or r not in letters for r in instance.references):
        raise _Fault(f"references: not a letter of the {n} options")


def _blame(benchmark: Benchmark, e: BaseException) -> str:
    """Return what an exception of a plugin is and where it arose, without its text."""
    if isinstance(e, UnicodeDecodeError):
        return f"not UTF-8 at byte {e.start}"
    if isinstance(e, zipfile.BadZipFile | zlib.error | EOFError):
        return "not a whole zip file; download it again"
    frames = traceback.extract_tb(e.__traceback__)
    own = [frame for frame in frames if frame.filename == benchmark.origin]
    frame = (own or frames)[-1]
    return f"{type(e).__name__} at {Path(frame.filename).name} line {frame.lineno}"


# Where the rows come from ------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """One file of a data set, or what came from the hub in its place."""

    name: str
    read: Callable[[], Iterator[tuple[int, Row]]]
    source: SourceFile


def _open_samples(benchmark: Benchmark) -> tuple[str, Callable[[], Iterator[_Located]]]:
    path = _samples(benchmark)
    if not path.is_file():
        raise DataError(
            f"{benchmark.name}: no bundled samples; write synthetic rows to {path}, "
            f"or use data=full"
        )

    part = _Part(path.name, partial(read_jsonl, path), SourceFile(name=path.name))
    return file_sha256(path), lambda: _locate(benchmark, [part])


def _samples(benchmark: Benchmark) -> Path:
    beside = Path(benchmark.origin).parent / "samples" / f"{benchmark.name}.jsonl"
    return beside if benchmark.samples is None else benchmark.samples


def _open_files(
    benchmark: Benchmark, dataset: FileDataset, split: str, root: Path
) -> tuple[str, Callable[[], Iterator[_Located]]]:
    digest = hashlib.sha256(_identity(dataset, split).encode())
    paths: list[Path] = []
    parts: list[_Part] = []
    for source in dataset.needed(split):
        if source.hub and not files_beside(benchmark, source, root):
            record = check_cached(benchmark, source, root)
            if not isinstance(dataset, HubDataset):
                digest.update(f"{record.sha256}  {source.name}\n".encode())
            parts.append(_Part(Path(source.name).name, partial(cached_rows, record), source))
            continue
        for path, named in _checked(benchmark, source, root):
            digest.update(f"{source_sha256(source, path)}  {named}\n".encode())
            is_other = not source.hub and path.name != Path(source.name).name
            reader = read_cells if is_other else read_file  # JSON lines in place of a CSV file
            parts.append(_Part(path.name, partial(reader, path), source))
            paths.append(path)
    if dataset.read is not None:
        own = dataset.read
        return digest.hexdigest(), lambda: _guard(benchmark, lambda: own(paths, split), parts)
    if not all(part.source.splits for part in parts):
        names = of_split([Path(part.name) for part in parts], split, dataset.splits)
        parts = [part for part in parts if Path(part.name) in names]
    if not parts:
        raise PluginError(
            f"benchmark {benchmark.name!r}: no file of split {split!r}; "
            f"name its files {split}.csv or the like, or declare FileDataset.read"
        )
    if dataset.expand is None:
        return digest.hexdigest(), lambda: _locate(benchmark, parts)
    expand = dataset.expand

    def expanded() -> Iterable[Row | LeftOut]:
        return expand(row for _, row in _locate(benchmark, parts))

    return digest.hexdigest(), lambda: _guard(benchmark, expanded, parts)


def _checked(benchmark: Benchmark, source: SourceFile, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files of a source, and the name that each has in the hash of the data."""
    if isinstance(benchmark.dataset, HubDataset):
        yield from ((path, path.name) for path in files_beside(benchmark, source, root))
    else:
        yield check_file(benchmark, source, root), source.name


def _identity(dataset: FileDataset, split: str) -> str:
    """Return what a data set is beside its files: the split, of the hub repository and commit, too."""
    if not isinstance(dataset, HubDataset):
        return f"{split}\n"
    (hub,) = (source.hub for source in dataset.needed(split) if source.hub)
    return f"{hub.repo}\n{hub.revision}\n{hub.config or ''}\n{split}\n"


def _locate(benchmark: Benchmark, parts: Iterable[_Part]) -> Iterator[tuple[str, Row]]:
    for part in parts:
        try:
            more = part.source.cells
            for number, row in part.read():
                yield f"{part.name}, row {number}", {**row, **more} if more else row
        except DataError as e:
            raise DataError(f"{benchmark.name}: {e}") from None


def _guard(
    benchmark: Benchmark, read: Callable[[], Iterable[Row | LeftOut]], parts: Iterable[_Part]
) -> Iterator[_Located]:
    """Yield the rows of a benchmark's own reader; whatever it raises names the benchmark."""
    n = 0
    try:
        for n, row in enumerate(read(), 1):
            yield f"row {n}", row
    except MedhelmError as e:
        raise DataError(f"{benchmark.name}: {str(e).removeprefix(f'{benchmark.name}: ')}") from None
    except (Exception, SystemExit) as e:  # the boundary to a plugin
        names = ", ".join(part.name for part in parts)
        raise DataError(
            f"{benchmark.name}: {names} cannot be read behind row {n}: {_blame(benchmark, e)}"
        ) from None
