"""Writes the stored folders: `python -m tests.stored_folders.write --into DIR`, from the repository.

The folders in the repository were written by it once, by the first version whose records are
read (the jury's by the first that logs its judges as they are read), and stay as they are: what
today's code writes proves nothing of stored folders.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.quiz import write_quiz
from tests.server import serve_in_thread
from tests.stored_folders import kinds
from tests.stored_folders.tabulated import write_tables


def write_data(into: Path) -> None:
    """Write the benchmarks' data: they are kept so that samples may change."""
    write_quiz(into.parent, 12)
    for name, rows in (("essay", 5), ("checklist", 3)):
        (into / name).mkdir()
        text = (kinds.OWN / "samples" / f"{name}.jsonl").read_text().splitlines(keepends=True)
        (into / name / f"{name}.jsonl").write_text("".join(text[:rows]))


def main() -> int:
    """Write data, finished runs, and their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, required=True)
    into: Path = parser.parse_args().into.resolve()
    write_data(into / "data")
    kinds.DATA = into / "data"
    with serve_in_thread(by_body=kinds.answer) as server:
        os.environ["HTTP_PROXY"] = server.base_url.removesuffix("/v1")
        os.environ["OPENAI_API_KEY"] = "test-key"
        for name, kind in kinds.KINDS.items():
            whole = into / "whole" / name
            kind.ask(whole)
            write_tables(whole, into / "tables" / name)
            for lock in whole.rglob("lock"):  # it names a process and its machine
                lock.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
