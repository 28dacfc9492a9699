"""Count the origins of generated cases' actions, by the file that generation writes beside them.

The paper's section 4.1: written blind, a guideline's first choice or its conditional one, or a trap
of five kinds. A case itself does not say it, so that no reader of cases can give it away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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


def read_origins(path: Path, cases: Sequence[Case]) -> Counter[str | None]:
    """Return how many actions of the cases come from where; None: the file does not say.

    Raises DataError where the file cannot be read.
    """
    tags: dict[str, dict[str, str]] = {}
    number = 0
    try:
        for line in path.read_bytes().splitlines():
            number += 1
            own = msgspec.json.decode(line, type=_Line)
            tags[own.code] = own.tags
    except OSError as e:
        raise DataError(f"cannot read {path}: {why(e)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DataError(f"{path.name}, line {number}: not a line of provenance") from None
    return Counter(tags.get(case.code, {}).get(a.id) for case in cases for a in case.actions)
