"""`medhelm gold-quality`: which golds of a benchmark a judge finds unreasonable."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from medhelm.cli.model_calls import ask, environ_of, show_estimate
from medhelm.cli.options import data_folder, open_registry, print_json, print_rows
from medhelm.data.dataset import open_dataset
from medhelm.errors import UsageError
from medhelm.models.catalogue import find_model
from medhelm.proof.gold_quality import CONFIDENCE, GoldReport, GoldReview


def run(args: argparse.Namespace) -> int:
    """Return 0; what was judged before is not asked again."""
    registry = open_registry(args.plugin)
    benchmark = registry.benchmark(args.benchmark)
    if not args.judge:
        raise UsageError(
            "gold-quality: no judge is named; add --judge MODEL (`medhelm list models`), "
            "for example --judge openai/gpt-4o-mini"
        )
    judge = find_model(args.judge, registry.models)
    if args.split and args.data == "sample":
        raise UsageError("--split is of the full data; leave it out with --data sample")
    dataset = open_dataset(benchmark, args.data, split=args.split, root=data_folder(args))
    review = GoldReview(dataset, judge, Path(args.results_dir), args.max_instances)
    planned = review.run(environ_of(args))
    if args.estimate:
        return show_estimate([planned], args)
    asked = ask([planned], args)
    asked.raise_worst()
    report, spent = review.report(), asked.ledger.spent_tokens
    if args.format == "json":
        content = msgspec.to_builtins(report)
        print_json("gold-quality", content | {"tokens": spent})
    else:
        _print(report, spent)
    return 0


def _print(report: GoldReport, tokens: int) -> None:
    print(f"{report.benchmark} ({report.data}): golds marked by {report.judge}")
    share = "no share" if report.share is None else f"{report.share:.1%}"
    if report.low is not None and report.high is not None:
        share += f" [{report.low:.1%}, {report.high:.1%}] at {CONFIDENCE:.0%}"
    print(f"unreasonable: {report.flagged} of {report.judged} judged, {share}")
    if report.abstained:
        why = ", ".join(f"{n} {reason}" for reason, n in sorted(report.abstained.items()))
        print(f"no verdict: {sum(report.abstained.values())} of {report.golds} ({why})")
    if report.without_gold:
        print(f"without a gold: {report.without_gold}")
    if report.models:
        _print_models(report)
    else:
        print("no graded run of this benchmark on these data, so no scores to compare")
    for note in report.notes:
        print(note)
    print(f"tokens of this command: {tokens:,}; judgements: {report.folder}")


def _print_models(report: GoldReport) -> None:
    models = report.models
    columns = {
        f"mean {report.metric}": [m.model for m in models],
        "flagged": [_number(m.flagged) for m in models],
        "flagged n": [str(m.flagged_n) for m in models],
        "accepted": [_number(m.accepted) for m in models],
        "accepted n": [str(m.accepted_n) for m in models],
        "rank": ["not ranked" if m.rank is None else str(m.rank) for m in models],
        "rank without flagged": [
            "" if m.rank_without_flagged is None else str(m.rank_without_flagged) for m in models
        ],
    }
    numbers = tuple(columns)[1:]
    print_rows(columns, numbers=numbers, leaving=("flagged n", "accepted n", "rank"))
    tau = "undefined" if report.tau is None else f"{report.tau:.3f}"
    print(
        f"Kendall's tau of the ranks: {tau} ({report.compared} instances in common, "
        f"{report.compared_flagged} of them flagged)"
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"
