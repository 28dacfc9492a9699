"""Files and plugins of users that are not what they should be: one line, and nothing else stops."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from medhelm import evaluate
from medhelm.data.sources import check_file
from medhelm.errors import DataError, PluginError, RecordError, UsageError
from medhelm.files.yaml_bounds import refuse_many
from medhelm.models.catalogue import find_model
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance, SourceFile
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric
from medhelm.store import records
from tests.graded import grade
from tests.quiz import PLUGIN, at, command, environment, medhelm, write_quiz
from tests.shell import Shell

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.fixture
def as_nobody() -> None:
    """Skip where no other user can be had, or where that user cannot read this installation."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    tried = [*NOBODY, sys.executable, "-c", "import medhelm.cli, medhelm_benchmarks"]
    if subprocess.run(tried, capture_output=True, cwd="/").returncode:
        pytest.skip("needs an installation that all users may read")


def run_as_nobody(*argv: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NOBODY, *command(*map(str, argv))],
        capture_output=True,
        text=True,
        env=environment({"HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}),
        timeout=120,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", ["score", "tables"])
def test_a_path_that_is_too_long(command: str, shell: Shell) -> None:
    shell(command, "--results-dir", "/tmp/" + "x" * 300, code=4)
    err = shell.err
    assert "cannot use /tmp/xxx" in err and "file name too long" in err
    assert err.count("\n") == 1 and len(err) < 300


def test_a_plugin_with_a_name_of_500_letters() -> None:
    with pytest.raises(PluginError, match=r"p{500}\.py does not exist"):
        load_registry(["p" * 500 + ".py"])


@pytest.mark.parametrize(
    "body",
    [
        "raise SystemExit(3)",
        "class Own(BaseException): pass\nraise Own('x')",
        "from medhelm import hookimpl\n@hookimpl\ndef medhelm_metrics():\n    raise SystemExit(4)",
        "def f(): f()\nf()",
    ],
)
def test_whatever_a_plugin_raises_is_one_line(tmp_path: Path, body: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(body)
    with pytest.raises(PluginError, match=r"plugin\.py line \d+\)"):
        load_registry([str(path)])


def test_a_metric_that_leaves_is_named() -> None:
    class Leaving(Metric):
        def score(self, instance: Instance, response: Response) -> None:  # type: ignore[override]
            raise SystemExit("bye")

    with pytest.raises(PluginError, match="'leaving' .*SystemExit .*'a'"):
        grade(
            Leaving(name="leaving"),
            Instance(id="a", context="c"),
            Response(instance_id="a", text="t"),
        )


def test_aliases_that_multiply_are_refused_and_others_are_not(tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(f"{BOMB}extra_body: *a9\n")
    with pytest.raises(UsageError, match=r"bomb\.yaml: .*100,000 times"):
        find_model(str(path))
    with pytest.raises(UsageError, match="aliases"):
        load_registry([str(path)])
    with pytest.raises(UsageError, match="aliases"):
        refuse_many("a: &a {b: *a}\n", "itself")
    refuse_many("a: &a [1, 2]\nb: *a\nc: *a\n", "few")


@pytest.mark.slow
def test_a_bomb_in_a_folder_of_configs_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "model" / "bomb.yaml").write_text(f"name: bomb\n{BOMB}extra_body: *a9\n")
    done = medhelm(
        "run", "--config-dir", tmp_path / "conf", "model=bomb", "benchmark=headqa", code=2
    )
    assert "bomb.yaml: its aliases" in one_line(done)


def test_what_is_not_a_file_is_missing(tmp_path: Path) -> None:
    benchmark = load_registry([str(PLUGIN)]).benchmarks["quiz"]
    source = SourceFile(name="quiz.jsonl")
    path = tmp_path / "quiz" / "quiz.jsonl"
    path.parent.mkdir()
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")):
        make()
        with pytest.raises(DataError, match=r"put quiz\.jsonl into"):
            check_file(benchmark, source, tmp_path)
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_quiz(folder, 20)
    evaluate("baseline/majority", "quiz", **at(folder))
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.mark.usefixtures("as_nobody")
@pytest.mark.slow
def test_score_on_a_folder_that_may_only_be_read(finished: Path) -> None:
    argv = ("score", "--results-dir", finished / "results", "--plugin", PLUGIN)
    done = run_as_nobody(*argv)
    assert done.returncode == 4 and "0 graded, 1 failed" in done.stdout
    assert "permission denied" in one_line(done)
    assert run_as_nobody("tables", "--results-dir", finished / "results").returncode == 0


@pytest.mark.usefixtures("as_nobody")
@pytest.mark.slow
def test_a_data_file_that_may_not_be_read(finished: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for path in tmp_path.parents:
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o011)
    data = finished / "data" / "quiz" / "quiz.jsonl"
    data.chmod(0)
    try:
        done = run_as_nobody(
            *("run", "model=baseline/majority", "benchmark=quiz", "data=full"),
            *(f"data_dir={finished / 'data'}", f"results_dir={tmp_path / 'results'}"),
            f"plugins=[{PLUGIN}]",
        )
    finally:
        data.chmod(0o644)
    assert done.returncode == 3 and f"cannot read {data}: permission denied" in one_line(done)


@pytest.mark.slow
def test_a_disk_that_is_full_when_the_summary_is_written(finished: Path, tmp_path: Path) -> None:
    """A limit on the size of files, between those of the scores and of the summary."""
    shutil.copytree(finished, tmp_path / "copy")
    (grading,) = records.find_gradings(tmp_path / "copy" / "results")
    before = records.read_record(grading)
    size = (grading / "summary.json").stat().st_size
    assert size > (grading / "scores.parquet").stat().st_size // 2
    argv = command("score", "--results-dir", tmp_path / "copy" / "results", "--plugin", PLUGIN)
    code = (
        "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size // 2},) * 2);"
        "sys.argv[0] = 'medhelm'; runpy.run_module('medhelm', run_name='__main__')"
    )
    done = subprocess.run(
        [argv[0], "-c", code, *argv[3:]], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 4 and "cannot write" in one_line(done)
    assert records.read_record(grading) == before
    assert not list(grading.glob(".*"))
    with pytest.raises(RecordError):
        records.read_record(grading.parent)
