"""Files of users, written from the tables of tests in the form that their suffix names."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from openpyxl import Workbook
from pyarrow import feather, parquet


def write(root: Path, benchmark: str, files: Mapping[str, Any]) -> None:
    """Write files below the folder of a benchmark: a text as it is, or lists in the suffix's form."""
    for name, content in files.items():
        path = root / benchmark / name
        path.parent.mkdir(parents=True, exist_ok=True)
        form = path.name.removesuffix(".gz").rpartition(".")[2]
        if form in ("xlsx", "zip", "parquet", "feather") and not isinstance(content, str):
            globals()[f"_write_{form}"](path, content)
            continue
        text = content if isinstance(content, str) else _text(content, form)
        data = text.encode("utf-8", "surrogateescape")
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def _text(content: Any, form: str) -> str:
    if form == "json":
        return json.dumps(content)
    if form == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in content)
    lines = io.StringIO(newline="")
    separator = "\t" if form == "tsv" else ","
    csv.writer(lines, delimiter=separator, lineterminator="\n").writerows(content)
    return lines.getvalue()


def _write_xlsx(path: Path, rows: list[list[Any]]) -> None:
    book = Workbook()
    page = book.active
    assert page is not None
    for row in rows:
        page.append(row)
    book.save(path)


def _write_zip(path: Path, members: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path)


def _write_feather(path: Path, rows: list[dict[str, Any]]) -> None:
    feather.write_feather(pa.Table.from_pylist(rows), str(path))
