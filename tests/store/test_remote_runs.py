"""Runs behind a URL: whole and unchanged there and back, or not there at all."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from medhelm import UsageError, load_results, score
from medhelm.errors import RecordError
from medhelm.files.durable import lock_file
from medhelm.store.records import find_runs
from medhelm.store.remote_runs import RemoteRuns, results_folder
from tests.server import serving
from tests.shell import Shell
from tests.stored_folders.kinds import DATA, PLUGINS, WHOLE
from tests.stored_folders.tabulated import differing, write_tables

pytestmark = pytest.mark.slow
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "canary-of-a-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}

KILLED = """
import os, sys, threading
from fsspec.core import url_to_fs
from medhelm.cli import run_command

url, results, moment = sys.argv[1:]
fs, calls = url_to_fs(url, **{"auto_mkdir": True} if url[:4] == "file" else {})[0], []

def kill():
    os.kill(os.getpid(), 9)

def watched(name, plain):
    def call(*args):
        calls.append(name)
        if moment == f"before {len(calls)}":
            kill()
        if moment == f"in {len(calls)}":
            whole = open(args[0], "rb").read()
            os.makedirs(os.path.dirname(args[1]), exist_ok=True)
            open(args[1], "wb").write(whole[: len(whole) // 2])
            kill()
        if moment.startswith("after "):
            threading.Timer(float(moment.split()[1]), kill).start()
        return plain(*args)
    return call

for name in ("put_file", "mv", "rm_file"):
    setattr(fs, name, watched(name, getattr(fs, name)))
code = run_command(["runs", "push", url, "--results-dir", results, "--replace"])
kill() if moment.startswith("after") else sys.exit(code)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDHELM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    pytest.importorskip("s3fs", reason="pip install '.[s3]'")
    pytest.importorskip("moto", reason="pip install 'moto[server]'")
    import boto3

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
            patch.setenv(name, value)
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-p", port], stderr=subprocess.DEVNULL
        )
        try:
            for _ in range(300):
                with socket.socket() as asked:
                    if not asked.connect_ex(("127.0.0.1", int(port))):
                        break
                time.sleep(0.1)
            boto3.client("s3").create_bucket(Bucket="bucket")
            yield "s3://bucket"
        finally:
            server.terminate()
            server.wait()


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.apart)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty place for runs."""
    start = f"{tmp_path}/store" if request.param == "file" else f"/{tmp_path.name}"
    if request.param == "s3":
        return request.getfixturevalue("s3") + start
    return f"{request.param}://{start}"


def stored(kind: str, into: Path) -> Path:
    """Return a results folder with whole runs of one kind."""
    shutil.copytree(WHOLE / kind, into)
    return into


def push(shell: Shell, url: str, results: Path, *options: str, code: int = 0) -> None:
    shell("runs", "push", url, "--results-dir", results, *options, code=code)


def contents(results: Path) -> dict[str, bytes]:
    """Return all files of the runs in a folder but for their locks."""
    found = {}
    for run in find_runs(results):
        for path in run.rglob("*"):
            if path.is_file() and path.name != "lock":
                name = run.relative_to(results) / path.relative_to(run)
                found[name.as_posix()] = path.read_bytes()
    return found


@pytest.mark.parametrize("kind", ["baselines", "jury"])
def test_what_was_pushed_is_read_and_pulled_as_it_was(
    kind: str, url: str, tmp_path: Path, shell: Shell
) -> None:
    results = stored(kind, tmp_path / "results")
    text = ["--text-of", "gated"] * (kind == "jury")
    push(shell, url, results, *text)
    assert "Pushed: " in shell.out
    push(shell, url, results, *text)
    assert "Pushed: " not in shell.out
    write_tables(results, tmp_path / "own")
    write_tables(url, tmp_path / "read")
    assert differing(tmp_path / "own", tmp_path / "read") == []
    pulled = tmp_path / "pulled"
    command = ["runs", "pull", url, "--results-dir", str(pulled)]
    shell(*command)
    assert contents(pulled) == contents(results)
    assert {p.stat().st_mode & 0o077 for p in pulled.glob("runs/*/*/*")} == {0}
    shell(*command)
    assert not list(pulled.glob(".part*"))
    assert "Here already: " in shell.out
    shell("tables", "--results-dir", url)
    shell("runs", "list", "--results-dir", url)
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in shell.all


def test_a_site_is_built_and_responses_are_graded_from_a_url(tmp_path: Path, shell: Shell) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"file://{tmp_path}/store"
    push(shell, url, results)
    before = contents(results_folder(url))
    shell("leaderboard", "build", "--results-dir", url, "--out", tmp_path / "s")
    own = load_results(results).table("benchmarks", draws=9)
    graded = score(url, plugins=PLUGINS, data_dir=DATA)
    assert (graded.table("benchmarks", draws=9)["score"] == own["score"]).all()
    assert contents(results_folder(url)) == before  # a copy was graded
    run = ["run", "model=baseline/random", "benchmark=headqa", "data=sample"]
    shell(*run, f"results_dir={url}", code=2)
    with pytest.raises(SystemExit):  # what it writes would be lost in a copy
        shell("gold-quality", "headqa", "--judge", "x", "--results-dir", url)


def test_a_run_that_is_at_work_unfinished_or_damaged_stays_here(
    tmp_path: Path, shell: Shell
) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"file://{tmp_path}/store"
    run, other = find_runs(results)
    shutil.rmtree(other / "gradings")
    with lock_file(run / "lock"):
        push(shell, url, results)
    said = shell.err
    assert "in use by process" in said and "is not finished" in said
    log = run / "responses.jsonl"
    log.write_bytes(log.read_bytes() + b"{}\n")  # asked further, and not graded yet
    push(shell, url, results)
    assert "is not finished" in shell.err
    shutil.rmtree(results)
    run, _ = find_runs(stored("baselines", results))
    (run / "shards" / "0-of-2").mkdir(parents=True)
    (run / "shards" / "0-of-2" / "responses.jsonl").write_bytes(b"")
    (record,) = other.glob("gradings/*/summary.json")
    record.write_bytes(record.read_bytes().replace(b"baseline/", b"baseLine/", 1))
    push(shell, url, results)
    assert "is damaged" in shell.err
    with pytest.raises(UsageError, match="no run below"):
        load_results(url)


def test_other_content_is_replaced_only_on_demand_and_what_is_lacking_is_added(
    url: str, tmp_path: Path, shell: Shell
) -> None:
    first, second = (stored("baselines", tmp_path / name) for name in ("first", "second"))
    push(shell, url, first)
    run = next(run for run in find_runs(second) if "random" in run.parent.name)
    (grading,) = run.glob("gradings/*")
    shutil.copytree(grading, run / "judges" / "kept")  # what only this folder has
    push(shell, url, second, code=4)
    assert "other content" in shell.err
    assert contents(results_folder(url)) == contents(first)
    shell("runs", "pull", url, "--results-dir", str(second))
    assert (run / "judges" / "kept").is_dir()
    push(shell, url, second, "--replace")
    assert contents(results_folder(url)) == contents(second)
    (run / "spec.json").write_bytes((run / "spec.json").read_bytes() + b"\n")
    pull = ["runs", "pull", url, "--results-dir", str(second)]
    shell(*pull, code=4)
    assert "spec.json" in shell.err
    shell(*pull, "--replace")
    assert contents(results_folder(url)) == contents(second)


def test_what_is_damaged_or_leads_out_is_not_read(
    tmp_path: Path, cache: Path, shell: Shell
) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"file://{tmp_path}/store"
    push(shell, url, results)
    packed = next((tmp_path / "store").rglob("*.zip"))
    whole = packed.read_bytes()
    for changed in (whole[:-200], whole[:400] + b"\0" + whole[401:], b""):
        packed.write_bytes(changed)
        with pytest.raises(RecordError, match=packed.parent.name):
            load_results(url)
    packed.write_bytes(whole)
    with zipfile.ZipFile(packed, "a") as more:
        more.writestr("../../outside", "mine")
        more.writestr(f"runs/{packed.parent.relative_to(tmp_path / 'store' / 'runs')}/more", "")
    with pytest.raises(RecordError, match="its hash says"):
        load_results(url)
    assert not [*tmp_path.rglob("outside")] and not [*cache.rglob(".part*")]
    packed.write_bytes(whole)
    assert len(load_results(url).runs) == 2


def test_text_that_is_not_public_leaves_only_where_its_class_is_named(
    tmp_path: Path, shell: Shell
) -> None:
    results, url = stored("jury", tmp_path / "results"), f"file://{tmp_path}/store"
    push(shell, url, results, code=5)
    assert "--text-of gated" in shell.err
    push(shell, url, results, "--text-of", "private", code=5)
    assert not [*(tmp_path / "store").rglob("*.zip")]
    (run,) = find_runs(results)
    (run / "server-essay.log").write_text("started with --api-key canary")
    push(shell, url, results, "--text-of", "gated")
    with zipfile.ZipFile(next((tmp_path / "store").rglob("*.zip"))) as packed:
        assert not [name for name in packed.namelist() if "server-" in name]
    for bad in ("sftp://me:canary@host/x", "https://host/x?sig=canary"):
        push(shell, bad, results, code=2)
    assert "canary" not in shell.all


def test_runs_are_read_by_http_and_not_pushed(tmp_path: Path, shell: Shell) -> None:
    results = stored("baselines", tmp_path / "results")
    push(shell, f"file://{tmp_path}/store", results)
    handler = partial(Quiet, directory=str(tmp_path / "store"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        assert contents(results_folder(url)) == contents(results)
        shutil.rmtree(tmp_path / "store" / "runs" / "quiz" / "baseline__random")
        push(shell, url, results, code=2)
        assert "not pushed" in shell.err
    with pytest.raises(RecordError, match="cannot use"):  # and not: there is no run
        load_results(url)


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, format: str, *args: object) -> None: ...


def killed(url: str, results: Path, moment: str) -> None:
    command = [sys.executable, "-c", KILLED, url, str(results), moment]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == -signal.SIGKILL, done.stderr


def check_whole(shell: Shell, url: str, results: Path, is_part: Callable[[int], bool]) -> None:
    """Check that what is read are whole runs, and that the same push ends what was killed."""
    own = contents(results)
    found = RemoteRuns(url).found()
    assert is_part(len(found))
    if found:
        read = contents(results_folder(url))
        assert {Path(name).parts[:4] for name in read} == {("runs", *r.split("/")) for r in found}
        assert read.items() <= own.items()
    push(shell, url, results)
    assert contents(results_folder(url)) == own


@pytest.mark.parametrize("moment", ["before 1", "in 1", "before 2", "before 3", "in 3", "before 4"])
def test_a_killed_push_leaves_whole_runs_and_goes_on(
    moment: str, tmp_path: Path, shell: Shell
) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"file://{tmp_path}/store"
    killed(url, results, moment)
    check_whole(shell, url, results, (1 if int(moment[-1]) > 2 else 0).__eq__)


@pytest.mark.apart
@pytest.mark.parametrize("moment", ["after 0.01", "after 0.1", "after 0.5"])
def test_a_push_to_s3_that_is_killed_leaves_whole_runs_and_goes_on(
    moment: str, s3: str, tmp_path: Path, shell: Shell
) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"{s3}/{tmp_path.name}"
    for run in find_runs(results):
        (run / "stale.jsonl").write_bytes(os.urandom(5_000_000))  # takes some time
    killed(url, results, moment)
    check_whole(shell, url, results, range(3).__contains__)


def test_a_replacement_that_is_killed_is_named_and_goes_on(tmp_path: Path, shell: Shell) -> None:
    results, url = stored("baselines", tmp_path / "results"), f"file://{tmp_path}/store"
    push(shell, url, results)
    run = find_runs(results)[0]
    (run / "stale.jsonl").write_text("")
    killed(url, results, "before 3")
    with pytest.raises(RecordError, match="replaced to the end"):
        load_results(url)
    push(shell, url, results, code=4)
    push(shell, url, results, "--replace")
    assert contents(results_folder(url)) == contents(results)
