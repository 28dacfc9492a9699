"""`medhelm runs`: what is stored in a results folder; runs are removed, archived, or brought elsewhere and back."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from medhelm.cli.options import print_rows
from medhelm.cli.sweep import settings_apart
from medhelm.errors import (
    PrivacyRefused,
    RecordError,
    RunLocked,
    UnknownName,
    UsageError,
    below,
)
from medhelm.files.durable import AtomicFile, lock_file, why
from medhelm.store.records import Plan, read_plan, stored_records
from medhelm.store.remote_runs import (
    RemoteRuns,
    RunUnfinished,
    pack,
    refuse_unfinished,
    stored_files,
)
from medhelm.tables.clinicians.sheet import check_privacy
from medhelm.tables.format.formats import clean

_REMOVED = ".removed-"
"""The first letters of a folder that is being removed: a run that is half removed is not taken for one."""


def run(args: argparse.Namespace) -> int:
    """Return the exit code; raises RunLocked for a run that is at work."""
    results = Path(args.results_dir)
    if args.action == "list":
        return _list(results, args.benchmark)
    if args.action in ("push", "pull"):
        return _transfer(args, results)
    folder = _find(results, args.run)
    name = clean(folder.relative_to(results).as_posix())
    if args.action == "remove" and not args.yes and not _is_meant(name):
        print("Nothing was removed.")
        return 1
    with _held(folder):
        if args.action == "archive":
            out = Path(args.out or f"{'-'.join(folder.parts[-3:])}.zip")
            print(f"Archived: {out}\nSHA-256: {_archive(results, folder, out)}")
            print("It holds all texts of the run, which is there again where it is unpacked.")
        if args.action == "remove" or args.remove:
            _remove(results, folder)
            print(f"Removed: {name}")
    return 0


def _transfer(args: argparse.Namespace, results: Path) -> int:
    """Return 0, or the highest code of what kept runs back, other than that they are not finished."""
    store, is_push = RemoteRuns(args.url), args.action == "push"
    there, code, done = store.found(), 0, Counter[str]()
    runs = [p.relative_to(results / "runs").as_posix() for p in _folders(results, args.benchmark)]
    if not is_push:
        runs = [run for run in there if fnmatchcase(run.partition("/")[0], args.benchmark)]
    if not runs:
        raise UsageError(f"no run below {results if is_push else args.url}")
    for run in runs:
        folder, said = results / "runs" / run, "Left out"
        try:
            with _held(folder) if folder.is_dir() else nullcontext():
                if is_push:
                    refuse_unfinished(folder)
                    check_privacy(stored_records(folder), args.text_of)
                move = store.push if is_push else store.pull
                said = move(run, results, there.get(run, []), is_replaced=args.replace)
            print(f"{said}: {clean(f'runs/{run}')}", flush=True)
        except (RecordError, PrivacyRefused) as e:
            print(f"medhelm: left out: {clean(str(e))}", file=sys.stderr)
            code = max(code, 0 if isinstance(e, RunUnfinished | RunLocked) else e.exit_code)
        done[said] += 1
    print("; ".join(f"{said.lower()}: {n}" for said, n in done.items()).capitalize())
    return code


def _list(results: Path, benchmark: str) -> int:
    folders = _folders(results, benchmark)
    if not folders:
        of = "" if benchmark == "*" else f" of {benchmark}"
        raise UsageError(f"no run{of} {below(results)}; --results-dir DIR names another folder")
    plans = [_plan(folder) for folder in folders]
    apart = iter(settings_apart([plan.spec for plan in plans if plan is not None]))
    states = [
        ("damaged", "–") if p is None else _state(f) for f, p in zip(folders, plans, strict=True)
    ]
    sizes = [sum(p.stat().st_size for p in f.rglob("*") if p.is_file()) for f in folders]
    columns = {
        "run": [clean(f.relative_to(results).as_posix()) for f in folders],
        "state": [state for state, _ in states],
        "score": [score for _, score in states],
        "MB": [f"{size / 1e6:.2f}" for size in sizes],
        "apart by": [clean(next(apart)) if plan is not None else "" for plan in plans],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    print_rows(columns, numbers=("score", "MB"), keys=("run",), leaving=("MB", "score"))
    return 0


def _plan(folder: Path) -> Plan | None:
    try:
        return read_plan(folder)
    except RecordError:
        return None


def _state(folder: Path) -> tuple[str, str]:
    for record in stored_records(folder):
        value = record.results[0].value if record.results else None
        return record.state, "–" if value is None else f"{value:.3f}"
    return "not graded", "–"


def _folders(results: Path, benchmark: str = "*") -> list[Path]:
    return sorted(p for p in (results / "runs").glob(f"{benchmark}/*/*") if p.is_dir())


def _find(results: Path, name: str) -> Path:
    """Return the folder of a run by its path, from the results folder or from here, or by its hash."""
    folders = _folders(results)
    given = (results / name).absolute(), Path(name).absolute()
    paths = {*given, *(path.parents[1] for path in given if path.parent.name == "gradings")}
    found = [f for f in folders if f.absolute() in paths or f.name == name]
    if not found:
        known = [f.relative_to(results).as_posix() for f in folders]
        raise UnknownName("run", name, known, "`medhelm runs list` shows all.")
    is_here = found[0].resolve() == results.resolve() / found[0].relative_to(results)
    if len(found) > 1 or not is_here:
        raise UsageError(
            f"{name} is of several runs, or a link leads to it; give the whole folder of one"
        )
    return found[0]


def _is_meant(name: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("runs remove asks in a terminal; elsewhere add --yes")
    print(f"{name} is to be removed with all answers. `medhelm runs archive` keeps them in a file.")
    try:
        return input("Remove it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print()
        return False


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with ExitStack() as locks:
        for path in [folder / "lock", *sorted(folder.glob("*/*/lock"))]:
            locks.enter_context(lock_file(path))
        yield


def _archive(results: Path, folder: Path, out: Path) -> str:
    """Write a zip of a run with its hash beside it, and return the hash; raises UsageError, RecordError."""
    summed = out.with_name(f"{out.name}.sha256")
    for path in (out, summed):
        if path.exists():
            raise UsageError(f"{path} is there already; name another with --out FILE.zip")
    if folder.resolve() in out.resolve().parents:
        raise UsageError(f"{out} would lie in the run itself; name one outside with --out FILE.zip")
    files = stored_files(folder)
    try:
        pack(results, files, out)
        with open(out, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with AtomicFile(summed) as handle:
            handle.write(f"{digest}  {out.name}\n".encode())
    except OSError as e:
        raise RecordError(f"cannot archive {folder} in {out}: {why(e)}") from None
    return digest


def _remove(results: Path, folder: Path) -> None:
    """Remove a run's folder, and those above it that are empty then; raises RecordError."""
    try:
        for left in results.glob(f"{_REMOVED}*"):  # of a removal that was killed
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
        aside = Path(tempfile.mkdtemp(prefix=_REMOVED, dir=results))
        folder.rename(aside / folder.name)
        shutil.rmtree(aside)
    except OSError as e:
        raise RecordError(f"cannot remove {folder}: {why(e)}") from None
    with suppress(OSError):  # they hold other runs
        folder.parent.rmdir()
        folder.parent.parent.rmdir()
