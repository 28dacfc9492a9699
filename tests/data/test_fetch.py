import contextlib
import errno
import fcntl
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from medhelm.data.fetch import ATTEMPTS, fetch, verify
from medhelm.errors import DataError, PluginError
from medhelm.schema.data import Benchmark, FileDataset, SourceFile
from tests.made import benchmark
from tests.server import serving

CONTENT = b"".join(f"{n},row\n".encode() for n in range(100_000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """A real HTTP server on loopback whose next answers can be spoilt."""

    content: bytes = CONTENT
    ranges: bool = True
    etag: str = ""
    plan: list[Any] = field(default_factory=list)
    """Per request: a status to answer, or the number of bytes after which it hangs up."""
    asked: list[str] = field(default_factory=list)
    """The Range header of each request."""
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range", "")
        self.asked.append(wanted)
        step = self.plan.pop(0) if self.plan else None
        if isinstance(step, tuple):
            status, headers = step
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            return
        start = 0
        if_range = handler.headers.get("If-Range")
        if wanted and self.ranges and (if_range is None or if_range == self.etag):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.content):
                handler.send_response(416)
                handler.end_headers()
                return
            handler.send_response(206)
            end = len(self.content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{end}/{len(self.content)}")
        else:
            handler.send_response(200)
        body = self.content[start:]
        handler.send_header("Content-Length", str(len(body)))
        if self.etag:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        handler.wfile.write(body[:step])


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.answer(self)

        def log_message(self, *args: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        state.url = f"{url}/data/file.csv"
        yield state


def bench(url: str, sha256: str = SHA256, name: str = "file.csv") -> Benchmark:
    source = SourceFile(name=name, url=url, sha256=sha256)
    return benchmark("bench", dataset=FileDataset(files=(source,)))


def get(own: Benchmark, root: Path) -> str:
    (status,) = fetch(own, root, pause_s=0.0)
    return status.status


def failure(own: Benchmark, root: Path) -> str:
    with pytest.raises(DataError) as caught:
        get(own, root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def names(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "bench").iterdir())


def test_a_file_comes_whole_with_progress(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    (status,) = fetch(
        bench(server.url), tmp_path, report=lambda *step: told.append(step), pause_s=0.0
    )
    path = tmp_path / "bench" / "file.csv"
    assert path.read_bytes() == CONTENT
    assert (status.status, status.sha256, status.expected) == ("ok", SHA256, SHA256)
    assert names(tmp_path) == ["file.csv"]
    assert told[0] == ("file.csv", 0, len(CONTENT))
    assert told[-1] == ("file.csv", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_right_file_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert get(bench(server.url, name="a/b/file.csv"), tmp_path) == "ok"
        assert (tmp_path / "bench" / "a" / "b" / "file.csv").read_bytes() == CONTENT
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_dropped_connections_are_mended_within_one_call(
    server: Server, tmp_path: Path, ranges: bool
) -> None:
    server.ranges = ranges
    server.plan = [1000, 400_000]
    assert get(bench(server.url), tmp_path) == "ok"
    assert (tmp_path / "bench" / "file.csv").read_bytes() == CONTENT
    second = 401_000 if ranges else 400_000
    assert server.asked == ["", "bytes=1000-", f"bytes={second}-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_later_call_goes_on(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.ranges = ranges
    server.plan = [500_000] + [0] * (ATTEMPTS - 1)
    told = failure(bench(server.url), tmp_path)
    assert f"bytes early, {ATTEMPTS} attempts" in told
    assert told.endswith(f"run `medhelm data fetch bench --data-dir {tmp_path}` to go on")
    assert names(tmp_path) == ["file.csv.part"], "no half file under the final name"
    assert verify(bench(server.url), tmp_path)[0].status == "missing"
    server.asked.clear()
    assert get(bench(server.url), tmp_path) == "ok"
    assert names(tmp_path) == ["file.csv"]
    kept = 500_000 if ranges else 0  # a server that ignores Range starts anew each time
    assert server.asked == ([f"bytes={kept}-"] if ranges else [""])


def test_a_whole_part_needs_no_request(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.csv.part").write_bytes(CONTENT)
    assert get(bench(server.url), tmp_path) == "ok"
    assert server.asked == []


@pytest.mark.parametrize("part", [b"of another version", CONTENT + b"longer", b"x" * len(CONTENT)])
def test_a_part_of_another_file_is_thrown_away(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.csv.part").write_bytes(part)
    assert get(bench(server.url), tmp_path) == "ok"
    assert (tmp_path / "bench" / "file.csv").read_bytes() == CONTENT


def test_wrong_content_is_never_stored(server: Server, tmp_path: Path) -> None:
    server.content = b"moved"
    found = hashlib.sha256(b"moved").hexdigest()
    told = failure(bench(server.url), tmp_path)
    assert f"has sha256 {found[:12]}..., expected {SHA256[:12]}..." in told
    assert names(tmp_path) == []


def test_a_wrong_file_is_replaced_and_kept_until_then(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "bench" / "file.csv"
    path.parent.mkdir()
    path.write_text("old")
    assert verify(bench(server.url), tmp_path)[0].status == "mismatch"
    server.plan = [(404, {})]
    assert failure(bench(server.url), tmp_path) == f"bench: {server.url} answers http 404"
    assert path.read_text() == "old" and len(server.asked) == 1
    assert get(bench(server.url), tmp_path) == "ok"
    assert path.read_bytes() == CONTENT


def test_transient_answers_are_tried_again_after_waits_that_double_or_are_asked_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("medhelm.data.fetch.time.sleep", waited.append)
    server.plan = [(503, {}), (500, {}), (429, {"Retry-After": "7"}), (503, {"Retry-After": "999"})]
    (status,) = fetch(bench(server.url), tmp_path, pause_s=0.5)
    assert status.status == "ok" and len(server.asked) == 5
    assert waited == [0.5, 1.0, 7.0, 60.0]


def test_nobody_listens(tmp_path: Path) -> None:
    told = failure(bench("http://127.0.0.1:9/file.csv"), tmp_path)
    assert f"{ATTEMPTS} attempts" in told


def test_an_unpinned_source_is_recorded_and_then_held_to_it(server: Server, tmp_path: Path) -> None:
    unpinned = bench(server.url, sha256="")
    assert get(unpinned, tmp_path) == "unpinned"
    assert names(tmp_path) == ["file.csv", "file.csv.sha256"]
    record = tmp_path / "bench" / "file.csv.sha256"
    assert record.read_text() == f"{SHA256}  file.csv\n"
    (status,) = verify(unpinned, tmp_path)
    assert (status.status, status.sha256, status.expected) == ("unpinned", SHA256, SHA256)
    path = tmp_path / "bench" / "file.csv"
    path.write_text("damaged")
    assert verify(unpinned, tmp_path)[0].status == "mismatch"
    server.content = b"the source moved"
    told = failure(unpinned, tmp_path)
    assert f"delete {record} to accept it" in told
    assert path.read_text() == "damaged"
    record.unlink()
    path.unlink()
    assert get(unpinned, tmp_path) == "unpinned"
    assert path.read_bytes() == b"the source moved"


def test_an_unpinned_part_of_an_earlier_call_is_not_trusted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.csv.part").write_bytes(b"older")
    assert get(bench(server.url, sha256=""), tmp_path) == "unpinned"
    assert (tmp_path / "bench" / "file.csv").read_bytes() == CONTENT
    assert server.asked == [""]


@pytest.mark.parametrize(("etag", "asked"), [('"v1"', "bytes=1000-"), ('W/"v1"', ""), ("", "")])
def test_an_unpinned_file_goes_on_only_where_the_server_vouches_for_it(
    server: Server, tmp_path: Path, etag: str, asked: str
) -> None:
    server.etag, server.plan = etag, [1000]
    assert get(bench(server.url, sha256=""), tmp_path) == "unpinned"
    assert (tmp_path / "bench" / "file.csv").read_bytes() == CONTENT
    assert server.asked == ["", asked]


def test_an_unpinned_file_that_changes_in_between_is_not_mixed(
    server: Server, tmp_path: Path
) -> None:
    server.etag, server.plan = '"v1"', [1000]

    def change(name: str, done: int, total: int | None) -> None:
        if done == 1000:
            server.content, server.etag = b"second version" * 1000, '"v2"'

    fetch(bench(server.url, sha256=""), tmp_path, report=change, pause_s=0.0)
    assert (tmp_path / "bench" / "file.csv").read_bytes() == b"second version" * 1000


def test_a_file_brought_by_hand_is_recorded(tmp_path: Path) -> None:
    by_hand = bench("", sha256="")
    assert verify(by_hand, tmp_path)[0].status == "missing"
    told = failure(by_hand, tmp_path)
    assert told == f"bench: file.csv cannot be fetched; put the right file into {tmp_path}/bench"
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "file.csv").write_bytes(CONTENT)
    assert get(by_hand, tmp_path) == "unpinned"
    assert verify(by_hand, tmp_path)[0].expected == SHA256


def test_only_web_addresses(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="http or https"):
        get(bench("file:///etc/passwd"), tmp_path)


def test_a_full_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("medhelm.data.fetch.os.fsync", full)
        told = failure(bench(server.url), tmp_path)
    assert "No space left" in told
    assert names(tmp_path) == ["file.csv.part"]
    assert get(bench(server.url), tmp_path) == "ok"


def test_two_processes_do_not_share_a_part(server: Server, tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    with (tmp_path / "bench" / "file.csv.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another process fetches file.csv" in failure(bench(server.url), tmp_path)
    assert get(bench(server.url), tmp_path) == "ok"


def test_the_proxy_of_the_environment_is_used(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/data/file.csv"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert get(bench("http://data.invalid/file.csv"), tmp_path) == "ok"
    assert len(server.asked) == 1


def test_the_ca_file_of_the_environment_must_exist(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    assert "the CA file /nowhere/ca.pem" in failure(bench(server.url), tmp_path)


def test_an_endless_answer_is_cut_at_the_bound(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = 0

    def endless(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(ConnectionError):
            while sent < 200 << 20:
                handler.wfile.write(bytes(1 << 16))
                sent += 1 << 16

    monkeypatch.setattr(server, "answer", endless)
    source = SourceFile(name="file.csv", url=server.url, max_bytes=1 << 20)
    bounded = replace(bench(server.url), dataset=FileDataset(files=(source,)))
    assert "the 1,048,576 bytes" in failure(bounded, tmp_path)
    assert sent < 20 << 20 and names(tmp_path) == []


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"Content-Length": str(10**12)}, "is longer than the 268,435,456 bytes"),
        ({"Content-Encoding": "gzip", "Content-Length": "0"}, "comes compressed"),
    ],
)
def test_what_may_not_come_is_refused_by_its_headers(
    server: Server, tmp_path: Path, headers: dict[str, str], why: str
) -> None:
    server.plan = [(200, headers)]
    assert why in failure(bench(server.url), tmp_path)
    assert "file.csv" not in names(tmp_path) and (
        "Content-Encoding" in headers or not names(tmp_path)
    )


@pytest.mark.parametrize("target", ["ftp://127.0.0.1:9/file.csv", "file:///etc/hosts"])
def test_a_redirect_leaves_the_web_never(server: Server, tmp_path: Path, target: str) -> None:
    server.plan = [(302, {"Location": target})] * ATTEMPTS
    told = failure(bench(server.url), tmp_path)
    assert "to a ftp address" in told or "answers http 302" in told
