"""Folders and logs that others delete, move, cut or replace while a run writes them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.errors import RecordError
from medhelm.store import records
from medhelm.store.appendlog import AppendLog
from medhelm.store.runlog import RunFolder
from tests.processes import asked, start
from tests.quiz import PLUGIN, arguments, medhelm, record_of, write_quiz
from tests.server import serve_in_thread

LINE = b'{"a": 1}\n'


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


def grow(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"a note\n")


def replace(log: Path) -> None:
    content = log.read_bytes()
    log.unlink()
    log.write_bytes(content)


def rename(log: Path) -> None:
    log.parent.rename(log.parent.with_name("moved"))


def delete_folder(log: Path) -> None:
    shutil.rmtree(log.parent)


def put_a_file_for_the_folder(log: Path) -> None:
    shutil.rmtree(log.parent)
    log.parent.write_text("not a folder")


def delete_lock(log: Path) -> None:
    log.with_name("lock").unlink()


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (Path.unlink, "deleted, moved or replaced"),
    (delete_folder, "deleted, moved or replaced"),
    (rename, "deleted, moved or replaced"),
    (replace, "deleted, moved or replaced"),
    (put_a_file_for_the_folder, "deleted, moved or replaced"),
    (cut, "was cut"),
    (grow, "written to by another program"),
    (delete_lock, "lock .* was deleted, moved or replaced"),
]


def open_log(folder: Path) -> AppendLog:
    log = RunFolder(folder)
    log.open()
    log._append_line(LINE * 10)
    return log


@pytest.mark.parametrize(("fault", "words"), FAULTS)
def test_a_sync_sees_what_others_did_to_the_log(
    tmp_path: Path, fault: Callable[[Path], None], words: str
) -> None:
    opened = open_log(tmp_path / "run")
    opened.sync()
    fault(opened.log_path)
    with pytest.raises(RecordError, match=words):
        opened.sync()
    with pytest.raises(RecordError, match=words):
        opened.close()


def test_an_untouched_log_is_synced_and_closed(tmp_path: Path) -> None:
    opened = open_log(tmp_path / "run")
    for _ in range(3):
        opened.sync()
        opened._append_line(LINE)
    opened.close()
    opened.close()
    assert opened.log_path.read_bytes() == LINE * 13


def run_until(folder: Path, fault: Callable[[Path], None], **settings: object) -> tuple[int, str]:
    """Start a run of 600, do something to its log after 100 answers; its exit code and stderr."""
    write_quiz(folder, 600)
    with serve_in_thread(latency_s=0.05) as server:
        argv = arguments(folder, server.base_url, model__max_concurrency=8, **settings)
        process = start(*argv)
        process.wait_until(asked(server, 100))
        (run,) = (folder / "results" / "runs").glob("*/*/*")
        fault(run / "responses.jsonl")
        _, err = process.communicate(timeout=60)
        assert server.requests < 300, "the run went on for long"
    return process.wait(), err


@pytest.mark.slow
@pytest.mark.parametrize("fault", [cut, replace, delete_lock])
def test_a_run_stops_with_one_line(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    code, err = run_until(tmp_path, fault)
    assert code == 4
    assert err.count("nothing more is asked") == 1
    assert "Traceback" not in err and "where it stopped" in err
    assert not records.find_gradings(tmp_path / "results"), "graded what is not there"


@pytest.mark.slow
def test_a_deleted_results_folder_stops_the_run(tmp_path: Path) -> None:
    code, err = run_until(tmp_path, lambda log: shutil.rmtree(log.parents[4]))
    assert code == 4 and "was deleted" in err and "Traceback" not in err
    assert not (tmp_path / "results").exists(), "a folder without answers was made again"


@pytest.mark.slow
def test_other_runs_of_a_sweep_go_on(tmp_path: Path) -> None:
    write_quiz(tmp_path, 300)
    with serve_in_thread(latency_s=0.05) as server:
        argv = arguments(tmp_path, server.base_url, model__max_concurrency=16)
        process = start("run", "-m", *argv[1:], "repeats=1,2")
        process.wait_until(asked(server, 100))
        plans = {
            records.read_plan(p).spec.repeats: p for p in records.find_runs(tmp_path / "results")
        }
        (plans[2] / "responses.jsonl").unlink()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert err.count("nothing more is asked") == 1 and "the others are finished" in err
    record = record_of(tmp_path)
    assert record.spec.repeats == 1 and record.state == "complete"


@pytest.mark.slow
def test_a_moved_folder_that_is_put_back_goes_on(tmp_path: Path) -> None:
    code, err = run_until(tmp_path, rename)
    assert code == 4 and err.count("nothing more is asked") == 1
    assert not records.find_gradings(tmp_path / "results"), "graded what is not there"
    (moved,) = (tmp_path / "results" / "runs").glob("*/*/moved")
    there = (moved / "responses.jsonl").read_bytes().count(b"\n")
    assert there >= 90
    moved.rename(moved.with_name(records.read_plan(moved).request_hash))
    medhelm("score", "--results-dir", tmp_path / "results", "--plugin", PLUGIN)
    assert record_of(tmp_path).results[0].counted == there
