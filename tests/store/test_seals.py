"""Flipped bits in the small files and the scores of a run: an error, or nothing has changed."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest

from medhelm import evaluate
from medhelm.errors import RecordError, UsageError
from medhelm.files import seals
from medhelm.schema.run import RunRecord
from medhelm.store import records
from medhelm.store.records import Plan
from medhelm.tables.loading import load_results
from medhelm.tables.study.arrow import read_scores
from medhelm.tables.study.cells import COLUMNS
from medhelm.tables.study.selection import GradedRun
from tests.quiz import PLUGIN, arguments, at, medhelm, write_quiz
from tests.server import serve_in_thread

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with one run of a baseline, made by the command."""
    folder = tmp_path_factory.mktemp("finished")
    write_quiz(folder, 40)
    evaluate("baseline/majority", "quiz", **at(folder))
    return folder / "results"


@pytest.fixture
def grading(finished: Path, tmp_path: Path) -> Path:
    """The grading of a copy of it."""
    shutil.copytree(finished, tmp_path / "results")
    (found,) = records.find_gradings(tmp_path / "results")
    return found


def flipped(content: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)


@pytest.mark.parametrize("name", ["summary.json", "spec.json"])
def test_no_flipped_bit_of_a_small_file_passes(grading: Path, name: str) -> None:
    def read() -> RunRecord | Plan:
        if name == "spec.json":
            return records.read_plan(grading.parents[1])
        return records.read_record(grading)

    path = grading / name if name == "summary.json" else grading.parents[1] / name
    content, before = path.read_bytes(), read()
    rng = random.Random(5)
    refused = 0
    for place in range(len(content)):
        path.write_bytes(flipped(content, place, rng.randrange(8)))
        try:
            assert read() == before
        except RecordError as e:
            assert str(path) in str(e)
            refused += 1
    assert refused > 0.99 * len(content)  # all but those in the name of the hash


def test_no_flipped_bit_of_the_scores_passes(grading: Path) -> None:
    path = grading / "scores.parquet"
    run = GradedRun(grading, "", records.read_record(grading))
    content = path.read_bytes()
    assert list(read_scores(run, COLUMNS))
    rng = random.Random(6)
    for place in range(0, len(content), 7):
        path.write_bytes(flipped(content, place, rng.randrange(8)))
        with pytest.raises(RecordError, match=re.escape(str(path))):
            list(read_scores(run, COLUMNS))


def test_pages_of_the_scores_have_checksums(grading: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = grading / "scores.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(6)
    assert column.path_in_schema == "value"
    place = (
        (column.dictionary_page_offset or column.data_page_offset)
        + column.total_compressed_size
        - 1
    )
    path.write_bytes(flipped(path.read_bytes(), place, 1))
    with pytest.raises((OSError, pa.ArrowException), match="CRC|checksum"):
        pq.read_table(path, page_checksum_verification=True)


def test_a_summary_changed_by_hand_is_refused_and_score_writes_it_again(grading: Path) -> None:
    path = grading / "summary.json"
    path.write_text(path.read_text().replace('"instances": 40', '"instances": 41'))
    with pytest.raises(UsageError, match="after it was written"):
        load_results(grading.parents[5])
    results = grading.parents[5]
    medhelm("score", "--results-dir", results, "--plugin", PLUGIN)
    assert records.read_record(grading).instances == 40
    assert load_results(results).notes == ()


def test_a_hash_at_another_place_is_no_hash(tmp_path: Path) -> None:
    assert not seals.is_broken(b'{"a": 1}')
    assert seals.is_broken(b'{"sha256": "' + b"0" * 64 + b'", "a": 1}')


@pytest.mark.parametrize("is_other", [True, False], ids=["an unknown key", "a changed number"])
def test_a_plan_that_cannot_be_read_is_not_replaced_in_silence(
    is_other: bool, tmp_path: Path
) -> None:
    """The fault: `run` wrote over a plan of another version, and said nothing of its keys."""
    write_quiz(tmp_path, 4)
    with serve_in_thread() as server:
        argv = arguments(tmp_path, server.base_url)
        medhelm(*argv, "max_instances=2")
        (path,) = (tmp_path / "results").rglob("spec.json")
        if is_other:
            value = json.loads(path.read_bytes()) | {"shards": 3}
            del value["sha256"]
            path.write_text(json.dumps(value))
        else:
            path.write_text(path.read_text().replace('"instances": 2', '"instances": 3'))
        before = path.read_bytes()
        done = medhelm(*argv, code=4 if is_other else 0)
        assert server.requests == (2 if is_other else 4) and not server.duplicates
    (line,) = [line for line in done.stderr.splitlines() if "spec.json" in line]
    if is_other:
        assert "`shards`" in line and "another version" in line
        assert path.read_bytes() == before
    else:
        assert "written again" in line
        assert records.read_plan(path.parent).instances == 4
