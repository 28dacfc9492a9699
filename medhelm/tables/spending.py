"""Tokens and USD of runs and of the judges that rated them: per run, summed, and as the cost table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from medhelm.models.costs import upper_bound, usd
from medhelm.models.identity import reads_prompt
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import Party, RunRecord, UsageTotals
from medhelm.tables import notes
from medhelm.tables.columns import COST
from medhelm.tables.format.column_kinds import count, number
from medhelm.tables.format.table import Column, Layout, Row, Table, make_table
from medhelm.tables.study.study import Study

_WITH_JURY = tuple(f"{p}_cost{u}_usd" for p in ("jury", "total") for u in ("", "_upper"))
"""Columns of the cost table that are shown where judges were asked, and only there."""

_LAYOUT = Layout(
    leaving=(
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
    main=("cost_usd", "cost_upper_usd"),
    missing={"model": "all models"},
)


@dataclass(frozen=True)
class Spend:
    """Sums the payments in USD. It is None where the price or the usage is unknown."""

    actual: float | None
    upper: float | None
    """Input as counted, every answer at its output limit, no discount for cached input."""


_UNKNOWN = Spend(None, None)


def spend(record: RunRecord) -> Spend:
    """Return the cost of a run's answers at the price in its model's settings.

    Requests whose usage is unknown are not in it (tables count them). Where no usage is known at
    all there is no cost.
    """
    return spend_of(record.spec.model, record.own.usage)


def _asked(record: RunRecord) -> list[Party]:
    """Return the judges of a run that were sent anything."""
    return [p for p in record.graders if _is_sent(p.usage)]


def _is_sent(usage: UsageTotals) -> bool:
    return bool(usage.requests or usage.lost)


def spend_of(model: ModelSpec, usage: UsageTotals) -> Spend:
    """Return what a model's usage cost; unknown without a price, or where no usage is known."""
    price = model.price
    if price is None or (usage.requests and usage.unknown >= usage.requests):
        return _UNKNOWN
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


def jury_usage(records: Sequence[RunRecord]) -> Row:
    """Return what the judges of some runs used, under the columns' names; empty where none was asked."""
    asked = [t.usage for r in records for t in _asked(r)]
    columns = usage_columns(add_usage(asked)) if asked else {}
    return {f"jury_{name}": value for name, value in columns.items()}


def roles_of(records: Sequence[RunRecord]) -> list[str]:
    """Return the roles of casts that occur, in their order."""
    return list(dict.fromkeys(party.role for r in records for party in r.others))


def role_columns(roles: Sequence[str]) -> list[Column]:
    """Return the columns of roles in the cost table, beside those of the model under test."""
    found = []
    for role in roles:
        name = f"the models in the role {role}"
        found += [
            count(f"{role}_requests", f"answered requests of {name}"),
            count(f"{role}_input_tokens", f"input tokens of {name}", f"{role} in", "tokens"),
            count(f"{role}_output_tokens", f"output tokens of {name}", f"{role} out", "tokens"),
            count(f"{role}_usage_unknown", f"answered requests of {name} without usage"),
            number(f"{role}_cost_usd", f"actual cost of {name}", "USD", f"{role} USD"),
            number(f"{role}_cost_upper_usd", f"upper bound for {name}", "USD"),
        ]
    return found


def _role_sums(records: Sequence[RunRecord]) -> Row:
    row: Row = {}
    for role in roles_of(records):
        parties = [p for r in records for p in r.others if p.role == role]
        usage = add_usage([p.usage for p in parties])
        paid = add_spends([spend_of(p.model, p.usage) for p in parties])
        row |= {
            f"{role}_requests": usage.requests,
            f"{role}_input_tokens": usage.input_tokens,
            f"{role}_output_tokens": usage.output_tokens,
            f"{role}_usage_unknown": usage.unknown,
            f"{role}_cost_usd": paid.actual,
            f"{role}_cost_upper_usd": paid.upper,
        }
    return row


def cost_columns(records: Sequence[RunRecord]) -> Row:
    """Return the USD of some runs: answers, judges, and these and other roles together.

    A baseline, which is sent nothing and has no price, costs nothing beside what was sent.
    """
    sent = [spend(r) for r in records if _is_sent(r.own.usage)]
    judges = [spend_of(p.model, p.usage) for r in records for p in _asked(r)]
    nothing = [spend(r) for r in records]
    cast = [spend_of(p.model, p.usage) for r in records for p in r.others if _is_sent(p.usage)]
    own, judged = add_spends(sent or nothing), add_spends(judges)
    total = add_spends([*sent, *cast, *judges] or nothing)
    return {
        "cost_usd": own.actual,
        "cost_upper_usd": own.upper,
        "jury_cost_usd": judged.actual,
        "jury_cost_upper_usd": judged.upper,
        "total_cost_usd": total.actual,
        "total_cost_upper_usd": total.upper,
    }


def _sums(records: Sequence[RunRecord]) -> Row:
    return {
        "runs": len(records),
        **usage_columns(add_usage([r.own.usage for r in records])),
        **_role_sums(records),
        **jury_usage(records),
        **cost_columns(records),
    }


def cost(study: Study) -> Table:
    """Return tokens and USD summed over a model's runs in the table, and over all models."""
    rows, paid = [], []
    for model in study.models:
        records = [c[model].record for c in study.cells.values() if model in c]
        spec = records[0].spec.model
        row: Row = {
            "level": "model",
            "model": model,
            "weights": spec.weights,
            "context_window": spec.context_window,
            **_sums(records),
        }
        if spec.price is not None:
            row |= {f"price_{f}": getattr(spec.price, f) for f in ("input", "cached", "output")}
            row["price_date"] = spec.price.date
        rows.append(row)
        paid += records
    if len(rows) > 1:
        rows.append({"level": "all", **_sums(paid)})
    known = [
        "The upper bound takes each answer at its output limit, as in the MedHELM paper; a cost is "
        "missing where the price is unknown.",
        *_unpriced(paid),
    ]
    return make_table(
        "cost",
        "Tokens and cost of the benchmark runs",
        [*COST, *role_columns(roles_of(paid))],
        rows,
        [*notes.common(study), *known],
        notes.settings(study),
        layout=_layout(rows),
    )


def _layout(rows: Sequence[Row]) -> Layout:
    """Return the layout that shows the costs of judges where some were asked, and only there."""
    if any(row.get("jury_requests") is not None for row in rows):
        return replace(_LAYOUT, always=(*_LAYOUT.main, *_WITH_JURY))
    return replace(_LAYOUT, always=_LAYOUT.main, hidden=_WITH_JURY)


def _unpriced(records: Sequence[RunRecord]) -> list[str]:
    """Return notes on judges and other roles that were asked and whose price is unknown."""
    judges = {p.model.name for r in records for p in _asked(r) if p.model.price is None}
    cast = {
        p.model.name
        for r in records
        for p in r.others
        if p.model.price is None and reads_prompt(p.model)
    }
    named = (("Judges", judges), ("Models of other roles", cast))
    return [f"{who} of unknown price: {', '.join(sorted(names))}." for who, names in named if names]
