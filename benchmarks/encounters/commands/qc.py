"""`medhelm qc encounters DIR`: what a folder of cases holds, and what in it needs a look."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from medhelm import UsageError
from medhelm.plugin import options
from medhelm_benchmarks.encounters.data.layout import read_scenarios
from medhelm_benchmarks.encounters.data.medsp1000 import (
    CASES,
    RUBRICS,
    Flag,
    count_rubrics,
    items_of_scenario,
    scenario_flags,
    unread_text,
)
from medhelm_benchmarks.encounters.data.rubrics import is_failure, read_rubrics
from medhelm_benchmarks.encounters.packets import COMPETENCY_NAMES

NOT_CHECKED = (
    "not checked, since only a model can tell: whether the clinician's packet gives an item away in other "
    "words, and whether a packet tells a role more than it may know (`medhelm curate` asks both)"
)


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
        own = items_of_scenario(scenario, rubrics.get(scenario.id))
        items[scenario.id] = (scenario.case, own)
        for name in scenario.unread:
            print(f"medhelm: {unread_text(scenario.id, name)}", file=sys.stderr)
            flags.append(Flag(scenario=scenario.id, kind="file_not_read", where=name))
        flags += scenario_flags(scenario.id, scenario.texts, own)
    if args.flags:
        lines = b"".join(msgspec.json.encode(flag) + b"\n" for flag in flags)
        Path(args.flags).write_bytes(lines)
    found = {
        "scenarios_with_packets": len(scenarios),
        "rubrics_without_packets": len(set(rubrics) - {s.id for s in scenarios}),
        **count_rubrics((case, name, own) for name, (case, own) in items.items()),
        "flags": dict(sorted(Counter(flag.kind for flag in flags).items())),
        "flagged_scenarios": len({flag.scenario for flag in flags}),
        "worded_as_failures": [
            {"scenario": name, "item": number, "text": item.text}
            for name, (_, own) in items.items()
            for number, item in enumerate(own, 1)
            if is_failure(item.text)
        ],
        "not_checked": NOT_CHECKED,
    }
    if args.format == "json":
        options.print_json("qc-encounters", found)
    else:
        _print(found)
    return int(args.strict and bool(flags))


def _print(found: Mapping[str, Any]) -> None:
    for name in (
        "scenarios_with_packets",
        "rubrics_without_packets",
        "rubrics",
        "articles",
        "scorable",
        "scorable_articles",
        "shared_rubrics",
        "groups_of_shared_rubrics",
    ):
        print(f"{name.replace('_', ' ')}: {found[name]:,}")
    print(f"without an item, left out: {len(found['without_items']):,}\n")
    counts = {**found["items"], "all": sum(found["items"].values())}
    options.print_rows(
        {
            "competency": list(counts),
            "name": [COMPETENCY_NAMES.get(code, "") for code in counts],
            "items": [f"{n:,}" for n in counts.values()],
        },
        numbers=("items",),
    )
    if failures := found["worded_as_failures"]:
        rubrics = len({one["scenario"] for one in failures})
        print(
            f"items worded as failures: {len(failures):,} in {rubrics:,} rubrics, such as (all: --format json)"
        )
    for one in failures[:10]:
        print(f"  {one['scenario']}, item {one['item']}: {' '.join(one['text'].split())[:100]}")
    if scenarios := found["scenarios_with_packets"]:
        print(f"flagged scenarios: {found['flagged_scenarios']:,} of {scenarios:,}")
    for kind, n in found["flags"].items():
        print(f"flag {kind}: {n:,}")
    print(found["not_checked"])
