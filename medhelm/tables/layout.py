"""The columns of a table that text formats show, and the order in which narrow ones go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from medhelm.tables.table import Column, Table, Value

SPARE: Mapping[str, tuple[str, ...]] = {
    "overall": (
        "benchmarks",
        "cut_share",
        "total_cost_upper_usd",
        "win_rate_literal",
        "total_cost_usd",
        "coverage",
        "macro_sd",
        "win_sd",
    ),
    "benchmarks": (
        "interval_method",
        "normalised",
        "not_scored",
        "worst_case",
        "cut_share",
        "coverage",
    ),
    "mde": ("metric", "method", "pairs"),
    "jury": (
        "rated",
        "correlation",
        "judges",
        "abstained",
        "jury",
        "n",
        "n_complete",
        "score_least",
        "score_most",
        "icc_single",
    ),
    "cost": (
        "cached_tokens",
        "usage_unknown",
        "reasoning_tokens",
        "runs",
        "jury_cached_tokens",
        "jury_reasoning_tokens",
        "jury_usage_unknown",
        "jury_input_tokens",
        "jury_output_tokens",
        "input_tokens",
        "output_tokens",
        "jury_cost_upper_usd",
        "jury_cost_usd",
    ),
    "harm": (
        "not_scored",
        "parsed",
        "labels_invalid",
        "labels_missing",
        "read",
        "share",
        "models",
        "omission_share",
        "n",
    ),
    "slices": ("share", "normalised"),
    "pairs": ("n_benchmarks", "p"),
    "compare": ("correlation", "test", "n"),
    "differences": ("category", "reversed", "experts_median"),
    "actions": ("harm_changed", "within_1", "class_kappa", "reversed", "cases", "difference"),
    "gate": ("cases", "margin", "n"),
    "diff": ("was", "now"),
}
"""Columns that a narrow terminal leaves out, the first one first."""

BARE = {"harm": ("restraint", "completeness", "safety", "overall", "severe_rate")}
"""Columns whose intervals a narrow terminal leaves out before any column, the first one first."""

_KEPT = {
    "overall": frozenset({"win_rate", "macro_average"}),
    "mde": frozenset({"mde"}),
    "cost": frozenset({"cost_usd", "cost_upper_usd"}),
}
"""Columns that are what a table is for: shown even where every row lacks them; notes say why."""

_MAIN = {
    "benchmarks": frozenset({"score"}),
    "categories": frozenset({"mean"}),
    "slices": frozenset({"score"}),
    "ranks": frozenset({"share"}),
    "pairs": frozenset({"difference", "p_holm"}),
    "compare": frozenset({"score_a", "score_b", "difference", "p_holm"}),
    "diff": frozenset({"old", "new", "difference"}),
    "jury": frozenset({"alpha", "score", "alpha_without"}),
    "harm": frozenset({"overall", "severe_rate"}),
    "gate": frozenset({"score"}),
    "agreement": frozenset({"icc"}),
    "corrected": frozenset({"corrected"}),
    "shares": frozenset({"corrected"}),
    "actions": frozenset({"kappa_quadratic"}),
    "differences": frozenset({"difference"}),
    "rubrics": frozenset({"overall_file", "overall_experts", "difference"}),
    "sensitivity": frozenset({"overall", "severe_rate"}),
}
"""Further columns that no terminal leaves out: where they do not fit, each row becomes a card."""

_WITH_JURY = frozenset(f"{p}_cost{u}_usd" for p in ("jury", "total") for u in ("", "_upper"))
"""Columns of the cost table that are shown where judges were asked, and only there."""


MOST_ROWS = 1000
"""Rows of a grid that a terminal shows. The tables of pairs and ranks have some half a million
and a million of a thousand models."""


def cut(table: Table, most: int | None) -> tuple[Table, list[str]]:
    """Return the first rows of a grid, and the note on those that are not printed."""
    if most is None or len(table.rows) <= most:
        return table, []
    note = (
        f"Printed are the first {most:,} of the {len(table.rows):,} rows of {table.title!r}: "
        "--out FILE writes all of them."
    )
    return replace(table, rows=table.rows[:most]), [note]


def leaving(table: Table, columns: Sequence[Column]) -> list[str]:
    """Return which of the columns a narrow terminal leaves out, in this order.

    First those of `SPARE`, then numbers from the right. Names, the first number and what the table
    is for stay. Of two win rates the one that ranks stays.
    """
    own = list(SPARE.get(table.name, ()))
    kept = {c.name for c in columns if c.type == "string"}
    kept |= _KEPT.get(table.name, frozenset()) | _MAIN.get(table.name, frozenset())
    kept |= {c.name for c in [c for c in columns if c.type != "string"][:1]}
    if _is_literal(table):
        own[own.index("win_rate_literal")] = "win_rate"
        own[own.index("win_sd")] = "win_literal_sd"
        kept |= {"win_rate_literal"}
    own += [c.name for c in reversed(columns) if c.name not in {*own, *kept}]
    there = {c.name for c in columns}
    return [name for name in own if name in there]


def shown(table: Table) -> list[Column]:
    """Return the columns of text formats; one that is missing, or no, in every row is left out."""
    full = {c.name for c in table.columns if any(_says(r[c.name]) for r in table.rows)}
    if table.name == "cost":
        full = full | _WITH_JURY if "jury_requests" in full else full - _WITH_JURY
    full |= _KEPT.get(table.name, frozenset())
    columns = _by_literal(table.columns) if _is_literal(table) else table.columns
    return [c for c in columns if c.heading and (c.name in full or not table.rows)]


def _is_literal(table: Table) -> bool:
    return table.name == "overall" and table.settings.get("rank_by") == "literal"


def _by_literal(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with interval and SD shown of the literal win rate, not of the other."""
    shown_as = {c.name: c for c in columns}
    moved = {
        "win_rate": replace(shown_as["win_rate"], interval=None),
        "win_sd": replace(shown_as["win_sd"], heading=""),
        "win_rate_literal": replace(
            shown_as["win_rate_literal"], interval=("win_literal_low", "win_literal_high")
        ),
        "win_literal_sd": replace(shown_as["win_literal_sd"], heading=shown_as["win_sd"].heading),
    }
    return [moved.get(c.name, c) for c in columns]


def _says(value: Value) -> bool:
    return value is not None and value is not False and value != ""
