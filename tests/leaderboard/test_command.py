"""`leaderboard diff` and `leaderboard serve`."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import threading
from pathlib import Path

import msgspec
import pytest

from medhelm.cli import run_command
from medhelm.errors import UsageError
from medhelm.leaderboard.diff import diff
from medhelm.leaderboard.files import as_script
from medhelm.leaderboard.serve import open_server
from tests.build_runs import EXACT, items, write_run
from tests.leaderboard.casting import build, js_string
from tests.quiz import command, environment


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two builds: one score, one rank and one version have changed, a model has come."""
    for name, a, version in (("old", [1.0, 1.0, 0.0], "1"), ("new", [0.0, 0.0, 0.0], "2")):
        results = tmp_path / f"results-{name}"
        metric = msgspec.structs.replace(EXACT, version=version)
        write_run(results, "x", "a", items(a))
        write_run(results, "x", "b", items([1.0, 0.0, 0.0]))
        write_run(results, "y", "a", items([1.0, 0.0]), metrics=[metric])
        write_run(results, "y", "b", items([1.0, 0.0]), metrics=[metric])
        if name == "new":
            write_run(results, "y", "c", items([1.0, 0.0]), metrics=[metric])
        build(results, tmp_path / name)
    return tmp_path / "old", tmp_path / "new"


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


def test_diff_of_the_same_build_is_empty(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    table = diff(two[0], two[0])
    assert not table.rows and "Nothing has changed" in table.notes[0]
    assert run_command(["leaderboard", "diff", str(two[0]), str(two[1]), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("change,scoring,benchmark,model")
    assert run_command(["leaderboard", "diff", str(two[0]), str(two[0].parent)]) == 2
    assert "is no built site" in capsys.readouterr().err


def get(port: int, path: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return found


def test_the_server_gives_files_of_the_site_only(site: Path) -> None:
    (site / "secret.txt").write_text("SECRET")
    with open_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"
            port = server.server_port
            status, headers, body = get(port, "/")
            assert status == 200 and b"<html" in body
            assert "script-src 'self';" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert get(port, "/data/site.js?x=1")[0] == 200
            for path in ("/secret.txt", "/data/", "/../results", "/%2e%2e/x", "/build.json/.."):
                assert get(port, path)[0] == 404, path
        finally:
            server.shutdown()
            thread.join()
            (site / "secret.txt").unlink()


def test_a_port_in_use_and_a_folder_without_a_site(site: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="choose another with --port"):
            open_server(site, taken.getsockname()[1])
    with pytest.raises(UsageError, match="cannot be used"):
        open_server(site, 99_999)
    with pytest.raises(UsageError, match="is no built site"):
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
