"""A copy of some folders elsewhere, kept up to date piece by piece: logs grow, other files are replaced whole.

Mirror(there).news() -> pieces -> put(here, pieces)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from medhelm.errors import RecordError
from medhelm.files.durable import AtomicFile, make_private, os_errors_as

_GROW = (".jsonl", ".log")
"""Of these files whole lines are taken."""
_GONE, _TAIL = -1, 64


class Piece(NamedTuple):
    """The end of a file, from a place on; or, at place -1, word that the file is gone."""

    name: str
    start: int
    data: bytes


class _Seen(NamedTuple):
    """A file as far as it was taken."""

    inode: int
    changed_ns: int
    size: int
    length: int
    tail: bytes
    """The last bytes of that: another file may have its inode by now."""


_NOTHING = _Seen(0, 0, 0, 0, b"")


class Mirror:
    """Finds what has changed below some folders since it looked last. It sees no locks and no temporary files."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root, self._folders = root, folders
        self._seen: dict[str, _Seen] = {}

    def news(self) -> list[Piece]:
        """Return what is new, and last what is gone."""
        seen, pieces = dict[str, _Seen](), list[Piece]()
        for path in (p for folder in self._folders for p in _files(self._root / folder)):
            name = str(path.relative_to(self._root))
            then = self._seen.get(name, _NOTHING)
            try:
                with open(path, "rb") as file:
                    stat = os.fstat(file.fileno())
                    now = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                    if now == (then.inode, then.changed_ns, then.size):
                        seen[name] = then
                        continue
                    start = then.length if then.inode == stat.st_ino else 0
                    file.seek(start - len(then.tail) if start else 0)
                    if path.suffix not in _GROW or (
                        start and file.read(len(then.tail)) != then.tail
                    ):
                        file.seek(start := 0)
                    data = file.read()
            except FileNotFoundError:
                continue
            if path.suffix in _GROW:
                data = data[: data.rfind(b"\n") + 1]
            tail = (then.tail + data if start else data)[-_TAIL:]
            seen[name] = _Seen(*now, start + len(data), tail)
            if data or not start:
                pieces.append(Piece(name, start, data))
        pieces += [Piece(name, _GONE, b"") for name in self._seen.keys() - seen.keys()]
        self._seen = seen
        return pieces


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    return [p for p in found if p.is_file() and p.name != "lock" and p.suffix != ".tmp"]


def put(root: Path, pieces: Iterable[Piece]) -> None:
    """Make the copy below `root` what the mirrored folders are; raises RecordError where it cannot be written."""
    for name, start, data in pieces:
        path = root / name
        if not path.resolve().is_relative_to(root.resolve()):
            raise RecordError(f"a worker sent a file outside {root}: {name}")
        with os_errors_as(RecordError, f"cannot write {path}"):
            if start == _GONE:
                path.unlink(missing_ok=True)
                continue
            make_private(path.parent)
            if start == 0:
                with AtomicFile(path) as file:
                    file.write(data)
            else:
                with open(path, "r+b") as file:
                    file.truncate(start)
                    file.seek(start)
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
