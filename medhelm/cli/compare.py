"""`medhelm compare A B`: two models on the same instances, paired; `--scorer`: another tool's scores and ours."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.cli.tables import chosen_format, emit, load, settings
from medhelm.errors import UsageError


def run(args: argparse.Namespace) -> int:
    """Print the comparison and return the exit code."""
    form = chosen_format(args.format, args.out)
    if args.scorer:
        from medhelm.tables.others.scorers import scorers

        models = [args.a] if args.a else []
        table = scorers(Path(args.results_dir), args.scoring, args.benchmark, models)
        emit([table], form, args.out)
        return 0
    if args.b is None:
        raise UsageError("compare takes two models, or --scorer theirs,ours")
    chosen = settings(args, reduce=args.reduce)
    results = load(args, args.benchmark, [args.a, args.b])
    emit([results.comparison(args.a, args.b, chosen)], form, args.out)
    return 0
