"""Scores fixed answers with this package and stores the counts.

    python scripts/others/this_package.py DATA

DATA is the folder of the full data. Run by hand, like the scripts of the other harnesses.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from answers import MMLU, replies
from stored import Score, store

from medhelm.data.dataset import open_dataset
from medhelm.plugins.registry import load_registry
from medhelm.schema.episode import Episode, Response


def score_mmlu(data: Path) -> Iterator[Score]:
    """Yield what replies to the six medical subjects get."""
    registry = load_registry([])
    benchmark = registry.benchmarks["mmlu_medical"]
    dataset = open_dataset(benchmark, "full", root=data)
    metric = registry.metric(benchmark.metrics[0]).prepare(dataset.folder)
    counts: Counter[str] = Counter()
    points: dict[str, float] = {}
    unread: Counter[str] = Counter()
    for instance in dataset.instances():
        row = {
            "answer_idx": instance.references[0],
            "options": dict(zip("ABCD", instance.choices, strict=True)),
        }
        for form, reply in replies(row).items():
            response = Response(instance_id=instance.id, text=reply)
            score = metric.score(instance, Episode(instance=instance, response=response))
            value = score.value
            counts[form] += 1
            points[form] = points.get(form, 0.0) + (value or 0.0)
            unread[form] += value is None
    for form, n in counts.items():
        own = n - unread[form]
        yield Score("mmlu_medical", "exact_match", form, "all", own, points[form], unread[form])


def main() -> int:
    """Store what this package gives the items."""
    data = Path(sys.argv[1])
    store("this package", ["medhelm-framework"], [*score_mmlu(data)], data, [MMLU])
    return 0


if __name__ == "__main__":
    sys.exit(main())
