"""`medhelm generate noharm`: cases for action-level safety, written from a guideline."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from medhelm.cli.options import add_format, add_plugins, open_registry, print_json, print_rows
from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import PrivacyRefused, UsageError
from medhelm.models import ModelPool, check_model, privacy
from medhelm.models.catalogue import find_model
from medhelm.models.costs import Ledger
from medhelm.models.identity import reads_prompt
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.registry import Registry
from medhelm.schema.data import DataClass
from medhelm.schema.model import ModelSpec
from medhelm_benchmarks.noharm.generation.folder import (
    SeriesEnd,
    StageUse,
    evaluated_here,
    run_series,
    stage_uses,
)
from medhelm_benchmarks.noharm.generation.forecast import Forecast, forecast
from medhelm_benchmarks.noharm.generation.guideline import Guideline, read_guideline
from medhelm_benchmarks.noharm.generation.pipeline import CaseEnd, Series, stage_budget
from medhelm_benchmarks.noharm.generation.settings import most_settings

_MOST = 999
_UNVALIDATED = "The ratings are synthetic; no clinician has validated them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "--guideline", metavar="FILE", help="text or Markdown; its first line is name and year"
    )
    parser.add_argument(
        "--guideline-name", metavar="NAME", default="", help="name and year, if the file has none"
    )
    parser.add_argument(
        "--guideline-class",
        choices=("public", "gated", "private"),
        default="public",
        help="who may read it (default: public): a private one goes to local models only",
    )
    parser.add_argument("--specialty", metavar="S", help="for example Cardiology")
    parser.add_argument(
        "--topic", metavar="ABC", help="2 to 8 letters or digits for the codes (default: the file)"
    )
    parser.add_argument("--n", type=_count, default=10, metavar="N", help="cases (default: 10)")
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="who writes: a name (`medhelm list models`) or a file of your own, FILE.yaml",
    )
    parser.add_argument(
        "--raters",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="one for all three sheets, or three: specialist, specialist, generalist "
        "(default: the writer)",
    )
    parser.add_argument(
        "--estimate", action="store_true", help="tokens and USD of the series, and ask nothing"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the series (default: below --results-dir)"
    )
    parser.add_argument(
        "--results-dir",
        metavar="DIR",
        default=DEFAULT_RESULTS,
        help="results in which models are looked for that are evaluated, too (default: %(default)s)",
    )
    parser.add_argument("--budget-usd", type=float, metavar="USD", help="cap for this command")
    parser.add_argument("--budget-tokens", type=_count, metavar="N", help="cap on tokens")
    add_plugins(parser)
    add_format(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 where a request of a case failed or no case was made; else what stopped it."""
    series = _series(args, open_registry(args.plugin))
    if args.n > _MOST:
        raise UsageError(f"--n {args.n}: a series has {_MOST} cases at most; take another --topic")
    if args.n > (most := most_settings(series.guideline.passages)):
        raise UsageError(
            f"--n {args.n}: a guideline of this length makes {most} different patients at most"
        )
    models = _models(series)
    if args.estimate:  # needs no key
        return _show_forecast(forecast(series, args.n), args)
    for model in models:
        _check(model, series.guideline, args)
    ledger = Ledger(args.budget_usd, args.budget_tokens)
    ledger.check(models)
    results = Path(args.results_dir)
    folder = Path(args.out) if args.out else results / "generated" / series.prefix
    display = _Display(args.n)
    for name in evaluated_here(results, series.made_by):
        display.say(
            f"warning: {name} is evaluated in {results}, too: scores on cases that a model wrote "
            "or rated itself say little"
        )
    end = asyncio.run(_make(series, args.n, folder, ledger, display))
    uses = stage_uses(folder, models)
    if args.format == "json":
        _print_json(series, end, uses, ledger)
    else:
        _print(series, end, uses, ledger)
    if args.guideline_class != "public":
        display.say(
            f"warning: the cases quote a {args.guideline_class} guideline, and benchmark noharm "
            "counts its data as public; to evaluate on them, give them a plugin of their own with "
            f'data_class="{args.guideline_class}"'
        )
    if end.stopped is not None:
        raise end.stopped
    counts = _counts(end)
    return int(counts["failed"] > 0 or not counts["made"])


async def _make(
    series: Series, n: int, folder: Path, ledger: Ledger, display: _Display
) -> SeriesEnd:
    pool = ModelPool(os.environ)
    try:
        return await run_series(series, n, folder, pool, ledger, display.done, display.say)
    finally:
        await pool.close()


def _series(args: argparse.Namespace, registry: Registry) -> Series:
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
    generator = find_model(args.model, registry.models)
    raters = [find_model(name, registry.models) for name in args.raters] or [generator]
    first, second, third = raters if len(raters) == 3 else raters * 3
    return Series(
        prefix=f"NOHARM-{_letters(args.specialty)}-{_topic(args.topic, path)}",
        specialty=" ".join(args.specialty.split()),
        guideline=guideline,
        generator=generator,
        raters=(first, second, third),
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


def _models(series: Series) -> list[ModelSpec]:
    """Return the models, each once. Raises UsageError for those that cannot write or share a name."""
    found: dict[str, ModelSpec] = {}
    for model in (series.generator, *series.raters):
        if found.setdefault(model.name, model) != model:
            raise UsageError(
                f"two different models are called {model.name!r}; give each file a `name` of its own"
            )
        if not reads_prompt(model):
            raise UsageError(f"{model.name} is a rule and writes nothing; name a language model")
        if model.system_prompt:
            raise UsageError(
                f"{model.name} has a system prompt, in whose place the stages have their own; "
                "leave it out"
            )
    return list(found.values())


def _check(model: ModelSpec, guideline: Guideline, args: argparse.Namespace) -> None:
    data_class: DataClass = args.guideline_class
    try:
        privacy.check("guideline", data_class, model.name, model.endpoint_class)
    except PrivacyRefused:
        allowed = " or ".join(privacy.POLICY[data_class])
        raise PrivacyRefused(
            f"--guideline-class {data_class}: model {model.name!r} is {model.endpoint_class}; "
            f"name one whose endpoint_class is {allowed}"
        ) from None
    check_model(model, os.environ)
    window, budget = model.context_window, stage_budget(model, "rating")
    needed = estimate_tokens(guideline.text) + 4_000 + budget  # the letter, the menu, our words
    if window is not None and needed > window:
        raise UsageError(
            f"--guideline {args.guideline}: about {needed:,} tokens with letter, menu and reply "
            f"exceed the window of {model.name} ({window:,}); give the chapters that matter, or a "
            "smaller max_output_tokens in the model's file"
        )


class _Display:
    """A line on stderr now and then."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._counts: Counter[str] = Counter()

    def done(self, end: CaseEnd) -> None:
        """Say how a case ended."""
        self._counts[end.status] += 1
        where = f" ({end.stage}: {end.shown_reasons[0][:100]})" if end.reasons else ""
        self.say(f"{end.code} {end.status}{where}; {self._counts.total()} of {self._total}")

    def say(self, text: str) -> None:
        """Show one line."""
        print(f"medhelm: {text}", file=sys.stderr, flush=True)


def _counts(end: SeriesEnd) -> dict[str, int]:
    found = Counter(e.status for e in end.ends)
    return {status: found[status] for status in ("made", "discarded", "failed", "not finished")}


def _print_json(series: Series, end: SeriesEnd, uses: Sequence[StageUse], ledger: Ledger) -> None:
    print_json(
        "generate",
        {
            "cases": str(end.cases_path),
            "counts": _counts(end),
            "ends": [
                {"code": e.code, "status": e.status, "stage": e.stage, "reasons": e.shown_reasons}
                for e in end.ends
            ],
            "made_by": series.made_by,
            "stages": [dataclasses.asdict(use) for use in uses],
            "tokens_of_this_command": ledger.spent_tokens,
            "mended_lines": end.mended,
            "note": _UNVALIDATED,
        },
    )


def _print(series: Series, end: SeriesEnd, uses: Sequence[StageUse], ledger: Ledger) -> None:
    counts = _counts(end)
    print(", ".join(f"{n} {status}" for status, n in counts.items() if n or status == "made"))
    if end.mended:
        print(
            f"{end.mended} torn or damaged line(s) of calls.jsonl were left out, and replies in "
            "them asked again"
        )
    _print_stages(uses)
    print(f"tokens of this command: {ledger.spent_tokens:,}")
    if counts["made"]:
        print(f"cases: {end.cases_path}")
    if counts["discarded"]:
        print(f"discarded, with the reasons: {end.folder / 'discarded.jsonl'}")
    if counts["failed"] or counts["not finished"]:
        print("the same command goes on with those that failed or are not finished")
    if counts["made"]:
        print(_UNVALIDATED)
        print(f"Do not evaluate on them who made them: {', '.join(series.made_by)}.")
        print(f"Next: medhelm qc noharm {end.cases_path}")


def _show_forecast(stages: Sequence[Forecast], args: argparse.Namespace) -> int:
    if args.format == "json":
        print_json("generate-estimate", {"stages": [dataclasses.asdict(s) for s in stages]})
        return 0
    columns = {
        "stage": [s.stage for s in stages],
        "model": [s.model for s in stages],
        "requests": [f"{s.requests:,}" for s in stages],
        "tokens in": [f"{s.input_expected:,}" for s in stages],
        "out": [f"{s.output_expected:,}" for s in stages],
        "USD": [_usd(s.usd_expected) for s in stages],
        "at most in": [f"{s.input_limit:,}" for s in stages],
        "at most out": [f"{s.output_limit:,}" for s in stages],
        "at most USD": [_usd(s.usd_limit) for s in stages],
    }
    leaving = ("at most in", "at most out", "tokens in", "out")
    print_rows(columns, numbers=tuple(columns)[2:], leaving=leaving)
    for what, each in (
        ("expected", [s.usd_expected for s in stages]),
        ("at most", [s.usd_limit for s in stages]),
    ):
        known = [usd for usd in each if usd is not None]
        total = (
            f"{sum(known):.2f} USD" if len(known) == len(each) else "unknown: a price is missing"
        )
        print(f"{what}: {total}")
    print(
        "At most: every reply fills its budget and is asked for twice again, quotes once in all. Nothing was asked."
    )
    return 0


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _print_stages(uses: Sequence[StageUse]) -> None:
    columns = {
        "stage": [use.stage for use in uses],
        "model": [use.model for use in uses],
        "requests": [
            f"{use.requests:,}{f' (+{use.lost} lost)' if use.lost else ''}" for use in uses
        ],
        "repairs": [f"{use.repairs:,}" for use in uses],
        "failed": [f"{use.failed:,}" for use in uses],
        "tokens in": [
            f"{use.input_tokens:,}{f' (+{use.unknown} unknown)' if use.unknown else ''}"
            for use in uses
        ],
        "out": [f"{use.output_tokens:,}" for use in uses],
        "USD": [_usd(use.usd) for use in uses],
    }
    leaving = ("repairs", "tokens in", "out", "failed")
    print_rows(columns, numbers=tuple(columns)[2:], leaving=leaving)
