"""Tokens and USD of runs before they are started: nothing is sent, locked or written.

Input tokens follow the rule of `costs.estimate_tokens`. The upper bound of the output is the
whole budget of every request. What is expected instead is the mean of the stored responses of
the same benchmark, first of the same model, else of models that think like it or do not;
without any it is 3 times the tokens of the gold and 5 more, and 1,000 more for a model that
thinks before it answers, but never above the budget.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from medhelm.config import Job
from medhelm.costs import estimate_tokens, upper_bound
from medhelm.errors import RecordError
from medhelm.models.access import key_variable
from medhelm.planning import Run, Selection, select
from medhelm.protocols.completion import build_request
from medhelm.records import Plan, find_gradings, order_key, read_record
from medhelm.runlog import ANSWERED, exchange_keys, read_exchanges
from medhelm.schema import Instance, ModelSpec, RunSpec

_GOLD_FACTOR = 3
_OVERHEAD = 5
_THINKING = 1000


class RunEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one benchmark."""

    model: str
    benchmark: str
    data: str
    split: str
    instances: int
    repeats: int
    answered: int
    """Requests that the results folder holds the answers of."""
    to_ask: int
    """Requests that are left; everything below is of these."""
    input_tokens: int
    output_tokens_limit: int
    output_tokens_expected: int
    basis: str
    """What the expected output rests on."""
    usd_limit: float | None
    """None where the price is unknown."""
    usd_expected: float | None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over runs; USD is None where a price that matters is unknown."""

    to_ask: int
    input_tokens: int
    output_tokens_limit: int
    output_tokens_expected: int
    usd_limit: float | None
    usd_expected: float | None
    unpriced: tuple[str, ...]
    """Models without a price that have something left to ask."""


def without_keys(environ: Mapping[str, str], jobs: Iterable[Job]) -> dict[str, str]:
    """Return an environment in which no model lacks its key: nothing is sent, none is needed."""
    names = [name for job in jobs if (name := key_variable(job.model))]
    return {**environ, **dict.fromkeys(names, "not-needed")}


def estimate_runs(runs: Sequence[Run], results: Path) -> list[RunEstimate]:
    """Return the estimate of each run; reads the data, the logs and the summaries."""
    observed = _Observed(results)
    selections: dict[tuple[int, int, int | None], Selection] = {}
    estimates = []
    for run in runs:
        key = (id(run.dataset), run.spec.seed, run.spec.max_instances)
        if key not in selections:
            selections[key] = select(run.dataset, run.spec)
        estimates.append(_estimate(run, selections[key], observed))
    return estimates


def sum_up(estimates: Sequence[RunEstimate]) -> Totals:
    """Return the totals of several runs."""
    asked = [e for e in estimates if e.to_ask]
    unpriced = dict.fromkeys(e.model for e in asked if e.usd_limit is None)
    return Totals(
        to_ask=sum(e.to_ask for e in asked),
        input_tokens=sum(e.input_tokens for e in asked),
        output_tokens_limit=sum(e.output_tokens_limit for e in asked),
        output_tokens_expected=sum(e.output_tokens_expected for e in asked),
        usd_limit=None if unpriced else sum(e.usd_limit or 0.0 for e in asked),
        usd_expected=None if unpriced else sum(e.usd_expected or 0.0 for e in asked),
        unpriced=tuple(unpriced),
    )


class _Observed:
    """Mean output tokens of stored responses, by benchmark and model or kind of model."""

    def __init__(self, results: Path) -> None:
        self._sums: dict[tuple[str, str | bool], list[int]] = defaultdict(lambda: [0, 0])
        seen: set[Path] = set()
        for grading in find_gradings(results):
            run = grading.parent.parent
            if run in seen:
                continue
            try:
                record = read_record(grading)
            except RecordError:
                continue  # an estimate can do without it; `medhelm tables` names it
            seen.add(run)
            spec, known = record.spec, record.usage.requests - record.usage.unknown
            for kind in (spec.model.name, spec.model.reasoning):
                sums = self._sums[spec.benchmark, kind]
                sums[0] += record.usage.output_tokens
                sums[1] += known

    def mean(self, benchmark: str, model: ModelSpec) -> tuple[float, str] | None:
        """Return the mean and what it rests on; None where nothing is stored."""
        kinds = (
            (model.name, "of this model"),
            (model.reasoning, "of other models of its kind"),
        )
        for kind, of in kinds:
            tokens, requests = self._sums.get((benchmark, kind), (0, 0))
            if requests > 0:
                return tokens / requests, f"mean of {requests} stored responses {of}"
        return None


def _estimate(run: Run, selection: Selection, observed: _Observed) -> RunEstimate:
    spec = run.spec
    answered = _answered(run, selection)
    is_embedded = spec.model.provider == "baseline"
    seen = observed.mean(spec.benchmark, spec.model)
    to_ask = tokens_in = 0
    tokens_out = 0.0
    for instance in run.dataset.instances():
        if selection.cut is not None and order_key(spec.seed, instance.id) > selection.cut:
            continue
        left = sum(key not in answered for key in exchange_keys(instance, spec.repeats))
        to_ask += left
        if left and not is_embedded:
            request = build_request(run.benchmark, spec, instance, 0)
            tokens_in += left * estimate_tokens(request.messages)
            tokens_out += left * (seen[0] if seen else _expected(instance, spec))
    limit = 0 if is_embedded else to_ask * spec.max_output_tokens
    expected = min(round(tokens_out), limit)
    free = 0.0 if is_embedded else None
    return RunEstimate(
        model=spec.model.name,
        benchmark=spec.benchmark,
        data=spec.data,
        split=spec.split,
        instances=selection.instances,
        repeats=spec.repeats,
        answered=selection.instances * spec.repeats - to_ask,
        to_ask=to_ask,
        input_tokens=tokens_in,
        output_tokens_limit=limit,
        output_tokens_expected=expected,
        basis="embedded" if is_embedded else seen[1] if seen else "rule",
        usd_limit=upper_bound(tokens_in, limit, spec.model.price) if free is None else free,
        usd_expected=upper_bound(tokens_in, expected, spec.model.price) if free is None else free,
    )


def _expected(instance: Instance, spec: RunSpec) -> int:
    """Return the output tokens of one answer by the rule of the module's docstring."""
    gold = estimate_tokens(", ".join(instance.references))
    thinking = _THINKING if spec.model.reasoning else 0
    return min(spec.max_output_tokens, _OVERHEAD + _GOLD_FACTOR * gold + thinking)


def _answered(run: Run, selection: Selection) -> set[int]:
    """Return the keys of the exchanges that are stored, answered, and part of the plan."""
    plan = Plan(
        spec=run.spec,
        request_hash=run.request_hash,
        instances=selection.instances,
        cut=selection.cut,
    )
    return {
        exchange_keys(exchange.instance, exchange.response.repeat + 1)[-1]
        for exchange in read_exchanges(run.path, plan)
        if exchange.response.finish in ANSWERED
    }
