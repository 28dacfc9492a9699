"""A copy of folders elsewhere that is kept up to date piece by piece."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import RecordError
from medhelm.store.mirror import Mirror, Piece, put


def content(root: Path) -> dict[str, bytes]:
    files = (p for p in root.rglob("*") if p.is_file() and p.name != "lock")
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "torn", "mend", "rewrite", "swap", "summary", "remove", "send"]),
              st.sampled_from(["a/log.jsonl", "a/b/log.jsonl"])),
    max_size=30,
)  # fmt: skip


@given(STEPS)
def test_the_copy_has_every_whole_line_whatever_happened_to_the_files(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    """As logs are written: lines appended, one cut by a kill and mended, files replaced or removed."""
    there, here = tmp_path_factory.mktemp("there"), tmp_path_factory.mktemp("here")
    mirror = Mirror(there, ["a"])
    for number, (step, name) in enumerate(
        [*steps, ("mend", "a/log.jsonl"), ("mend", "a/b/log.jsonl")]
    ):
        log = there / name
        log.parent.mkdir(parents=True, exist_ok=True)
        lines = log.read_bytes() if log.exists() else b""
        if step == "append" and lines.endswith((b"\n", b"")[not lines]):
            with open(log, "ab") as file:
                file.write(b"line %d\n" % number)
        elif step == "torn" and lines:
            with open(log, "ab") as file:
                file.write(b"to")
        elif step == "mend" and lines:
            os.truncate(log, lines.rfind(b"\n") + 1)
        elif step == "rewrite" and lines:
            (other := log.with_name("other.tmp")).write_bytes(lines[: lines.find(b"\n") + 1])
            other.replace(log)
        elif step == "summary":
            (other := log.with_name("other.tmp")).write_bytes(b"{%d}" % number)
            other.replace(log.with_name("summary.json"))
        elif step == "swap" and lines:  # another log in the same file
            log.write_bytes(b"other %d\n" % number * 3)
        elif step == "remove":
            log.unlink(missing_ok=True)
        elif step == "send":
            put(here, mirror.news())
    put(here, mirror.news())
    assert content(here) == content(there)
    assert mirror.news() == []


def test_of_what_is_gone_no_folder_is_made(tmp_path: Path) -> None:
    put(tmp_path, [Piece("runs/shards/0-of-2/responses.jsonl", -1, b"")])
    assert not [*tmp_path.iterdir()]


def test_a_worker_writes_nothing_outside_the_results(tmp_path: Path) -> None:
    for name in ("../out.jsonl", "/etc/out.jsonl"):
        with pytest.raises(RecordError, match="outside"):
            put(tmp_path / "results", [Piece(name, 0, b"x\n")])
    assert content(tmp_path) == {}
