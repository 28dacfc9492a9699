"""What killed writers leave behind, and summaries that do not depend on the order of the log."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medhelm import evaluate
from medhelm.files.durable import AtomicFile
from medhelm.schema.run import RunRecord
from medhelm.store import records
from tests.quiz import PLUGIN, at, medhelm, write_quiz

HOLD = """
import sys, time
from pathlib import Path
from medhelm.files.durable import AtomicFile
with AtomicFile(Path(sys.argv[1])) as handle:
    handle.write(b"half")
    handle.flush()
    print("open", flush=True)
    time.sleep(60)
"""


def start_writer(path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def age(folder: Path) -> None:
    for left in folder.glob(".*.tmp"):
        os.utime(left, (time.time() - 60,) * 2)


def test_the_next_writer_removes_what_a_killed_one_left_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "sheet [1].csv"
    killed, alive = start_writer(path), start_writer(path)
    kill(killed)
    other = tmp_path / ".another.csv.1.tmp"
    other.write_bytes(b"of another file")
    age(tmp_path)
    try:
        with AtomicFile(path) as handle:
            handle.write(b"whole")
        left = {p.name for p in tmp_path.iterdir()}
        assert left == {path.name, other.name, f".{path.name}.{alive.pid}.tmp"}
    finally:
        kill(alive)
    assert path.read_bytes() == b"whole"


def test_a_file_that_has_just_been_made_is_left_alone(tmp_path: Path) -> None:
    young = tmp_path / ".a.json.999999.tmp"
    young.touch()
    with AtomicFile(tmp_path / "a.json") as handle:
        handle.write(b"1")
    assert young.exists()


METRIC = """
import hashlib
from dataclasses import dataclass
from medhelm import Instance, Metric, Response, Score, hookimpl

@dataclass(frozen=True)
class Odd(Metric):
    name: str = "odd"
    version: str = "1"

    def score(self, instance: Instance, response: Response) -> Score:
        digest = hashlib.sha256(f"{instance.id} {response.repeat}".encode()).digest()
        return Score(value=int.from_bytes(digest[:4]) / 2**32 / 3)

@hookimpl
def medhelm_metrics():
    return [Odd()]
"""


def run_quiz(folder: Path, **settings: int) -> Path:
    """Run a baseline on the quiz and return its run folder."""
    write_quiz(folder, 60)
    evaluate("baseline/random", "quiz", **at(folder, **settings))
    (run,) = records.find_runs(folder / "results")
    return run


@pytest.mark.slow
def test_a_summary_is_the_same_in_whatever_order_answers_came(tmp_path: Path) -> None:
    run = run_quiz(tmp_path, repeats=3)
    (tmp_path / "odd.py").write_text(METRIC)
    log = run / "responses.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    rng = random.Random(8)
    found: list[RunRecord] = []
    for _ in range(4):
        argv = ("score", "--results-dir", tmp_path / "results", "--metric", "odd")
        medhelm(*argv, "--plugin", PLUGIN, "--plugin", tmp_path / "odd.py")
        gradings = map(records.read_record, records.find_gradings(tmp_path / "results"))
        found += [r for r in gradings if len(r.results) == 2]
        rng.shuffle(lines)
        log.write_bytes(b"".join(lines))
    assert len(found) == 4 and 0.1 < (found[0].results[1].value or 0) < 0.2
    for record in found[1:]:
        assert record.results == found[0].results
        assert str(record.results) == str(found[0].results)  # the order of outcomes, too
        assert record.parties == found[0].parties
        kept = record.provenance["answer_seconds"]
        assert kept == found[0].provenance["answer_seconds"]


@pytest.mark.slow
def test_what_a_killed_score_left_is_removed_by_the_next(tmp_path: Path) -> None:
    run = run_quiz(tmp_path)
    old = run / "gradings" / "0123456789abcdef"
    old.mkdir()
    (current,) = (p for p in (run / "gradings").iterdir() if p != old)
    for folder in (old, current):
        (folder / ".scores.parquet.4711.tmp").write_bytes(b"half")
    medhelm("score", "--results-dir", tmp_path / "results", "--plugin", PLUGIN)
    assert {p.name for p in current.iterdir()} == {"scores.parquet", "summary.json"}
    assert not any(old.iterdir())
