"""The words for none of the options are in the language that a benchmark declares for its questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.data.variants import vary
from medhelm.plugins.registry import load_registry


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("careqa", {"es": "Ninguna de estas", "en": "None of these"}),
        ("healthqa_br", {"": "Nenhuma destas"}),
        ("mmlu_clinical_afr", {"en": "None of these"}),
        ("headqa", {"": "None of these"}),
    ],
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
