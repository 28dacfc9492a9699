"""`leaderboard diff` and `leaderboard serve`."""

from __future__ import annotations

import http.client
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from medhelm.errors import UsageError
from medhelm.plugins.registry import load_registry
from medhelm.tables.format.table import Settings
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.diff import diff
from medhelm_leaderboard.files import as_script
from medhelm_leaderboard.serve import open_server
from medhelm_leaderboard.site import SiteOptions, build_site
from tests.build_runs import EXACT, items, write_run
from tests.leaderboard.casting import build, fresh, js_string
from tests.quiz import command, environment
from tests.shell import Shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two builds: one score, one rank and one version have changed, a model has come."""
    folder = tmp_path_factory.mktemp("two")
    for name, a, version in (("old", [1.0, 1.0, 0.0], "1"), ("new", [0.0, 0.0, 0.0], "2")):
        results = folder / f"results-{name}"
        metric = msgspec.structs.replace(EXACT, version=version)
        write_run(results, "x", "a", items(a))
        write_run(results, "x", "b", items([1.0, 0.0, 0.0]))
        write_run(results, "y", "a", items([1.0, 0.0]), metrics=[metric])
        write_run(results, "y", "b", items([1.0, 0.0]), metrics=[metric])
        if name == "new":
            write_run(results, "y", "c", items([1.0, 0.0]), metrics=[metric])
        build(results, folder / name)
    return folder / "old", folder / "new"


def test_diff_names_what_changed(two: tuple[Path, Path]) -> None:
    rows = diff(*two).rows
    found = {(r["change"], r["benchmark"], r["model"]): r for r in rows}
    score = found["score", "x", "a"]
    assert (score["old"], score["new"]) == (pytest.approx(2 / 3), 0.0)
    assert score["difference"] == pytest.approx(-2 / 3)
    assert "metric 1" in str(found["version", "y", "b"]["was"])
    assert "metric 2" in str(found["version", "y", "b"]["now"])
    assert found["added", "y", "c"]["old"] is None
    assert ("score", "x", "b") not in found
    assert {c for c, _, _ in found} == {"score", "version", "added", "rank"}


def test_diff_of_the_same_build_is_empty(two: tuple[Path, Path], shell: Shell) -> None:
    table = diff(two[0], two[0])
    assert not table.rows and "Nothing has changed" in table.notes[0]
    shown = shell("leaderboard", "diff", *two, "--format", "csv")
    assert shown.startswith("change,scoring,benchmark,model")
    assert "not a built site" in shell.error("leaderboard", "diff", two[0], two[0].parent)


def test_diff_tells_of_other_settings_and_other_instances(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    wider = SiteOptions(settings=Settings(draws=50, confidence=0.8))
    wanted = Wanted(results_dir=two[0].with_name("results-old"))
    build_site(wanted, tmp_path / "other", load_registry(), wider)
    table = diff(two[0], tmp_path / "other")
    assert not table.rows and "No score, rank" in table.notes[0]
    assert "Intervals differ" in table.notes[1]
    write_run(tmp_path / "more", "x", "a", items([1.0, 0.0]))
    write_run(tmp_path / "more", "x", "b", items([1.0, 1.0, 0.0, 0.0]))
    write_run(tmp_path / "fewer", "x", "a", items([1.0, 0.0, 1.0, 0.0]))
    write_run(tmp_path / "fewer", "x", "b", items([1.0, 1.0, 0.0, 0.0]))
    for name in ("more", "fewer"):
        build(tmp_path / name, tmp_path / f"site-{name}")
    rows = diff(tmp_path / "site-more", tmp_path / "site-fewer").rows
    (same,) = [r for r in rows if (r["change"], r["model"]) == ("score", "a")]
    assert same["difference"] == 0  # one half of two instances, then one half of four
    assert (same["old_n"], same["new_n"]) == (2, 4)


def get(
    port: int, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_server_gives_files_of_the_site_only(site: Path, tmp_path: Path) -> None:
    site = fresh(site, tmp_path / "site")
    (site / "secret.txt").write_text("SECRET")
    with served(site) as port:
        status, headers, body = get(port, "/")
        assert status == 200 and b"<html" in body
        assert "script-src 'self';" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert get(port, "/data/site.js?x=1")[0] == 200
        for path in ("/secret.txt", "/data/", "/../results", "/%2e%2e/x", "/build.json/.."):
            assert get(port, path)[0] == 404, path
    with open_server(site, 0) as server:
        assert server.server_address[0] == "127.0.0.1"


@contextmanager
def served(site: Path) -> Iterator[int]:
    """Serve a site and yield the port."""
    with open_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_other_requests(site: Path) -> None:
    with served(site) as port:
        status, headers, body = get(port, "/app/plotly.min.js", "HEAD")
        assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1_000_000
        assert get(port, "/", "POST")[0] == 501
        since = get(port, "/")[1]["Last-Modified"]
        assert get(port, "/", **{"If-Modified-Since": since})[0] == 304
        assert get(port, "/", Host=f"localhost:{port}")[0] == 200
        status, _, body = get(port, "/data/site.js", Host=f"evil.example:{port}")
        assert status == 403 and b"medhelmData" not in body


def test_a_site_that_is_renewed_while_it_is_served(tmp_path: Path) -> None:
    results, site = tmp_path / "results", tmp_path / "site"
    write_run(results, "x", "a", items([1.0, 0.0]))
    build(results, site)
    with served(site) as port:
        known = {p.name for p in (site / "data").iterdir()}
        write_run(results, "y", "a", items([1.0, 0.0]))
        build(results, site)
        new = {p.name for p in (site / "data").iterdir()} - known
        assert new and all(get(port, f"/data/{name}")[0] == 200 for name in new)
        (site / "build.json").write_text("{")
        assert get(port, "/")[0] == 404


def test_a_browser_that_goes_away_is_no_fault(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(site) as port:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port)) as gone:
                reset = struct.pack("ii", 1, 0)
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                gone.sendall(b"GET /app/plotly.min.js HTTP/1.0\r\n\r\n")
                gone.recv(100)
        assert get(port, "/")[0] == 200
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_port_in_use_and_a_folder_without_a_site(site: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="choose another with --port"):
            open_server(site, taken.getsockname()[1])
    with pytest.raises(UsageError, match="cannot be used"):
        open_server(site, 99_999)
    with pytest.raises(UsageError, match="not a built site"):
        open_server(tmp_path, 0)


def test_ctrl_c_ends_the_server_quietly(site: Path) -> None:
    argv = command("leaderboard", "serve", str(site), "--port", "0")
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0 and err == ""


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "it's \\ a \\\\' quote \\u0041 \\x3c",
        "line\u2028paragraph\u2029 \u202e right to left \x00\x1b[31m \x7f",
        "__proto__ constructor 火 🚑 \ud7ff",
        "');medhelmData('site','{}",
    ],
)
def test_a_data_file_holds_any_text(text: str) -> None:
    script = as_script("key", msgspec.json.encode({"__proto__": text, text: [text]})).decode()
    assert script.count("\n") == 1 and "</script" not in script and "\u2028" not in script
    inside = script.removeprefix("medhelmData('key','").removesuffix("')\n")
    assert msgspec.json.decode(js_string(inside)) == {"__proto__": text, text: [text]}


LOGO = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1"/></svg>'


def test_a_site_has_a_title_a_logo_and_models_by_pattern(tmp_path: Path, shell: Shell) -> None:
    results, out = tmp_path / "results", tmp_path / "site"
    for model in ("ward/a", "ward/b", "lab/a"):
        write_run(results, "x", model, items([1.0, 0.0]))
    (tmp_path / "own.svg").write_text(LOGO)
    site = ("leaderboard", "build", "--results-dir", results, "--draws", "10", "--out", out)
    site += ("--model", "ward/*")
    named = ("--title", "Our wards", "--logo", tmp_path / "own.svg")
    assert "2 models x 1" in shell(*site, *named)
    assert (out / "app" / "logo.svg").read_text() == LOGO
    page = (out / "data" / "site.js").read_text()
    assert '"logo":"app/logo.svg"' in page and "Our wards" in page
    assert "lab/a" not in page and str(tmp_path) not in page
    (tmp_path / "own.svg").write_text(LOGO + "\n")
    shell(*site, *named)
    assert (out / "app" / "logo.svg").read_text() == LOGO + "\n"
    shell(*site)
    assert not (out / "app" / "logo.svg").exists()
    for wrong, said in (("own.pdf", "ends in .svg"), ("none.png", "no such file")):
        assert said in shell.error(*site, "--logo", tmp_path / wrong).lower()


def test_tables_and_compare_take_patterns_of_models(tmp_path: Path, shell: Shell) -> None:
    for model in ("ward/a", "ward/b", "lab/a"):
        write_run(tmp_path, "x", model, items([1.0, 0.0]))
    argv = ("--results-dir", tmp_path, "--draws", "10")
    shell.error("tables", *argv, "--model", "ward/*", "--format", "csv")  # two tables
    table = ("tables", *argv, "--table", "overall", "--format", "csv", "--model")
    out = shell(*table, "ward/*")
    assert "ward/a" in out and "ward/b" in out and "lab/a" not in out
    assert "did you mean 'ward/" in shell.error(*table, "word/*")
    assert "lab/a" in shell("compare", *argv, "l*", "*/b")
    assert "'ward/*' matches ward/a, ward/b" in shell.error("compare", *argv, "lab/a", "ward/*")
