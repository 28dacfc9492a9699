"""Tabulate where the actions of generated cases come from, by the file that generation writes beside them.

The shares of the paper's section 4.1: written blind, a guideline's first choice or its conditional one,
or a trap of five kinds. A case itself does not say it, so that no reader of cases can give it away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec

from medhelm import DataError, Table, make_table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import durable, readers
from medhelm_benchmarks.noharm.generation.stages import Trap
from medhelm_benchmarks.noharm.rules.cases import Case

TRAPS: tuple[str, ...] = get_args(Trap)
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


_WORDS = {"blind": "blind generation", "first_line": "first-line recommendation"}
_PAPER = {"blind": 0.491, "first_line": 0.182, "conditional": 0.094, "traps": 0.209}

COLUMNS = (
    kinds.text("origin", "how an action was written", "Origin"),
    kinds.count("count", "actions", "n", of="actions"),
    kinds.count("actions", "all actions"),
    kinds.number("share", "count / actions", "share", "Share", digits=1, is_percent=True),
    kinds.number(
        "paper", "share in the paper's 100 cases", "share", "Paper", digits=1, is_percent=True
    ),
)


def origins(origins: Origins) -> Table:
    """Return a row for each origin, the traps also together."""
    found = origins.actions
    actions = sum(found.values())

    def row(origin: str, n: int, paper: float | None) -> dict[str, object]:
        share = n / actions if actions else None
        return {"origin": origin, "count": n, "actions": actions, "share": share, "paper": paper}

    rows = [row(_WORDS.get(o, o), found.get(o, 0), _PAPER.get(o)) for o in ORIGINS[:3]]
    rows.append(row("traps", sum(found.get(o, 0) for o in TRAPS), _PAPER["traps"]))
    rows += [row(f"trap: {o}", found.get(o, 0), None) for o in TRAPS]
    known = {*ORIGINS}
    if other := sum(n for origin, n in found.items() if origin not in known):
        rows.append(row("not stated", other, None))
    share = f"{origins.silent:,} of {actions:,} actions ({origins.silent / max(actions, 1):.0%})"
    notes = [
        "Where an action comes from stands beside the cases, in provenance.jsonl; no model is shown it.",
        f"All raters find the guideline silent on {share}: expect about that share of the strong "
        "actions without a reference, and so nearly every case to fail `references` where it is not 0.",
    ]
    return make_table("origins", "Where actions come from", COLUMNS, rows, notes, {})


def read_origins(path: Path, cases: Sequence[Case]) -> Origins:
    """Return what the file says of the cases; raises DataError where it cannot be read."""
    try:
        rows = [msgspec.convert(row, _Line) for _, row in readers.read_jsonl(path)]
    except OSError as e:
        raise DataError(f"cannot read {path}: {durable.why(e)}") from None
    except msgspec.ValidationError as e:
        raise DataError(f"{path.name}: not a file of provenance ({e})") from None
    lines = {line.code: line for line in rows}
    nothing = _Line(code="", tags={})
    there = [(lines.get(case.code, nothing), a) for case in cases for a in case.actions]
    return Origins(
        Counter(line.tags.get(action.id) for line, action in there),
        sum(line.not_covered.get(action.id, 0) >= len(action.ratings) for line, action in there),
    )
