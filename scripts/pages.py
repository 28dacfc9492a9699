"""Pages that are made from results: written, or compared with what a script makes now."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script that makes a page, with its option `--check`."""
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--check", action="store_true", help="fail where the page is out of date")
    return made


def grid(columns: str, heads: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table; `columns` holds a letter each, `l` of text and `r` of numbers."""
    rule = "|".join({"l": "---", "r": "---:"}[column] for column in columns)
    first, *others = (f"| {' | '.join(map(str, cells))} |" for cells in (heads, *rows))
    return [first, f"|{rule}|", *others]


def table_of(page: Path, part: str) -> tuple[list[str], list[str]]:
    """Return the head and the rows of the table that a part of a page is."""
    split = _split(page.read_text(encoding="utf-8"), part)
    if split is None:
        raise SystemExit(f"{page} has no table {part!r}")
    lines = split[1].splitlines()
    return lines[:2], lines[2:]


def _split(text: str, part: str) -> tuple[str, str, str] | None:
    """Return a page up to a part, the part, and the rest, each with its marker outside the part."""
    found = re.search(f"(?s)(.*<!-- {part}:begin -->\n)(.*)(<!-- {part}:end -->.*)", text)
    return None if found is None else (found[1], found[2], found[3])


def make(doc: str | None, page: Path, render: Callable[[], str], part: str = "") -> int:
    """Write or check a page, or a part of one, as a script without further options; return the exit code."""
    check = parser(doc).parse_args().check
    return put(page, render(), part=part, check=check)


def put(page: Path, made: str, *, part: str = "", check: bool) -> int:
    """Write a page, or the part between its markers `<!-- PART:begin -->` and `:end`.

    With `check` nothing is written. Returns the exit code: 1 where the page differs, 2 without markers.
    """
    name = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
    stored = page.read_text(encoding="utf-8") if page.is_file() else ""
    if part:
        split = _split(stored, part)
        if split is None:
            print(f"{name} has no markers <!-- {part}:begin --> and <!-- {part}:end -->")
            return 2
        made = split[0] + made + split[2]
    if not check:
        page.write_text(made, encoding="utf-8")
    elif made != stored:
        print(f"{name} is out of date: run {Path(sys.argv[0]).name}")
        return 1
    return 0
