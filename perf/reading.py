"""Measure how the readers of free text read all replies at hand, how fast, and what each rule decides.

    python perf/reading.py [--data DIR] [--set NAME] [--every N] [--wrong] [--rules]

Sets are the written ones under tests/extract/unseen and, where --data has them, real replies of
models and MedCalc-Bench's worked solutions. A reply is read right, rightly not read (nothing is to
be read in it), not read, or read wrongly. --rules switches every pattern of `medhelm.extract` off,
one by one, and prints how many replies it decides: alone, and with the patterns before it that
decide fewer than three left off. A real reply counts as right by the verdict of those who collected it.
"""

from __future__ import annotations

import csv
import gzip
import inspect
import json
import os
import pkgutil
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import medhelm.extract
from medhelm import read_choice, read_codes, read_date, read_labels, read_number, read_weeks_days
from medhelm.grading.grade import grade
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm_benchmarks.noharm.rules.labels import read_labels as read_action_labels
from medhelm_metrics.medcalc import glossary

WRITTEN = Path(__file__).parents[1] / "tests" / "extract" / "unseen"
CONTRADICTED = frozenset({"c003_9"})
"""Replies whose reasoning is for another option than their letter, which is what is read."""
FEW = 3
"""A rule that decides fewer replies than this goes."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A reply of a set, and how a careful human reads it."""

    group: str
    """Its set."""
    row: Row


@dataclass
class Figures:
    """The counts of a set, and the seconds that reading it took."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def written(folder: Path = WRITTEN) -> Iterator[Reply]:
    """Yield the replies of the written sets. `kind` says what is to be read."""
    forms = {"choice": "choices", "medec": "Medec", "labels": "labels", "actions": "labels"}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            yield Reply(f"{path.stem}: {forms.get(row['kind'], 'numbers')}", row)


def real(folder: Path) -> Iterator[Reply]:
    """Yield real replies with the verdict of their collectors, and MedCalc-Bench's worked solutions."""
    for row in _lines(folder / "real_replies" / "choice.jsonl.gz"):
        row |= {"kind": "choice", "text": row["reply"], "choices": row["options"]}
        yield Reply("real: choices", row)
    for row in _lines(folder / "real_replies" / "number.jsonl.gz"):
        row |= {"kind": "number", "text": row["reply"], "expected": row["value"]}
        yield Reply("real: numbers", row)
    solutions = folder / "medcalc_bench" / "test_data.csv"
    if solutions.exists():
        with solutions.open(encoding="utf-8", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines)):
                if number % 4 == 0:
                    yield Reply("worked solutions: numbers", _solution(row))


def _lines(path: Path) -> Iterator[Row]:
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _solution(row: Row) -> Row:
    """Return a worked solution as a reply that ends in the gold."""
    gold = row["Ground Truth Answer"]
    kind = "number"
    expected: list[int] | str | float
    if pair := read_weeks_days(gold).value:
        kind, expected = "weeks_days", list(pair)
    elif (date := read_date(gold).value) is not None:
        kind, expected = "date", f"{date:%m/%d/%Y}"
    else:
        expected = float(gold)
    text = row["Ground Truth Explanation"]
    return {"kind": kind, "text": text, "expected": expected, "question": row["Question"]}


@cache
def _asked(question: str) -> Any:
    return glossary().asked_by(question)


@cache
def _medec() -> Any:
    return load_registry().metric("medec_sentence_accuracy")


def read(row: Row) -> Any:
    """Return what is read of a row, in the form of its `expected`; None where nothing is."""
    text, is_cut = row["text"], row.get("finish") == "length"
    asked = _asked(row["question"]) if "question" in row else None
    match row["kind"]:
        case "number":
            return read_number(text, is_cut=is_cut, asked=asked).value
        case "date":
            date = read_date(text, is_cut=is_cut, asked=asked).value
            return date and f"{date:%m/%d/%Y}"
        case "weeks_days":
            pair = read_weeks_days(text, is_cut=is_cut, asked=asked).value
            return pair and list(pair)
        case "choice":
            shown = row.get("shown", ())
            return read_choice(text, row["choices"], is_cut=is_cut, labels=shown).value
        case "labels":
            is_codes = "codes" in row
            found = (
                read_codes(text, is_cut=is_cut).value
                if is_codes
                else read_labels(text, row["labels"], is_cut=is_cut).value
            )
            return None if found is None else sorted(found)
        case "actions":
            labels = read_action_labels(text, row["actions"], is_cut=is_cut)
            if labels is None:
                return None
            both = (("Appropriate", labels.endorsed), ("Inappropriate", labels.rejected))
            return {name: label for label, names in both for name in names} or None
        case "medec":
            key = {"error_flag": "0", "error_sentence_id": "-1"}
            note = Instance(id="note", references=("CORRECT",), answer_key=key)
            response = Response(instance_id="note", text=text, finish=row.get("finish", "stop"))
            score = grade(_medec(), Episode(instance=note, response=response))
            if score.outcome != "scored":
                return None
            return int(score.extracted) if score.extracted.isdigit() else score.extracted
    raise AssertionError(row["kind"])


def judged(row: Row, got: Any) -> str:
    """Return `right`, `rightly unread`, `unread` or `wrong`."""
    if "correct" in row:  # a real choice: the collectors' verdict
        return "unread" if got is None else _named((got == row["gold"]) == row["correct"])
    expected = row["expected"]
    if got is None:
        return "rightly unread" if expected is None else "unread"
    if isinstance(expected, dict) and got.items() < expected.items():
        return "unread"  # the labels that are missing are counted apart
    if row["kind"] == "number" and expected is not None:
        allowed = [expected, *row.get("also", ())]
        return _named(any(abs(got - v) <= max(0.005 * abs(v), 0.005) for v in allowed))
    return _named(got == expected or row.get("id") in CONTRADICTED)


def _named(is_right: bool) -> str:
    return "right" if is_right else "wrong"


def measure(replies: Sequence[Reply], show_wrong: bool = False) -> dict[str, Figures]:
    """Return the figures of every set."""
    found: dict[str, Figures] = defaultdict(Figures)
    for reply in replies:
        started = time.process_time()
        got = read(reply.row)
        found[reply.group].seconds += time.process_time() - started
        verdict = judged(reply.row, got)
        found[reply.group].counts[verdict] += 1
        if show_wrong and verdict == "wrong":
            expected = reply.row.get("expected", reply.row.get("gold"))
            print(f"{reply.group} {reply.row.get('id', '')}: {expected} read as {got}")
    return found


def print_figures(found: dict[str, Figures]) -> None:
    """Print a Markdown table, a line for each set and one for each kind of answer."""
    names = ("right", "rightly unread", "unread", "wrong")
    print(f"| set | replies | {' | '.join(names)} | ms a reply |")
    print("|---|" + "---:|" * 6)
    sums: dict[str, Figures] = defaultdict(Figures)
    for group, figures in found.items():
        total = "written" if group.partition(":")[0] not in ("real", "worked solutions") else "real"
        kind = f"**all {total}: {group.rpartition(': ')[2]}**"
        sums[kind].counts.update(figures.counts)
        sums[kind].seconds += figures.seconds
    for group, figures in {**found, **sums}.items():
        size = figures.counts.total()
        cells = " | ".join(str(figures.counts[name]) for name in names)
        print(f"| {group} | {size} | {cells} | {1000 * figures.seconds / size:.2f} |")


_NEVER = re.compile(r"(?!)")
_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split")


class Rules:
    """The patterns and small functions of the readers, each of which can be switched off."""

    def __init__(self) -> None:
        """Find the rules of `medhelm.extract` and the modules that hold each."""
        self.rules: dict[str, tuple[Any, Any]] = {}
        self._holders: dict[int, list[tuple[ModuleType, str]]] = defaultdict(list)
        package = medhelm.extract.__name__
        found = pkgutil.walk_packages(medhelm.extract.__path__, package + ".")
        self._modules = [import_module(module.name) for module in found]
        for module in self._modules:
            for name, value in vars(module).items():
                is_pattern = hasattr(value, "finditer") and hasattr(value, "pattern")
                off = _NEVER if is_pattern else _without(value, package)
                if off is None:
                    continue
                if not self._holders[id(value)]:
                    self.rules[f"{module.__name__.removeprefix(package + '.')}.{name}"] = value, off
                self._holders[id(value)].append((module, name))

    def put(self, name: str, value: Any) -> None:
        """Put something in the place of a rule, and forget what was read with it.

        A pattern keeps its place, since tables of the readers hold it too, and gets other methods.
        """
        rule = self.rules[name][0]
        if _is_late(rule):
            known = [method for method in _METHODS if hasattr(rule, method)]
            vars(rule).update({method: getattr(value, method) for method in known})
        else:
            for module, attribute in self._holders[id(rule)]:
                setattr(module, attribute, value)
        self.forget()

    def forget(self) -> None:
        """Empty the caches of the readers."""
        for module in self._modules:
            for value in vars(module).values():
                if hasattr(type(value), "cache_clear"):
                    value.cache_clear()

    def off(self, name: str) -> None:
        """Let a pattern match nothing, and a function find nothing."""
        self.put(name, self.rules[name][1])

    def on(self, name: str) -> None:
        """Let a rule do what it does."""
        rule = self.rules[name][0]
        if _is_late(rule):
            for method in _METHODS:
                vars(rule).pop(method, None)
            self.forget()
        else:
            self.put(name, rule)


def _without(value: Any, package: str) -> Callable[..., Any] | None:
    """Return a function that finds nothing, in the place of one; None where that has no meaning."""
    if not inspect.isfunction(value) or not value.__module__.startswith(package):
        return None
    given = [name for name in value.__annotations__.values() if isinstance(name, str)]
    result = value.__annotations__.get("return", "")
    if result == "bool":
        return lambda *_, **__: False
    if result.endswith("| None"):
        return lambda *_, **__: None
    if (
        given
        and result == given[0]
        and result.startswith(("str", "Reading", "list", "set", "Value"))
    ):
        return lambda first, *_, **__: first
    return (lambda *_, **__: "") if result == "str" else None


def _is_late(rule: Any) -> bool:
    """Return whether a rule is a pattern of the readers' own, whose methods can be replaced."""
    return hasattr(rule, "finditer") and hasattr(rule, "__dict__")


def _copied(rule: Any) -> Any:
    """Return a pattern that keeps its methods when those of the rule are replaced."""
    if not _is_late(rule):
        return rule
    other = object.__new__(type(rule))
    vars(other).update(vars(rule))
    return other


class _Watch:
    """Stands for a rule and notes when it finds something."""

    def __init__(self, rule: Any, off: Any, note: Callable[[], None]) -> None:
        self._rule, self._off, self._note = _copied(rule), off, note

    def __call__(self, *args: Any, **options: Any) -> Any:
        result = self._rule(*args, **options)
        if result != self._off(*args, **options):
            self._note()
        return result

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._rule, name)
        if not callable(method):
            return method

        def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            result = list(result) if name == "finditer" else result
            is_same = result in (None, []) or (name == "split" and len(result) == 1)
            if not (is_same or (name == "sub" and result == args[1])):
                self._note()
            return iter(result) if name == "finditer" else result

        return call


def print_rules(replies: Sequence[Reply], only: str) -> None:
    """Print what every rule decides, alone, and together those that decide too few."""
    rules = Rules()
    names = [name for name in rules.rules if only in name]
    matched: dict[str, set[int]] = defaultdict(set)
    now = [0]

    def note(name: str) -> Callable[[], None]:
        return lambda: matched[name].add(now[0])

    for name in names:
        rules.put(name, _Watch(*rules.rules[name], note(name)))
    for now[0], reply in enumerate(replies):
        rules.forget()
        read(reply.row)
    for name in names:
        rules.on(name)
    before = [judged(r.row, read(r.row)) for r in replies]
    gone: list[str] = []
    touched: set[int] = set()
    for name in names:
        rules.off(name)
        alone = _changes(replies, sorted(matched[name]), before)
        line = f"{name}: finds something in {len(matched[name])}, decides {alone.total()} {dict(alone)}"
        rules.on(name)
        if alone.total() < FEW:
            gone.append(name)
            touched |= matched[name]
        print(line, flush=True)
    for name in gone:
        rules.off(name)
    together = _changes(replies, sorted(touched), before)
    print(f"all {len(gone)} that decide fewer than {FEW}: {together.total()} {dict(together)}")


def _changes(replies: Sequence[Reply], places: Sequence[int], before: list[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for place in places:
        try:
            verdict = judged(replies[place].row, read(replies[place].row))
        except Exception as error:  # what is switched off was needed
            verdict = type(error).__name__
        if verdict != before[place]:
            kind = replies[place].group.rpartition(": ")[2]
            found[f"{kind}: {before[place]} -> {verdict}"] += 1
    return found


def main() -> None:
    """Print the figures, or what the rules decide."""
    from measuring import parser  # a test imports this module from elsewhere

    options = parser(__doc__, every=1)
    options.add_argument("--data", type=Path, default=os.environ.get("MEDHELM_DATA_DIR", "."))
    options.add_argument("--set", default="", help="only sets whose names hold this")
    options.add_argument("--wrong", action="store_true", help="print what is read wrongly")
    options.add_argument("--rules", nargs="?", const="", help="of what module or name")
    args = options.parse_args()
    replies = [r for r in (*written(), *real(Path(args.data))) if args.set in r.group]
    replies = replies[:: args.every]
    if args.rules is not None:
        print_rules(replies, args.rules)
    else:
        print_figures(measure(replies, args.wrong))


if __name__ == "__main__":
    main()
