"""Finished runs behind a URL that fsspec opens: an object store, a web server, another folder.

<URL>/runs/<benchmark>/<model>/<request hash>/<hash over all its files>.zip

A file appears there whole and is never changed. A reader takes it only if what it holds has that hash.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from medhelm.errors import MedhelmError, RecordError, UsageError
from medhelm.files.durable import AtomicFile, make_private
from medhelm.store.records import read_plan, read_record
from medhelm.store.runlog import log_bytes
from medhelm.store.shards import is_gathered

_PART, _OLD_S = ".part-", 86_400.0
"""The first letters of the folder of what is on its way, and after how long one is of a killed process."""
_STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""They have no folders, so that all names are listed at once, and a file appears whole by itself."""
_NAME = re.compile(r"((?:[^/.\\\0][^/\\\0]*/){3})([0-9a-f]{64})\.zip")


class RunUnfinished(RecordError):
    """A run of which something is missing, or that cannot be read."""


def is_url(address: str | Path) -> bool:
    """Return whether a results folder is given as a URL."""
    return "://" in str(address)


def stored_files(folder: Path) -> list[Path]:
    """Return the files of a run, but for its locks; raises RecordError for a symbolic link."""
    files = [p for p in sorted(folder.rglob("*")) if not p.is_dir() and p.name != "lock"]
    if links := [p for p in files if p.is_symlink()]:
        raise RecordError(f"{links[0]} is a symbolic link, which is not followed; take it away")
    return files


def pack(results: Path, files: Sequence[Path], out: Path) -> None:
    """Write files to a zip and read it back; raises OSError, and RecordError where it does not hold them."""
    with AtomicFile(out) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in files:
            packed.write(path, path.relative_to(results))
    with zipfile.ZipFile(out) as packed:
        if packed.testzip() or len(packed.namelist()) < len(files):
            raise RecordError(f"{out} does not hold all files: remove it and try again")


def refuse_unfinished(folder: Path) -> None:
    """Raise RunUnfinished for a run that is not finished, or has a file that cannot be read."""
    try:
        plan, size = read_plan(folder), str(log_bytes(folder))
        records = [read_record(grading) for grading in sorted((folder / "gradings").glob("*"))]
    except RecordError as e:
        raise RunUnfinished(str(e)) from None
    whole = [r for r in records if r.state == "complete" and r.instances == plan.instances]
    is_current = any(r.provenance.get("log_bytes", size) == size for r in whole)
    if not is_current or not is_gathered(folder):
        fix = "the same `medhelm run` goes on, `medhelm score` grades"
        raise RunUnfinished(f"{folder} is not finished: {fix}")


class RemoteRuns:
    """Runs behind a URL."""

    def __init__(self, url: str) -> None:
        """Open a URL; raises UsageError for one that cannot be, or that holds a password."""
        if not is_url(url):
            raise UsageError(f"{url} is no URL; of a folder: {Path(url).absolute().as_uri()}")
        parts = urlsplit(url)
        if parts.password is not None or parts.query or parts.fragment:
            said = "holds no password, query or fragment; keys are read from the environment"
            raise UsageError(f"a URL of runs {said}")
        from fsspec.core import url_to_fs

        self.url, self._is_http = url.rstrip("/"), parts.scheme in ("http", "https")
        self._is_store = parts.scheme in _STORES
        options = {"auto_mkdir": True} if parts.scheme in ("file", "local") else {}
        try:
            fs, root = url_to_fs(self.url, **options)
        except ImportError as e:
            how = "in the checkout: pip install '.[s3]', '.[gcs]' or '.[azure]'"
            raise UsageError(f"{url}: {e}; {how}") from None
        except ValueError as e:
            raise UsageError(f"{url}: {e}") from None
        self._fs: Any = fs
        self._base = f"{root.rstrip('/')}/runs"

    def found(self) -> dict[str, list[str]]:
        """Return the hashes of the runs that are there, by benchmark/model/request hash.

        There are several of a run that is being replaced.
        """
        found = defaultdict[str, list[str]](list)
        with self._faults():
            self._fs.invalidate_cache()
            for path in self._listed():
                name = path.removeprefix(f"{self._base}/")
                if match := _NAME.fullmatch(unquote(name) if self._is_http else name):
                    found[match[1].rstrip("/")].append(match[2])
        return dict(sorted(found.items()))

    def fetch(self, run: str, hashes: Sequence[str], part: Path) -> Path:
        """Return a run's folder, unpacked in an empty one; raises RecordError where its hash is another."""
        where = f"{self.url}/runs/{run}"
        if len(hashes) != 1:
            raise RecordError(f"{where} was not replaced to the end; push it again with --replace")
        with self._faults(where):
            self._fs.get_file(self._path(run, hashes[0]), str(part / "run.zip"))
            with zipfile.ZipFile(part / "run.zip") as packed:
                packed.extractall(part)
        folder = part / "runs" / run
        if content_hash(hashed_files(folder)) != hashes[0]:
            raise RecordError(
                f"{where} is not what its hash says; remove it there and push it again"
            )
        folder.chmod(0o700)
        return folder

    def push(self, run: str, results: Path, there: Sequence[str], *, is_replaced: bool) -> str:
        """Write a run whose lock the caller holds, and return what was done.

        `there`: its hashes there. Raises RecordError for another, unless it is to be replaced.
        """
        if self._is_http:
            raise UsageError(f"{self.url}: runs are read by http and not pushed; name a store")
        folder, where = results / "runs" / run, f"{self.url}/runs/{run}"
        own = content_hash(files := hashed_files(folder))
        if [own] == there:
            return "There already"
        if there and not is_replaced:
            fix = "`medhelm runs pull` brings what is lacking here, --replace takes this one there"
            raise RecordError(f"{where} is there with other content; {fix}")
        place, lacks = self._path(run, own), own not in there
        with part_folder(results) as part:
            if lacks:
                pack(results, [folder / name for name in files], part / "run.zip")
            with self._faults(where):
                first = place if self._is_store else f"{place}.part"
                if lacks:
                    self._fs.put_file(str(part / "run.zip"), first)
                if lacks and first != place:
                    self._fs.mv(first, place)
                for other in {*there} - {own}:
                    self._fs.rm_file(self._path(run, other))
        return "Pushed"

    def pull(self, run: str, results: Path, there: Sequence[str], *, is_replaced: bool) -> str:
        """Bring a run whose lock, where it is here, the caller holds, and return what was done.

        What else the run has here stays. Raises RecordError where files differ, unless it is to be replaced.
        """
        folder = results / "runs" / run
        for other in folder.parents[1].glob(f"*/{folder.name}/spec.json"):
            if other.parent != folder:
                raise RecordError(f"{folder} is here already under another name: {other.parent}")
        if [content_hash(mine := hashed_files(folder))] == there:
            return "Here already"
        with part_folder(results) as part:
            new = self.fetch(run, there, part)
            theirs = hashed_files(new)
            differ = [name for name in mine if theirs.get(name, mine[name]) != mine[name]]
            if differ and not is_replaced:
                said = f"is here with other content ({', '.join(differ)})"
                raise RecordError(f"{folder} {said}; --replace puts the other in its place")
            if mine and not differ:
                lacking = theirs.keys() - mine.keys()
                for name in sorted(lacking, key=lambda n: (n.startswith("gradings/"), n)):
                    make_private((folder / name).parent)
                    os.replace(new / name, folder / name)
                return "Pulled" if lacking else "Here already"
            make_private(folder.parent)
            if folder.exists():
                folder.rename(part / "old")
            new.rename(folder)
        return "Pulled"

    def _listed(self) -> Iterable[str]:
        """Return the names of all files; no folder that cannot be read is passed over."""
        try:
            if self._is_store:
                return list(self._fs.find(self._base))
            folders = self._fs.walk(self._base, on_error="raise")
            return [f"{folder}/{name}" for folder, _, files in folders for name in files]
        except FileNotFoundError:
            return []

    def _path(self, run: str, content: str) -> str:
        name = f"{run}/{content}.zip"
        return f"{self._base}/{quote(name) if self._is_http else name}"

    @contextmanager
    def _faults(self, where: str = "") -> Iterator[None]:
        """Raise what a store's package raises as RecordError, in its words but for what follows a `?`."""
        try:
            yield
        except MedhelmError:
            raise
        except Exception as e:  # the boundary to packages of stores, whose errors are of any kind
            said = re.sub(r"\?\S*", "?...", " ".join(str(e).split()))[:200]
            raise RecordError(
                f"cannot use {where or self.url}: {type(e).__name__}: {said}"
            ) from None


def results_folder(address: str | Path, *, is_graded: bool = False) -> Path:
    """Return a results folder to read from: of a URL a local copy, which was checked by its hashes.

    `is_graded`: as a copy of its own, in which gradings may be written.
    """
    if not is_url(address):
        return Path(address)
    cache = Path(os.environ.get("MEDHELM_CACHE_DIR") or "~/.medhelm/cache").expanduser().absolute()
    store = RemoteRuns(str(address))
    if not (found := store.found()):
        raise UsageError(
            f"no run below {address}; `medhelm runs push {address}` takes finished ones there"
        )
    copies = {
        run: _filled(cache / "runs" / "-".join(hashes), partial(store.fetch, run, hashes))
        for run, hashes in found.items()
    }

    def gather(part: Path) -> Path:
        for run, copy in copies.items():
            make_private((target := part / "all" / "runs" / run).parent)
            shutil.copytree(copy, target) if is_graded else target.symlink_to(copy)
        return part / "all"

    name = hashlib.sha256(repr((store.url, found)).encode()).hexdigest()
    return _filled(cache / ("graded" if is_graded else "read") / name, gather)


def _filled(target: Path, fill: Callable[[Path], Path]) -> Path:
    """Return a folder that is there whole or not at all; `fill` makes it in another one."""
    if not target.is_dir():
        with part_folder(target.parent) as part:
            filled = fill(part)
            with suppress(OSError):  # another process was first
                filled.rename(target)
    return target


@contextmanager
def part_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder in another, which is removed at the end; what killed processes have left goes, too."""
    make_private(place)
    for left in place.glob(f"{_PART}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _OLD_S:
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PART, dir=place, ignore_cleanup_errors=True) as part:
        yield Path(part)


def hashed_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files of a run that may go elsewhere, by their paths.

    A server's log may hold what it was started with, and stays.
    """
    paths = [p for p in stored_files(folder) if not p.name.startswith(("server-", "."))]
    return {p.relative_to(folder).as_posix(): _sha256(p) for p in paths}


def content_hash(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of the list of a run's files that `sha256sum` would print."""
    listed = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(files.items()))
    return hashlib.sha256(listed.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
