"""Count the origins of generated cases' actions, by the file that generation writes beside them.

The paper's section 4.1: written blind, a guideline's first choice or its conditional one, or a trap
of five kinds. A case itself does not say it, so that no reader of cases can give it away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from medhelm.errors import DataError
from medhelm.files.durable import why
from medhelm_benchmarks.noharm.rules.cases import Case

FILE = "provenance.jsonl"
TRAPS = ("dose", "interaction", "contraindication", "prerequisite", "monitoring")
ORIGINS = ("blind", "first_line", "conditional", *TRAPS)


class _Line(msgspec.Struct, frozen=True):
    code: str
    tags: dict[str, str]
    not_covered: dict[str, int] = {}


@dataclass(frozen=True)
class Origins:
    """Counts what the file says of the actions of cases."""

    actions: Counter[str | None]
    """Actions by where they come from; None: the file does not say."""
    silent: int
    """Actions on which all raters find the guideline silent."""


def read_origins(path: Path, cases: Sequence[Case]) -> Origins:
    """Return what the file says of the cases; raises DataError where it cannot be read."""
    lines: dict[str, _Line] = {}
    number = 0
    try:
        for line in path.read_bytes().splitlines():
            number += 1
            own = msgspec.json.decode(line, type=_Line)
            lines[own.code] = own
    except OSError as e:
        raise DataError(f"cannot read {path}: {why(e)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DataError(f"{path.name}, line {number}: not a line of provenance") from None
    nothing = _Line(code="", tags={})
    there = [(lines.get(case.code, nothing), a) for case in cases for a in case.actions]
    return Origins(
        Counter(line.tags.get(action.id) for line, action in there),
        sum(line.not_covered.get(action.id, 0) >= len(action.ratings) for line, action in there),
    )
