"""Files of cases: one JSON object a line, as `medhelm schema noharm` describes it."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from medhelm import DataError
from medhelm.plugin import durable
from medhelm_benchmarks.noharm.rules.cases import FORM, Case, faults, read_case


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file in its order, at least one; raises DataError for its first fault."""
    cases, said = scan_cases(path)
    if said:
        raise DataError(said[0])
    return cases


def scan_cases(path: Path) -> tuple[tuple[Case, ...], list[str]]:
    """Return the cases of a file, and every fault as a line that names file, line, case and field.

    Lines that are blank, a byte order mark and Windows' ends of lines are passed over. No text of a
    case is in a fault. Raises DataError where the file cannot be read at all.
    """
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except OSError as e:
        raise DataError(f"cannot read {path}: {durable.why(e)}") from None
    found: dict[str, tuple[int, Case]] = {}
    said: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        case, own = read_case(line, where)
        said += own
        if case is not None and not own:
            first, _ = found.setdefault(case.code, (number, case))
            if first != number:
                said.append(f"{where}: case {case.code} stands in line {first} already")
    if not found and not said:
        said.append(f"{path.name}: no case in it; {FORM}")
    return tuple(case for _, case in found.values()), said


def write_cases(path: Path, cases: Sequence[Case]) -> None:
    """Write cases, one JSON object a line: whole or not at all, the same cases the same bytes.

    Raises DataError for cases that `read_cases` would refuse, RecordError where the file cannot be
    written.
    """
    if not cases:
        raise DataError(f"{path.name}: no case to write")
    for code, n in Counter(case.code for case in cases).items():
        if n > 1:
            raise DataError(f"{path.name}: case {code} stands {n} times")
    for case in cases:
        for fault in faults(case):
            raise DataError(f"{path.name}: case {case.code[:40]}: {fault}")
    durable.write_lines(path, cases)
