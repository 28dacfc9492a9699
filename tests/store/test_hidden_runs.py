"""Runs that cannot be read are named wherever runs are shown; a key of another version, too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from medhelm.errors import RecordError, UsageError
from medhelm.store.appendlog import with_checksum
from medhelm.store.records import (
    find_gradings,
    find_runs,
    find_unreadable,
    read_plan,
    read_record,
)
from medhelm.store.runlog import read_log
from medhelm.tables.loading import load_results
from tests.quiz import command, environment
from tests.stored_folders.kinds import WHOLE

NO_OVERRIDE = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""Start of a command for which permissions hold although root gives it."""


@pytest.fixture
def results() -> Iterator[Path]:
    """Two runs in a folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    for name in ("baselines", "completion"):
        shutil.copytree(WHOLE / name, folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "runs" / "quiz" / "baseline__random")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def as_anybody(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user to whom permissions apply."""
    if os.geteuid() == 0 and shutil.which(NO_OVERRIDE[0]) is None:
        pytest.skip("permissions do not hold for root")
    return subprocess.run(
        [*(NO_OVERRIDE * (os.geteuid() == 0)), *command(*argv)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("hidden", ["runs/quiz/openai__asked", "runs/quiz/openai__asked/*"])
def test_a_folder_that_may_not_be_read_is_named_by_all_who_show_runs(
    hidden: str, results: Path
) -> None:
    (place,) = results.glob(hidden)
    place.chmod(0)
    site = Path(tempfile.mkdtemp())
    site.chmod(0o777)
    tables = as_anybody("tables", "--results-dir", results)
    assert tables.returncode == 0 and "openai/asked" not in tables.stdout.partition("Left out")[0]
    said = " ".join(tables.stdout.split())
    assert f"{place}:" in said and "permission denied" in said
    built = as_anybody("leaderboard", "build", "--results-dir", results, "--out", site / "site")
    relative = place.relative_to(results)
    assert f"{relative}: cannot be read" in " ".join((built.stdout + built.stderr).split())
    shutil.rmtree(site)
    score = as_anybody("score", "--results-dir", results)
    assert f"{place}: cannot be read" in score.stdout + score.stderr
    assert score.returncode != 0


@pytest.mark.slow
def test_where_all_is_hidden_no_table_says_that_there_is_no_run(results: Path) -> None:
    (results / "runs").chmod(0)
    tables = as_anybody("tables", "--results-dir", results)
    assert tables.returncode == 2
    assert f"{results / 'runs'}: cannot be read" in tables.stderr


def test_folders_that_lost_what_makes_them_one_are_named(results: Path) -> None:
    assert find_unreadable(results) == []
    one, two = find_runs(results)
    (one / "spec.json").unlink()
    (grading,) = (two / "gradings").iterdir()
    (grading / "summary.json").unlink()
    shutil.rmtree(one / "gradings")
    assert find_unreadable(results) == [
        (one, "spec.json is missing"),
        (grading, "summary.json is missing, `medhelm score` writes it"),
    ], (one, two)
    with pytest.raises(UsageError, match="2 damaged.*spec.json is missing"):
        load_results(results)
    (two / "spec.json").unlink()
    shutil.rmtree(two / "gradings")
    (two / "responses.jsonl").unlink()
    assert find_unreadable(results) == [(one, "spec.json is missing")], "an empty folder is no run"


@pytest.mark.parametrize(
    ("name", "put", "read"),
    [
        ("spec.json", lambda v: v, read_plan),
        ("spec.json", lambda v: v["spec"], read_plan),
        ("summary.json", lambda v: v, read_record),
        ("summary.json", lambda v: v["results"][0], read_record),
        ("summary.json", lambda v: v["parties"][0]["usage"], read_record),
        ("summary.json", lambda v: v["card"], read_record),
        ("summary.json", lambda v: v["grading"]["metrics"][0], read_record),
    ],
)
def test_a_key_that_this_version_does_not_know_is_named(
    name: str,
    put: Callable[[dict[str, dict[str, int]]], dict[str, int]],
    read: Callable[[Path], object],
    results: Path,
) -> None:
    (run,) = [run for run in find_runs(results) if "openai" in str(run)]
    (path,) = run.rglob(name)
    values = json.loads(path.read_bytes())
    del values["sha256"]
    put(values)["weight"] = 2
    path.write_text(json.dumps(values))
    with pytest.raises(RecordError, match=f"{name} .*another version.*`weight`"):
        read(path.parent)
    if name == "summary.json":
        (left_out,) = [n for n in load_results(results).notes if "Left out" in n]
        assert "`weight`" in left_out and str(path) in left_out


@pytest.mark.parametrize("part", ["", "instance", "response"])
def test_an_answer_of_another_version_is_neither_asked_again_nor_graded(
    part: str, results: Path
) -> None:
    (run,) = [run for run in find_runs(results) if "openai" in str(run)]
    log = run / "responses.jsonl"
    first, second, *_ = log.read_bytes().splitlines()
    values = json.loads(second)
    del values["crc"]
    (values[part] if part else values)["weight"] = 2
    log.write_bytes(first + b"\n" + with_checksum(json.dumps(values).encode()))
    with pytest.raises(RecordError, match="line 2 .*another version.*`weight`"):
        list(read_log(run))
    assert len(find_gradings(results)) == 2
