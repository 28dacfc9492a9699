"""Files that lines are appended to, each with its checksum, and their repair when they are opened.

A line is on its way to the disk before what it holds counts as done: a killed process loses what was
in flight, a power cut what was not yet synced (at most a second).
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from medhelm.errors import RecordError
from medhelm.files.durable import AtomicFile, lock_file, sync_folder, why


def with_checksum(body: bytes) -> bytes:
    """Return a JSON object as one line that ends with a CRC-32 of the text before."""
    return b'%b,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body))


_TAIL = len(b',"crc":"00000000"}')


def without_checksum(line: bytes) -> bytes | None:
    """Return the JSON of a line without its checksum; None if the line is damaged."""
    line = line.rstrip(b"\r\n")
    if len(line) < _TAIL or not line[-_TAIL:].startswith(b',"crc":"'):
        return None
    body = line[:-_TAIL] + b"}"
    return body if b"%08x" % zlib.crc32(body) == line[-10:-2] else None


class AppendLog:
    """A file that lines are appended to; whoever opens it holds the run's lock."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self.lock_path = log_path.with_name("lock")
        self._fd = -1
        self._size = 0
        self._lock: BinaryIO | None = None
        self._syncing = threading.Lock()
        self._writing = threading.Lock()
        self._is_dirty = False

    def _take_lock(self) -> None:
        """Lock what the log is of until `close`; raises RunLocked."""
        self._lock = lock_file(self.lock_path)

    def _open_log(self) -> None:
        """Open the file for appending; raises OSError."""
        self._fd = os.open(self.log_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._fd).st_size
        if self._size == 0:
            sync_folder(self.log_path.parent)  # else a power cut could take the name with the lines

    def _append_line(self, line: bytes) -> None:
        """Hand a line to the operating system; one that does not fit is taken back."""
        with self._writing:
            try:
                written = os.write(self._fd, line)
                while written < len(line):
                    written += os.write(self._fd, line[written:])
            except OSError as e:
                with suppress(OSError):  # what is left of the line is dropped on the next start
                    os.ftruncate(self._fd, self._size)
                raise RecordError(
                    f"cannot write {self.log_path}: {why(e)}; everything answered before is kept, "
                    "and the same command goes on from there"
                ) from None
            self._size += len(line)
            self._is_dirty = True

    def sync(self) -> None:
        """Force what was appended to the disk, and see that it can be found there again.

        May be called from another thread. Raises RecordError, also where the log or its lock was
        deleted, moved, cut or replaced by others: what is appended then would be lost in silence.
        """
        with self._syncing:
            if self._fd < 0:
                return
            was_dirty, self._is_dirty = self._is_dirty, False
            try:
                if was_dirty:
                    os.fsync(self._fd)
                fault = self._find_fault()
            except OSError as e:
                self._is_dirty = True
                raise RecordError(f"cannot sync {self.log_path} to the disk: {why(e)}") from None
        if fault:
            raise RecordError(
                f"{fault} while this run wrote to it: nothing more is asked; keep other programs "
                "off the folder (put it back if it was moved) and start the same command again"
            )

    def _find_fault(self) -> str:
        """Return what others have done to the log or its lock; empty where nothing."""
        if not _is_at(self.log_path, self._fd):
            return f"{self.log_path} was deleted, moved or replaced"
        with self._writing:
            added = os.fstat(self._fd).st_size - self._size
        if added:
            return f"{self.log_path} was {'cut' if added < 0 else 'written to by another program'}"
        if self._lock is not None and not _is_at(self.lock_path, self._lock.fileno()):
            return f"the lock {self.lock_path} was deleted, moved or replaced"
        return ""

    def close(self) -> None:
        """Sync and close the log and give its lock back."""
        try:
            self.sync()
        finally:
            with self._syncing:
                if self._fd >= 0:
                    os.close(self._fd)
                    self._fd = -1
            if self._lock is not None:
                self._lock.close()
                self._lock = None


def _is_at(path: Path, fd: int) -> bool:
    """Return whether the open file is the one that a path leads to."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except (FileNotFoundError, NotADirectoryError):
        return False


def last_line(log: Path) -> bytes:
    """Return the JSON of the last line of a log; empty where it is torn, damaged or missing."""
    block = 1 << 16
    with suppress(FileNotFoundError), open(log, "rb") as lines:
        size = end = lines.seek(0, os.SEEK_END)
        tail = b""
        while end > 0 and tail.count(b"\n", 0, -1) == 0:
            end, block = max(0, size - block), 4 * block
            lines.seek(end)
            tail = lines.read(size - end)
        if tail.endswith(b"\n"):
            return without_checksum(tail.rsplit(b"\n", 2)[-2]) or b""
    return b""


def mend_log(log: Path, quarantine: Path, take: Callable[[bytes], bool]) -> tuple[int, int]:
    """Return how many torn (0 or 1) and damaged lines were taken out of a log.

    `take` is given every whole line once and says whether it can be read.
    """
    if not log.exists():
        return 0, 0
    damaged: list[tuple[int, int]] = []
    start = torn = 0
    with open(log, "rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                torn = 1
                break
            if not take(line):
                damaged.append((start, start + len(line)))
            start += len(line)
    if damaged:
        move_aside(log, quarantine, damaged, start)
    elif torn:
        os.truncate(log, start)
    return torn, len(damaged)


def move_aside(log: Path, quarantine: Path, damaged: list[tuple[int, int]], end: int) -> None:
    """Move the lines at these places (start, end) to another file; what is behind `end` is dropped."""
    bad = dict(damaged)
    fd = os.open(quarantine, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(log, "rb") as source, os.fdopen(fd, "ab") as aside, AtomicFile(log) as kept:
        position = 0
        for line in source:
            if position >= end:
                break
            (aside if position in bad else kept).write(line)
            position += len(line)
        aside.flush()
        os.fsync(aside.fileno())  # before the log is replaced, else a power cut loses them
