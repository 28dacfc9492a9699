"""The folder of a site: what has not changed is not written, what is no longer made is removed.

`build.json` at its root lists every file with its hash. Nothing else in the folder is touched.
While a build writes it holds a lock on an empty file, which is there until the folder is whole: where
it was left behind, the next build reads what is really there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.errors import UsageError
from medhelm.files.durable import os_errors_as
from medhelm.files.seals import is_broken, sealed
from medhelm_leaderboard.pages import Content, Problem

SCHEMA: Literal["medhelm.build/1"] = "medhelm.build/1"
_NAME = "build.json"
_LOCK = ".building"
_OURS = re.compile(
    r"index\.html|app/(pages/)?[\w.-]+\.(js|css|svg)|data/[\w-]+\.js|tables/\w+/\w+\.(csv|json)"
)
_TORN = re.compile(r"\..+\.\d+\.tmp")
_SAFE = re.compile(r"(?!.*\.\.)[\w.-]+(/[\w.-]+)*")


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One score that a build published, for `leaderboard diff`."""

    scoring: str
    benchmark: str
    model: str
    metric: str
    version: str
    """Of the benchmark, the metric and the data, as far as they decide the score."""
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    grading: str


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank that a build published."""

    scoring: str
    model: str
    rank: int | None
    win_rate: float | None
    macro_average: float | None


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """`build.json`."""

    schema: Literal["medhelm.build/1"] = SCHEMA
    medhelm: str
    built_at: str
    inputs: str
    """Hash of all that the site was made of."""
    problems: tuple[Problem, ...] = ()
    """All that was left out; said again as long as nothing changes."""
    scores: tuple[Score, ...]
    ranks: tuple[Rank, ...]
    files: dict[str, str]
    """Path below the site -> sha256."""


def read_build(site: Path) -> Build | None:
    """Return what is in `build.json`, None where there is none; raises UsageError if damaged."""
    path = site / _NAME
    with os_errors_as(UsageError, f"cannot read {path}"):
        if not path.exists():
            return None
        raw = path.read_bytes()
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        if not is_broken(raw):
            return msgspec.json.decode(raw, type=Build)
    raise UsageError(f"{path} is damaged or of another version; build into another folder")


class SiteFolder:
    """A site while it is written: `open`, `put` what it holds, `finish`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before: Build | None = None
        """The earlier build."""
        self.written = 0
        self._known: frozenset[str] = frozenset()
        """Paths of the files that are there from an earlier build."""
        self._files: dict[str, str] = {}
        self._folders: set[Path] = set()
        self._is_whole = True
        self._lock = -1

    def open(self) -> None:
        """Lock the folder and read what is there; `close` ends that."""
        with os_errors_as(UsageError, f"cannot write the site {self.path}"):
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"{self.path} is a file; name a folder with --out")
            was_cut = (self.path / _LOCK).exists()
            has_build = was_cut or read_build(self.path) is not None
            if not has_build and self.path.exists() and any(self.path.iterdir()):
                raise UsageError(
                    f"{self.path} holds other files and no {_NAME}; name an empty folder with --out"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _take_lock(self.path)
            if was_cut:
                self._is_whole = False
                self._known = self._found()
            else:
                self.before = read_build(self.path)
                self._known = frozenset(self.before.files if self.before else ())

    def begin(self) -> None:
        """From here until `finish` the folder is between two builds."""
        self._is_whole = False

    def close(self) -> None:
        """Give the folder back. Where a build was cut short that is seen by the next one."""
        if self._lock >= 0:
            if self._is_whole:
                (self.path / _LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def _found(self) -> frozenset[str]:
        """Return the site's files that are there after a cut build; remove torn ones."""
        found = set()
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            if _TORN.fullmatch(path.name) and _OURS.fullmatch(_of_torn(name)):
                path.unlink()
            elif _OURS.fullmatch(name) and path.is_file() and not path.is_symlink():
                found.add(name)
        return frozenset(found)

    def is_whole(self) -> bool:
        """Return whether every file of the earlier build is there."""
        return self.before is not None and all(
            (self.path / name).is_file() for name in self.before.files
        )

    def put(self, name: str, content: bytes) -> None:
        """Write one file unless it is there as it is; raises UsageError."""
        self._files[name] = hashlib.sha256(content).hexdigest()
        path = self.path / name
        with os_errors_as(UsageError, f"cannot write {path}"):
            if not _holds(path, content):
                self._replace(path, content)
                self.written += 1

    @property
    def files(self) -> Mapping[str, str]:
        """The files put so far: path -> sha256."""
        return self._files

    def add(self, files: Mapping[str, str], written: int) -> None:
        """Take in what another writer has put."""
        self._files |= files
        self.written += written

    def _replace(self, path: Path, content: bytes) -> None:
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            part.write_bytes(content)
            os.replace(part, path)  # a reader of the site sees the old file or the new one
        finally:
            part.unlink(missing_ok=True)

    def put_data(self, key: str, value: Content | bytes) -> str:
        """Write `data/<key>.js` with a page, or with JSON as it is, and return the key."""
        json = value if isinstance(value, bytes) else msgspec.json.encode(value)
        self.put(f"data/{key}.js", as_script(key, json))
        return key

    def finish(self, build: Mapping[str, object]) -> int:
        """Write `build.json`, remove files that are no longer made, return how many."""
        stale = self._known - set(self._files)
        with os_errors_as(UsageError, f"cannot write the site {self.path}"):
            gone = [self.path / name for name in stale if _SAFE.fullmatch(name)]
            for path in gone:
                path.unlink(missing_ok=True)
            for folder in sorted({p.parent for p in gone}, reverse=True):
                if folder != self.path and folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
            whole = msgspec.convert({**build, "files": self._files}, Build)
            self._replace(self.path / _NAME, sealed(whole))
            self._is_whole = True
        return len(stale)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.stat().st_size == len(content) and path.read_bytes() == content
    except FileNotFoundError:
        return False


def _of_torn(name: str) -> str:
    """Return what `folder/.file.PID.tmp` was to become."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{file[1:-4].rpartition('.')[0]}".lstrip("/")


def _take_lock(site: Path) -> int:
    """Return the descriptor of a site's lock; raises UsageError where another build holds it."""
    path = site / _LOCK
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(
                f"another build writes the site {site}; wait for it to end, or name another folder"
            ) from None
        except OSError:
            return lock  # a file system without locks: nobody can be kept out
        try:
            if os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)  # the build that held it has ended and removed it


def as_script(key: str, json: bytes) -> bytes:
    """Return a classic script that hands a page its data: pages on disk can load nothing else.

    The JSON is in a string, which is parsed as data: no name in it becomes code, and none,
    `__proto__` included, becomes more than a name.
    """
    text = json.replace(b"\\", b"\\\\").replace(b"'", b"\\'").replace(b"<", b"\\x3c")
    text = text.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")
    return b"medhelmData('%b','%b')\n" % (key.encode(), text)
