"""Was a benchmark public before the training data of a model end?"""

from pathlib import Path

import pytest

from medhelm import load_results
from medhelm.schema.model import ModelSpec
from medhelm.tables.benchmarks import was_public
from tests.build_runs import items, write_run


@pytest.mark.parametrize(
    ("since", "cutoff", "expected"),
    [
        ("2020-09-28", "2023-10", "yes"),
        ("2024-01", "2023-10", "no"),
        ("2023-10-20", "2023-10", "same month"),
        ("2023-11-01", "2023", "same year"),
        ("2022", "2023-10", "yes"),
        ("", "2023-10", "not known"),
        ("2020", "", "not known"),
    ],
)
def test_dates_are_compared_as_precisely_as_the_vaguer_one(
    since: str, cutoff: str, expected: str
) -> None:
    assert was_public(since, cutoff) == expected


def test_the_table(tmp_path: Path) -> None:
    old = ModelSpec(name="a", training_cutoff="2019-06")
    new = ModelSpec(name="b", training_cutoff="2023-10")
    card = {"public_since": "2020-09-28"}
    for model in (old, new, ModelSpec(name="c")):
        write_run(tmp_path, "x", model, items([1.0, 0.0]), card=card)
    rows = load_results(tmp_path).typed("exposure").rows
    found = {r["model"]: (r["public_since"], r["public_before_cutoff"], r["score"]) for r in rows}
    assert found == {
        "a": ("2020-09-28", "no", 0.5),
        "b": ("2020-09-28", "yes", 0.5),
        "c": ("2020-09-28", "not known", 0.5),
    }
