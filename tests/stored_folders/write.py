"""Writes the stored folders anew: `python -m tests.stored_folders.write`, from the repository.

The folders in the repository were written by it once, by the version whose folders they show
(0.1.0 before the common core), and stay as they are: what today's code writes proves nothing of
older folders. It is kept for the next version of run folders, which is written beside them.
`--into DIR` writes elsewhere, to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from tests.quiz import write_quiz
from tests.server import serve_in_thread
from tests.stored_folders import kinds
from tests.stored_folders.kinds import KINDS, Kind
from tests.stored_folders.tabulated import write_tables

_ROOT = Path(__file__).parents[2]


def write_data(into: Path) -> None:
    """Write the benchmarks' data: they are kept so that bundled samples may change."""
    write_quiz(into.parent, 24)
    (into / "essay").mkdir(parents=True)
    essays = (_ROOT / "tests/plugins/samples/essay.jsonl").read_text().splitlines(keepends=True)
    (into / "essay" / "essay.jsonl").write_text("".join(essays[:8]))
    (into / "noharm").mkdir()
    cases = (_ROOT / "benchmarks/samples/noharm.jsonl").read_text().splitlines(keepends=True)
    (into / "noharm" / "cases.jsonl").write_text("".join(cases[:4]))


def write_whole(kind: Kind, results: Path, tables: Path) -> None:
    """Run a kind to its end and write its tables."""
    kind.ask(results)
    write_tables(results, tables, kind.by)
    for lock in results.rglob("lock"):  # it names a process and its machine
        lock.unlink()


def halve(kind: Kind, whole: Path, half: Path) -> None:
    """Write a run as a kill leaves it: nothing graded, each log cut within a line."""
    shutil.copytree(whole, half)
    for run in (spec.parent for spec in half.glob("runs/*/*/*/spec.json")):
        shutil.rmtree(run / "gradings")
        model = json.loads((run / "spec.json").read_bytes())["spec"]["model"]["name"]
        _cut(run / "responses.jsonl", kind.kept[model])
        for log in sorted(run.glob("judges/*/grades.jsonl")):
            first = json.loads(log.read_bytes().splitlines()[0])
            count = kind.kept[first["judge"].rpartition("/")[2]]
            if count:
                _cut(log, count)
            else:
                shutil.rmtree(log.parent)


def _cut(log: Path, kept: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])


def main() -> int:
    """Write data, whole and half-finished runs, and the tables of the whole ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=kinds.HERE)
    into: Path = parser.parse_args().into.resolve()
    if (into / "whole").exists():
        parser.error(f"{into} holds stored folders; they are not replaced")
    write_data(into / "data")
    kinds.DATA = into / "data"
    with serve_in_thread(by_body=kinds.answer) as server:
        os.environ["HTTP_PROXY"] = server.base_url.removesuffix("/v1")
        os.environ["OPENAI_API_KEY"] = "test-key"
        for name, kind in KINDS.items():
            whole = into / "whole" / name
            write_whole(kind, whole, into / "tables" / name)
            halve(kind, whole, into / "half" / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
