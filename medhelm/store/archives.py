"""Run folders that are taken out of a results folder: archived in one file, or removed.

A run that another process works on is refused. Archives are read back before anything is removed.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from medhelm.errors import RecordError, UnknownName, UsageError, below
from medhelm.files.durable import AtomicFile, lock_file, make_private, sync_folder, why

_LEAST_HASH = 6
"""Digits of a hash that are enough to name a run."""
_REMOVED = ".removed"
"""Folder for what is being removed: a run that is half removed is not taken for one."""


def run_folders(results: Path) -> list[Path]:
    """Return every folder that holds a run or what is left of one, sorted."""
    return sorted(p for p in (results / "runs").glob("*/*/*") if p.is_dir())


def find_run(results: Path, name: str) -> Path:
    """Return the folder of a run by its path, from the results folder or from here, or by its hash.

    Raises UsageError where several fit, UnknownName where none does.
    """
    folders = run_folders(results)
    paths = {(results / name).resolve(), Path(name).resolve()}
    found = [f for f in folders if f.resolve() in paths]
    if not found and len(name) >= _LEAST_HASH:
        found = [f for f in folders if f.name.startswith(name)]
    if len(found) > 1:
        named = " and ".join(f.relative_to(results).as_posix() for f in found[:2])
        raise UsageError(f"{name} is {len(found)} runs ({named}); give the whole folder of one")
    if not found:
        known = [f.relative_to(results).as_posix() for f in folders]
        hint = f"{len(known)} were found {below(results)}; `medhelm runs list` shows them."
        raise UnknownName("run", name, known, hint)
    if found[0].is_symlink():
        raise RecordError(f"{found[0]} is a symbolic link; name the folder that it leads to")
    return found[0]


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Hold a run folder alone, with those of its judges; raises RunLocked where a process works on it."""
    with ExitStack() as locks:
        for path in [run / "lock", *sorted(run.glob("*/*/lock"))]:
            locks.enter_context(lock_file(path))
        yield


def archive_run(results: Path, run: Path, out: Path) -> str:
    """Write a zip of a run, to be unpacked in a results folder, and its hash beside it; return that SHA-256.

    Raises UsageError where the file is there already, RecordError where a file cannot be read or the
    archive does not hold what lies in the folder.
    """
    beside = out.with_name(f"{out.name}.sha256")
    for path in (out, beside):
        if path.exists():
            raise UsageError(f"{path} is there already; name another with --out FILE.zip")
    files = [p for p in sorted(run.rglob("*")) if not p.is_dir() and _is_kept(p)]
    if links := [p for p in files if p.is_symlink()]:
        raise RecordError(f"{links[0]} is a symbolic link, which is not archived; take it away")
    names = {path.relative_to(results).as_posix(): path for path in files}
    try:
        with (
            AtomicFile(out) as handle,
            zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed,
        ):
            for name, path in names.items():
                packed.write(path, name)
        if changed := _differing(out, names):
            out.unlink()
            raise RecordError(f"{changed} was changed while it was archived; start again")
        digest = _sha256(out)
        with AtomicFile(beside) as handle:
            handle.write(f"{digest}  {out.name}\n".encode())
    except OSError as e:
        raise RecordError(f"cannot archive {run} in {out}: {why(e)}") from None
    return digest


def _is_kept(path: Path) -> bool:
    return path.name != "lock" and not (path.name.startswith(".") and path.suffix == ".tmp")


def _differing(archive: Path, names: dict[str, Path]) -> Path | None:
    """Return a file that an archive does not hold as it lies in the folder now; None where there is none."""
    with zipfile.ZipFile(archive) as packed:
        for name, path in names.items():
            with packed.open(name) as member:
                if hashlib.file_digest(member, "sha256").hexdigest() != _sha256(path):  # type: ignore[arg-type]
                    return path
    return None


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_run(results: Path, run: Path) -> None:
    """Remove a run's folder, and those above it that are empty then; raises RecordError."""
    aside = results / _REMOVED
    try:
        make_private(aside)
        run.rename(aside / run.name)
        sync_folder(run.parent)
        shutil.rmtree(aside)
    except OSError as e:
        raise RecordError(f"cannot remove {run}: {why(e)}") from None
    with suppress(OSError):  # they hold other runs
        run.parent.rmdir()
        run.parent.parent.rmdir()
