"""Puts the rows that a script has measured into its table of docs/reliability.md.

Used by `bit_flips.py`, `kills.py` and `lost_files.py`; a table lies between `<!-- NAME -->` and
`<!-- end NAME -->`, whose head is part of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"


def show(name: str, rows: Iterable[Sequence[object]], *, write: bool) -> None:
    """Print the rows of a table, and put them on the page where `write` says so."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    print("\n".join(lines))
    if not write:
        return
    text = PAGE.read_text(encoding="utf-8")
    block = re.compile(
        rf"(<!-- {name} -->\n(?:\|[^\n]*\n){{2}})(?:\|[^\n]*\n)*(<!-- end {name} -->)"
    )
    if len(block.findall(text)) != 1:
        raise SystemExit(f"{PAGE} has no table {name!r}")
    body = "".join(f"{line}\n" for line in lines)
    PAGE.write_text(block.sub(lambda m: m[1] + body + m[2], text), encoding="utf-8")


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
