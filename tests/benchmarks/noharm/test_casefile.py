"""Files of cases: what is wrong is named by line, and what is written comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.errors import DataError, RecordError
from medhelm_benchmarks.noharm.rules.cases import Case, read_cases, scan_cases, write_cases
from tests.benchmarks.noharm.making import case

ONE = case({"a1": 8, "a2": 2}, code="NOHARM-CARD-ACS-001")
OTHER = case({"b1": 5}, code="NOHARM-DERM-ECZ-002", vignette="Ekzem \u2028 seit Jahren, 3\u00a0cm.")


def line(made: Case, **change: Any) -> bytes:
    return json.dumps(msgspec.to_builtins(made) | change).encode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cases.jsonl"


def test_what_is_written_comes_back_and_twice_the_same_bytes(path: Path) -> None:
    write_cases(path, (ONE, OTHER))
    assert read_cases(path) == (ONE, OTHER)
    assert scan_cases(path)[1] == []
    first = path.read_bytes()
    assert first.count(b"\n") == 2 and first.endswith(b"}\n")
    assert path.stat().st_mode & 0o777 == 0o600
    write_cases(path, read_cases(path))
    assert path.read_bytes() == first


def test_mark_windows_ends_and_blank_lines_are_passed_over(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf\r\n" + line(ONE) + b"\r\n  \r\n" + line(OTHER))
    assert read_cases(path) == (ONE, OTHER)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cases.jsonl: no case"),
        (b"\n \n", "cases.jsonl: no case in it"),
        (line(ONE)[:-9], "cases.jsonl, line 1: not readable JSON"),
        (b"\n[" + line(ONE) + b"]", "line 2: Expected `object`, got `array`"),
        (b"[" * 100_000, "line 1: not readable JSON (nested too deep)"),
        ("\ufeff{}".encode("utf-16-le"), "line 1: not readable JSON"),
        (line(ONE, vignette="x").replace(b'"x"', b'"\xff"'), "line 1: not readable JSON"),
        (line(ONE) + b"\n" + line(ONE), "line 2: case NOHARM-CARD-ACS-001 stands in line 1"),
        (
            line(ONE).replace(b'"vign', b'"vignette": "", "vign'),
            "ACS-001: key 'vignette' stands twice",
        ),
        (
            line(ONE).replace(b'"text"', b'"text": "", "text"'),
            "action 'a1': key 'text' stands twice",
        ),
        (
            line(ONE) + b"\n" + line(OTHER, question=" "),
            "line 2: case NOHARM-DERM-ECZ-002: field question",
        ),
    ],
)
def test_the_first_fault_is_one_line_with_file_and_line(
    path: Path, content: bytes, said: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_cases(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value) == scan_cases(path)[1][0]


def test_no_text_of_a_case_is_in_a_fault(path: Path) -> None:
    path.write_bytes(line(ONE, vignette="Frau Muster, geb. 1950", knowns="Frau Muster"))
    assert "Muster" not in " ".join(scan_cases(path)[1])


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path, path: Path) -> None:
    for unreadable in (path, tmp_path):
        with pytest.raises(DataError, match="cannot read"):
            read_cases(unreadable)
        with pytest.raises(DataError, match="cannot read"):
            scan_cases(unreadable)
    with pytest.raises(RecordError, match="cannot write"):
        write_cases(tmp_path, (ONE,))


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ((), "no case to write"),
        ((ONE, ONE), "case NOHARM-CARD-ACS-001 stands 2 times"),
        ((msgspec.structs.replace(ONE, question=""),), "field question is empty"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    path: Path, cases: tuple[Case, ...], said: str
) -> None:
    path.write_bytes(b"old")
    with pytest.raises(DataError, match=said):
        write_cases(path, cases)
    assert path.read_bytes() == b"old"
