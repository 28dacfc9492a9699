"""What single benchmarks promise beyond their mapping: no constant wins, the language of the question, slices."""

from collections import Counter
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.data.variants import vary
from medhelm.plugins.registry import load_registry
from medhelm.proof.validation import validate
from medhelm.schema.data import Instance
from tests.cases import cases

from .conftest import load
from .test_mappings import MAPPINGS
from .written import write


def test_truthfulqa_health_orders_by_the_question() -> None:
    to_instance, row = load("truthfulqa_health").to_instance, MAPPINGS["truthfulqa_health"]["row"]
    golds: Counter[str] = Counter()
    for n in range(40):
        instance = to_instance(row | {"Question": f"Is it so, {n}?"})
        assert isinstance(instance, Instance)
        golds[instance.references[0]] += 1
        assert instance.choices["AB".index(instance.references[0])] == "No, it does not"
    assert set(golds) == {"A", "B"} and min(golds.values()) >= 10


@pytest.mark.slow
def test_no_constant_gains_in_med_halt(tmp_path: Path) -> None:
    """Half of what counts is right for the last option throughout, and its number tells nothing."""
    names = ("Ulna", "Radius", "Tibia", "Fibula")
    for config in ("FCT", "nota", "fake"):
        lines = []
        for n in range(24):
            options = dict(enumerate(names[:3] if config == "nota" else names))
            wrong, right = names[(n + 1) % 4], names[n % 4]
            asked = {"correct answer": right if n < 4 else wrong} if config == "FCT" else {}
            lines.append([str(n), f"Which bone is {config} {n}?", str(options | asked), right])
        head = ["id", "question", "options", "correct_answer"]
        write(tmp_path, "med_halt", {f"reasoning_{config}.csv": [head, *lines]})
    registry = load_registry()
    benchmark = registry.benchmark("med_halt")
    instances = list(open_dataset(benchmark, "full", root=tmp_path).instances())
    sizes = {(i.metadata["part"], len(i.choices)) for i in instances}
    assert sizes == {(part, 2 if "proposal" in part else 4) for part in benchmark.parts}
    for own in (i for i in instances if i.metadata["part"] in ("none_wrong", "sensible")):
        assert own.choices[ord(own.references[0]) - 65] == names[int(own.id[4:]) % 4]
    facts = validate(benchmark, "full", registry, tmp_path).facts
    assert facts is not None
    headline = {a: s["chance_corrected_accuracy"] or 0.0 for a, s in facts.scores.items()}
    assert (headline["oracle"], headline["last option"], headline["empty"]) == (1, 0, -1)
    assert all(s < 0.1 for answer, s in headline.items() if answer != "oracle")
    last = facts.parts["last option"]
    assert [last[part] for part in benchmark.parts] == [-1, 1, 1, -1, 1, -1]


@pytest.mark.parametrize(
    ("name", "expected"), cases(__file__, "none_of_these_is_in_the_language_of_the_question")
)
def test_none_of_these_is_in_the_language_of_the_question(
    name: str, expected: dict[str, str], tmp_path: Path
) -> None:
    whole = open_dataset(load_registry().benchmark(name), "sample", root=tmp_path)
    form = vary(whole, "none_of_these", 0)
    assert form is not None
    found = {
        (one.metadata.get("part", "") if name != "healthqa_br" else "", right)
        for one in form.instances()
        for right in [one.choices["ABCDEFGHIJ".index(one.references[0])]]
    }
    assert found == set(expected.items())
