"""Draw worked examples: never one that is scored, nor one of its cluster."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal

from medhelm.data.dataset import Dataset, open_dataset, open_rows
from medhelm.data.instance_ids import hash64
from medhelm.errors import DataError, UsageError
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark, Instance
from medhelm.store.records import order_key

EXAMPLES = "examples"
"""The name of the split that a file of the user's is."""


@dataclass(frozen=True)
class Drawn:
    """The examples of a run, in the order in which they are shown."""

    instances: tuple[Instance, ...]
    sha256: str
    """Of what they were drawn from."""


def draw_examples(
    benchmark: Benchmark, asking: Asking, scored: Dataset, seed: int, root: Path
) -> Drawn:
    """Return as many examples as an asking wants: the first in an order decided by the seed.

    `scored`: the data under test. What has its text, or a cluster of it, is left out. `balanced`: gold
    labels take turns. Raises UsageError where no examples are declared, DataError where they are too few.
    """
    pool = _pool(benchmark, asking, scored, root)
    taken = set(_keys(scored.instances()))
    by_label: dict[str, list[tuple[int, Instance]]] = {}
    for instance in pool.instances():
        own = [key for key in _keys([instance]) if key in taken]
        if own or not instance.references:
            continue
        label = instance.references[0] if asking.balanced else ""
        best = by_label.setdefault(label, [])
        entry = (-order_key(seed, instance.id), instance)
        if len(best) < asking.examples:
            heapq.heappush(best, entry)
        elif entry[0] > best[0][0]:
            heapq.heapreplace(best, entry)
    found = [*_in_turns(by_label, seed)][: asking.examples]
    if len(found) < asking.examples:
        raise DataError(
            f"{benchmark.name}: {pool.split} has {len(found)} example(s) that are not in the data under "
            f"test, examples={asking.examples} needs more; take fewer"
        )
    return Drawn(tuple(found), pool.sha256)


def _in_turns(by_label: Mapping[str, list[tuple[int, Instance]]], seed: int) -> Iterator[Instance]:
    """Yield one instance of each label, then the second ones and so on; labels and instances in drawn order."""
    labels = sorted(by_label, key=lambda label: order_key(seed, label))
    rows = (sorted(by_label[label], key=lambda entry: -entry[0]) for label in labels)
    return (entry[1] for entry in chain.from_iterable(zip_longest(*rows)) if entry is not None)


def _pool(benchmark: Benchmark, asking: Asking, scored: Dataset, root: Path) -> Dataset:
    """Return the data that examples are drawn from."""
    if asking.examples_from:
        return open_rows(benchmark, Path(asking.examples_from).expanduser(), EXAMPLES)
    data: Literal["sample", "full"] = scored.data
    if not benchmark.examples or data == "sample":
        why = "declares none" if data == "full" else "has none among its samples"
        raise UsageError(
            f"examples={asking.examples}: {benchmark.name} {why}; name a file with rows like its own by "
            "ask.examples_from=FILE"
        )
    if scored.split == benchmark.examples:
        raise UsageError(
            f"examples={asking.examples}: the examples of {benchmark.name} are in the split "
            f"{scored.split!r}, which is the one under test; choose another benchmark.split"
        )
    try:
        return open_dataset(benchmark, data, split=benchmark.examples, root=root)
    except DataError as e:
        raise DataError(
            f"{e}; `medhelm data fetch {benchmark.name} --examples` gets the examples"
        ) from None


def _keys(instances: Iterator[Instance] | list[Instance]) -> Iterator[int]:
    """Yield hashes of each instance's text, and of its cluster."""
    for instance in instances:
        shown = "\0".join((instance.context, instance.question, *sorted(instance.choices)))
        yield hash64(" ".join(shown.casefold().split()).encode("utf-8", "replace"))
        if instance.cluster is not None:
            yield hash64(b"cluster\0" + instance.cluster.encode("utf-8", "replace"))
