"""`medhelm show BENCHMARK MODEL`: single answers, from the prompt as sent to the verdict of each judge."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import get_args

from medhelm.cli.model_calls import positive
from medhelm.cli.options import add_plugins, open_registry
from medhelm.cli.tables import add_results, load
from medhelm.errors import UsageError
from medhelm.schema.score import Outcome
from medhelm.tables.format.console import open_console
from medhelm.tables.format.formats import clean
from medhelm.tables.format.grid import print_lines
from medhelm.tables.instances import (
    Answer,
    Answers,
    JudgeReply,
    MetricLine,
    Wanted,
    data_class,
    instances,
)

LIMIT = 5
_WIDE = 76
"""Characters of a name and a text that share a line."""
Line = tuple[str, str]
"""A text, and its style."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = "Single answers. `medhelm describe NAME` has the facts of a benchmark."
    parser.add_argument("benchmark", metavar="BENCHMARK")
    parser.add_argument("model", metavar="MODEL", help="as `medhelm tables` names it")
    parser.add_argument("ids", nargs="*", metavar="ID", help="of an instance (default: all)")
    parser.add_argument(
        "--outcome",
        nargs="+",
        action="extend",
        choices=get_args(Outcome),
        metavar="NAME",
        help=f"only answers with such an outcome: {', '.join(get_args(Outcome))}",
    )
    parser.add_argument(
        "--score",
        metavar="VALUE",
        help="only answers with this score of the main metric, or LOW:HIGH",
    )
    parser.add_argument(
        "--limit",
        type=positive,
        default=LIMIT,
        metavar="N",
        help=f"answers that are shown (default: {LIMIT})",
    )
    parser.add_argument(
        "--run", nargs="+", action="extend", metavar="DIR", help="folder of the run, of several"
    )
    add_results(parser)
    add_plugins(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0; raises UnknownName for a name or an id without an answer."""
    registry = open_registry(args.plugin)
    results = load(args, [args.benchmark], [args.model], args.run or ())
    run = results.runs[0]
    protocol = registry.protocols.get(run.record.spec.protocol)
    wanted = Wanted(
        ids=args.ids,
        outcomes=args.outcome or (),
        score=None if args.score is None else _range(args.score),
        limit=args.limit,
    )
    found = instances(run, wanted, protocol.transcript if protocol else None)
    declared = registry.benchmarks.get(run.record.spec.benchmark)
    classes = {data_class([run]), declared.data_class if declared is not None else "public"}
    closed = sorted(classes - {"public"})
    has_text = not closed or _is_terminal()
    out = open_console()
    print_lines(_head(found, args), out, is_prose=True)
    if not has_text:
        said = (
            f"Texts are withheld: the data are {closed[-1]}, and this output is no terminal. The same "
            "command in a terminal of this machine shows them.\n"
        )
        print_lines([(said, "")], out, is_prose=True)
    for answer in found.shown:
        lines = [*_answer(answer, has_text), ("", "")]
        print_lines([(clean(text, "\n\t"), style) for text, style in lines], out, is_prose=True)
    return 0


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise UsageError(f"--score {text!r} is no number, and no LOW:HIGH like 0:0.5") from None


def _head(found: Answers, args: argparse.Namespace) -> Iterator[Line]:
    yield f"{args.benchmark} x {args.model}", "bold"
    fit = f"{found.found:,} of {found.total:,} answers fit" if _has_filter(args) else ""
    shown = f"{len(found.shown):,} of {found.found:,} answers shown"
    more = f" (--limit {found.found} shows all)" if found.found > len(found.shown) else ""
    yield "; ".join(filter(None, [fit, shown])) + more + ".", ""
    if found.unread:
        yield f"{found.unread:,} are not in the log of the run any more.", ""
    yield "", ""


def _has_filter(args: argparse.Namespace) -> bool:
    return bool(args.ids or args.outcome or args.score is not None)


def _answer(answer: Answer, has_text: bool) -> Iterator[Line]:
    episode, main = answer.episode, answer.line.scores[0]
    repeat = f", repeat {episode.repeat}" if answer.run.record.spec.repeats > 1 else ""
    yield f"=== {episode.instance.id}{repeat}: {_score(main)}", "bold"
    if has_text:
        yield from _asked(answer)
        yield from _replied(answer)
        if (read := answer.line.extracted) or main.outcome != "scored":
            yield from _part("read", read or "nothing")
    scores = [
        _score(line) + (f": {line.reason}" if has_text and line.reason else "")
        for line in answer.line.scores
    ]
    yield from _part("scores" if len(scores) > 1 else "score", "\n".join(scores))
    for said, criteria in answer.judges:
        yield from _part(f"judge {said.judge}", "\n".join(_verdict(said, criteria, has_text)))
    if episode.error:
        yield from _part("failure", episode.error)


def _part(name: str, text: str) -> Iterator[Line]:
    """Yield a text below its name, or beside it where it is one line."""
    text = text.strip("\n")
    if "\n" in text or len(name) + len(text) > _WIDE:
        yield f"[{name}]", "bold"
        yield text, ""
    else:
        yield f"[{name}] {text}", ""


def _score(line: MetricLine) -> str:
    value = "no value" if line.value is None else f"{line.value:.3f}"
    return f"{line.metric} {value} ({line.outcome})"


def _asked(answer: Answer) -> Iterator[Line]:
    instance, messages = answer.episode.instance, answer.prompt
    if not messages and instance.context:  # else it is in the prompt
        yield from _part("context", instance.context)
    if instance.question:
        yield from _part("question", instance.question)
    options = [f"{chr(65 + n)}. {choice}" for n, choice in enumerate(instance.choices)]
    if options and not messages:
        yield from _part("choices", "\n".join(options))
    for message in messages:
        yield from _part(f"prompt, {message.role}", message.content)
    if not messages:
        yield from _part("prompt", "none: a rule was handed the instance")
    if instance.references:
        golds = [
            next((o for o in options if o.startswith(f"{r}. ")), r) for r in instance.references
        ]
        yield from _part("gold", "\n".join(golds))
    if instance.criteria:
        yield from _part("criteria", "\n".join(f"{c.name}: {c.text}" for c in instance.criteria))


def _replied(answer: Answer) -> Iterator[Line]:
    for who, text in answer.turns:
        yield from _part(f"turn, {who}", text)
    if answer.thoughts:
        yield from _part("reply, thinking", answer.thoughts)
    yield from _part("reply", answer.reply or f"empty ({answer.episode.finish})")


def _verdict(said: JudgeReply, criteria: tuple[str, ...], has_text: bool) -> Iterator[str]:
    """Yield what a judge gave by criterion and why, else its last reply."""
    yield said.ended
    ratings = said.ratings or ()
    for place, rating in enumerate(ratings):
        name = criteria[place] if place < len(criteria) else f"criterion {place + 1}"
        why = said.reasons[place] if has_text and place < len(said.reasons) else ""
        yield f"{name}: {'no verdict' if rating is None else rating}{f' ({why})' if why else ''}"
    if has_text and not ratings:
        yield from said.replies[-1:]
