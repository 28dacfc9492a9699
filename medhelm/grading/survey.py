"""Survey all instances before one is graded, and the answers that are graded."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from string import ascii_uppercase

import msgspec

from medhelm.data.dataset import Dataset, RowCounts
from medhelm.data.instance_ids import SmallHashSet, hash64
from medhelm.models.baselines import open_baseline
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.model import ModelSpec

_GOLDS = 4096
_LONGEST_CONSTANT = 200


@dataclass
class Survey:
    """Facts of all instances that the grading of each one needs."""

    instances: int = 0
    digest: str = ""
    """Over all instances in order: a second reading must give the same."""
    most_choices: int = 0
    fewest_choices: int = 0
    golds: Counter[str] = field(default_factory=Counter)
    """Short golds; rare ones are dropped as the table grows."""
    rows: RowCounts = field(default_factory=RowCounts)
    repeated: int = 0
    """Instances whose text an earlier one has, under another id and in no cluster with it."""
    repeating: str = ""
    """The id of the first of them."""

    def common_gold(self) -> str:
        """Return the gold that most instances share, or an empty text if none is shared."""
        ranked = sorted(self.golds.items(), key=lambda item: (-item[1], item[0]))
        return ranked[0][0] if ranked and ranked[0][1] > 1 else ""


def survey(dataset: Dataset) -> Survey:
    """Return the facts from one reading of all instances."""
    found = Survey()
    digest, texts = hashlib.sha256(), SmallHashSet()
    for instance in dataset.instances(found.rows):
        found.instances += 1
        found.most_choices = max(found.most_choices, len(instance.choices))
        fewest = found.fewest_choices if found.instances > 1 else len(instance.choices)
        found.fewest_choices = min(fewest, len(instance.choices))
        digest.update(msgspec.json.encode(instance))
        if _is_repeated(instance, texts):
            found.repeated += 1
            found.repeating = found.repeating or instance.id
        for gold in instance.references[:1]:
            if len(gold) <= _LONGEST_CONSTANT:
                found.golds[gold] += 1
        if len(found.golds) > _GOLDS:
            found.golds = Counter({g: n for g, n in found.golds.items() if n > 1})
    found.digest = digest.hexdigest()
    return found


def _is_repeated(instance: Instance, texts: SmallHashSet) -> bool:
    """Return whether an earlier instance has the same text, and is in no cluster with this one."""
    text = msgspec.structs.replace(instance, id="", references=(), metadata={}, cluster=None)
    encoded = msgspec.json.encode(text)
    is_new = texts.add(hash64(encoded))
    is_apart = texts.add(hash64(encoded + b"\0" + (instance.cluster or "").encode()))
    return not is_new and (is_apart or not instance.cluster)


Answer = Callable[[Instance], str]
"""The completion for an instance."""


def embedded_answers(benchmark: Benchmark, dataset: Dataset, known: Survey) -> dict[str, Answer]:
    """Return the embedded answers by name; the oracle first."""

    def baseline(name: str) -> Answer:
        model = open_baseline(ModelSpec(name=f"baseline/{name}", provider="baseline"))
        model.prepare(benchmark, dataset.instances())
        return lambda instance: model.answer(benchmark, instance, 0)

    def constant(text: str) -> Answer:
        return lambda _: text

    further: dict[str, Answer] = {}
    if known.most_choices:
        constants = {c: c for c in ascii_uppercase[: known.most_choices]}
        if benchmark.parts and known.fewest_choices < known.most_choices:  # else it is a letter
            further["last option"] = lambda instance: ascii_uppercase[len(instance.choices) - 1]
    elif benchmark.answer == "number":
        constants = {value: value for value in benchmark.labels or ("0", "2")}
    elif benchmark.labels:
        constants = {benchmark.labels[0]: benchmark.labels[0]}
    else:  # not by its text, which may be of data that is not public
        constants = {"commonest gold": known.common_gold()}
    return {
        "oracle": baseline("oracle"),
        "empty": constant(""),
        **{f"constant {name}": constant(text) for name, text in constants.items() if text},
        **further,
        "random": baseline("random"),
    }
