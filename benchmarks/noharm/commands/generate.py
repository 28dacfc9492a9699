"""`medhelm generate noharm`: cases for action-level safety, written from a guideline."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from medhelm import UsageError
from medhelm.plugin import estimate_tokens, model_calls, options
from medhelm_benchmarks.noharm.generation.conduct import (
    Series,
    case_ends,
    counts,
    evaluated_here,
    series_run,
    write_products,
)
from medhelm_benchmarks.noharm.generation.guideline import most_settings, read_guideline
from medhelm_benchmarks.noharm.generation.stages import STAGES

_MOST = 999
_UNVALIDATED = "The ratings are synthetic; no clinician has validated them."
UNJUDGED = (
    "No judge was asked whether a patient's text advises (--judge): copied words, limits and the "
    "guideline's name alone were looked for, which find 13 of 55 texts that were written to advise."
)


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 where a request of a case failed or no case was made; else raise what stopped it."""
    series = _series(args)
    _check_count(args.n, most_settings(series.guideline.passages))
    results = Path(args.results_dir)
    folder = Path(args.out) if args.out else results / "generated" / series.prefix
    environ = model_calls.environ_of(args)
    own = series_run(series, args.n, folder, args.guideline_class, environ)
    if args.estimate:
        return model_calls.show_estimate([own], args)
    _check_windows(series, args.guideline)
    for name in evaluated_here(results, series.made_by):
        _say(
            f"warning: {name} is evaluated in {results}, too: scores on cases that a model wrote "
            "or rated itself say little"
        )
    asked = model_calls.ask([own], args)
    ends = case_ends(folder)
    write_products(folder, ends)
    found, cases = counts(ends, args.n), folder / "cases.jsonl"
    shown = [
        {"code": e.code, "status": e.status, "stage": e.stage, "reasons": e.shown_reasons}
        for e in ends
    ]
    if args.format == "json":
        values = {"cases": str(cases), "counts": found, "ends": shown, "made_by": series.made_by}
        spent = {"tokens_of_this_command": asked.ledger.spent_tokens, "note": _UNVALIDATED}
        options.print_json("generate", values | spent)
    else:
        _print(series, found, cases)
    for end in ends:
        if end.status != "made":
            said = "; ".join(end.shown_reasons)[:100]
            _say(f"{end.code} {end.status} ({end.stage}: {said})")
    if args.guideline_class != "public":
        _say(
            f"warning: the cases quote a {args.guideline_class} guideline, and benchmark noharm "
            "counts its data as public; to evaluate on them, give them a plugin of their own with "
            f'data_class="{args.guideline_class}"'
        )
    asked.raise_worst("the same command")
    return int(found["failed"] > 0 or not found["made"])


def _say(text: str) -> None:
    print(f"medhelm: {text}", file=sys.stderr, flush=True)


def _print(series: Series, found: dict[str, int], cases: Path) -> None:
    print(", ".join(f"{n} {status}" for status, n in found.items() if n or status == "made"))
    if found["discarded"]:
        print(f"discarded, with the reasons: {cases.with_name('discarded.jsonl')}")
    if found["failed"] or found["not finished"]:
        print("the same command goes on with those that failed or are not finished")
    if found["made"]:
        print(f"cases: {cases}")
        print(_UNVALIDATED)
        print(f"Do not evaluate on them who made them: {', '.join(series.made_by)}.")
        print(f"Next: medhelm qc noharm {cases}")
    if series.judge is None:
        print(UNJUDGED)


def _series(args: argparse.Namespace) -> Series:
    for name in ("guideline", "specialty", "model"):
        if not getattr(args, name):
            raise UsageError(
                f"generate: --{name} is missing, as in `medhelm generate noharm --guideline "
                "acs.md --specialty Cardiology --n 10 --model openai/gpt-4o`"
            )
    if len(args.raters) not in (0, 1, 3):
        raise UsageError(f"--raters takes one model or three, not {len(args.raters)}")
    path = Path(args.guideline)
    guideline = read_guideline(path, args.guideline_name)
    names = (args.model, *(args.raters or [args.model]), args.judge or args.model)
    generator, *raters, judge = options.find_models(names, args.plugin)
    first, second, third = raters if len(raters) == 3 else raters * 3
    return Series(
        prefix=f"NOHARM-{_letters(args.specialty)}-{_topic(args.topic, path)}",
        specialty=" ".join(args.specialty.split()),
        guideline=guideline,
        generator=generator,
        raters=(first, second, third),
        judge=judge if args.judge else None,
        seed=args.seed,
    )


def _letters(specialty: str) -> str:
    letters = re.sub("[^A-Z]", "", specialty.upper())[:4]
    if len(letters) < 2:
        raise UsageError(f"--specialty {specialty!r} has fewer than two letters from A to Z")
    return letters


def _topic(given: str | None, path: Path) -> str:
    topic = re.sub("[^A-Z0-9]", "", (given or path.stem).upper())
    if given and topic != given.upper() or not 2 <= len(topic) <= 8:
        if given or len(topic) < 2:
            what = f"--topic {given!r}" if given else f"the name of {path}"
            raise UsageError(f"{what} makes no topic: give 2 to 8 letters or digits with --topic")
        topic = topic[:8]
    return topic


def _check_count(n: int, most: int) -> None:
    if n > _MOST:
        raise UsageError(f"--n {n}: a series has {_MOST} cases at most; take another --topic")
    if n > most:
        raise UsageError(
            f"--n {n}: a guideline of this length makes {most} different patients at most"
        )


def _check_windows(series: Series, path: str) -> None:
    for model in series.players.values():
        window, budget = model.context_window, STAGES["rating"].budget_of(model)
        needed = estimate_tokens(series.guideline.text) + 4_000 + budget  # letter, menu, our words
        if window is not None and needed > window:
            raise UsageError(
                f"--guideline {path}: about {needed:,} tokens with letter, menu and reply exceed the "
                f"window of {model.name} ({window:,}); give the chapters that matter, or a smaller "
                "max_output_tokens in the model's file"
            )
