"""A published table is read a row at a time, and what is wrong with it is one line."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from medhelm import DataError, read_table

TEXT = 'id,text\n1,"a, b\nc"\n\n2,é\n'
ROWS = [(1, {"id": "1", "text": "a, b\nc"}), (2, {"id": "2", "text": "é"})]


def test_plain_and_gzipped_tables_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "t.tsv").write_text('id\ttext\n1\t"a, b\nc"\n2\té\n')
    assert list(read_table(tmp_path / "t.csv", ("text",))) == ROWS
    assert list(read_table(tmp_path / "t.csv.gz", ("id", "text"))) == ROWS
    assert list(read_table(tmp_path / "t.tsv", separator="\t")) == ROWS


def test_a_quotation_mark_inside_a_cell_is_text_where_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('id\ttext\n1\t"He said" no\n')
    (row,) = read_table(path, ("text",), "\t", is_strict=False)
    assert row == (1, {"id": "1", "text": "He said no"})
    with pytest.raises(DataError, match="t.tsv, row 1: not"):
        list(read_table(path, ("text",), "\t"))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.csv", b"", "t.csv: there is no column id, text"),
        ("t.csv", b"id,note\nsecret,x\n", "t.csv: there is no column text"),
        ("t.csv", b"id,text\n1,x\nsecret\n", "t.csv, row 2: 1 cells, the header has 2"),
        ("t.csv", b'id,text\n1,x\n2,"secret', "t.csv, row 2: not CSV"),
        ("t.csv", b"id,text\n1,secret\n2,caf\xe9\n", "t.csv: not UTF-8 at byte"),
        ("t.csv.gz", b"id,text\n1,secret\n", "t.csv.gz: not a whole gzip file behind row 0"),
        (
            "t.csv.gz",
            gzip.compress(b"id,text\n" + b"1,secret\n" * 9, mtime=0)[:-9],
            "t.csv.gz: not a whole gzip file behind row ",
        ),
    ],
)
def test_what_is_wrong_is_named_without_the_text(
    name: str, content: bytes, expected: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(expected)) as caught:
        list(read_table(tmp_path / name, ("id", "text")))
    assert "secret" not in str(caught.value)
