"""`medhelm curate DIR`: cases of encounters from teaching packets."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from medhelm import ModelSpec, Response
from medhelm.cli.options import add_format, add_plugins, open_registry, print_json, print_rows
from medhelm.errors import PrivacyRefused, UsageError
from medhelm.models import ModelPool, check_model, privacy
from medhelm.models.catalogue import find_model
from medhelm.models.costs import Ledger, cost, usd
from medhelm.models.identity import reads_prompt
from medhelm.models.tokens import estimate_tokens
from medhelm.schema.data import DataClass
from medhelm_benchmarks.encounters.curation.folder import CurationEnd, Ended, curate
from medhelm_benchmarks.encounters.curation.pipeline import REPAIRS, Curation, budget_of
from medhelm_benchmarks.encounters.curation.sources import Article, find_articles, read_article
from medhelm_benchmarks.encounters.data.cases import CASES

_CALLS = (("triage", 1.0), ("partition", 1.0), ("audit", 1.0), ("rubric", 0.4), ("leaks", 0.4))
"""The phases, and the share of an article that each is sent."""
_SCENARIOS = 3
"""Scenarios that an article is expected to have: the paper's 613 have 1,638."""
_OWN_WORDS = 900
"""Tokens of a prompt besides the article."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "dir",
        metavar="DIR",
        help="files of one article, or a folder of articles: .md .txt as they are, .docx .pptx .xlsx "
        ".pdf .html by markitdown",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="who curates: a name (`medhelm list models`) or a file of your own, FILE.yaml",
    )
    parser.add_argument(
        "--judge", metavar="MODEL", help="who looks for leaks (default: who curates)"
    )
    parser.add_argument(
        "--source-class",
        choices=("public", "gated", "private"),
        default="public",
        help="who may read the packets (default: public): private ones go to local models only",
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the cases (default: DIR-cases)")
    parser.add_argument("--estimate", action="store_true", help="tokens and USD, and ask nothing")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument("--budget-usd", type=float, metavar="USD", help="cap for this command")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="cap on tokens")
    add_plugins(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 where a request failed or no case was made; else the code of what stopped it."""
    curation = _curation(args)
    source = Path(args.dir)
    folders = find_articles(source)
    if args.estimate:  # needs no key
        return _show_estimate([read_article(f) for f in folders], curation)
    models = list({m.name: m for m in (curation.curator, curation.judge)}.values())
    for model in models:
        _check(model, args.source_class)
    ledger = Ledger(args.budget_usd, args.budget_tokens)
    ledger.check(models)
    out = Path(args.out) if args.out else source.with_name(f"{source.resolve().name}-cases")
    _refuse_inside(out, source)
    end = asyncio.run(_make(folders, curation, out, ledger))
    if args.format == "json":
        _print_json(end, ledger)
    else:
        _print(end, models, ledger, len(folders))
    if end.stopped is not None:
        raise end.stopped
    is_failed = any(e.status == "failed" for e in end.ends)
    return int(is_failed or not any(e.status == "made" for e in end.ends))


async def _make(
    folders: Sequence[Path], curation: Curation, out: Path, ledger: Ledger
) -> CurationEnd:
    pool = ModelPool(os.environ)
    try:
        return await curate(folders, curation, out, pool, ledger, _done, _say)
    finally:
        await pool.close()
        for line in pool.said():
            _say(line)


def _curation(args: argparse.Namespace) -> Curation:
    if not args.model:
        raise UsageError(
            "curate: --model is missing, as in `medhelm curate packets --model openai/gpt-4o`"
        )
    models = open_registry(args.plugin).models
    curator = find_model(args.model, models)
    judge = find_model(args.judge, models) if args.judge else curator
    if curator.name == judge.name and curator != judge:
        raise UsageError(
            f"two different models are called {judge.name!r}; give each file a `name` of its own"
        )
    for model in (curator, judge):
        if not reads_prompt(model):
            raise UsageError(f"{model.name} is a rule and writes nothing; name a language model")
        if model.system_prompt:
            raise UsageError(
                f"{model.name} has a system prompt, in whose place the phases have their own; "
                "leave it out"
            )
    return Curation(curator, judge, args.seed)


def _check(model: ModelSpec, data_class: DataClass) -> None:
    try:
        privacy.check("packets", data_class, model.name, model.endpoint_class)
    except PrivacyRefused:
        allowed = " or ".join(privacy.POLICY[data_class])
        raise PrivacyRefused(
            f"--source-class {data_class}: model {model.name!r} is {model.endpoint_class}; "
            f"name one whose endpoint_class is {allowed}"
        ) from None
    check_model(model, os.environ)


def _refuse_inside(out: Path, source: Path) -> None:
    """Refuse to write into the source, which is never changed."""
    if out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"--out {out} is within {source}, which is only read; name another folder")


def _done(ended: Ended) -> None:
    made = sum(ending == "made" for ending in ended.scenarios.values())
    count = f", {made} of {len(ended.scenarios)} scenarios" if ended.scenarios else ""
    flags = f", {len(ended.flags)} flags" if ended.flags else ""
    why = f" ({ended.reasons[0][:120]})" if ended.reasons else ""
    _say(f"{ended.case}: {ended.status}{count}{flags}{why}")


def _say(text: str) -> None:
    print(f"medhelm: {text}", file=sys.stderr, flush=True)


def _print(end: CurationEnd, models: Sequence[ModelSpec], ledger: Ledger, total: int) -> None:
    statuses = Counter(e.status for e in end.ends)
    statuses["not finished"] = total - len(end.ends)
    print(", ".join(f"{n} {status}" for status, n in statuses.items() if n))
    scenarios = Counter(s.partition(":")[0] for e in end.ends for s in e.scenarios.values())
    print("scenarios: " + (", ".join(f"{n} {s}" for s, n in scenarios.items()) or "none"))
    if end.mended:
        print(f"{end.mended} torn or damaged line(s) of the log were left out and asked again")
    flags = Counter(flag.kind for e in end.ends for flag in e.flags)
    for kind, n in sorted(flags.items()):
        print(f"flag {kind}: {n}")
    print_rows(_costs(end.responses, models), numbers=("requests", "tokens in", "out", "USD"))
    lost = sum(response.lost for _, response in end.responses)
    most = (
        "; an answer that was lost on its way counts with the most that it may have had"
        if lost
        else ""
    )
    print(f"tokens of this command: {ledger.spent_tokens:,}{most}")
    if scenarios["made"]:
        print(f"cases: {end.folder / CASES}")
        print("No clinician has validated them. Look at flags.jsonl and the changes.diff of each.")
        print(f"Next: medhelm qc encounters {end.folder}")
    if statuses["failed"] or statuses["not finished"]:
        print("the same command goes on with what failed or is not finished")


def _costs(
    responses: Iterable[tuple[str, Response]], models: Sequence[ModelSpec]
) -> dict[str, list[str]]:
    """Return the usage of each model in all commands on the folder."""
    prices = {m.name: m.price for m in models}
    rows: dict[str, list[Response]] = {}
    for name, response in responses:
        rows.setdefault(name, []).append(response)
    priced = {n: [cost(r.usage, prices.get(n)) for r in found] for n, found in rows.items()}
    return {
        "model": list(rows),
        "requests": [f"{len(found):,}" for found in rows.values()],
        "tokens in": [f"{sum(r.usage.input_tokens or 0 for r in f):,}" for f in rows.values()],
        "out": [f"{sum(r.usage.output_tokens or 0 for r in f):,}" for f in rows.values()],
        "USD": [
            "unknown" if None in found else f"{sum(filter(None, found)):.4f}"
            for found in priced.values()
        ],
    }


def _print_json(end: CurationEnd, ledger: Ledger) -> None:
    print_json(
        "curate",
        {
            "cases": str(end.folder / CASES),
            "articles": [
                {
                    "case": e.case,
                    "status": e.status,
                    "reasons": list(e.reasons),
                    "scenarios": e.scenarios,
                    "items": sum(len(v) for r in e.rubrics for v in r.values() if type(v) is list),
                    "flags": dict(Counter(flag.kind for flag in e.flags)),
                }
                for e in end.ends
            ],
            "tokens_of_this_command": ledger.spent_tokens,
            "mended_lines": end.mended,
        },
    )


def _show_estimate(articles: Sequence[Article], curation: Curation) -> int:
    """Print what the articles would cost with the expected number of scenarios, and without repairs."""
    rows: list[tuple[str, str, int, int, int]] = []
    for phase, share in _CALLS:
        model = curation.model("judge" if phase == "leaks" else "curator")
        each = 1 if phase == "triage" else _SCENARIOS
        tokens = sum(estimate_tokens("\n".join(d.lines)) for a in articles for d in a.documents)
        sent = each * (int(share * tokens) + _OWN_WORDS * len(articles))
        rows.append((phase, model.name, each * len(articles), sent, budget_of(model, phase)))
    prices = {m.name: m.price for m in (curation.curator, curation.judge)}
    total = [
        None if (price := prices[name]) is None else usd(price, n_in, 0, n * out)
        for _, name, n, n_in, out in rows
    ]
    print_rows(
        {
            "phase": [r[0] for r in rows],
            "model": [r[1] for r in rows],
            "requests": [f"{r[2]:,}" for r in rows],
            "tokens in": [f"{r[3]:,}" for r in rows],
            "at most out": [f"{r[2] * r[4]:,}" for r in rows],
            "at most USD": ["unknown" if t is None else f"{t:.4f}" for t in total],
        },
        numbers=("requests", "tokens in", "at most out", "at most USD"),
    )
    print(
        f"{len(articles)} article(s) with {_SCENARIOS} scenarios each. Every reply may be asked for "
        f"{REPAIRS} times again. Nothing was asked."
    )
    return 0
