"""The folder of a site: what has not changed is not written, what is no longer made is removed.

`build.json` at its root lists every file with its hash; nothing else in the folder is touched.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.durable import why
from medhelm.errors import UsageError
from medhelm.leaderboard.pages import Problem

SCHEMA: Literal["medhelm.build/1"] = "medhelm.build/1"
_NAME = "build.json"
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


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Run pages that are written together."""

    inputs: str
    """Hash of what they were made of."""
    problems: tuple[Problem, ...] = ()
    """What of it could not be read; said again as long as the pages are kept."""


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """`build.json`."""

    schema: Literal["medhelm.build/1"] = SCHEMA
    medhelm: str
    built_at: str
    inputs: str
    """Hash of all that the site was made of."""
    groups: dict[str, Group]
    """Run pages of one benchmark and scoring, by the hash in their names."""
    scores: tuple[Score, ...]
    ranks: tuple[Rank, ...]
    files: dict[str, str]
    """Path below the site -> sha256."""


def read_build(site: Path) -> Build | None:
    """Return what stands in `build.json`, None where there is none; raises UsageError if damaged."""
    try:
        raw = (site / _NAME).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as e:
        raise UsageError(f"cannot read {site / _NAME}: {why(e)}") from None
    try:
        return msgspec.json.decode(raw, type=Build)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UsageError(
            f"{site / _NAME} is damaged or of another version; build into another folder"
        ) from None


class SiteFolder:
    """A site while it is written: `open`, `put` what it holds, `finish`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before: Build | None = None
        """The build that stands there."""
        self.written = 0
        self._known: Mapping[str, str] = {}
        self._files: dict[str, str] = {}
        self._folders: set[Path] = set()

    def open(self) -> None:
        """Look at what stands there; raises UsageError where it is no site of ours."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"{self.path} is a file; name a folder with --out")
            self.before = read_build(self.path)
            if self.before is None and self.path.exists() and any(self.path.iterdir()):
                raise UsageError(
                    f"{self.path} holds other files and no {_NAME}; name an empty folder with --out"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            self._known = self.before.files if self.before else {}
        except OSError as e:
            raise UsageError(f"cannot write the site {self.path}: {why(e)}") from None

    def is_whole(self) -> bool:
        """Return whether every file of the build that stands there is there."""
        return self.before is not None and all(
            (self.path / name).is_file() for name in self.before.files
        )

    def put(self, name: str, content: bytes) -> None:
        """Write one file unless it stands there as it is; raises UsageError."""
        digest = hashlib.sha256(content).hexdigest()
        self._files[name] = digest
        path = self.path / name
        if self._known.get(name) == digest:
            try:
                if path.stat().st_size == len(content):
                    return
            except FileNotFoundError:
                pass
        try:
            self._replace(path, content)
        except OSError as e:
            raise UsageError(f"cannot write {path}: {why(e)}") from None
        self.written += 1

    def know(self, files: Mapping[str, str]) -> None:
        """Take it that these files (path -> sha256) stand there, instead of looking."""
        self._known = files

    @property
    def files(self) -> Mapping[str, str]:
        """The files put or kept so far: path -> sha256."""
        return self._files

    def add(self, files: Mapping[str, str], written: int) -> None:
        """Take in what another writer has put."""
        self._files |= files
        self.written += written

    def keep(self, starts: Sequence[str]) -> bool:
        """Keep the files whose names start so as they stand; return whether all are there."""
        own = {name: d for name, d in self._known.items() if name.startswith(tuple(starts))}
        if not own or not all((self.path / name).is_file() for name in own):
            return False
        self._files |= own
        return True

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

    def put_data(self, key: str, value: msgspec.Struct | bytes) -> str:
        """Write `data/<key>.js` with a page, or with JSON as it is, and return the key."""
        json = value if isinstance(value, bytes) else msgspec.json.encode(value)
        self.put(f"data/{key}.js", as_script(key, json))
        return key

    def finish(self, build: Mapping[str, object]) -> int:
        """Write `build.json`, remove files that are no longer made, return how many."""
        stale = set(self._known) - set(self._files)
        try:
            gone = [self.path / name for name in stale if _SAFE.fullmatch(name)]
            for path in gone:
                path.unlink(missing_ok=True)
            for folder in sorted({p.parent for p in gone}, reverse=True):
                if folder != self.path and folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
            whole = msgspec.convert({**build, "files": self._files}, Build)
            text = msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"
            self._replace(self.path / _NAME, text)
        except OSError as e:
            raise UsageError(f"cannot write the site {self.path}: {why(e)}") from None
        return len(stale)


def as_script(key: str, json: bytes) -> bytes:
    """Return a classic script that hands a page its data: pages on disk can load nothing else.

    The JSON stands in a string, which is parsed as data: no name in it becomes code, and none,
    `__proto__` included, becomes more than a name.
    """
    text = json.replace(b"\\", b"\\\\").replace(b"'", b"\\'").replace(b"<", b"\\x3c")
    text = text.replace("\u2028".encode(), b"\\u2028").replace("\u2029".encode(), b"\\u2029")
    return b"medhelmData('%b','%b')\n" % (key.encode(), text)
