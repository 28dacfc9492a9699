"""`medhelm data`: the files of benchmarks, where they are, whether they are right, how to fill one."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from medhelm.cli.options import data_folder, how_to_get, open_registry, print_json
from medhelm.data.dataset import open_dataset
from medhelm.data.fetch import FileStatus, Report, fetch, size_of, to_fetch, verify
from medhelm.data.sources import can_fetch, file_path, is_found, origin_of
from medhelm.errors import DataError, UsageError
from medhelm.files.durable import why
from medhelm.schema.data import Benchmark
from medhelm.tables.format.spreadsheet import csv_text


class _Line(msgspec.Struct, frozen=True):
    benchmark: str
    file: str
    path: str
    status: str
    sha256: str = ""
    expected: str = ""
    fix: str = ""
    """The step that mends a missing or wrong file."""
    source: str = ""
    """The place that a fetch would get it from."""
    bytes: int | None = None
    """Bytes that a fetch would get; None where the server does not say, or was not asked."""


def run(args: argparse.Namespace) -> int:
    """Return 0, or 3 where a file is missing or not the right one."""
    registry = open_registry(args.plugin)
    if args.action == "template":
        return _template(registry.benchmark(args.benchmark), args)
    if args.benchmarks and args.all:
        raise UsageError("--all and names of benchmarks exclude each other")
    if args.action == "fetch" and not args.benchmarks and not args.all:
        raise UsageError(
            "name what to fetch, or use --all: medhelm data fetch BENCHMARK "
            "(`medhelm list benchmarks` shows all)"
        )
    names = dict.fromkeys(args.benchmarks or registry.benchmarks)
    chosen = [registry.benchmark(name) for name in names]
    root = data_folder(args)
    if args.action == "where":
        lines = [line for benchmark in chosen for line in _where(benchmark, root)]
    elif args.action == "verify":
        lines = [_line(b, status, root) for b in chosen for status in verify(b, root)]
    else:
        own = _fetchable(chosen) if args.all else chosen
        get = _planned if args.dry_run else _fetch
        lines = get(own, root, examples=args.examples)
    if args.format == "json":
        print_json("data", {"action": args.action, "root": str(root), "files": lines})
    else:
        print(f"data folder: {root}")
        for line in lines:
            print(f"{line.benchmark}: {line.path}: {_say(line)}")
    wrong = any(line.status in ("missing", "mismatch") for line in lines)
    is_told = args.action == "where" or (args.action == "fetch" and args.dry_run)
    return DataError.exit_code if wrong and not is_told else 0


def _where(benchmark: Benchmark, root: Path) -> Iterator[_Line]:
    dataset = benchmark.dataset
    for source in dataset.files:
        found = is_found(benchmark, source, root)
        fix = "" if found else how_to_get(benchmark, root)
        if fix and source.splits and dataset.splits[0] not in source.splits:
            get = f"medhelm data fetch {benchmark.name}" if source.is_fetchable else "put it there"
            fix = f"only split {source.splits[0]} needs it; {get}"
        status, path = "there" if found else "missing", file_path(benchmark, source, root)
        yield _Line(benchmark.name, source.name, str(path), status, fix=fix)


def _line(benchmark: Benchmark, status: FileStatus, root: Path) -> _Line:
    is_wrong = status.status in ("missing", "mismatch")
    return _Line(
        benchmark.name,
        status.name,
        str(status.path),
        status.status,
        sha256=status.sha256,
        expected=status.expected,
        fix=how_to_get(benchmark, root) if is_wrong else "",
    )


def _fetchable(chosen: Sequence[Benchmark]) -> list[Benchmark]:
    by_hand = [b.name for b in chosen if not can_fetch(b)]
    if by_hand:
        print(
            f"medhelm: left out, because a user must bring the files: {', '.join(by_hand)} "
            "(`medhelm data where` says how)",
            file=sys.stderr,
        )
    return [b for b in chosen if can_fetch(b)]


def _fetch(chosen: Sequence[Benchmark], root: Path, *, examples: bool) -> list[_Line]:
    """Fetch one benchmark after the other; one that cannot be had does not stop the others."""
    lines: list[_Line] = []
    with _progress() as report:
        for benchmark in chosen:
            try:
                statuses = fetch(benchmark, root, examples=examples, report=report)
            except DataError as e:
                print(f"medhelm: {e}", file=sys.stderr)
                statuses = verify(benchmark, root)
            lines += [_line(benchmark, status, root) for status in statuses]
    return lines


def _planned(chosen: Sequence[Benchmark], root: Path, *, examples: bool) -> list[_Line]:
    """Return what a fetch would bring: the sources that are missing or wrong, and their sizes."""
    lines: list[_Line] = []
    for benchmark in chosen:
        for source, status in to_fetch(benchmark, root, examples=examples):
            line = _line(benchmark, status, root)
            size = None
            try:
                size = size_of(benchmark, source, root)
            except DataError as e:
                print(f"medhelm: {e}", file=sys.stderr)
            lines.append(msgspec.structs.replace(line, source=origin_of(source), bytes=size))
    return lines


@contextmanager
def _progress() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TransferSpeedColumn

    columns: tuple[Any, ...] = ("{task.description}", BarColumn(), DownloadColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as progress:

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done, total=total)

        yield report


def _say(line: _Line) -> str:
    if line.source:
        size = "size unknown" if line.bytes is None else f"{line.bytes:,} bytes"
        return f"{line.status}: from {line.source}, {size}; {line.fix}"
    if line.status == "missing":
        return f"missing: {line.fix}"
    if line.status == "mismatch":
        return f"not the right file: sha256 {line.sha256}, expected {line.expected}; {line.fix}"
    if line.status == "unpinned":
        return f"unpinned, sha256 {line.sha256} " + (
            "as at the first fetch" if line.expected else "(not recorded yet)"
        )
    return line.status


# A file to fill in ---------------------------------------------------------------------------


def _template(benchmark: Benchmark, args: argparse.Namespace) -> int:
    """Write the file, print the next steps and return 0. Nothing is overwritten."""
    root = data_folder(args)
    if not benchmark.columns:
        raise UsageError(
            f"{benchmark.name} reads files as they are published and has no columns to fill in; "
            f"to get them: {how_to_get(benchmark, root)}"
        )
    path = Path(args.output or benchmark.name + _target(benchmark, root).suffix)
    rows = _synthetic_rows(benchmark, root)
    _write_rows(path, [*benchmark.columns], rows)
    target = _target(benchmark, root, path.suffix)
    more = "".join(f" --plugin {shlex.quote(p)}" for p in args.plugin)
    where = f" --data-dir {shlex.quote(args.data_dir)}" if args.data_dir else ""
    begin = "" if path.suffix == ".jsonl" else "a header and "
    print(f"wrote {path}: {begin}{len(rows)} synthetic rows")
    print("next:")
    print(f"  read what each column holds: medhelm describe {benchmark.name}{more}")
    print("  put rows of your own data in place of the synthetic ones (UTF-8)")
    if path.absolute() != target.absolute():
        print(f"  put the file there: {target}")
    print(f"  medhelm validate {benchmark.name} --data full{where}{more}")
    return 0


def _synthetic_rows(benchmark: Benchmark, root: Path) -> list[list[str]]:
    """Return the cells of the first bundled samples; none where there are no samples."""
    if benchmark.samples is None:
        return []
    samples = open_dataset(benchmark, "sample", root=root).rows()
    return [[_cell(row.get(c)) for c in benchmark.columns] for row in islice(samples, 2)]


def _cell(value: object) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return msgspec.json.encode(value).decode()


def _write_rows(path: Path, header: list[str], rows: list[list[str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=False)  # it is to hold patients' data
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".jsonl":
                objects = (dict(zip(header, row, strict=True)) for row in rows)
                file.writelines(f"{msgspec.json.encode(o).decode()}\n" for o in objects)
            else:
                file.write(csv_text(header, rows))
    except FileExistsError:
        raise UsageError(
            f"{path} exists already and is left as it is; name another file with --output"
        ) from None
    except OSError as e:
        raise UsageError(f"cannot write {path}: {why(e)}") from None


def _target(benchmark: Benchmark, root: Path, suffix: str = "") -> Path:
    """Return where the filled file belongs, which may be JSON lines in place of CSV."""
    dataset, folder = benchmark.dataset, root / benchmark.name
    path = folder / dataset.files[0].name
    return path.with_suffix(suffix) if (path.suffix, suffix) == (".csv", ".jsonl") else path
