"""Finished runs behind a URL that fsspec opens: an object store, a web server, another folder.

<URL>/runs/<benchmark>/<model>/<request hash>/
    manifest.json                   the files of the run with their hashes; written last
    <file>.<start of its sha256>    never changed: a new content has a new name

A run is there from the moment on at which its manifest is. Nothing is read that no manifest names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

from medhelm.errors import MedhelmError, RecordError, UsageError
from medhelm.files.durable import make_private, sync_folder
from medhelm.files.seals import sealed
from medhelm.schema.episode import SCHEMA
from medhelm.store.records import decode_struct, find_runs, read_plan, read_record
from medhelm.store.runlog import log_bytes

_MANIFEST = "manifest.json"
_PART, _OLD_S = ".part-", 86_400.0
"""Begins the folder of what is being fetched, and after how long one is of a killed process."""
_FLAT = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Stores without folders: all keys are listed at once, and none is passed over."""


class RunUnfinished(RecordError):
    """A run of which something is missing, or that cannot be read."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`manifest.json`: SHA-256 and size of the files of a finished run, by their paths in its folder."""

    schema: int = SCHEMA
    files: dict[str, tuple[str, int]]

    @property
    def stored(self) -> dict[str, str]:
        """The names of the files where they are stored, by their paths."""
        return {name: f"{name}.{sha256[:16]}" for name, (sha256, _) in self.files.items()}


def is_url(said: str | Path) -> bool:
    """Return whether a results folder is given as a URL."""
    return "://" in str(said)


def stored_files(folder: Path) -> list[Path]:
    """Return the files of a run, but for its locks; raises RecordError for a symbolic link."""
    files = [p for p in sorted(folder.rglob("*")) if not p.is_dir() and p.name != "lock"]
    if links := [p for p in files if p.is_symlink()]:
        raise RecordError(f"{links[0]} is a symbolic link, which is not followed; take it away")
    return files


def manifest_of(folder: Path) -> Manifest:
    """Return the manifest of a run without servers' logs, which may hold what they were started with."""
    paths = [p for p in stored_files(folder) if not p.name.startswith(("server-", "."))]
    sizes = {p.relative_to(folder).as_posix(): (_sha256(p), p.stat().st_size) for p in paths}
    return Manifest(files=sizes)


def refuse_unfinished(folder: Path) -> None:
    """Raise RunUnfinished for a run that is not finished, or has a file that cannot be read."""
    try:
        plan, size = read_plan(folder), str(log_bytes(folder))
        records = [read_record(grading) for grading in sorted((folder / "gradings").glob("*"))]
    except RecordError as e:
        raise RunUnfinished(str(e)) from None
    whole = [r for r in records if r.state == "complete" and r.instances == plan.instances]
    is_current = any(r.provenance.get("log_bytes", size) == size for r in whole)
    if not is_current or next(folder.glob("**/shards"), None) is not None:
        fix = "the same `medhelm run` goes on, `medhelm score` grades"
        raise RunUnfinished(f"{folder} is not finished: {fix}")


class RemoteRuns:
    """Runs behind a URL."""

    def __init__(self, url: str) -> None:
        """Open a URL; raises UsageError for one that cannot be, or that holds a password."""
        parts = urlsplit(url)
        if parts.password is not None or parts.query or parts.fragment:
            said = "holds no password, query or fragment; keys are read from the environment"
            raise UsageError(f"a URL of runs {said}")
        from fsspec.core import url_to_fs

        self.url, self._scheme = url.rstrip("/"), parts.scheme
        self._is_http = parts.scheme in ("http", "https")
        try:
            fs, root = url_to_fs(self.url)
        except ImportError as e:
            how = "in the checkout: pip install '.[s3]', '.[gcs]' or '.[azure]'"
            raise UsageError(f"{url}: {e}; {how}") from None
        except ValueError as e:
            raise UsageError(f"{url}: {e}") from None
        self._fs: Any = fs
        self._fs.auto_mkdir = True  # of folders; stores have none
        self._root = root.rstrip("/")

    def manifests(self) -> dict[str, bytes]:
        """Return the manifests that are there as they were written, by benchmark/model/request hash."""
        base, found = self._path("runs"), {}
        with self._faults():
            for path in self._listed(base):
                name = path.removeprefix(f"{base}/")
                run, _, file = (unquote(name) if self._is_http else name).rpartition("/")
                if file == _MANIFEST and run.count("/") == 2 and _is_plain(run):
                    found[run] = path
            raw = self._fs.cat([*found.values()]) if found else {}
        return {run: raw[path] for run, path in sorted(found.items())}

    def read(self, run: str, raw: bytes) -> Manifest:
        """Return a manifest as a value; raises RecordError for one that is damaged."""
        where = f"{self.url}/runs/{run}/{_MANIFEST}"
        manifest = decode_struct(raw, Manifest, where, "`medhelm runs push --replace`")
        if not all(map(_is_plain, manifest.files)):
            raise RecordError(f"{where} names files outside of its run; nothing is read of it")
        return manifest

    def fetch(self, run: str, manifest: Manifest, folder: Path) -> None:
        """Write the files of a run to a folder; raises RecordError where one has another hash."""
        places = [folder / name for name in manifest.files]
        for place in places:
            make_private(place.parent)
        with self._faults():
            sources = [self._path("runs", run, name) for name in manifest.stored.values()]
            self._fs.get(sources, [*map(str, places)])
        for (name, (sha256, _)), place in zip(manifest.files.items(), places, strict=True):
            place.chmod(0o600)
            if _sha256(place) != sha256:
                fix = "start again; where it stays so, remove the run there and push it once more"
                said = f"{name} is not the file that the manifest names"
                raise RecordError(f"{self.url}/runs/{run}: {said}; {fix}")

    def push(self, run: str, folder: Path, before: bytes | None, *, is_replaced: bool) -> str:
        """Write a run whose lock the caller holds, and return what was done.

        `before`: its manifest there as the caller has read it. What a killed push has left is used. Raises
        RecordError for a run that is there with other content, unless it is to be replaced.
        """
        if self._is_http:
            raise UsageError(f"{self.url}: runs are read by http and not pushed; name a store")
        where, place = f"{self.url}/runs/{run}", self._path("runs", run, _MANIFEST)
        own = manifest_of(folder)
        if (raw := sealed(own)) == before:
            return "There already"
        if before is not None and not is_replaced:
            old = self.read(run, before).files
            _refuse(where, [name for name in old if own.files.get(name) != old[name]])
        with self._faults():
            sizes, there = (
                {own.stored[n]: size for n, (_, size) in own.files.items()},
                self._sizes(run),
            )
            left = {
                n: stored for n, stored in own.stored.items() if there.get(stored) != sizes[stored]
            }
            if left:
                paths = [self._path("runs", run, stored) for stored in left.values()]
                self._fs.put([str(folder / name) for name in left], paths)
            there = self._sizes(run)
            if lost := [stored for stored, size in sizes.items() if there.get(stored) != size]:
                raise RecordError(f"{where}: {lost[0]} is not there; push the run again")
            if (self._fs.cat_file(place) if _MANIFEST in there else None) != before:
                raise RecordError(f"{where} was pushed by another meanwhile; push it again")
            part = f"{place}.part" if self._scheme in ("file", "local") else place
            self._fs.pipe_file(part, raw)  # in a store a file appears whole
            if part != place:
                self._fs.mv(part, place)
            for name in there.keys() - sizes.keys() - {_MANIFEST}:
                self._fs.rm_file(self._path("runs", run, name))
        return "Pushed"

    def _listed(self, base: str) -> Iterable[str]:
        """Return the files that may be manifests; no folder that cannot be read is passed over."""
        self._fs.invalidate_cache()
        try:
            if self._scheme in _FLAT:
                return list(self._fs.find(base))
            folders = self._fs.walk(base, maxdepth=4, on_error="raise")
            return [f"{folder}/{name}" for folder, _, files in folders for name in files]
        except FileNotFoundError:
            return []

    def _sizes(self, run: str) -> dict[str, int]:
        base = self._path("runs", run)
        self._fs.invalidate_cache()
        found = self._fs.find(base, detail=True)
        return {path.removeprefix(f"{base}/"): own["size"] for path, own in found.items()}

    def _path(self, *parts: str) -> str:
        path = "/".join(parts)
        return f"{self._root}/{quote(path) if self._is_http else path}"

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise what a store's package raises as RecordError, in its words but for what follows a `?`."""
        try:
            yield
        except MedhelmError:
            raise
        except Exception as e:  # the boundary to packages of stores, whose errors are of any kind
            said = re.sub(r"\?\S*", "?...", " ".join(str(e).split()))[:200]
            raise RecordError(f"cannot use {self.url}: {type(e).__name__}: {said}") from None


def pull(
    run: str, manifest: Manifest, store: RemoteRuns, results: Path, *, is_replaced: bool
) -> str:
    """Bring a run to a results folder and return what was done. The caller holds its lock where it is there.

    What else the run has here stays. Raises RecordError where files differ, unless it is to be replaced.
    """
    folder = results / "runs" / run
    for other in folder.parents[1].glob(f"*/{folder.name}/spec.json"):
        if other.parent != folder:
            raise RecordError(f"{folder} is here already under another name: {other.parent}")
    mine, theirs = manifest_of(folder).files, manifest.files
    differ = [name for name in mine if theirs.get(name, mine[name]) != mine[name]]
    if mine and not differ and theirs.keys() <= mine.keys():
        return "Here already"
    if not is_replaced:
        _refuse(str(folder), differ)
    with _part_folder(results) as part:
        if folder.exists() and not differ:
            shutil.copytree(folder, part / "new")
        store.fetch(run, manifest, part / "new")
        make_private(folder.parent)
        if folder.exists():
            folder.rename(part / "old")
        (part / "new").rename(folder)
        sync_folder(folder.parent)
    return "Pulled"


def results_folder(said: str | Path, *, is_graded: bool = False) -> Path:
    """Return a results folder to read from: of a URL a local copy, whose files were checked by their hashes.

    `is_graded`: as a copy of its own, in which gradings may be written.
    """
    if not is_url(said):
        return Path(said)
    cache = Path(os.environ.get("MEDHELM_CACHE_DIR") or "~/.medhelm/cache").expanduser().absolute()
    store = RemoteRuns(str(said))
    place, found = cache / _start(store.url), store.manifests()
    for run, raw in found.items():
        fetch = partial(store.fetch, run, store.read(run, raw))
        copy = _filled(cache / "runs" / hashlib.sha256(raw).hexdigest(), fetch)
        make_private((place / "runs" / run).parent)
        with _part_folder(place) as part:
            (part / "link").symlink_to(copy)
            os.replace(part / "link", place / "runs" / run)
    for folder in find_runs(place):
        if folder.relative_to(place / "runs").as_posix() not in found:
            folder.unlink()
    if not found:
        raise UsageError(
            f"no run below {said}; `medhelm runs push {said}` takes finished ones there"
        )
    if not is_graded:
        return place
    own = place / f"graded-{_start(repr(found))}"
    return _filled(own, lambda folder: shutil.copytree(place / "runs", folder / "runs"))


def _filled(target: Path, fill: Callable[[Path], object]) -> Path:
    """Return a folder that is there whole or not at all."""
    if not target.is_dir():
        with _part_folder(target.parent) as part:
            fill(part / "new")
            with suppress(OSError):  # another process was first
                (part / "new").rename(target)
    return target


@contextmanager
def _part_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder in another, which is removed at the end; what killed processes have left goes, too."""
    make_private(place)
    for left in place.glob(f"{_PART}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _OLD_S:
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=_PART, dir=place, ignore_cleanup_errors=True) as part:
        yield Path(part)


def _refuse(where: str, differ: list[str]) -> None:
    if differ:
        fix = "--replace puts this run in its place"
        raise RecordError(f"{where} is there with other content ({', '.join(differ)}); {fix}")


def _is_plain(path: str) -> bool:
    """Return whether a path leads to no other place, whoever wrote it."""
    return all(part and part[0] != "." and not {"\\", "\0"} & {*part} for part in path.split("/"))


def _start(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
