"""Tokens and USD of runs: per run, summed, and as the cost table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.costs import upper_bound, usd
from medhelm.schema import RunRecord, UsageTotals
from medhelm.tables import notes
from medhelm.tables.columns import COST
from medhelm.tables.study import Study
from medhelm.tables.table import Row, Table, make_table


@dataclass(frozen=True)
class Spend:
    """What a run cost in USD; None where the price or the usage is unknown."""

    actual: float | None
    upper: float | None
    """Input as counted, every answer at its output limit, no discount for cached input."""


def spend(record: RunRecord) -> Spend:
    """Return the cost of a run at the price in its model's settings.

    Requests whose usage is unknown are not in it (tables count them); where no usage is known at
    all there is no cost.
    """
    price, usage = record.spec.model.price, record.usage
    if price is None or (usage.requests and usage.unknown >= usage.requests):
        return Spend(None, None)
    actual = usd(price, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    return Spend(actual, upper_bound(usage.input_tokens, usage.output_limit_tokens, price))


def add_usage(several: Sequence[UsageTotals]) -> UsageTotals:
    """Return the sums over runs."""
    return UsageTotals(
        **{f: sum(getattr(u, f) for u in several) for f in UsageTotals.__struct_fields__}
    )


def add_spends(several: Sequence[Spend]) -> Spend:
    """Return the sums; None where any part is unknown."""
    actual = [s.actual for s in several if s.actual is not None]
    upper = [s.upper for s in several if s.upper is not None]
    return Spend(
        sum(actual) if several and len(actual) == len(several) else None,
        sum(upper) if several and len(upper) == len(several) else None,
    )


def usage_columns(usage: UsageTotals) -> Row:
    """Return the usage under the names of the tables' columns."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "output_limit_tokens": usage.output_limit_tokens,
        "usage_unknown": usage.unknown,
        "requests_lost": usage.lost,
    }


def cost(study: Study) -> Table:
    """Return one row per model: tokens and USD summed over its runs in the table."""
    rows = []
    for model in study.models:
        records = [c[model].record for c in study.cells.values() if model in c]
        spec = records[0].spec.model
        summed = add_spends([spend(r) for r in records])
        row: Row = {
            "model": model,
            "weights": spec.weights,
            "context_window": spec.context_window,
            "runs": len(records),
            **usage_columns(add_usage([r.usage for r in records])),
            "cost_usd": summed.actual,
            "cost_upper_usd": summed.upper,
        }
        if spec.price is not None:
            row |= {f"price_{f}": getattr(spec.price, f) for f in ("input", "cached", "output")}
            row["price_date"] = spec.price.date
        rows.append(row)
    known = [
        "The upper bound takes each answer at its output limit, as in the MedHELM paper; a cost is "
        "missing where the price is unknown.",
    ]
    return make_table(
        "cost",
        "Tokens and cost of the benchmark runs",
        COST,
        rows,
        [*notes.common(study), *known],
        notes.settings(study),
    )
