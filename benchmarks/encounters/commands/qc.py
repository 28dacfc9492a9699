"""`medhelm qc encounters DIR`: what a folder of cases holds, and what in it needs a look."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

from medhelm.cli.options import add_format, print_json, print_rows
from medhelm.errors import UsageError
from medhelm_benchmarks.encounters.data.cases import (
    CASES,
    RUBRICS,
    Census,
    count_rubrics,
    row_of,
    unread_text,
)
from medhelm_benchmarks.encounters.data.checks import Flag, scenario_flags
from medhelm_benchmarks.encounters.data.layout import Scenario, read_scenarios
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, read_rubrics
from medhelm_benchmarks.encounters.packets import COMPETENCY_NAMES, Packets, RubricItem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "dir", metavar="DIR", help=f"a folder with {CASES}/ and {RUBRICS}, or one of them"
    )
    parser.add_argument(
        "--flags", metavar="FILE", help="write the flags there, one JSON object a line"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a case is flagged")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Print counts and flags; return 0 whatever they are, with --strict 1 where there is a flag."""
    folder = Path(args.dir)
    rubrics = read_rubrics(folder / RUBRICS) if (folder / RUBRICS).is_file() else {}
    scenarios = list(read_scenarios(folder / CASES)) if (folder / CASES).is_dir() else []
    if not rubrics and not scenarios:
        raise UsageError(f"{folder} has neither {CASES}/ nor {RUBRICS}; name the folder of both")
    items = {r.id: (r.case, r.items) for r in rubrics.values()}
    flags: list[Flag] = []
    for scenario in scenarios:
        own = _items(scenario, rubrics)
        items[scenario.id] = (scenario.case, own)
        flags += _flags(scenario, own)
    census = count_rubrics((case, name, own) for name, (case, own) in items.items())
    for scenario in scenarios:
        for name in scenario.unread:
            print(f"medhelm: {unread_text(scenario.id, name)}", file=sys.stderr)
    if args.flags:
        lines = b"".join(msgspec.json.encode(flag) + b"\n" for flag in flags)
        Path(args.flags).write_bytes(lines)
    without = sorted(set(rubrics) - {s.id for s in scenarios})
    if args.format == "json":
        print_json("qc-encounters", _values(census, flags, len(scenarios), len(without)))
    else:
        _print(census, flags, len(scenarios), len(without))
    return int(args.strict and bool(flags))


def _items(scenario: Scenario, rubrics: dict[str, FrozenRubric]) -> tuple[RubricItem, ...]:
    row = row_of(scenario, rubrics.get(scenario.id))
    return msgspec.convert(row["packets"], Packets).evaluator.items


def _flags(scenario: Scenario, items: tuple[RubricItem, ...]) -> list[Flag]:
    return [
        *(Flag(scenario=scenario.id, kind="file_not_read", where=name) for name in scenario.unread),
        *scenario_flags(scenario.id, scenario.texts, items),
    ]


def _values(
    census: Census, flags: list[Flag], scenarios: int, without_packets: int
) -> dict[str, object]:
    return {
        "scenarios_with_packets": scenarios,
        "rubrics_without_packets": without_packets,
        "rubrics": census.rubrics,
        "articles": census.articles,
        "scorable": census.scorable,
        "scorable_articles": census.scorable_articles,
        "without_items": list(census.without_items),
        "items": dict(census.items),
        "shared_rubrics": census.shared,
        "groups_of_shared_rubrics": census.shared_groups,
        "flags": dict(Counter(flag.kind for flag in flags)),
        "flagged_scenarios": len({flag.scenario for flag in flags}),
    }


def _print(census: Census, flags: list[Flag], scenarios: int, without_packets: int) -> None:
    print(f"scenarios with packets: {scenarios:,}; rubrics without: {without_packets:,}")
    print(f"rubrics: {census.rubrics:,} of {census.articles:,} articles")
    print(f"scorable: {census.scorable:,} of {census.scorable_articles:,} articles")
    print(f"without an item, left out: {len(census.without_items):,}")
    print(f"shared: {census.shared:,} rubrics in {census.shared_groups:,} groups")
    total = sum(census.items.values())
    print(f"items: {total:,}\n")
    print_rows(
        {
            "competency": [*census.items, "all"],
            "name": [*(COMPETENCY_NAMES[code] for code in census.items), ""],
            "items": [f"{n:,}" for n in (*census.items.values(), total)],
        },
        numbers=("items",),
    )
    kinds = Counter(flag.kind for flag in flags)
    if scenarios:
        print(f"flagged scenarios: {len({f.scenario for f in flags}):,} of {scenarios:,}")
    for kind, n in sorted(kinds.items()):
        print(f"flag {kind}: {n:,}")
