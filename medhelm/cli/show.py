"""`medhelm show BENCHMARK MODEL`: single answers, from the prompt as sent to the verdict of each judge."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from medhelm.cli.options import open_registry
from medhelm.cli.tables import load
from medhelm.errors import UsageError
from medhelm.tables.format.console import open_console
from medhelm.tables.format.formats import clean
from medhelm.tables.format.grid import print_lines
from medhelm.tables.instances import MetricLine, Row, data_class, instances, main_metric

_WIDE = 76
"""Characters of a name and a text that share a line."""
_SLACK = 1e-9
Line = tuple[str, str]
"""A text, and its style."""


def run(args: argparse.Namespace) -> int:
    """Return 0; raises UnknownName for a name or an id without an answer."""
    registry = open_registry(args.plugin)
    results = load(args, [args.benchmark], [args.model], args.run or ())
    run = results.runs[0]
    protocol = registry.protocols.get(run.record.spec.protocol)
    declared = registry.benchmarks.get(run.record.spec.benchmark)
    classes = {data_class([run]), declared.data_class if declared is not None else "public"}
    closed = sorted(classes - {"public"})
    found, fit, total = instances(
        run,
        protocol.transcript if protocol else None,
        has_text=not closed or _is_terminal(),
        metric=main_metric(run.record, lambda: registry),
        ids=args.ids,
        takes=_filter(args),
        limit=args.limit,
    )
    lines = [
        (f"{run.benchmark} x {run.model}: {fit:,} of {total:,} answers fit", "bold"),
        (f"{len(found):,} shown (--limit N shows more, or fewer)." if found else "", ""),
    ]
    if closed and not _is_terminal():
        said = f"Texts are withheld: the data are {closed[-1]}, and this output is no terminal. "
        lines.append((said + "The same command in a terminal of this machine shows them.", ""))
    for row in found:
        lines += [("", ""), *_answer(row)]
    shown = [(clean(text, "\n\t"), style) for text, style in lines]
    print_lines(shown, open_console(), is_prose=True)
    return 0


def _filter(args: argparse.Namespace) -> Callable[[MetricLine], bool]:
    low, _, high = (args.score or "-inf:inf").partition(":")
    try:
        least, most = float(low) - _SLACK, float(high or low) + _SLACK
    except ValueError:
        raise UsageError(f"--score {args.score!r}: give a number, or LOW:HIGH like 0:0.5") from None

    def takes(line: MetricLine) -> bool:
        has_value = line.value is not None and least <= line.value <= most
        is_in_range = has_value or args.score is None
        return is_in_range and line.outcome in (args.outcome or [line.outcome])

    return takes


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _answer(row: Row) -> Iterator[Line]:
    yield f"=== {row['instance_id']}, repeat {row['repeat']}: {row['outcome']}", "bold"
    for name in ("question", "context", "choices", "prompt", "references", "criteria", "turns"):
        is_in_prompt = name in ("context", "choices") and row["prompt"]
        if not is_in_prompt:
            yield from _parts(name, row[name])
    yield from _parts("thoughts", row["thoughts"])
    if row["reply"] is not None:
        yield from _parts("reply", row["reply"] or f"empty ({row['finish']} {row['error']})")
        yield from _parts("read", row["read"] or "nothing" * (row["outcome"] != "scored"))
    scores = [
        _with_reason(f"{name} {_value(row[name])} ({outcome})", name, row["reasons"])
        for name, outcome in row["outcomes"].items()
    ]
    yield from _parts("score", "\n".join(scores))
    for judge in row["judges"]:
        given = [
            _with_reason(f"{name} {_value(rating)}", name, judge["reasons"])
            for name, rating in judge["ratings"].items()
        ]
        said = given or list(judge["replies"] or ())[-1:]
        yield from _parts(f"judge {judge['judge']}", "\n".join([judge["ended"], *said]))


def _value(value: float | None) -> str:
    return "no value" if value is None else f"{value:.3f}".removesuffix(".000")


def _with_reason(text: str, name: str, reasons: Mapping[str, str] | None) -> str:
    why = (reasons or {}).get(name)
    return f"{text}: {why}" if why else text


def _parts(name: str, value: Any) -> Iterator[Line]:
    """Yield a text below its name, or beside it where it is one short line; of pairs each by itself."""
    if not value:
        return
    if isinstance(value[0], tuple):
        for who, text in value:
            yield from _parts(f"{name}, {who}", text)
        return
    options = [f"{chr(65 + n)}. {choice}" for n, choice in enumerate(value)]
    value = value if isinstance(value, str) else "\n".join(options if name == "choices" else value)
    text = value.strip("\n")
    if "\n" in text or len(name) + len(text) > _WIDE:
        yield f"[{name}]", "bold"
        yield text, ""
    else:
        yield f"[{name}] {text}", ""
