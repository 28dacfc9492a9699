"""Get source files over the network, and report their state.

A file has its final name only when it is whole. While it comes it is `<name>.part`, which a
later call goes on with.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Literal
from urllib.parse import urlsplit

from medhelm.data.archives import unpack_folder
from medhelm.data.hub import files_of, is_unchanged, load, write_record
from medhelm.data.hub import record_path as hub_record_path
from medhelm.data.sources import (
    default_split,
    expected_sha256,
    fetch_command,
    file_path,
    files_beside,
    hash_file,
    hub_record,
    is_found,
    is_there,
    pin_fault,
    record_path,
    source_sha256,
    wanted_sources,
)
from medhelm.errors import DataError, PluginError
from medhelm.schema.data import Benchmark, HubDataset, SourceFile

Report = Callable[[str, int, int | None], None]
"""Called with (file name, bytes here, bytes in all or None) while a file comes."""

ATTEMPTS = 5
_CHUNK = 1 << 18
_TIMEOUT_S = 60.0
_LONGEST_WAIT_S = 60.0
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class FileStatus:
    """One source file as it is on disk."""

    name: str
    path: Path
    status: Literal["ok", "missing", "mismatch", "unpinned"]
    """unpinned: it is there and agrees with the hash recorded at its first fetch, if any."""
    sha256: str = ""
    """Hash of the file; empty where it is missing."""
    expected: str = ""
    """Pinned or recorded hash; empty where there is none."""


class _Interrupted(Exception):
    """The transfer ended early and may be tried again."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


def verify(benchmark: Benchmark, root: Path) -> list[FileStatus]:
    """Return the state of each source file. Every file is read anew."""
    dataset = benchmark.dataset
    default = dataset.needed(default_split(benchmark, root))  # without the others nothing is wrong
    return [
        status
        for source in dataset.files
        if source in default or is_found(benchmark, source, root)
        for status in _statuses(benchmark, source, root)
    ]


def fetch(
    benchmark: Benchmark,
    root: Path,
    *,
    examples: bool = False,
    report: Report = lambda name, done, total: None,
    pause_s: float = 1.0,
) -> list[FileStatus]:
    """Get every file that is missing or wrong, and return the state of all.

    `examples`: those too that hold worked examples alone.

    Proxy and CA settings of the environment are honoured. `pause_s` is the first wait
    between attempts. It doubles. Raises DataError for what cannot be had.
    """
    by_hand: list[Path] = []
    # a table to fill, or files in place of the hub's, are the user's to change
    is_own = bool(benchmark.columns) or isinstance(benchmark.dataset, HubDataset)
    default = benchmark.dataset.needed(default_split(benchmark, root))
    for source in wanted_sources(benchmark, examples=examples):
        path = file_path(benchmark, source, root)
        statuses = _statuses(benchmark, source, root)
        is_wrong = any(status.status in ("missing", "mismatch") for status in statuses)
        if is_wrong and source.is_fetchable:
            with _disk_errors(benchmark.name, path):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                if source.hub:
                    _fetch_hub(benchmark, source, root, report)
                elif source.folder:
                    _fetch_folder(benchmark, source, root, report, pause_s)
                else:
                    _Download(benchmark, source, root, report, pause_s).run()
        elif is_wrong and source in default:
            by_hand.append(path)
        elif not is_wrong and not statuses[0].expected and not is_own:
            _record(path, statuses[0].sha256)
    if by_hand:
        raise DataError(
            f"{benchmark.name}: {by_hand[0].name} cannot be fetched; "
            f"put the right file into {by_hand[0].parent}"
        )
    return verify(benchmark, root)


def _fetch_folder(
    benchmark: Benchmark, source: SourceFile, root: Path, report: Report, pause_s: float
) -> None:
    """Get the archive and put the folder under its name when it is whole and right."""
    path = file_path(benchmark, source, root)
    command = fetch_command(benchmark.name, root)
    if path.exists():  # it may hold what a user put there
        raise DataError(
            f"{benchmark.name}: {path} is not as it was published; move it away and run `{command}`"
        )
    archive = SourceFile(name=f"{source.name}.zip", url=source.url, max_bytes=source.max_bytes)
    packed, part = file_path(benchmark, archive, root), _part(path)
    _Download(benchmark, archive, root, report, pause_s).run()
    try:
        shutil.rmtree(part, ignore_errors=True)
        unpack_folder(packed, source.folder, part, source.max_bytes)
        found, expected = hash_file(part), expected_sha256(source, path)
        if expected and found != expected:
            raise DataError(_changed(source, path, found, expected))
        os.replace(part, path)
    except DataError as e:
        raise DataError(f"{benchmark.name}: {e}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        packed.unlink()
        record_path(packed).unlink()
    if not source.sha256:
        _record(path, found)


def _fetch_hub(benchmark: Benchmark, source: SourceFile, root: Path, report: Report) -> None:
    assert source.hub is not None
    path, before = file_path(benchmark, source, root), hub_record(benchmark, source, root)
    if beside := files_beside(benchmark, source, root):  # what a user put there
        raise DataError(f"{benchmark.name}: {beside[0]} is not the right file; move it away")
    try:
        record = load(path, source.hub, again=before is not None)  # else it were right
    except DataError as e:
        raise DataError(f"{benchmark.name}: {e}") from None
    fault = pin_fault(source, record)
    if not fault and before is not None and before.rows_sha256 != record.rows_sha256:
        fault = (
            f"the rows of {source.hub} have changed; delete {hub_record_path(path)} to accept it"
        )
    if fault:
        raise DataError(f"{benchmark.name}: {fault}")
    write_record(path, record)
    size = sum(Path(name).stat().st_size for name in record.cached)
    report(source.name, size, size)


def to_fetch(
    benchmark: Benchmark, root: Path, *, examples: bool = False
) -> list[tuple[SourceFile, FileStatus]]:
    """Return the sources that `fetch` would get, and the state of each."""
    return [
        (source, status)
        for source in wanted_sources(benchmark, examples=examples)
        if source.is_fetchable
        for status in _statuses(benchmark, source, root)
        if status.status in ("missing", "mismatch")
    ]


def size_of(benchmark: Benchmark, source: SourceFile, root: Path) -> int | None:
    """Return the bytes of a source as its server states them; None where it does not.

    Raises DataError where the server cannot be asked.
    """
    if source.hub:
        path = file_path(benchmark, source, root)
        try:
            return sum(size for _, size in files_of(path, source.hub))
        except DataError as e:
            raise DataError(f"{benchmark.name}: {e}") from None
    _check_address(benchmark, source)
    request = urllib.request.Request(
        source.url, method="HEAD", headers={"Accept-Encoding": "identity", "User-Agent": "medhelm"}
    )
    try:
        with _web_opener(benchmark.name).open(request, timeout=_TIMEOUT_S) as reply:
            length = reply.headers.get("Content-Length", "")
    except (OSError, http.client.HTTPException) as e:
        raise DataError(f"{benchmark.name}: {source.url} was not reached ({_reason(e)})") from None
    return int(length) if length.isdigit() else None


def _statuses(benchmark: Benchmark, source: SourceFile, root: Path) -> list[FileStatus]:
    """Return the states of the files that a source is read from, or of the rows from the hub."""
    if source.hub is None:
        return [_status(source, file_path(benchmark, source, root))]
    if beside := files_beside(benchmark, source, root):
        named = [file_path(benchmark, source, root)]
        return [
            _status(source if beside == named else SourceFile(name=path.name), path)
            for path in beside
        ]
    path, record = file_path(benchmark, source, root), hub_record(benchmark, source, root)
    if record is None or not record.is_cached:
        return [FileStatus(name=source.name, path=path, status="missing", expected=source.sha256)]
    status: Literal["ok", "mismatch", "unpinned"] = "ok" if source.sha256 else "unpinned"
    if pin_fault(source, record) or not is_unchanged(record):
        status = "mismatch"
    return [
        FileStatus(
            name=source.name,
            path=Path(record.cached[0]) if record.cached else path,
            status=status,
            sha256=record.sha256,
            expected=source.sha256 or record.sha256,
        )
    ]


def _status(source: SourceFile, path: Path) -> FileStatus:
    if not is_there(source, path):
        return FileStatus(name=source.name, path=path, status="missing", expected=source.sha256)
    found, expected = source_sha256(source, path, now=True), expected_sha256(source, path)
    status: Literal["ok", "mismatch", "unpinned"] = "ok" if source.sha256 else "unpinned"
    if expected and found != expected:
        status = "mismatch"
    return FileStatus(name=source.name, path=path, status=status, sha256=found, expected=expected)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _record(path: Path, sha256: str) -> None:
    """Write the hash beside the file, in the form that `sha256sum -c` reads."""
    record = record_path(path)
    part = _part(record)
    part.write_text(f"{sha256}  {path.name}\n", encoding="utf-8")
    os.replace(part, record)


def _changed(source: SourceFile, path: Path, found: str, expected: str) -> str:
    """Return the message on a source that does not have its hash any more."""
    fix = (
        "the source has changed, nothing was stored"
        if source.sha256
        else f"the source has changed; delete {record_path(path)} to accept it"
    )
    return f"{source.url} has sha256 {found[:12]}..., expected {expected[:12]}...; {fix}"


@contextlib.contextmanager
def _disk_errors(benchmark: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise DataError(
            f"{benchmark}: {path} cannot be written ({e.strerror or type(e).__name__}); "
            f"what came so far is kept"
        ) from None


def _check_address(benchmark: Benchmark, source: SourceFile) -> None:
    if urlsplit(source.url).scheme not in ("http", "https"):
        raise PluginError(
            f"benchmark {benchmark.name!r}: {source.url} is not an http or https address"
        )


class _Download:
    """Brings one file, over as many attempts as it takes and `ATTEMPTS` allow."""

    def __init__(
        self, benchmark: Benchmark, source: SourceFile, root: Path, report: Report, pause_s: float
    ) -> None:
        _check_address(benchmark, source)
        self._benchmark, self._source = benchmark.name, source
        self._command = fetch_command(benchmark.name, root)
        self._path = file_path(benchmark, source, root)
        self._report, self._pause_s = report, pause_s
        self._part = _part(self._path)
        self._expected = expected_sha256(source, self._path)
        self._etag = ""
        self._is_resumed = False

    def run(self) -> None:
        with self._part.open("ab") as file:
            self._lock(file)
            if not self._expected:
                file.truncate(0)  # nothing would show whether the source changed since
            found = hash_file(self._part)
            if not self._expected or found != self._expected:
                found = self._transfer(file)
            if self._expected and found != self._expected and self._is_resumed:
                file.truncate(0)  # the first part may have been of another file
                found = self._transfer(file)
            if self._expected and found != self._expected:
                self._part.unlink()
                what = _changed(self._source, self._path, found, self._expected)
                raise DataError(f"{self._benchmark}: {what}")
            os.replace(self._part, self._path)
        if not self._source.sha256:
            _record(self._path, found)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # else a power cut could undo the new names
        finally:
            os.close(folder)

    def _lock(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.fstat(file.fileno()).st_ino == self._part.stat().st_ino
        except (BlockingIOError, FileNotFoundError):
            is_ours = False  # held by another process, or just finished by it
        if not is_ours:
            raise DataError(f"{self._benchmark}: another process fetches {self._path.name} now")

    def _transfer(self, file: BinaryIO) -> str:
        """Fill the part file and return its hash; raises DataError when that cannot be done."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._attempt(file)
                break
            except _Interrupted as e:
                if attempt == ATTEMPTS:
                    raise DataError(
                        f"{self._benchmark}: {self._source.url} could not be fetched ({e}, "
                        f"{ATTEMPTS} attempts); run `{self._command}` to go on"
                    ) from None
                wait = self._pause_s * 2 ** (attempt - 1) if e.wait_s is None else e.wait_s
                time.sleep(min(wait, _LONGEST_WAIT_S))
        file.flush()
        os.fsync(file.fileno())
        return hash_file(self._part)

    def _attempt(self, file: BinaryIO) -> None:
        have = file.seek(0, os.SEEK_END)
        headers = {"Accept-Encoding": "identity", "User-Agent": "medhelm"}
        if have and (self._expected or self._etag):
            headers["Range"] = f"bytes={have}-"
            if self._etag:
                headers["If-Range"] = self._etag
        request = urllib.request.Request(self._source.url, headers=headers)
        opener = _web_opener(self._benchmark)
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as reply:
                self._receive(reply, file, have)
        except urllib.error.HTTPError as e:
            with e:
                self._refused(e, file)
        except urllib.error.URLError as e:
            if isinstance(e.reason, ssl.SSLCertVerificationError):
                raise DataError(
                    f"{self._benchmark}: the certificate of {urlsplit(self._source.url).hostname} "
                    f"is not trusted; name your CA file in SSL_CERT_FILE"
                ) from None
            raise _Interrupted(_reason(e.reason)) from None
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as e:
            raise _Interrupted(_reason(e)) from None

    def _receive(self, reply: http.client.HTTPResponse, file: BinaryIO, have: int) -> None:
        headers = reply.headers
        if headers.get("Content-Encoding", "identity") != "identity":
            raise DataError(f"{self._benchmark}: {self._source.url} comes compressed, not as it is")
        if reply.status == 206 and headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            self._is_resumed = True
        else:
            file.truncate(0)
            have = 0
            if reply.status != 200:
                raise _Interrupted(f"http {reply.status} of another range")
        etag = headers.get("ETag", "")
        self._etag = "" if etag.startswith("W/") else etag
        length = headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        self._check_size(total or have, file)
        self._report(self._source.name, have, total)
        while chunk := reply.read(_CHUNK):
            have += len(chunk)
            self._check_size(have, file)
            file.write(chunk)
            self._report(self._source.name, have, total)
        if total is not None and have < total:
            raise _Interrupted(f"the connection ended {total - have} bytes early")

    def _check_size(self, size: int, file: BinaryIO) -> None:
        """Raise DataError, and keep nothing, where more comes than was expected."""
        if size > self._source.max_bytes:
            file.truncate(0)
            self._part.unlink()
            raise DataError(
                f"{self._benchmark}: {self._source.url} is longer than the "
                f"{self._source.max_bytes:,} bytes expected; SourceFile.max_bytes allows more"
            )

    def _refused(self, e: urllib.error.HTTPError, file: BinaryIO) -> None:
        if e.code == 416:  # the part is longer than the file, so it is of another one
            file.truncate(0)
            raise _Interrupted("http 416", wait_s=0.0)
        if e.code in _TRANSIENT:
            after = e.headers.get("Retry-After", "")
            raise _Interrupted(f"http {e.code}", float(after) if after.isdigit() else None)
        raise DataError(f"{self._benchmark}: {self._source.url} answers http {e.code}")


def _reason(e: object) -> str:
    return getattr(e, "strerror", None) or type(e).__name__


def _web_opener(benchmark: str) -> urllib.request.OpenerDirector:
    """Return what opens the addresses of a benchmark's files.

    A new one each time: `urlopen` would keep the proxies of the process's first request.
    """
    https = urllib.request.HTTPSHandler(context=_ca())
    return urllib.request.build_opener(https, _Redirects(benchmark))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses only, though the library would open ftp."""

    def __init__(self, benchmark: str) -> None:
        self._benchmark = benchmark

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request for the new address; raises DataError where it is none of the web."""
        if (scheme := urlsplit(newurl).scheme) not in ("http", "https"):
            fp.close()
            raise DataError(
                f"{self._benchmark}: {req.full_url} redirects to a {scheme} address, which is not "
                "followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _ca() -> ssl.SSLContext | None:
    """Return a context for the CA file that curl and requests are given.

    None where SSL_CERT_FILE or SSL_CERT_DIR name one, which Python's default obeys, or nothing does.
    """
    environ = os.environ
    bundle = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    if not bundle or environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR"):
        return None
    if Path(bundle).is_dir():
        return ssl.create_default_context(capath=bundle)
    if not Path(bundle).is_file():
        raise DataError(f"the CA file {bundle} that the environment names does not exist")
    return ssl.create_default_context(cafile=bundle)
