"""`medhelm list`: what is there, as tables, a tree or JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.checks import is_data_present
from medhelm.cli.options import (
    add_data_dir,
    add_format,
    add_plugins,
    data_folder,
    make_console,
    open_registry,
    print_json,
)
from medhelm.config import packaged_suites
from medhelm.errors import UnknownName
from medhelm.grading import AS_FIXED
from medhelm.profiles import Profile, packaged_profiles
from medhelm.registry import Registry
from medhelm.schema import Benchmark, ModelSpec, Price

Entry = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("what", nargs="?", default="benchmarks", help=", ".join(_LISTS))
    add_data_dir(parser)
    add_plugins(parser)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0."""
    if args.what not in _LISTS:
        raise UnknownName("list", args.what, _LISTS, f"There are {', '.join(_LISTS)}.")
    entries_of, show = _LISTS[args.what]
    entries = entries_of(open_registry(args.plugin), data_folder(args))
    if args.format == "json":
        print_json("list", {"what": args.what, args.what: entries})
    else:
        show(entries)
    return 0


def _benchmarks(registry: Registry, root: Path) -> list[Entry]:
    return [_benchmark(b, registry, root) for b in registry.benchmarks.values()]


def _benchmark(benchmark: Benchmark, registry: Registry, root: Path) -> Entry:
    subcategory = registry.taxonomy.subcategory(benchmark.subcategory)
    split = benchmark.dataset.splits[0]
    return {
        "name": benchmark.name,
        "title": benchmark.title or benchmark.name,
        "category": registry.taxonomy.category_of(subcategory.id).name,
        "subcategory": subcategory.name,
        "access": benchmark.data_class,
        "instances": benchmark.expected_instances.get(split),
        "metrics": list(benchmark.metrics),
        "has_samples": benchmark.samples is not None and benchmark.samples.is_file(),
        "has_full_data": is_data_present(benchmark, root),
        "origin": benchmark.origin,
    }


def _models(registry: Registry, root: Path) -> list[Entry]:
    return [model_entry(spec) for spec in registry.models.values()]


def model_entry(spec: ModelSpec) -> Entry:
    """Return what a list says of a model."""
    return {
        "name": spec.name,
        "provider": spec.provider,
        "endpoint_class": spec.endpoint_class,
        "reasoning": spec.reasoning,
        "weights": spec.weights,
        "price": spec.price,
        "note": spec.note,
    }


def price_text(price: Price | None) -> str:
    """Return a price for people."""
    if price is None:
        return "unknown"
    return f"{price.input:g} in, {price.output:g} out ({price.date})"


def _metrics(registry: Registry, root: Path) -> list[Entry]:
    used = Counter(name for b in registry.benchmarks.values() for name in b.metrics)
    return [
        {
            "name": metric.name,
            "scoring": metric.scoring,
            "has_published_form": registry.has_published_form(metric.name),
            "version": metric.version,
            "minimum": metric.minimum,
            "maximum": metric.maximum,
            "floor": metric.floor,
            "higher_is_better": metric.higher_is_better,
            "aggregation": metric.aggregation,
            "benchmarks": used[metric.name],
        }
        for metric in registry.metrics.values()
    ]


def _suites(registry: Registry, root: Path) -> list[Entry]:
    return [{"name": name, "benchmarks": own} for name, own in packaged_suites().items()]


def _profiles(registry: Registry, root: Path) -> list[Entry]:
    return [profile_entry(profile) for profile in packaged_profiles().values()]


def profile_entry(profile: Profile) -> Entry:
    """Return all facts of a profile."""
    return {
        "name": profile.name,
        "description": profile.description,
        "sha256": profile.sha256,
        "thresholds": [msgspec.to_builtins(t) for t in profile.thresholds],
    }


def _taxonomy(registry: Registry, root: Path) -> list[Entry]:
    on = _by_subcategory(registry)
    return [
        {
            "id": category.id,
            "name": category.name,
            "definition": category.definition,
            "inclusion": category.inclusion,
            "performer": category.performer,
            "subcategories": [
                {
                    "id": sub.id,
                    "name": sub.name,
                    "tasks": [
                        {
                            "id": task.id,
                            "name": task.name,
                            "benchmarks": [
                                b.name for b in on.get(sub.id, ()) if task.id in b.tasks
                            ],
                        }
                        for task in sub.tasks
                    ],
                    "benchmarks": [b.name for b in on.get(sub.id, ())],
                }
                for sub in category.subcategories
            ],
        }
        for category in registry.taxonomy.categories
    ]


def _by_subcategory(registry: Registry) -> Mapping[str, list[Benchmark]]:
    on: dict[str, list[Benchmark]] = {}
    for benchmark in registry.benchmarks.values():
        on.setdefault(registry.taxonomy.subcategory(benchmark.subcategory).id, []).append(benchmark)
    return on


def _coverage(registry: Registry, root: Path) -> list[Entry]:
    counts = [_covered(c["name"], c["subcategories"]) for c in _taxonomy(registry, root)]
    total: Entry = {"name": "all"}
    for key in ("subcategories", "subcategories_covered", "tasks", "tasks_covered", "benchmarks"):
        total[key] = sum(c[key] for c in counts)
    return [*counts, total | {"published_tasks": registry.taxonomy.published_tasks}]


def _covered(name: str, subcategories: Sequence[Entry]) -> Entry:
    tasks = [task for sub in subcategories for task in sub["tasks"]]
    return {
        "name": name,
        "subcategories": len(subcategories),
        "subcategories_covered": sum(bool(sub["benchmarks"]) for sub in subcategories),
        "tasks": len(tasks),
        "tasks_covered": sum(bool(task["benchmarks"]) for task in tasks),
        "benchmarks": sum(len(sub["benchmarks"]) for sub in subcategories),
    }


# Showing -----------------------------------------------------------------------------------


def _show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for n, name in enumerate(columns):
        table.add_column(name, no_wrap=n == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    make_console().print(table)


def _show_benchmarks(entries: Sequence[Entry]) -> None:
    rows = [
        (
            e["name"],
            e["title"],
            e["subcategory"],
            e["access"],
            "?" if e["instances"] is None else str(e["instances"]),
            ", ".join(e["metrics"]),
            "full" if e["has_full_data"] else "samples" if e["has_samples"] else "none",
        )
        for e in entries
    ]
    _show_table(("name", "title", "subcategory", "access", "n", "metrics", "data here"), rows)


def _show_models(entries: Sequence[Entry]) -> None:
    rows = [
        (
            e["name"],
            e["provider"],
            e["endpoint_class"],
            "none" if e["provider"] == "baseline" else price_text(e["price"]),
            e["note"],
        )
        for e in entries
    ]
    _show_table(("name", "provider", "endpoint", "USD per million tokens", "note"), rows)
    print("Any model of an OpenAI-protocol endpoint: model=openai/ITS-NAME model.base_url=URL")


def _show_metrics(entries: Sequence[Entry]) -> None:
    rows = [
        (
            e["name"],
            e["scoring"],
            f"{e['minimum']:g} to {e['maximum']:g}",
            "none" if e["floor"] is None else f"{e['floor']:g}",
            "higher" if e["higher_is_better"] else "lower",
            e["aggregation"],
            str(e["benchmarks"]),
        )
        for e in entries
    ]
    columns = ("name", "scoring", "range", "floor", "better", "aggregation", "benchmarks")
    _show_table(columns, rows)
    print("By name, as secondary metrics:")
    print("  bertscore, bertscore:MODEL@LAYER#precision|#recall: BERTScore (extra bertscore)")
    print("  evaluate:NAME: any metric of the evaluate library")
    print("`medhelm describe bertscore` and `medhelm describe evaluate:NAME` show what they are.")
    if own := [e["name"] for e in entries if not e["has_published_form"]]:
        print(f"Under scoring=helm {AS_FIXED}: {', '.join(own)}")


def _show_suites(entries: Sequence[Entry]) -> None:
    _show_table(("name", "benchmarks"), [(e["name"], ", ".join(e["benchmarks"])) for e in entries])


def _show_profiles(entries: Sequence[Entry]) -> None:
    rows = [
        (
            e["name"],
            str(len(e["thresholds"])),
            ", ".join(dict.fromkeys(t["benchmark"] for t in e["thresholds"])),
            e["description"],
        )
        for e in entries
    ]
    _show_table(("name", "thresholds", "benchmarks", "description"), rows)
    print("`medhelm describe NAME` shows the thresholds, `medhelm gate --profile NAME` uses them.")


def _show_taxonomy(entries: Sequence[Entry]) -> None:
    from rich.tree import Tree

    root = Tree("taxonomy")
    for category in entries:
        facts = "\n".join(
            f"[dim]{name}:[/dim] {category[name]}"
            for name in ("definition", "inclusion", "performer")
        )
        branch = root.add(f"[bold]{category['name']}[/bold]\n{facts}")
        for sub in category["subcategories"]:
            on = ", ".join(sub["benchmarks"])
            mark = f"[green]{on}[/green]" if on else "[yellow]no benchmark[/yellow]"
            twig = branch.add(f"{sub['name']} ({sub['id']}): {mark}")
            for task in sub["tasks"]:
                own = ", ".join(task["benchmarks"])
                twig.add(f"[dim]{task['name']}[/dim]" + (f" [green]{own}[/green]" if own else ""))
    make_console().print(root, highlight=False)


def _show_coverage(entries: Sequence[Entry]) -> None:
    rows = [
        (
            e["name"],
            f"{e['subcategories_covered']} of {e['subcategories']}",
            f"{e['tasks_covered']} of {e['tasks']}",
            str(e["benchmarks"]),
        )
        for e in entries
    ]
    _show_table(("category", "subcategories covered", "tasks covered", "benchmarks"), rows)
    print(f"The paper counts {entries[-1]['published_tasks']} tasks; its printed list names fewer.")


_LISTS: dict[
    str, tuple[Callable[[Registry, Path], list[Entry]], Callable[[Sequence[Entry]], None]]
] = {
    "benchmarks": (_benchmarks, _show_benchmarks),
    "models": (_models, _show_models),
    "metrics": (_metrics, _show_metrics),
    "suites": (_suites, _show_suites),
    "profiles": (_profiles, _show_profiles),
    "taxonomy": (_taxonomy, _show_taxonomy),
    "coverage": (_coverage, _show_coverage),
}
