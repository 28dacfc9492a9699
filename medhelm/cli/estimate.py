"""`medhelm estimate`: what `medhelm run` with the same arguments would cost."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.cli.completion import complete as complete
from medhelm.cli.options import open_registry, print_json, print_rows
from medhelm.runs.estimates import RunEstimate, Totals, add_up, sum_up
from medhelm.runs.estimation import estimate_runs, without_keys
from medhelm.runs.planning import plan_runs
from medhelm.runs.run import Run


def run(args: argparse.Namespace) -> int:
    """Return 0. No key is needed, nothing is sent or written."""
    from medhelm.cli.compose import read_options
    from medhelm.cli.run import jobs_of

    argv = [*(["--config-dir", args.config_dir] if args.config_dir else []), *args.arguments]
    typed = read_options(argv)
    jobs, registry = jobs_of(typed, open_registry(typed.plugins))
    if jobs:
        environ = without_keys(os.environ, jobs, registry)
        planned = plan_runs(jobs, registry, environ, is_sending=False)
        show_estimates(planned.runs, Path(jobs[0].results_dir), args.format, planned.refused)
    return 0


def show_estimates(
    runs: Sequence[Run], results: Path, format: str, refused: Sequence[object] = ()
) -> None:
    """Print what runs are expected to need, and at most."""
    estimates = estimate_runs(runs, results)
    totals = sum_up(estimates)
    if format == "json":
        refusals = [str(refusal) for refusal in refused]
        print_json("estimate", {"runs": estimates, "total": totals, "refused": refusals})
    else:
        _print(estimates, totals)
        if refused:
            print(f"`medhelm run` refuses {len(refused)} of these; the first: {refused[0]}")


def _print(estimates: Sequence[RunEstimate], totals: Totals) -> None:
    columns = {
        "model": [*(e.model for e in estimates), "total"],
        "benchmark": [*(_benchmark(e) for e in estimates), ""],
        "n": [*(f"{e.instances:,}" for e in estimates), ""],
        **_sums(_OF_RUN, [[e] for e in (*estimates, totals)]),
    }
    leaving = ("n", "in", "out max", "out exp.", "to ask")
    print_rows(columns, numbers=tuple(columns)[2:], leaving=leaving)
    if any(e.cast for e in estimates):
        _print_cast(estimates)
    if totals.judge_calls:
        _print_judges(estimates, totals)
    if any(e.jury is not None and not e.judges for e in estimates):
        print(
            "Free text is rated by the offline jury, a stand-in by rule that asks no model; "
            "jury=NAME names judges."
        )
    if totals.batch_usd_expected != totals.total_usd_expected:
        print(
            f"All of it at the usual price: {_usd(totals.total_usd_expected)} USD expected, "
            f"{_usd(totals.total_usd_limit)} at most; in batches (batch=true), which may take a day: "
            f"{_usd(totals.batch_usd_expected)} expected, {_usd(totals.batch_usd_limit)} at most."
        )
    print("in, out: tokens of what is left to ask; exp.: as expected; max: at the output budget.")
    for basis in dict.fromkeys(e.basis for e in estimates if e.to_ask and e.basis != "embedded"):
        print(f"Expected output: {_BASIS.get(basis, basis)}.")
    if answered := sum(e.answered for e in estimates):
        print(f"{answered:,} requests are answered already and not counted.")
    if totals.unpriced:
        names = ", ".join(totals.unpriced)
        asked: list[Any] = [*estimates, *(j for e in estimates for j in e.judges)]
        expected = sum(one.usd_expected or 0.0 for one in asked)
        limit = sum(one.usd_limit or 0.0 for one in asked)
        others = f" All others: {_usd(expected)} USD expected, {_usd(limit)} at most."
        print(
            f"Price unknown: {names}; set model.price (input, output, date)."
            f"{others if limit else ''}"
        )


def _benchmark(e: RunEstimate) -> str:
    return f"{e.benchmark} ({e.variant})" if e.variant else e.benchmark


def _print_cast(estimates: Sequence[RunEstimate]) -> None:
    cast = [role for e in estimates for role in e.cast]
    names = [*dict.fromkeys((r.role, r.model) for r in cast)]
    columns = {
        "role": [role for role, _ in names],
        "model": [model for _, model in names],
        **_sums(_OF_ROLE, [[r for r in cast if (r.role, r.model) == name] for name in names]),
    }
    print()
    leaving = ("calls max", "in exp.", "out exp.", "out max", "calls exp.")
    print_rows(columns, numbers=tuple(_OF_ROLE), leaving=leaving)


def _print_judges(estimates: Sequence[RunEstimate], totals: Totals) -> None:
    """Print one row per judge, summed over the runs, and what answers and judges cost together."""
    judges = [j for e in estimates for j in e.judges if j.calls]
    names = [*dict.fromkeys(j.judge for j in judges)]
    own = [[j for j in judges if j.judge == name] for name in names]
    columns = {"judge": [*names, "total"], **_sums(_OF_JUDGE, [*own, judges])}
    print()
    leaving = ("in max", "in exp.", "out max", "out exp.", "calls")
    print_rows(columns, numbers=tuple(_OF_JUDGE), leaving=leaving)
    print(
        f"Judges: {totals.judge_calls:,} calls for answers that are not rated yet; "
        f"max: {totals.judge_calls_limit:,} calls, each reply at its budget and with every repair."
    )
    if cached := sum(j.cached_tokens_expected for j in judges):
        share = 100 * cached / totals.jury_input_tokens_expected
        print(
            f"{share:.0f} % of the judges' input begins an earlier call, too: "
            f"{_usd(totals.jury_usd_expected_cached)} USD expected where the provider caches it, "
            f"{_usd(totals.jury_usd_expected)} without."
        )
    print(
        f"Answers and judges together: {_usd(totals.total_usd_expected)} USD expected, "
        f"{_usd(totals.total_usd_limit)} at most."
    )


_OF_RUN = {
    "to ask": "to_ask",
    "in": "input_tokens",
    "out exp.": "output_tokens_expected",
    "out max": "output_tokens_limit",
    "USD exp.": "usd_expected",
    "USD max": "usd_limit",
}
_OUTPUT = {heading: _OF_RUN[heading] for heading in ("out exp.", "out max", "USD exp.", "USD max")}
_INPUT = {"in exp.": "input_tokens_expected"}
_OF_ROLE = {"calls exp.": "calls_expected", "calls max": "calls_limit", **_INPUT, **_OUTPUT}
_OF_JUDGE = {"calls": "calls", **_INPUT, "in max": "input_tokens_limit", **_OUTPUT}
"""The field of an estimate below each heading."""


def _sums(fields: Mapping[str, str], rows: Sequence[Sequence[object]]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for heading, name in fields.items():
        values = [[getattr(estimate, name) for estimate in row] for row in rows]
        is_usd = name.startswith("usd")
        columns[heading] = [_usd(add_up(v)) if is_usd else f"{sum(v):,}" for v in values]
    return columns


_BASIS = {
    "rule": "by rule, 3 x the tokens of the gold + 5, or 500 for an answer that criteria grade without a gold, "
    "or of several turns what the protocol expects of each reply, and 1,000 for a model that thinks"
}


def _usd(value: float | None) -> str:
    return "price unknown" if value is None else f"{value:,.4f}"
