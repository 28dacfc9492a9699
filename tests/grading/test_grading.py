from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import DataError, PluginError
from medhelm.grading.grade import in_parts, metric_ref, summands
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Finish, Response
from medhelm.schema.run import MetricRef
from medhelm.schema.score import FLOORED, Metric, Outcome, Score, Scoring
from medhelm.stats.aggregation import MEAN_OF_PARTS, Pooling
from tests.graded import grade
from tests.poolings import aggregation

SECRET = "the patient's name is Ada"
INSTANCE = Instance(id="case-7", context=SECRET, references=("A",))


def test_scores_of_parts_make_the_mean_of_the_parts_means() -> None:
    """3 of part a: 1, 0, 0.5; 1 of part b: 1. The mean of the parts is 0.75, of all 0.625."""
    parts = ("a", "b", "never seen")
    values = [("a", 1.0), ("a", 0.0), ("a", 0.5), ("b", 1.0)]
    ref = metric_ref(gives(Score(value=1.0)), parts)
    assert ref.aggregation == "mean_of_parts"
    rows = []
    for part, value in values:
        instance = Instance(id="i", metadata={"part": part})
        score = grade(gives(Score(value=value)), instance, said())
        rows.append(in_parts(score, ref.aggregation, instance, parts).sums)
    names = tuple(rows[0])
    assert names == tuple(f"{head}/{part}" for part in parts for head in ("sum", "count"))
    assert all(tuple(own) == names for own in rows)
    assert [(own["sum/a"], own["sum/b"]) for own in rows] == [(1, 0), (0, 0), (0.5, 0), (0, 1)]
    assert [(own["count/a"], own["count/b"]) for own in rows] == [(1, 0)] * 3 + [(0, 1)]
    value = Pooling(MEAN_OF_PARTS, names)
    assert value(np.array([sum(own[name] for own in rows) for name in names])) == 0.75
    assert math.isnan(float(value(np.zeros(6))))


def test_an_instance_of_no_part_is_named_and_a_users_mistake_passes_through() -> None:
    score = grade(gives(Score(value=1.0)), INSTANCE, said())
    assert in_parts(score, "mean", INSTANCE, ()) == score
    with pytest.raises(DataError, match="'case-7' .*: a, b"):
        in_parts(score, "mean_of_parts", INSTANCE, ("a", "b"))

    def fail() -> Score:
        raise DataError("instance 'case-7' has no reference")

    with pytest.raises(DataError, match="no reference"):
        grade(Fake(answer=fail), INSTANCE, said())


def test_an_uninformative_gold_gives_no_value() -> None:
    told = Score(value=None, outcome="uninformative", reason="the gold gives no row")
    assert grade(gives(told), INSTANCE, said()) == told
    with pytest.raises(PluginError, match="outcome 'uninformative'"):
        grade(gives(Score(value=1.0, outcome="uninformative")), INSTANCE, said())


@dataclass(frozen=True, kw_only=True)
class Fake(Metric):
    """Returns what it is told, so that a test can misbehave."""

    name: str = "fake"
    answer: Callable[[], Score]

    def score(self, instance: Instance, episode: Episode) -> Score:
        return self.answer()


def gives(score: Score, **fields: object) -> Fake:
    return Fake(answer=lambda: score, **fields)  # type: ignore[arg-type]


def said(text: str = SECRET, finish: Finish = "stop", error: str = "") -> Response:
    return Response(instance_id="case-7", text=text, finish=finish, error=error)


UNPARSED = Score(value=None, outcome="unparsed", extracted="x", reason="why")


@pytest.mark.parametrize(
    ("response", "score", "value", "outcome"),
    [
        (said(), Score(value=0.75), 0.75, "scored"),
        (said(), UNPARSED, 0.25, "unparsed"),
        (said(finish="length"), Score(value=0.75), 0.75, "scored"),
        (said(finish="length"), UNPARSED, 0.25, "truncated"),
        (said(" \n\t"), Score(value=0.75), 0.25, "empty"),
        (said("", "length"), Score(value=0.75), 0.25, "truncated"),
        (said("I will not", "refusal"), Score(value=0.75), 0.25, "refused"),
        (said("", "refusal"), Score(value=0.75), 0.25, "refused"),
        (said("", "error", "http 500"), Score(value=0.75), None, "error"),
        (said("half an answ", "error", "timeout"), Score(value=0.75), None, "error"),
        (said("", "oversize"), Score(value=0.75), None, "oversize"),
        (said(), Score(value=None, outcome="unscored", reason="no rows"), None, "unscored"),
    ],
)
def test_every_response_has_its_outcome(
    response: Response, score: Score, value: float | None, outcome: Outcome
) -> None:
    graded = grade(gives(score, floor=0.25), INSTANCE, response)
    assert (graded.value, graded.outcome) == (value, outcome)
    assert summands(graded) == ({} if value is None else {"sum": value, "count": 1.0})
    assert (graded.value is None) == (outcome in ("error", "oversize", "unscored"))
    assert (outcome in FLOORED) == (value == 0.25)


def test_reasons_and_what_was_read_are_kept_and_errors_have_their_floor_at_the_bad_end() -> None:
    graded = grade(gives(UNPARSED), INSTANCE, said())
    assert (graded.reason, graded.extracted) == ("why", "x")
    assert grade(gives(UNPARSED), INSTANCE, said("", "error", "http 500")).reason == "http 500"
    worse = gives(UNPARSED, minimum=0.0, maximum=10.0, floor=10.0, higher_is_better=False)
    assert grade(worse, INSTANCE, said()).value == 10.0


def test_statistics_pass_through_and_are_required_where_the_run_is_no_mean() -> None:
    counts = {"fn": 1, "tp": 1, "fp": 1}
    pooled = gives(Score(value=0.5, sums=counts), aggregation=aggregation("micro_f1"))
    assert grade(pooled, INSTANCE, said()).sums == counts
    with pytest.raises(PluginError, match="'tp'.*: tp, fp, fn"):
        grade(gives(Score(value=0.5), aggregation=aggregation("micro_f1")), INSTANCE, said())
    with pytest.raises(PluginError, match="without the sum 'tp'"):
        grade(pooled, INSTANCE, said(""))  # the default floor_score knows no counts


@pytest.mark.parametrize(
    ("sums", "fault"),
    [
        ({"tp": 1, "fp": 1}, "gave a score without the sum 'fn'"),
        ({"tp": 1, "fp": 1, "fn": 1, "tpp": 1}, "gave the sum 'tpp', .*; did you mean 'tp'"),
        ({"tp": 1, "fp": 1, "fn": math.nan}, "gave nan as sum 'fn', not a finite number"),
        ({"tp": 1, "fp": 1, "fn": None}, "gave None as sum 'fn', not a finite number"),
    ],
)
def test_sums_that_are_not_the_declared_ones_are_refused(sums: Any, fault: str) -> None:
    given = gives(Score(value=0.5, sums=sums), aggregation=aggregation("micro_f1"))
    with pytest.raises(PluginError, match=f"'fake'.*{fault}.*'case-7'") as caught:
        grade(given, INSTANCE, said())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sums", [{}, {"tp/a": 1, "fp/a": 1, "fn/b": 1}, {"tp/a": 1, "fp/a": 0}])
def test_every_label_has_all_its_sums(sums: dict[str, float]) -> None:
    whole = {"tp/a": 1, "fp/a": 0, "fn/a": 0, "tp/b": 0, "fp/b": 0, "fn/b": 2}
    macro = {"aggregation": aggregation("macro_f1")}
    assert grade(gives(Score(value=0.5, sums=whole), **macro), INSTANCE, said()).sums == whole
    with pytest.raises(PluginError, match=r"without .*tp/\*, fp/\*, fn/\*"):
        grade(gives(Score(value=0.5, sums=sums), **macro), INSTANCE, said())


def test_a_mean_takes_no_sums() -> None:
    with pytest.raises(PluginError, match="'sum', its sums .*none"):
        grade(gives(Score(value=0.5, sums={"sum": 1.0, "count": 2.0})), INSTANCE, said())


def test_rounding_at_the_border_is_set_to_the_border() -> None:
    assert grade(gives(Score(value=1 + 1e-12)), INSTANCE, said()).value == 1.0
    assert grade(gives(Score(value=-1e-12)), INSTANCE, said()).value == 0.0


@pytest.mark.parametrize(
    "score",
    [
        Score(value=None),
        Score(value=None, outcome="empty"),
        Score(value=0.5, outcome="empty"),
        Score(value=0.5, outcome="error"),
        Score(value=0.5, outcome="unscored"),
        Score(value=0.5, sums={"sum": math.nan}),
        None,
        0.5,
        *(Score(value=v) for v in (math.nan, math.inf, -math.inf, 1.5, -0.1, 1 + 1e-6)),
        Score(value="0.5"),  # type: ignore[arg-type]
        Score(value=[0.5]),  # type: ignore[arg-type]
    ],
)
def test_a_score_that_cannot_be_is_refused(score: Score) -> None:
    with pytest.raises(PluginError, match="'fake'.*'case-7'") as caught:
        grade(gives(score), INSTANCE, said())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), RecursionError(SECRET)])
def test_a_metric_that_raises_is_named_and_its_text_is_not_shown(error: Exception) -> None:
    def fail() -> Score:
        raise error

    with pytest.raises(PluginError) as caught:
        grade(Fake(answer=fail), INSTANCE, said())
    message = str(caught.value)
    assert all(word in message for word in ("'fake'", "'case-7'", type(error).__name__))
    assert SECRET not in message and "\n" not in message
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_floor_that_raises_or_is_out_of_range_is_named() -> None:
    with pytest.raises(PluginError, match="'fake'.*2"):
        grade(gives(UNPARSED, floor=2.0), INSTANCE, said())

    class Broken(Fake):
        def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
            raise ValueError(SECRET)

    with pytest.raises(PluginError, match="ValueError in floor_score"):
        grade(Broken(answer=lambda: UNPARSED), INSTANCE, said())


@given(
    st.text(max_size=20),
    st.sampled_from(["stop", "length", "refusal", "oversize", "error"]),
    st.sampled_from([Score(value=0.0), Score(value=1.0), UNPARSED]),
)
def test_missing_is_never_a_score(text: str, finish: Finish, score: Score) -> None:
    graded = grade(gives(score), INSTANCE, said(text, finish))
    assert (graded.value is None) == (finish in ("error", "oversize"))
    assert bool(summands(graded)) == (graded.value is not None)
    if graded.outcome in FLOORED:
        assert graded.value == 0.0
    assert msgspec.json.decode(msgspec.json.encode(graded), type=Score) == graded


@pytest.mark.parametrize("scoring", ["fixed", "helm"])
def test_a_reference_to_a_metric_holds_all_but_its_code(scoring: Scoring) -> None:
    fake = gives(UNPARSED, version="3", scoring=scoring, minimum=1.0, maximum=5.0, floor=1.0)
    assert metric_ref(fake) == MetricRef(
        name="fake",
        version="3",
        scoring=scoring,
        minimum=1.0,
        maximum=5.0,
        floor=1.0,
        higher_is_better=True,
        aggregation="mean",
    )
