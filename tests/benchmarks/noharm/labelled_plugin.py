"""Benchmarks of labelled actions whose data are of every class: a plugin for tests."""

from medhelm import Benchmark, FileDataset, SourceFile, hookimpl
from medhelm_benchmarks.noharm.rules.menu import ACTION_ITEMS, case_instance

METRICS = [
    "noharm_overall",
    "noharm_safety",
    "noharm_completeness",
    "noharm_restraint",
    "noharm_severe_rate",
    "noharm_harm",
    "noharm_overall_strict",
]


def labelled(name: str, data_class: str, redistributable: bool) -> Benchmark:
    """Return a benchmark that reads NAME/cases.jsonl."""
    return Benchmark(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description="Next steps, each labelled.",
        subcategory="planning_treatments",
        dataset=FileDataset(files=(SourceFile(name="cases.jsonl"),), source="made up"),
        to_instance=case_instance,
        prompt="plain",
        instruction="Label every step.",
        protocol="action_labels",
        answer="items",
        items=ACTION_ITEMS,
        metrics=METRICS,
        data_class=data_class,
        redistributable=redistributable,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return an open one, one that may not be redistributed, a gated and a private one."""
    return [
        labelled("labelled", "public", True),
        labelled("labelled_kept", "public", False),
        labelled("labelled_gated", "gated", True),
        labelled("labelled_private", "private", False),
    ]
