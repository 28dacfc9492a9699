"""The table of where the actions of generated cases come from: the shares of the paper's section 4.1."""

from __future__ import annotations

from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.format.table import Row, Table, make_table
from medhelm_benchmarks.noharm.rules.origins import ORIGINS, TRAPS, Origins

_WORDS = {"blind": "blind generation", "first_line": "first-line recommendation"}
_PAPER = {"blind": 0.491, "first_line": 0.182, "conditional": 0.094, "traps": 0.209}

COLUMNS = (
    text("origin", "how an action was written", "Origin"),
    count("count", "actions", "n", of="actions"),
    count("actions", "all actions"),
    number("share", "count / actions", "share", "Share", digits=1, is_percent=True),
    number("paper", "share in the paper's 100 cases", "share", "Paper", digits=1, is_percent=True),
)


def origins(origins: Origins) -> Table:
    """Return a row for each origin, the traps also together."""
    found = origins.actions
    actions = sum(found.values())

    def row(origin: str, n: int, paper: float | None) -> Row:
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
