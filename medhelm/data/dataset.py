"""Data files -> rows -> checked instances, streamed.

Files lie at `<data root>/<benchmark>/<file>`. Their hashes are checked when a data set is
opened. Nothing here keeps a whole file in memory but the reader of `.json` and what a
benchmark's own `read` does.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import msgspec

from medhelm.data.instance_ids import ContentIds, SmallHashSet, hash64
from medhelm.data.readers import OtherSeparator, read_cells, read_file, read_jsonl, with_cells
from medhelm.data.rubrics import check_criteria
from medhelm.data.sources import (
    check_file,
    default_split,
    file_path,
    file_sha256,
    hub_files,
    load_hub,
    of_split,
    source_sha256,
)
from medhelm.errors import DataError, MedhelmError, PluginError, UnknownName
from medhelm.schema.data import Benchmark, FileDataset, HubDataset, Instance, Row, SourceFile
from medhelm.schema.type_errors import explain

MAX_CHOICES = len(ascii_uppercase)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_Located = tuple[str, Row]
"""Pairs the place of a row ('test.csv, row 3') with the row."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """The rows and instances of one split of a benchmark. Every call reads from the start."""

    benchmark: Benchmark
    data: Literal["sample", "full"]
    split: str
    sha256: str
    """Hash of what decides the rows: files and split, or hub repository and revision."""
    folder: Path
    """Names the folder of the files (see `data_folder`)."""
    read: Callable[[], Iterator[_Located]]
    """Opens the rows anew."""
    change: Callable[[Instance], Instance | None] | None = None
    """Returns a checked instance in another form, None to leave it out; None: as it is."""

    def rows(self) -> Iterator[Row]:
        """Yield the rows as their reader gives them; raises DataError."""
        for _, row in self.read():
            yield row

    def instances(self, copies: Counter[str] | None = None) -> Iterator[Instance]:
        """Yield checked instances, ids filled, in the order of the file.

        An instance without an id gets 16 hex digits of the sha256 of context, question,
        choices and references; the second, third, ... of identical ones get `-2`, `-3`, ... and
        are counted in `copies` under the first one's id.
        Raises DataError naming benchmark, place and field for an instance that cannot be
        asked or scored, and where there is none at all. Ids that repeat are left to
        `find_duplicate_ids`.
        """
        names = ContentIds()
        rows, is_empty = 0, True
        for rows, (place, row) in enumerate(self.read(), 1):  # noqa: B007 - used below
            try:
                instance = self._map(row)
                if instance is None:
                    continue
                instance = check_instance(self.benchmark, instance)
            except _Fault as e:
                raise DataError(f"{self.benchmark.name}: {place}: {e}") from None
            if not instance.id:
                name, is_copy = names.name(instance)
                if is_copy and copies is not None:
                    copies[name] += 1
                own = f"{name}-{is_copy + 1}" if is_copy else name
                instance = msgspec.structs.replace(instance, id=own)
            if self.change is not None and (instance := self.change(instance)) is None:
                continue
            is_empty = False
            yield instance
        if is_empty:
            name, why = self.benchmark.name, self._why(rows)
            raise DataError(f"{name}: split {self.split!r} has no instance{why}")

    def _why(self, rows: int) -> str:
        """Return why there is no instance, as far as it is known."""
        dataset = self.benchmark.dataset
        if rows:
            return f"; {rows} row(s) were read and all are left out"
        if self.data == "sample" or not self.benchmark.columns or isinstance(dataset, HubDataset):
            return ""
        path = file_path(self.benchmark, dataset.needed(self.split)[0], self.folder.parent)
        return f"; {path.name} holds no row of data"

    def _map(self, row: Row) -> Instance | None:
        try:
            return self.benchmark.to_instance(_Checked(row))
        except _NoColumn as e:
            raise _Fault(f"there is no column {e.args[0]!r}") from None
        except DataError as e:
            raise _Fault(str(e)) from None
        except (Exception, SystemExit) as e:  # of a plugin; its text could be clinical
            raise _Fault(f"to_instance failed: {_blame(self.benchmark, e)}") from None


class _Fault(Exception):
    """Reports the fault of one row, without any of its text."""


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
    elif isinstance(benchmark.dataset, FileDataset):
        sha256, read = _open_files(benchmark, benchmark.dataset, chosen, root)
    else:
        sha256, read = _open_hub(benchmark, benchmark.dataset, chosen, root)
    folder = data_folder(benchmark, data, root)
    return Dataset(
        benchmark=benchmark, data=data, split=chosen, sha256=sha256, folder=folder, read=read
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


def check_instance(benchmark: Benchmark, instance: object) -> Instance:
    """Return the instance with its fields' types checked. The error names the field only."""
    if not isinstance(instance, Instance):
        raise _Fault(f"to_instance gave {type(instance).__name__}, not an Instance or None")
    try:
        instance = msgspec.json.decode(msgspec.json.encode(instance), type=Instance)
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
        _check_criteria(instance)
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


def _check_criteria(instance: Instance) -> None:
    try:
        check_criteria(instance.criteria, "its criteria")
    except PluginError as e:
        raise _Fault(str(e)) from None


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
    frames = traceback.extract_tb(e.__traceback__)
    own = [frame for frame in frames if frame.filename == benchmark.origin]
    frame = (own or frames)[-1]
    return f"{type(e).__name__} at {Path(frame.filename).name} line {frame.lineno}"


# Where the rows come from ------------------------------------------------------------------


def _open_samples(benchmark: Benchmark) -> tuple[str, Callable[[], Iterator[_Located]]]:
    path = _samples(benchmark)
    if not path.is_file():
        raise DataError(
            f"{benchmark.name}: no bundled samples; write synthetic rows to {path}, "
            f"or use data=full"
        )

    return file_sha256(path), lambda: _locate(benchmark, [path], read_jsonl)


def _samples(benchmark: Benchmark) -> Path:
    beside = Path(benchmark.origin).parent / "samples" / f"{benchmark.name}.jsonl"
    return beside if benchmark.samples is None else benchmark.samples


def _open_files(
    benchmark: Benchmark, dataset: FileDataset, split: str, root: Path
) -> tuple[str, Callable[[], Iterator[_Located]]]:
    sources = dataset.needed(split)
    paths = [check_file(benchmark, source, root) for source in sources]
    digest = hashlib.sha256(f"{split}\n".encode())
    for source, path in zip(sources, paths, strict=True):
        digest.update(f"{source_sha256(source, path)}  {source.name}\n".encode())
    if dataset.read is not None:
        own = dataset.read

        def read() -> Iterator[_Located]:
            return _guard(benchmark, own, paths, split)
    else:
        is_named = all(s.splits for s in sources)
        chosen = paths if is_named else of_split(paths, split, dataset.splits)
        if not chosen:
            raise PluginError(
                f"benchmark {benchmark.name!r}: no file of split {split!r}; "
                f"name its files {split}.csv or the like, or declare FileDataset.read"
            )

        is_declared = [p.name for p in paths] == [Path(s.name).name for s in sources]
        reader = read_file if is_declared else read_cells  # JSON lines in place of a CSV file
        cells = {path: s.cells for s, path in zip(sources, paths, strict=True)}

        def read() -> Iterator[_Located]:
            return _locate(benchmark, chosen, lambda p: with_cells(reader(p), cells[p]))

    return digest.hexdigest(), read


def _open_hub(
    benchmark: Benchmark, dataset: HubDataset, split: str, root: Path
) -> tuple[str, Callable[[], Iterator[_Located]]]:
    """Read fetched files, else files brought by hand, else what the hub or its cache has."""
    identity = f"{dataset.repo}\n{dataset.revision}\n{dataset.config or ''}\n{split}\n"
    digest = hashlib.sha256(identity.encode())
    paths, is_fetched = hub_files(benchmark, dataset, split, root)
    if not paths:
        rows = load_hub(benchmark, dataset, split, root)
        return digest.hexdigest(), lambda: ((f"row {n}", row) for n, row in enumerate(rows, 1))
    for path in paths:
        if is_fetched:
            name = f"{path.parent.name}/{path.name}"
            check_file(benchmark, SourceFile(name=name, url=dataset.repo), root)
        else:  # nothing says which revision they are of: their bytes decide
            digest.update(f"{file_sha256(path)}  {path.name}\n".encode())
    return digest.hexdigest(), lambda: _locate(benchmark, paths, read_file)


def _locate(
    benchmark: Benchmark,
    paths: Iterable[Path],
    reader: Callable[[Path], Iterator[tuple[int, Mapping[str, Any]]]],
) -> Iterator[_Located]:
    for path in paths:
        try:
            for number, row in reader(path):
                yield f"{path.name}, row {number}", row
        except OtherSeparator as e:
            # A name is surely one of a header, not data, only where the benchmark declares it.
            names = ", ".join(name for name in e.header if name in benchmark.columns)
            found = f"; declared columns in it: {names}" if names else ""
            raise DataError(f"{benchmark.name}: {e}{found}") from None
        except DataError as e:
            raise DataError(f"{benchmark.name}: {e}") from None


def _guard(
    benchmark: Benchmark,
    read: Callable[[Sequence[Path], str], Iterable[Row]],
    paths: Sequence[Path],
    split: str,
) -> Iterator[_Located]:
    """Yield the rows of a benchmark's own reader; whatever it raises names the benchmark."""
    n = 0
    try:
        for n, row in enumerate(read(paths, split), 1):
            yield f"row {n}", row
    except MedhelmError as e:
        raise DataError(f"{benchmark.name}: {e}") from None
    except (Exception, SystemExit) as e:  # the boundary to a plugin
        names = ", ".join(p.name for p in paths)
        raise DataError(
            f"{benchmark.name}: {names} cannot be read behind row {n}: {_blame(benchmark, e)}"
        ) from None
