from collections import Counter
from collections.abc import Callable
from typing import Any

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW: dict[str, Any] = {
    "question_id": "335",
    "sct_stem": "A child has had ear pain for two days. It has 38\u00c2\u00b0C.",
    "question": "If you were considering: Irrigation",
    "additional_info": "And then you find: tubes in both ears",
    "-2": "9.0",
    "-1": "1.0",
    "0": "",
    "1": "0.0",
    "2": "0.0",
    "source": "Open Medical SCT",
    "Student Average Response": "-1.7",
}


def test_a_row_and_its_prompt() -> None:
    benchmark = load("sct_bench")
    instance = benchmark.to_instance(ROW)
    assert instance is not None and instance.cluster is not None
    assert instance.references == ("-2",)
    assert instance.answer_key == {"-2": "9", "-1": "1", "0": "0", "+1": "0", "+2": "0"}
    assert instance.context.endswith("It has 38\u00b0C.")
    assert instance.metadata == {"source": "Open Medical SCT"}
    shown = prompt(benchmark, instance)
    assert shown.endswith(
        "If you were considering: Irrigation\nAnd then you find: tubes in both ears\n\n"
        "Reply with one value alone: -2, -1, 0, +1 or +2."
    )
    assert "-1.7" not in shown


def test_the_real_file(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("sct_bench")
    sources = Counter(i.metadata["source"] for i in instances)
    assert sources == {"Adelaide SCT": 102, "Open Medical SCT": 72}
    assert len({i.cluster for i in instances}) == 75
    votes = [{v: float(n) for v, n in i.answer_key.items()} for i in instances]
    assert sum([*v.values()].count(max(v.values())) > 1 for v in votes) == 12
    shares = {"-2": 0.277, "-1": 0.303, "0": 0.236, "+1": 0.423, "+2": 0.396}
    for value, share in shares.items():
        assert round(sum(v[value] / max(v.values()) for v in votes) / 174, 3) == share
    text = "".join(i.context + i.question for i in instances)
    assert not any(mark in text for mark in "\u00c2\u00cb\u00e2\x80\x9a")
