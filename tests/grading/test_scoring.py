"""Sums of a run's scores and tokens by hand."""

from __future__ import annotations

import msgspec

from medhelm.grading.jury.metric import default_jury
from medhelm.grading.scoring import Tally, _UsageSum
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Message, Response, Usage
from medhelm.schema.score import Score
from tests.build_runs import EXACT
from tests.store.test_records import SPEC


def episode(id: str, repeat: int = 0, **response: object) -> Episode:
    return Episode(
        instance=Instance(id=id),
        messages=(Message("user", "?"),),
        response=Response(instance_id=id, repeat=repeat, **response),  # type: ignore[arg-type]
    )


def score(value: float | None, outcome: str = "scored") -> Score:
    return Score(value=value, outcome=outcome)  # type: ignore[arg-type]


def test_an_instance_weighs_the_same_whatever_number_of_its_repeats_was_read() -> None:
    tally = Tally(default_jury(), has_repeats=True)
    for repeat, value in enumerate((1.0, 0.0, 1.0)):
        tally.add(episode("a", repeat), score(value))
    tally.add(episode("b", 0), score(0.0))
    tally.add(episode("b", 1), score(None, "error"))
    found = tally.result(EXACT)
    assert found.value == (2 / 3 + 0) / 2 and found.counted == 4
    assert found.outcomes == {"scored": 4, "error": 1}


def test_cut_answers_are_those_that_were_scored_all_the_same() -> None:
    tally = Tally(default_jury(), has_repeats=False)
    tally.add(episode("a", finish="length"), score(1.0))
    tally.add(episode("b", finish="length"), score(0.0, "truncated"))
    tally.add(episode("c"), score(0.0))
    assert tally.result(EXACT).cut == 1


def test_what_an_endpoint_does_not_report_is_unknown_and_not_0() -> None:
    sums = _UsageSum(msgspec.structs.replace(SPEC, max_output_tokens=10))
    sums.add(episode("a", usage=Usage(input_tokens=5, output_tokens=3)))
    sums.add(episode("b", usage=Usage(input_tokens=5)))
    sums.add(episode("c", finish="error"))
    totals = sums._own.totals()
    assert (totals.requests, totals.unknown, sums.errors) == (2, 1, 1)
    assert (totals.input_tokens, totals.output_tokens, totals.output_limit_tokens) == (10, 3, 20)
