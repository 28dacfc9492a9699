import re
from collections import Counter
from collections.abc import Callable

import pytest

from medhelm.errors import DataError
from medhelm.schema.data import Instance, LeftOut

from .conftest import load, prompt

ROW = {
    "Text ID": "ms-test-3",
    "Text": "He has croup. Values: Na 140 He gets insulin.",
    "Sentences": "0 He has croup.\r\n1 Values:\r\n\r\nNa 140 \r\n2 He gets insulin.\r\n",
    "Error Flag": "1",
    "Error Type": "treatment",
    "Error Sentence ID": "2",
    "Error Sentence": "He gets insulin.",
    "Corrected Sentence": "He gets\r\n dexamethasone.",
    "Corrected Text": "He has croup. Values: Na 140 He gets dexamethasone.",
}
CORRECT = ROW | {
    "Error Flag": "0",
    "Error Type": "NA",
    "Error Sentence ID": "-1",
    "Error Sentence": "NA",
    "Corrected Sentence": "NA",
    "Corrected Text": "NA",
}
NOTE = "0 He has croup.\n1 Values:\n\nNa 140\n2 He gets insulin."


def test_a_row_with_an_error_and_its_prompt() -> None:
    benchmark = load("medec")
    instance = benchmark.to_instance(ROW)
    assert instance == Instance(
        id="ms-test-3",
        context=NOTE,
        references=("2 He gets dexamethasone.",),
        answer_key={"error_flag": "1", "error_sentence_id": "2"},
        metadata={"error_type": "treatment"},
    )
    shown = prompt(benchmark, instance)
    assert shown == f"{benchmark.instruction}\n\n{NOTE}"
    assert "numbered from 0" in shown
    assert "dexamethasone" not in shown


def test_a_correct_row() -> None:
    assert load("medec").to_instance(CORRECT) == Instance(
        id="ms-test-3",
        context=NOTE,
        references=("CORRECT",),
        answer_key={"error_flag": "0", "error_sentence_id": "-1"},
        metadata={"error_type": "none"},
    )


def test_empty_records_are_left_out_and_an_unknown_flag_is_told() -> None:
    to_instance = load("medec").to_instance
    assert isinstance(to_instance(dict.fromkeys(ROW, "")), LeftOut)
    with pytest.raises(DataError, match="Error Flag is neither 0 nor 1"):
        to_instance(ROW | {"Error Flag": "2"})


def test_the_real_file(real_instances: Callable[..., list[Instance]]) -> None:
    instances = real_instances("medec")
    assert {i.id for i in instances} == {f"ms-test-{n}" for n in range(597)}
    assert Counter(i.answer_key["error_flag"] for i in instances) == {"1": 311, "0": 286}
    assert Counter(i.metadata["error_type"] for i in instances) == {
        "none": 286,
        "diagnosis": 116,
        "management": 97,
        "treatment": 51,
        "pharmacotherapy": 36,
        "causalOrganism": 11,
    }
    benchmark = load("medec")
    verbatim = []
    for instance in instances:
        if instance.answer_key["error_flag"] == "0":
            assert instance.references == ("CORRECT",)
            continue
        number, corrected = instance.references[0].split(maxsplit=1)
        assert number == instance.answer_key["error_sentence_id"]
        assert re.search(rf"(?m)^{number} ", instance.context), instance.id
        if corrected in " ".join(prompt(benchmark, instance).split()):
            verbatim.append(instance.id)
    assert verbatim == ["ms-test-153"], "the one note that holds its corrected sentence"
