"""Credit by the votes of a panel: worked by hand."""

import msgspec
import pytest

from medhelm.errors import DataError
from medhelm.grading.grade import grade
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm_metrics.script_concordance import ExpertShare, ScriptConcordance, read_value

COUNTS = Instance(
    id="1",
    references=("+1",),
    answer_key={"-2": "0", "-1": "1", "0": "2", "+1": "5", "+2": "3"},
)
"""Eleven experts: 5 of them, the most, chose +1."""
SHARES = Instance(
    id="2",
    references=("-1",),
    answer_key={"-2": "0.5", "-1": "1", "0": "1", "+1": "0", "+2": "0.25"},
)


def credit(instance: Instance, text: str, metric: ScriptConcordance) -> float | None:
    return grade(
        metric, Episode(instance=instance, response=Response(instance_id="1", text=text))
    ).value


@pytest.mark.parametrize(
    ("instance", "reply", "value", "any_expert"),
    [
        (COUNTS, "+1", 1.0, 1.0),
        (COUNTS, "+2", 0.6, 1.0),
        (COUNTS, "0", 0.4, 1.0),
        (COUNTS, "-1", 0.2, 1.0),
        (COUNTS, "-2", 0.0, 0.0),
        (SHARES, "-1", 1.0, 1.0),
        (SHARES, "0", 1.0, 1.0),  # as many as -1: full credit, too
        (SHARES, "-2", 0.5, 1.0),
        (SHARES, "+2", 0.25, 1.0),
        (SHARES, "1", 0.0, 0.0),
    ],
)
def test_the_credit(instance: Instance, reply: str, value: float, any_expert: float) -> None:
    assert credit(instance, reply, ScriptConcordance()) == pytest.approx(value)
    assert credit(instance, reply, ExpertShare()) == any_expert


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("1", "+1"),
        ("\u22122", "-2"),
        ("**Rating: +2**", "+2"),
        ("**Rating:** -1\n\n**Why:** Troponin rose from 12 to 90 ng/L.", "-1"),
        ("On a scale from -2 to +2, I would rate this +1.", "+1"),
        ("- +1 (more likely)", "+1"),
        ("She has 2 risk factors and a CRP of 150.\n\nFinal answer: -1", "-1"),
        ("0.", "0"),
    ],
)
def test_how_a_value_is_written(reply: str, value: str) -> None:
    assert read_value(reply).value == value


@pytest.mark.parametrize(
    "reply",
    ["", "+1 or +2", "between 0 and +1", "-2 to +2", "3", "0.5", "more likely", "20"]
    + ["+1\n\nOn second thought, my rating is +2.", "Answer: +1. No wait, it's -1."],
)
def test_what_is_no_value(reply: str) -> None:
    assert read_value(reply).value is None


def test_weights_that_say_nothing_are_an_error() -> None:
    for weights in ({}, dict.fromkeys(COUNTS.answer_key, "0"), COUNTS.answer_key | {"0": "x"}):
        broken = msgspec.structs.replace(COUNTS, answer_key=weights)
        with pytest.raises(DataError, match="'1'"):
            credit(broken, "0", ScriptConcordance())
