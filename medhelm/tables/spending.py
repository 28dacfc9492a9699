"""Tokens and USD of runs and of the judges that rated them: per run, summed, and as the cost table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from medhelm.models.costs import batch_price, upper_bound, usd
from medhelm.models.identity import reads_prompt
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import Party, RunRecord, UsageTotals
from medhelm.tables.format.column_kinds import declared, form
from medhelm.tables.format.table import Column, Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Study

COSTS = declared(__file__, "usd")
_TOKENS = declared(__file__, "tokens")
_JURY_TOKENS = tuple(
    replace(
        c,
        name=f"jury_{c.name}",
        description=f"of the judges, repairs included: {c.description}",
        heading={"input": "jury in", "output": "jury out"}.get(c.heading, ""),
        is_default=False,
    )
    for c in _TOKENS
)
USAGE = (*_TOKENS, *_JURY_TOKENS)
_OF_ROLES = ("requests", "input_tokens", "output_tokens", "usage_unknown")


def without_headings(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns that are shown on request only."""
    return tuple(replace(c, heading="", is_main=False) for c in columns)


COST = form(__file__, "cost", usage=USAGE, upper_costs=COSTS[1::2], costs=COSTS[::2])


@dataclass(frozen=True)
class Spend:
    """Payments in USD, summed. None where the price or the usage is unknown."""

    actual: float | None
    upper: float | None
    """Input as counted, every answer at its output limit, no discount for cached input."""

    def columns(self, of: str = "") -> Row:
        """Return them under the names of the tables' columns, which begin with whose they are."""
        return {f"{of}cost_usd": self.actual, f"{of}cost_upper_usd": self.upper}


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
        return Spend(None, None)
    batch = usage.batch_input_tokens, usage.batch_cached_tokens, usage.batch_output_tokens
    actual = usd(price, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    actual += usd(batch_price(price), *batch) - usd(price, *batch)
    return Spend(actual, upper_bound(usage.input_tokens, usage.output_limit_tokens, price))


def add_usage(several: Sequence[UsageTotals]) -> UsageTotals:
    """Return the sums over runs."""
    return UsageTotals(
        **{f: sum(getattr(u, f) for u in several) for f in UsageTotals.__struct_fields__}
    )


def add_spends(several: Sequence[Spend]) -> Spend:
    """Return the sums; None where any part is unknown."""
    return Spend(_sum([s.actual for s in several]), _sum([s.upper for s in several]))


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


def usage_columns(usage: UsageTotals) -> Row:
    """Return the usage under the names of the tables' columns."""
    own = msgspec.structs.asdict(usage)
    return own | {"usage_unknown": own.pop("unknown"), "requests_lost": own.pop("lost")}


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
    words = ("name", "description", "heading")
    return [
        replace(c, **{word: getattr(c, word).format(role=role) for word in words})
        for role in roles
        for c in declared(__file__, "role")
    ]


def _role_sums(records: Sequence[RunRecord]) -> Row:
    row: Row = {}
    for role in roles_of(records):
        parties = [p for r in records for p in r.others if p.role == role]
        usage = usage_columns(add_usage([p.usage for p in parties]))
        paid = add_spends([spend_of(p.model, p.usage) for p in parties])
        row |= {f"{role}_{name}": usage[name] for name in _OF_ROLES} | paid.columns(f"{role}_")
    return row


def cost_columns(records: Sequence[RunRecord]) -> Row:
    """Return the USD of some runs: answers, judges, and these and other roles together.

    A baseline, which is sent nothing and has no price, costs nothing beside what was sent.
    """
    sent = [spend(r) for r in records if _is_sent(r.own.usage)]
    judges = [spend_of(p.model, p.usage) for r in records for p in _asked(r)]
    nothing = [spend(r) for r in records]
    cast = [spend_of(p.model, p.usage) for r in records for p in r.others if _is_sent(p.usage)]
    return {
        **add_spends(sent or nothing).columns(),
        **add_spends(judges).columns("jury_"),
        **add_spends([*sent, *cast, *judges] or nothing).columns("total_"),
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
    has_judges = any(row.get("jury_requests") is not None for row in rows)
    columns = (*_costs_shown(has_judges), *role_columns(roles_of(paid)))
    return study_table(study, replace(COST, columns=columns), rows, _unpriced(paid))


def _costs_shown(has_judges: bool) -> list[Column]:
    """Return the columns, those of judges' and total costs shown where judges were asked, and only there."""
    return [
        replace(c, is_main=has_judges, heading=c.heading * has_judges)
        if c.name.startswith(("jury_cost", "total_cost"))
        else c
        for c in COST.columns
    ]


def _unpriced(records: Sequence[RunRecord]) -> list[str]:
    """Return notes on judges and other roles that were asked and whose price is unknown."""
    judges = {p.model.name for r in records for p in _asked(r) if p.model.price is None}
    cast = {
        p.model.name
        for r in records
        for p in r.others
        if p.model.price is None and reads_prompt(p.model)
    }
    return COST.say(judges=", ".join(sorted(judges)), cast=", ".join(sorted(cast)))
