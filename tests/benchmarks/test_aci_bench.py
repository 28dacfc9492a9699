from collections import Counter
from collections.abc import Callable

from medhelm.schema.data import Instance

from .conftest import load, prompt

ROW = {
    "src": "[doctor] hi , any cough ?\n[patient] no .",
    "tgt": "HISTORY OF PRESENT ILLNESS\n\nNo cough.\n",
    "file": "D2N900-virtscribe",
}
QUESTION = (
    "Write the note of this visit under the four headings HISTORY OF PRESENT ILLNESS, "
    "PHYSICAL EXAM, RESULTS, ASSESSMENT AND PLAN."
)


def test_a_dialogue_and_its_prompt() -> None:
    benchmark = load("aci_bench")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="D2N900-virtscribe",
        context=ROW["src"],
        question=QUESTION,
        references=("HISTORY OF PRESENT ILLNESS\n\nNo cough.",),
        metadata={"sub_corpus": "virtscribe"},
    )
    assert prompt(benchmark, instance) == f"{benchmark.instruction}\n\n{ROW['src']}\n\n{QUESTION}"


def test_the_real_files(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("aci_bench")
    parts = Counter(i.metadata["sub_corpus"] for i in instances)
    assert parts == {"aci": 66, "virtassist": 30, "virtscribe": 24}
    numbers = [int(i.id[3:6]) for i in instances]
    assert [min(numbers[n : n + 40]) for n in (0, 40, 80)] == [88, 168, 128], "three files of 40"
    words = sum(len(i.context.split()) for i in instances)
    assert round(words / len(instances)) == 1316
    words = sum(len(i.references[0].split()) for i in instances)
    assert round(words / len(instances)) == 431
    assert len({i.context for i in instances}) == len({i.references for i in instances}) == 120
    assert not any(i.references[0] in i.context for i in instances)
