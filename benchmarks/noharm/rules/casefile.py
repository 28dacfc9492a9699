"""Files of cases: one JSON object a line, as `medhelm schema noharm` describes it."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from medhelm import DataError
from medhelm.plugin import RecordError, durable
from medhelm_benchmarks.noharm.rules.cases import Case, faults, parse_case, place_of

_FORM = "a file of cases holds one JSON object a line"


def read_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a file in its order, at least one; raises DataError for its first fault.

    Lines that are blank, a byte order mark and Windows' ends of lines are passed over. Faults name
    file, line, case and field, never a text of the case.
    """
    cases = []
    for found in _scan(path):
        if isinstance(found, str):
            raise DataError(found)
        cases.append(found)
    return tuple(cases)


def faults_in(path: Path) -> Iterator[str]:
    """Yield every fault of a file of cases as a line that names file, line, case and field.

    Of a line that is not JSON or has a field of a wrong type, the first fault alone. Raises
    DataError where the file cannot be read at all.
    """
    return (found for found in _scan(path) if isinstance(found, str))


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.AtomicFile(path) as file:
            for case in cases:
                file.write(msgspec.json.encode(case) + b"\n")
    except OSError as e:
        raise RecordError(f"cannot write {path}: {durable.why(e)}") from None


def _scan(path: Path) -> Iterator[Case | str]:
    """Yield each line's case, or its faults."""
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    except OSError as e:
        raise DataError(f"cannot read {path}: {durable.why(e)}") from None
    if not any(line.strip() for line in lines):
        yield f"{path.name}: no case in it; {_FORM}"
    stands: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            case = parse_case(line, where)
        except DataError as e:
            yield from _all_faults(line, where, str(e))
            continue
        except RecursionError:
            yield f"{where}: not readable JSON (nested too deep)"
            continue
        if case.code in stands:
            yield f"{where}: case {case.code} stands in line {stands[case.code]} already"
        else:
            stands[case.code] = number
            yield case


def _all_faults(line: bytes, where: str, first: str) -> Iterator[str]:
    """Yield the faults of a line, of which the first is known."""
    try:
        case = msgspec.json.decode(line, type=Case)
    except msgspec.ValidationError:
        yield first
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield f"{first}; {_FORM}"
    else:
        own = place_of({"code": case.code}, where)
        yield from dict.fromkeys([first, *(f"{own}: {fault}" for fault in faults(case))])
