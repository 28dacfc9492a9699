from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "realidx": 100,
    "question": "Which nerve\nsupplies the deltoid?",
    "options": {"A": "Axillary", "B": "Radial", "C": "Ulnar", "D": "a meritocracy. "},
    "answer_idx": "A",
    "subject": "anatomy",
    "answer": "Axillary",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("mmlu_medical")
    instance = benchmark.to_instance(ROW)
    assert instance is not None
    assert (instance.id, instance.references) == ("anatomy/100", ("A",))
    assert instance.choices[3] == "a meritocracy."
    assert instance.metadata == {"part": "anatomy"}
    assert "A. Axillary\nB. Radial\nC. Ulnar\nD. a meritocracy." in prompt(benchmark, instance)
    again = benchmark.to_instance(ROW | {"subject": "college_medicine", "realidx": 5})
    other = benchmark.to_instance(ROW | {"options": ROW["options"] | {"B": "Median"}})
    lost = {
        "question": "What is g (angle of incline, ?)?",
        "options": ROW["options"] | {"A": "sin ?"},
    }
    mended = benchmark.to_instance(ROW | lost)
    assert mended is not None and mended.choices[0] == "sin \u03b8"
    assert mended.question == "What is g (angle of incline, \u03b8)?"
    dotted = benchmark.to_instance(ROW | {"options": ROW["options"] | {"A": ". . . asthma."}})
    assert dotted is not None and dotted.choices[0] == "asthma."
    assert again is not None and other is not None
    assert again.cluster == instance.cluster != other.cluster


def test_the_real_file(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("mmlu_medical")
    golds = Counter(i.references[0] for i in instances)
    assert golds == {"A": 235, "B": 254, "C": 248, "D": 352}
    assert Counter(i.metadata["part"] for i in instances) == {
        "professional_medicine": 272,
        "clinical_knowledge": 265,
        "college_medicine": 173,
        "college_biology": 144,
        "anatomy": 135,
        "medical_genetics": 100,
    }
    members = defaultdict(list)
    for one in instances:
        members[one.cluster].append(one)
    assert len(members) == 1089 - 78 and len({i.question for i in instances}) == 1010
    twins = [pair for pair in members.values() if len(pair) > 1]
    assert {frozenset(i.metadata["part"] for i in pair) for pair in twins} == {
        frozenset({"clinical_knowledge", "college_medicine"})
    }
    assert all(len({i.references for i in pair}) == 1 for pair in twins)
    assert round(golds["A"] / 1089, 4) == 0.2158 and round(golds["D"] / 1089, 4) == 0.3232
