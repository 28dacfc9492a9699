"""The log of a run: append-only, one line per finished request, each with its checksum.

A line is on its way to the disk before the request counts as answered: a killed process
loses what was in flight, a power cut what was not yet synced (at most a second).
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from array import array
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from medhelm.errors import RecordError
from medhelm.files.durable import (
    AtomicFile,
    lock_file,
    make_private,
    remove_temporary,
    sync_folder,
    why,
)
from medhelm.schema.data import Instance
from medhelm.schema.episode import SCHEMA, Episode, Finish, Usage
from medhelm.store.records import Plan, order_key, unknown_key

ANSWERED: frozenset[Finish] = frozenset({"stop", "length", "refusal"})
"""Endings that are never asked again; 'error' and 'oversize' are, on the next start."""


class _Head(msgspec.Struct):
    instance_id: str
    finish: Finish
    repeat: int = 0
    usage: Usage = Usage()

    @property
    def is_answered(self) -> bool:
        """Return whether nothing is to be asked again: an answer that was cut came, too."""
        was_cut = self.finish == "oversize" and self.usage.input_tokens is not None
        return self.finish in ANSWERED or was_cut


class _Line(msgspec.Struct):
    schema: int
    instance: msgspec.Raw
    response: _Head

    @property
    def key(self) -> int:
        return episode_key(bytes(self.instance), self.response.repeat)


def episode_key(instance_json: bytes, repeat: int) -> int:
    """Return a 64-bit key of an instance with all its content, asked for the repeat-th time.

    An instance that has changed in any way has another key. 10^5 keys collide with
    probability 3e-10.
    """
    digest = hashlib.blake2b(b"%d\0%b" % (repeat, instance_json), digest_size=8).digest()
    return int.from_bytes(digest)


def episode_keys(instance: Instance, repeats: int) -> list[int]:
    """Return the keys of an instance's episodes, one for each repeat."""
    content = msgspec.json.encode(instance)
    return [episode_key(content, repeat) for repeat in range(repeats)]


def encode_line(episode: Episode) -> bytes:
    """Return an episode as one line of the log."""
    return with_checksum(msgspec.json.encode(episode))


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


@dataclass(frozen=True)
class Scan:
    """Holds the content of a log: keys already answered, and repairs made on opening it."""

    answered: set[int]
    """Keys that are not asked again."""
    failed: set[int]
    """Keys that were asked without an answer."""
    torn: int
    quarantined: int


class AppendLog:
    """A file that lines are appended to; whoever opens it holds the run's lock."""

    def __init__(self, log_path: Path) -> None:
        self.log_path = log_path
        self._fd = -1
        self._size = 0
        self._lock: BinaryIO | None = None
        self._syncing = threading.Lock()
        self._writing = threading.Lock()
        self._is_dirty = False

    def _take_lock(self) -> None:
        """Lock the folder of the log until `close`; raises RunLocked."""
        self._lock = lock_file(self.log_path.with_name("lock"))

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
        lock = self.log_path.with_name("lock")
        if self._lock is not None and not _is_at(lock, self._lock.fileno()):
            return f"the lock {lock} was deleted, moved or replaced"
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


class RunFolder(AppendLog):
    """One run folder, held by this process alone from `open` to `close`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path / "responses.jsonl")
        self.path = path

    def open(self) -> Scan:
        """Lock the folder, mend its log and return what it already holds.

        Raises RunLocked where another process holds it, RecordError where it cannot be written.
        """
        try:
            make_private(self.path)
            self._take_lock()
            remove_temporary(self.path)
            scan = _mend(self.log_path, self.path / "quarantine.jsonl")
            self._open_log()
        except OSError as e:
            self.close()
            raise RecordError(f"cannot write run folder {self.path}: {why(e)}") from None
        except RecordError:
            self.close()
            raise
        return scan

    def set_aside(self, valid: Container[int]) -> int:
        """Move episodes of instances that are no longer in the data to `stale.jsonl`.

        `valid`: keys of all instances and repeats of the data. Returns how many were moved.
        """
        stale: list[tuple[int, int]] = []
        end = 0
        decode = msgspec.json.Decoder(_Line).decode
        with open(self.log_path, "rb") as lines:
            for line in lines:
                start, end = end, end + len(line)
                parsed = _read_line(line, decode)
                if parsed is not None and parsed.key not in valid:
                    stale.append((start, end))
        if stale:
            move_aside(self.log_path, self.path / "stale.jsonl", stale, end)
            os.close(self._fd)
            self._open_log()
        return len(stale)

    def append(self, episode: Episode) -> None:
        """Hand one episode to the operating system. A line that does not fit is taken back."""
        self._append_line(encode_line(episode))


def _mend(log: Path, quarantine: Path) -> Scan:
    """Drop a torn last line, move damaged lines aside, and collect the answered keys."""
    answered: set[int] = set()
    failed: set[int] = set()
    decode = msgspec.json.Decoder(_Line).decode

    def take(line: bytes, start: int) -> bool:
        parsed = _read_line(line, decode)
        if parsed is not None:
            (answered if parsed.response.is_answered else failed).add(parsed.key)
        return parsed is not None

    torn, damaged = mend_log(log, quarantine, take)
    return Scan(answered, failed - answered, torn, damaged)


def mend_log(log: Path, quarantine: Path, take: Callable[[bytes, int], bool]) -> tuple[int, int]:
    """Return how many torn (0 or 1) and damaged lines were taken out of a log.

    `take` is given every whole line with its place in the file and says whether it can be read;
    it is given no line twice, and places hold only where nothing was damaged.
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
            if not take(line, start):
                damaged.append((start, start + len(line)))
            start += len(line)
    if damaged:
        move_aside(log, quarantine, damaged, start)
    elif torn:
        os.truncate(log, start)
    return torn, len(damaged)


def _read_line(line: bytes, decode: Any) -> _Line | None:
    body = without_checksum(line)
    if body is None:
        return None
    try:
        parsed: _Line = decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if parsed.schema != SCHEMA:
        raise RecordError(
            f"a log line has schema {parsed.schema}, this medhelm reads {SCHEMA}; "
            "use the medhelm version that wrote it, or another results_dir"
        )
    return parsed


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


def read_log(run: Path) -> Iterator[Episode]:
    """Yield every episode of a log that can be read, in its order; of several of one instance and
    repeat the last one counts."""
    try:
        with open(run / "responses.jsonl", "rb") as lines:
            for number, line in enumerate(lines, 1):
                if (body := without_checksum(line)) is not None:
                    yield _decode_episode(body, run, number)
    except FileNotFoundError:
        return


def read_episodes(run: Path, plan: Plan) -> Iterator[Episode]:
    """Yield the last episode of every planned instance and repeat, in the order of the log.

    Streams: 8 bytes an episode are held, not its text. Lines that cannot be read are passed
    over (opening the folder for a run moves them aside and asks again).
    """
    log = run / "responses.jsonl"
    if not log.exists():
        return
    superseded = _superseded(log)
    with open(log, "rb") as lines:
        for number, line in enumerate(lines):
            body = without_checksum(line)
            if body is None or number in superseded:
                continue
            episode = _decode_episode(body, run, number + 1)
            if plan.cut is None or order_key(plan.spec.seed, episode.instance.id) <= plan.cut:
                yield episode


_EPISODES = msgspec.json.Decoder(Episode)


def _decode_episode(body: bytes, run: Path, number: int) -> Episode:
    """Return the episode of a whole line; raises RecordError where it is of another version."""
    try:
        return _EPISODES.decode(body)
    except msgspec.ValidationError as e:
        raise RecordError(
            f"{run / 'responses.jsonl'} line {number} is not of this medhelm: {unknown_key(e) or e}"
        ) from None


def _superseded(log: Path) -> set[int]:
    """Return numbers of lines whose instance and repeat have a later line."""
    keys = array("Q")
    decode = msgspec.json.Decoder(_Line).decode
    unreadable = episode_key(b"", -1)
    with open(log, "rb") as lines:
        for line in lines:
            parsed = _read_line(line, decode)
            keys.append(unreadable if parsed is None else _place(parsed.response))
    import numpy as np

    found = np.frombuffer(keys, dtype=np.uint64) if keys else np.empty(0, np.uint64)
    _, last = np.unique(found[::-1], return_index=True)
    if len(last) == len(found):
        return set()
    kept = np.zeros(len(found), dtype=bool)
    kept[len(found) - 1 - last] = True
    return set(np.flatnonzero(~kept).tolist())


def _place(head: _Head) -> int:
    """Return a key of instance and repeat, whatever the instance held."""
    return episode_key(head.instance_id.encode(), head.repeat)


def log_bytes(run: Path) -> int:
    """Return the size of a run's log; 0 where there is none."""
    try:
        return (run / "responses.jsonl").stat().st_size
    except FileNotFoundError:
        return 0
