"""`medhelm list`: what is there, as tables, a tree or JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.cli.options import (
    NO_ROOM,
    data_folder,
    name_broken,
    open_registry,
    print_json,
    print_rows,
)
from medhelm.config import OTHERS, averaged_apart, packaged_suites
from medhelm.errors import UnknownName
from medhelm.grading.grade import AS_FIXED
from medhelm.grading.jury.choice import jury_names, packaged_jury
from medhelm.listing.listed import (
    BenchmarkEntry,
    benchmark_grid,
    benchmark_list,
    jury_entry,
    model_entry,
    model_grid,
    profile_entry,
)
from medhelm.models.catalogue import open_providers
from medhelm.plugins.profiles import packaged_profiles
from medhelm.plugins.registry import Registry
from medhelm.schema.run import fields_of
from medhelm.tables.format.console import open_uncut_console
from medhelm.tables.format.grid import print_grid

Entry = dict[str, Any]


def run(args: argparse.Namespace) -> int:
    """Return 0."""
    if args.what not in LISTS:
        raise UnknownName("list", args.what, LISTS, f"There are {', '.join(LISTS)}.")
    entries_of, show = LISTS[args.what]
    entries = entries_of(open_registry(args.plugin), data_folder(args))
    if args.format == "json":
        print_json("list", {"what": args.what, args.what: entries})
    else:
        show(entries)
    return 0


def _metrics(registry: Registry, root: Path) -> list[Entry]:
    used = Counter(name for b in registry.benchmarks.values() for name in b.metrics)
    return [
        {
            **fields_of(metric, "name", "scoring"),
            "has_published_form": registry.has_published_form(metric.name),
            **fields_of(metric, "version", "minimum", "maximum", "floor", "higher_is_better"),
            "aggregation": metric.aggregation.name,
            "benchmarks": used[metric.name],
        }
        for metric in registry.metrics.values()
    ]


def _tables(registry: Registry, root: Path) -> list[Entry]:
    from medhelm.tables.known_tables import find_tables

    known = find_tables(registry.files)
    name_broken(broken for broken in known.broken if broken not in registry.broken)
    return [
        {
            **fields_of(spec, "name", "help", "is_default", "needs"),
            "columns": [fields_of(c, "name", "type", "description", "unit") for c in spec.columns],
            "origin": spec.origin,
        }
        for spec in known.specs.values()
    ]


def _taxonomy(registry: Registry, root: Path) -> list[Entry]:
    of = registry.taxonomy.subcategory
    placed = [(of(b.subcategory).id, b) for b in registry.benchmarks.values()]
    entries: list[Entry] = msgspec.to_builtins(registry.taxonomy.categories)
    for sub in (sub for category in entries for sub in category["subcategories"]):
        own = [b for place, b in placed if place == sub["id"]]
        for task in sub["tasks"]:
            task["benchmarks"] = [b.name for b in own if task["id"] in b.tasks]
        del sub["aliases"]
        sub["benchmarks"] = [b.name for b in own]
    return entries


def _coverage(registry: Registry, root: Path) -> list[Entry]:
    counts = [_covered(c["name"], c["subcategories"]) for c in _taxonomy(registry, root)]
    total: Entry = {"name": "all"}
    for key in ("subcategories", "subcategories_covered", "tasks", "tasks_covered", "benchmarks"):
        total[key] = sum(c[key] for c in counts)
    total["tasks_by_suite"] = dict(sum((Counter(c["tasks_by_suite"]) for c in counts), Counter()))
    return [*counts, total | {"published_tasks": registry.taxonomy.published_tasks}]


def _covered(name: str, subcategories: Sequence[Entry]) -> Entry:
    tasks = [task for sub in subcategories for task in sub["tasks"]]
    home = averaged_apart()
    by_suite: Counter[str] = Counter()
    for task in tasks:
        by_suite.update({home.get(b, OTHERS) for b in task["benchmarks"]})
    return {
        "tasks_by_suite": dict(sorted(by_suite.items())),
        "name": name,
        "subcategories": len(subcategories),
        "subcategories_covered": sum(bool(sub["benchmarks"]) for sub in subcategories),
        "tasks": len(tasks),
        "tasks_covered": sum(bool(task["benchmarks"]) for task in tasks),
        "benchmarks": sum(len(sub["benchmarks"]) for sub in subcategories),
    }


# Showing -----------------------------------------------------------------------------------


def _show_benchmarks(entries: Sequence[BenchmarkEntry]) -> None:
    print_grid(benchmark_grid(entries), open_uncut_console(), fix=NO_ROOM)
    if any(e.unverified for e in entries):
        print("unverified: written to the published layout, never tried on the real file.")


def _show_models(entries: Sequence[Entry]) -> None:
    print_grid(model_grid(entries), open_uncut_console(), fix=NO_ROOM)
    for provider in open_providers():
        address = " model.base_url=URL" * bool(provider.base_url)
        print(f"Any model of {provider.help}: model={provider.name}/ITS-NAME{address}")


def _show_metrics(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "scoring": [e["scoring"] for e in entries],
        "range": [f"{e['minimum']:g} to {e['maximum']:g}" for e in entries],
        "floor": ["none" if e["floor"] is None else f"{e['floor']:g}" for e in entries],
        "better": ["higher" if e["higher_is_better"] else "lower" for e in entries],
        "aggregation": [e["aggregation"] for e in entries],
        "benchmarks": [str(e["benchmarks"]) for e in entries],
    }
    leaving = ("aggregation", "benchmarks", "floor", "better")
    numbers = ("range", "floor", "benchmarks")
    print_rows(columns, numbers=numbers, keys=("name",), leaving=leaving)
    print("By name, as secondary metrics:")
    print("  bertscore, bertscore:MODEL@LAYER#precision|#recall: BERTScore (extra bertscore)")
    print("  evaluate:NAME: any metric of the evaluate library")
    print("`medhelm describe bertscore` and `medhelm describe evaluate:NAME` show what they are.")
    if own := [e["name"] for e in entries if not e["has_published_form"]]:
        print(f"Under scoring=helm {AS_FIXED}: {', '.join(own)}")


def _show_suites(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "benchmarks": [", ".join(e["benchmarks"]) for e in entries],
    }
    print_rows(columns, keys=("name",))
    print("`medhelm run suite=NAME` asks them all.")


def _show_juries(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "quorum": ["–" if e["quorum"] is None else str(e["quorum"]) for e in entries],
        "judges": [", ".join(e["judges"]) or "no model: graders by rule" for e in entries],
    }
    print_rows(columns, numbers=("quorum",), keys=("name",))
    print("`medhelm run jury=NAME` lets them rate free text; `medhelm describe NAME` says more.")


def _show_profiles(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "thresholds": [str(len(e["thresholds"])) for e in entries],
        "benchmarks": [
            ", ".join(dict.fromkeys(t["benchmark"] for t in e["thresholds"])) for e in entries
        ],
        "description": [e["description"] for e in entries],
    }
    print_rows(columns, numbers=("thresholds",), keys=("name",), leaving=("description",))
    print("`medhelm describe NAME` shows the thresholds, `medhelm gate --profile NAME` uses them.")


def _show_askings(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "version": [e.get("version", "1") for e in entries],
        "what it changes": [
            ", ".join(f"{k}={v}" for k, v in e.items() if k not in ("name", "version"))
            for e in entries
        ],
    }
    print_rows(columns, keys=("name",))
    print("`medhelm run ... ask=NAME` asks so; ask=FILE.yaml takes a file of yours.")


def _show_tables(entries: Sequence[Entry]) -> None:
    columns = {
        "name": [e["name"] for e in entries],
        "columns": [str(len(e["columns"])) for e in entries],
        "what it is": [e["help"] for e in entries],
    }
    print_rows(columns, numbers=("columns",), keys=("name",), leaving=("columns",))
    print("`medhelm tables --table NAME` prints one.")


def _show_taxonomy(entries: Sequence[Entry]) -> None:
    from rich.tree import Tree

    root = Tree("taxonomy")
    for category in entries:
        facts = "\n".join(
            f"[dim]{name}:[/dim] {category[name]}"
            for name in ("definition", "inclusion", "performer")
        )
        branch = root.add(f"[bold]{category['name']}[/bold] ({category['id']})\n{facts}")
        for sub in category["subcategories"]:
            on = ", ".join(sub["benchmarks"])
            mark = f"[green]{on}[/green]" if on else "[yellow]no benchmark[/yellow]"
            twig = branch.add(f"{sub['name']} ({sub['id']}): {mark}")
            for task in sub["tasks"]:
                own = ", ".join(task["benchmarks"])
                twig.add(f"[dim]{task['name']}[/dim]" + (f" [green]{own}[/green]" if own else ""))
    open_uncut_console().print(root, highlight=False)


def _show_coverage(entries: Sequence[Entry]) -> None:
    columns = {
        "category": [e["name"] for e in entries],
        "subcategories covered": [
            f"{e['subcategories_covered']} of {e['subcategories']}" for e in entries
        ],
        "tasks covered": [f"{e['tasks_covered']} of {e['tasks']}" for e in entries],
        "tasks by suite": [
            ", ".join(f"{suite} {n}" for suite, n in e["tasks_by_suite"].items()) for e in entries
        ],
        "benchmarks": [str(e["benchmarks"]) for e in entries],
    }
    print_rows(columns, numbers=tuple(columns)[1:])
    print(f"The paper counts {entries[-1]['published_tasks']} tasks; its printed list names fewer.")


LISTS: dict[str, tuple[Callable[[Registry, Path], Sequence[Any]], Callable[[Any], None]]] = {
    "benchmarks": (benchmark_list, _show_benchmarks),
    "models": (lambda known, _: [model_entry(m) for m in known.models.values()], _show_models),
    "metrics": (_metrics, _show_metrics),
    "suites": (
        lambda *_: [{"name": n, "benchmarks": own} for n, own in packaged_suites().items()],
        _show_suites,
    ),
    "juries": (
        lambda known, _: [jury_entry(packaged_jury(n, known.models)) for n in jury_names()],
        _show_juries,
    ),
    "askings": (lambda known, _: msgspec.to_builtins([*known.askings.values()]), _show_askings),
    "profiles": (
        lambda *_: [profile_entry(profile) for profile in packaged_profiles().values()],
        _show_profiles,
    ),
    "tables": (_tables, _show_tables),
    "taxonomy": (_taxonomy, _show_taxonomy),
    "coverage": (_coverage, _show_coverage),
}
