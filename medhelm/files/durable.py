"""Files that survive a killed process and a power cut, readable by their owner alone."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from medhelm.errors import MedhelmError, RecordError, RunLocked

OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
"""An open fails with these where this process, or the machine, has no descriptor left."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""A write fails with these on a full disk."""

_JUST_MADE_S = 5.0
"""A temporary file as young as this may wait for its lock."""


def make_private(path: Path) -> None:
    """Create a folder and its missing parents with mode 0700."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder.parent)


def lock_file(path: Path) -> BinaryIO:
    """Return an open file that holds an exclusive lock. The kernel drops it with the process.

    Raises RunLocked where another process holds it, RecordError where it cannot be written.
    """
    try:
        handle = os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b")
    except OSError as e:
        raise RecordError(f"cannot write {path.parent}: {why(e)}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        if e.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN):
            handle.close()
            raise RecordError(
                f"{path.parent} lies on a file system without locks ({why(e)}); "
                "choose a results_dir on a local disk"
            ) from None
        handle.seek(0)
        owner = handle.read(200).decode("ascii", "replace").strip() or "another process"
        handle.close()
        raise RunLocked(
            f"run folder {path.parent} is in use by {owner}; wait for it to end or stop it"
        ) from None
    handle.truncate(0)
    handle.write(f"process {os.getpid()} on {socket.gethostname()}".encode("ascii", "replace"))
    handle.flush()
    return handle


class AtomicFile:
    """A file that appears under its name whole or not at all: a `with` block yields the handle.

    What killed processes have left of the same file is removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")

    def __enter__(self) -> BinaryIO:
        for left in self._path.parent.glob(f".{escape(self._path.name)}.*.tmp"):
            if left != self._temporary:
                _remove_unless_held(left)
        fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._handle: BinaryIO = os.fdopen(fd, "wb")
        with suppress(OSError):  # a file system without locks: nothing is removed
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._handle

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._handle.flush()
                os.fsync(self._handle.fileno())
                self._handle.close()
                os.replace(self._temporary, self._path)
                sync_folder(self._path.parent)
        finally:
            try:
                self._handle.close()  # writes what is left, which a full disk refuses
            finally:
                self._temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, whole and readable by its owner alone; raises RecordError where it cannot be."""
    with os_errors_as(RecordError, f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path) as handle:
            handle.write(content)


def write_lines(path: Path, values: Iterable[object]) -> None:
    """Write values as JSON, one a line, as `write_whole` does."""
    import msgspec  # what locks files alone needs none

    write_whole(path, b"".join(msgspec.json.encode(value) + b"\n" for value in values))


def _remove_unless_held(left: Path) -> None:
    """Remove a temporary file that no process writes any more.

    Its writer holds a lock on it: of numbers of processes nobody can tell on which machine they are.
    """
    with suppress(OSError), open(left, "rb") as handle:
        if time.time() - os.fstat(handle.fileno()).st_mtime < _JUST_MADE_S:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.unlink()


def remove_temporary(folder: Path) -> None:
    """Remove what atomic files of a killed process have left; whoever calls it owns the folder."""
    for left in folder.glob(".*.tmp"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force a folder's entries to the disk, so that a rename survives a power cut."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # a parent that may be passed but not read is not ours to sync
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems sync no folders
            raise
    finally:
        os.close(fd)


def is_file(path: Path) -> bool:
    """Return whether a path leads to a file; one that is too long, or out of reach, leads to none."""
    try:
        return path.is_file()
    except OSError:
        return False


@contextmanager
def os_errors_as(error: type[MedhelmError], doing: str) -> Iterator[None]:
    """Raise an error of the user's in the place of an OSError: what was being done, and why it failed."""
    try:
        yield
    except OSError as e:
        raise error(f"{doing}: {why(e)}") from None


def why(e: OSError) -> str:
    """Return what went wrong with a file in a few words, and the fix where it is none of the file's."""
    if e.errno in FULL:
        return "the disk is full; free some space and start the same command again"
    if e.errno in OUT_OF_FILES:
        return "too many open files; raise the limit (`ulimit -n 4096`) and start it again"
    return (e.strerror or "unknown error").lower()
