"""Finished runs behind a URL that fsspec opens: an object store, a web server, another folder.

<URL>/runs/<benchmark>/<model>/<request hash>/
    manifest.json            the run's files with their sizes and hashes; written last
    <file>.<start of its sha256>

Nothing is read that no manifest names. No file is ever changed there: a run that is pushed again has files of
other names until its manifest takes the place of the old one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

from medhelm.errors import MedhelmError, RecordError, UsageError
from medhelm.files.durable import make_private, sync_folder
from medhelm.files.seals import is_broken, sealed, unsealed
from medhelm.store.records import other_version, read_plan, read_record
from medhelm.store.runlog import log_bytes

MANIFEST = "manifest.json"
_PART = ".part-"
"""Begins the folder of what is being fetched."""
_JUST_MADE_S = 5.0
"""A folder as young as this may wait for its lock."""
_SCHEMA = 1
_SHOWN = 3


class OtherContent(RecordError):
    """A run is there already, and not the same."""


class RunUnfinished(RecordError):
    """A run of which something is missing, or that cannot be read."""


class StoreFault(RecordError):
    """A store that cannot be read or written."""


class StoredFile(msgspec.Struct, frozen=True, array_like=True):
    """The content of a file of a run."""

    sha256: str
    size: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`manifest.json`: the files of a finished run by their paths in its folder."""

    schema: int = _SCHEMA
    files: dict[str, StoredFile]

    def lacks(self, other: Manifest) -> list[str]:
        """Return the files of another manifest that this one has not, or has with other content."""
        return [name for name, file in other.files.items() if self.files.get(name) != file]


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
    """Return what a push of a run would write: not of a server's log, which may hold what it was started with."""
    files = {}
    for path in stored_files(folder):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("server-") and not path.name.startswith("."):
            files[name] = StoredFile(_sha256(path), path.stat().st_size)
    return Manifest(files=files)


def refuse_unfinished(folder: Path) -> None:
    """Raise RunUnfinished for a run that is not finished, or has a file that is damaged."""
    try:
        plan, size = read_plan(folder), str(log_bytes(folder))
        records = [read_record(grading) for grading in sorted((folder / "gradings").glob("*"))]
    except RecordError as e:
        raise RunUnfinished(str(e)) from None
    is_whole = any(
        record.state == "complete"
        and record.instances == plan.instances
        and record.provenance.get("log_bytes", size) == size
        for record in records
    )
    if next(folder.glob("**/shards"), None) is not None:
        raise RunUnfinished(f"{folder} has parts that are not gathered; `medhelm score` does it")
    if not is_whole:
        raise RunUnfinished(
            f"{folder} is not finished: the same `medhelm run` goes on, `medhelm score` grades"
        )


class Elsewhere:
    """Runs behind a URL."""

    def __init__(self, url: str) -> None:
        """Open a URL; raises UsageError for one that cannot be, or that holds a password."""
        parts = urlsplit(url)
        if parts.password is not None or parts.query or parts.fragment:
            raise UsageError(
                f"{parts.scheme}://...: a URL holds no password, query or fragment; keys are read from the "
                "environment, as the package of the store reads them"
            )
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.url = url.rstrip("/")
        self._is_http = parts.scheme in ("http", "https")
        try:
            fs, root = url_to_fs(self.url)
        except ImportError as e:
            raise UsageError(
                f"{url}: {e}; in the checkout: pip install '.[s3]', '.[gcs]' or '.[azure]'"
            ) from None
        except ValueError as e:
            raise UsageError(f"{url}: {e}") from None
        self._fs: Any = fs
        self._root = root.rstrip("/")
        self._is_folder = isinstance(fs, LocalFileSystem)
        if self._is_folder:
            self._fs.auto_mkdir = True

    def manifests(self) -> dict[str, bytes]:
        """Return the manifests that are there as they were written, by benchmark/model/request hash."""
        base, found = self._path("runs"), {}
        with self._fault("read"):
            self._fs.invalidate_cache()
            try:
                listed = self._fs.find(base)
            except FileNotFoundError:
                listed = []
            for path in listed:
                name = path.removeprefix(f"{base}/")
                run, _, file = (unquote(name) if self._is_http else name).rpartition("/")
                if file == MANIFEST and run.count("/") == 2 and _is_plain(run):
                    found[path] = run
            raw = self._fs.cat(list(found)) if found else {}
        return {run: raw[path] for path, run in sorted(found.items(), key=lambda own: own[1])}

    def pushed(self) -> dict[str, bytes]:
        """Return the manifests that are there; raises UsageError where there is none."""
        if not (found := self.manifests()):
            raise UsageError(
                f"no run below {self.url}; `medhelm runs push {self.url}` takes finished runs there"
            )
        return found

    def read(self, run: str, raw: bytes) -> Manifest:
        """Return a manifest as a value; raises RecordError for one that is damaged."""
        where = f"{self.url}/runs/{run}/{MANIFEST}"
        try:
            if not is_broken(raw):
                manifest = msgspec.json.decode(unsealed(raw), type=Manifest)
                if manifest.schema != _SCHEMA:
                    raise RecordError(other_version(where, manifest.schema))
                if all(map(_is_plain, manifest.files)):
                    return manifest
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        raise RecordError(f"{where} is damaged; push the run again, with --replace")

    def fetch(self, run: str, manifest: Manifest, folder: Path) -> None:
        """Write the files of a run to a folder; raises RecordError where one has another hash."""
        places = {name: folder / name for name in manifest.files}
        for place in places.values():
            make_private(place.parent)
        sources = [self._path("runs", run, _stored_as(n, f)) for n, f in manifest.files.items()]
        with self._fault("read"):
            self._fs.get(sources, [str(place) for place in places.values()])
        for name, place in places.items():
            if _sha256(place) != manifest.files[name].sha256:
                raise RecordError(
                    f"{self.url}/runs/{run}: {name} is not the file that the manifest names; start again, "
                    "and where it stays so remove the run there and push it once more"
                )
            place.chmod(0o600)

    def push(self, run: str, folder: Path, before: bytes | None, *, is_replaced: bool) -> str:
        """Write a run whose lock the caller holds, and return what was done.

        `before`: its manifest there as the caller has read it. What a killed push has left is used. Raises
        OtherContent for a run that is there with other content, unless it is to be replaced.
        """
        if self._is_http:
            raise UsageError(f"{self.url}: runs are read by http and not pushed; name a store")
        manifest = manifest_of(folder)
        raw = sealed(manifest)
        if raw == before:
            return "There already"
        if before is not None and not is_replaced:
            _refuse_other(f"{self.url}/runs/{run}", manifest, self.read(run, before))
        named = {_stored_as(name, file): (name, file) for name, file in manifest.files.items()}
        there = self._sizes(run)
        left = [n for n, (_, file) in named.items() if there.get(n) != file.size]
        if left:
            sources = [str(folder / named[n][0]) for n in left]
            with self._fault("write"):
                self._fs.put(sources, [self._path("runs", run, n) for n in left])
        there = self._sizes(run)
        if lost := [n for n, (_, file) in named.items() if there.get(n) != file.size]:
            raise RecordError(f"{self.url}/runs/{run}: {lost[0]} is not there; push the run again")
        place = self._path("runs", run, MANIFEST)
        with self._fault("write"):
            now = self._fs.cat_file(place) if MANIFEST in there else None
            if now != before:
                raise OtherContent(f"{self.url}/runs/{run} was pushed by another; push it again")
            if self._is_folder:  # elsewhere a file appears whole
                self._fs.pipe_file(f"{place}.part", raw)
                os.replace(f"{place}.part", place)
            else:
                self._fs.pipe_file(place, raw)
            for name in there.keys() - named.keys() - {MANIFEST}:
                self._fs.rm_file(self._path("runs", run, name))
        return "Pushed" if before is None else "Pushed in place of the one there"

    def _sizes(self, run: str) -> dict[str, int]:
        base = self._path("runs", run)
        with self._fault("read"):
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(base, detail=True)
            except FileNotFoundError:
                return {}
        return {path.removeprefix(f"{base}/"): own["size"] for path, own in found.items()}

    def _path(self, *parts: str) -> str:
        path = "/".join(parts)
        return f"{self._root}/{quote(path) if self._is_http else path}"

    @contextmanager
    def _fault(self, what: str) -> Iterator[None]:
        """Raise what a store's package raises as StoreFault, in its words but for what follows a `?`."""
        try:
            yield
        except MedhelmError:
            raise
        except (
            Exception
        ) as e:  # the boundary to the packages of stores, which raise errors of any kind
            said = re.sub(r"\?\S*", "?...", " ".join(str(e).split()))[:200]
            raise StoreFault(
                f"cannot {what} {self.url}: {type(e).__name__}{f', {said}' * bool(said)}"
            ) from None


def pull(
    run: str, manifest: Manifest, store: Elsewhere, results: Path, *, is_replaced: bool
) -> str:
    """Bring a run to a results folder and return what was done. The caller holds its lock where it is there.

    Raises OtherContent for a run that is there with other content, unless it is to be replaced.
    """
    folder = results / "runs" / run
    for other in folder.parents[1].glob(f"*/{folder.name}/spec.json"):
        if other.parent != folder:
            raise OtherContent(f"{folder} is here already under another name: {other.parent}")
    mine = manifest_of(folder)
    if mine == manifest:
        return "Here already"
    if not is_replaced:
        _refuse_other(str(folder), manifest, mine)
    with part_folder(results) as part:
        store.fetch(run, manifest, part / "new")
        for log in folder.glob("server-*"):
            log.rename(part / "new" / log.name)
        if folder.exists():
            folder.rename(part / "old")
        make_private(folder.parent)
        (part / "new").rename(folder)
        sync_folder(folder.parent)
    return "Pulled"


def results_folder(said: str | Path, *, is_graded: bool = False) -> Path:
    """Return a results folder to read from: of a URL a local copy, whose files were checked by their hashes.

    `is_graded`: as a copy of its own, in which gradings may be written.
    """
    if not is_url(said):
        return Path(said)
    cache = Path(os.environ.get("MEDHELM_CACHE_DIR") or "~/.medhelm/cache").expanduser()
    store = Elsewhere(str(said))
    copies = {}
    for run, raw in store.pushed().items():
        copies[run] = copy = cache / "runs" / hashlib.sha256(raw).hexdigest()
        if not copy.is_dir():
            with part_folder(copy.parent) as part:
                store.fetch(run, store.read(run, raw), part)
                _move(part, copy)
    place = cache / hashlib.sha256(store.url.encode()).hexdigest()[:16]
    chosen = repr(sorted((run, copy.name) for run, copy in copies.items()))
    view = (
        place
        / f"{'graded' if is_graded else 'runs'}-{hashlib.sha256(chosen.encode()).hexdigest()[:16]}"
    )
    if not view.is_dir():
        with part_folder(place) as part:
            for run, copy in copies.items():
                target = part / "runs" / run if is_graded else part / run
                make_private(target.parent)
                shutil.copytree(copy, target) if is_graded else target.symlink_to(copy)
            _move(part, view)
    if is_graded:
        return view
    with part_folder(place) as part:
        (part / "runs").symlink_to(view)
        os.replace(part / "runs", place / "runs")
    return place


@contextmanager
def part_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder in another, which is removed at the end; what killed processes have left goes, too."""
    make_private(place)
    for left in place.glob(f"{_PART}*"):
        with suppress(OSError), _lock(left):
            if time.time() - left.stat().st_mtime > _JUST_MADE_S:
                shutil.rmtree(left)
    part = Path(tempfile.mkdtemp(prefix=_PART, dir=place))
    try:
        with _lock(part):
            yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def _move(part: Path, target: Path) -> None:
    try:
        part.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was first
            raise


def _refuse_other(where: str, new: Manifest, old: Manifest) -> None:
    """Raise OtherContent where a run would lose a file of the one that is there."""
    if lost := new.lacks(old):
        more = ", ..." if len(lost) > _SHOWN else ""
        raise OtherContent(
            f"{where} is there with other content ({', '.join(lost[:_SHOWN])}{more}); --replace puts this "
            "one in its place"
        )


def _stored_as(name: str, file: StoredFile) -> str:
    return f"{name}.{file.sha256[:16]}"


def _is_plain(path: str) -> bool:
    """Return whether a path leads to no other place, whoever wrote it."""
    return all(part and part[0] != "." and not {"\\", "\0"} & {*part} for part in path.split("/"))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
