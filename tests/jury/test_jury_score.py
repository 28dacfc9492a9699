"""A jury's score by hand: means, quorum, one judge, one criterion, who is still missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.grading.graders.grader import GraderVerdict
from medhelm.grading.graders.panel import Judging, StoredVerdicts
from medhelm.grading.jury.grader import jury_grader
from medhelm.grading.jury.metric import Jury, jury_metrics
from medhelm.protocols.completion import COMPLETION
from medhelm.schema.data import Criterion, Instance, Rubric
from medhelm.schema.episode import Episode, Response
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JurySpec, JuryTerms
from tests.graded import grade

RUBRIC = Rubric(
    name="r",
    version="1",
    task="Rate.",
    criteria=(Criterion(name="accuracy", text="?"), Criterion(name="clarity", text="?")),
)
CASE = Instance(id="i", question="Why?")
ANSWER = Response(instance_id="i", text="Flu.")


class Said:
    def __init__(self, *scores: tuple[int, ...] | None) -> None:
        self.judges = tuple("abc"[: len(scores)])
        self._scores = scores

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        return tuple(
            GraderVerdict(
                judge=j, state={"scores": [*s]} if s else None, reason="" if s else "refused"
            )
            for j, s in zip(self.judges, self._scores, strict=True)
        )


def metric(name: str, *scores: tuple[int, ...] | None, quorum: int = 2) -> Jury:
    return next(m for m in jury_metrics(RUBRIC, Said(*scores), quorum) if m.name == name)


def test_the_score_is_the_mean_of_judges_of_the_mean_of_criteria() -> None:
    three = ((5, 4), (3, 2), (1, 1))
    assert grade(metric("jury", *three), CASE, ANSWER).value == pytest.approx((4.5 + 2.5 + 1) / 3)
    assert grade(metric("jury[b]", *three), CASE, ANSWER).value == 2.5
    assert grade(metric("jury.accuracy", *three), CASE, ANSWER).value == 3.0
    assert grade(metric("jury.clarity", *three), CASE, ANSWER).value == pytest.approx(7 / 3)


def test_below_the_quorum_there_is_no_score_and_an_abstention_is_no_zero() -> None:
    two = grade(metric("jury", (5, 5), (4, 4), None), CASE, ANSWER)
    assert (two.value, two.outcome) == (4.5, "scored")
    one = grade(metric("jury", (5, 5), None, None), CASE, ANSWER)
    assert (one.value, one.outcome) == (None, "unscored")
    assert one.reason == "1 of 2 needed verdicts (b: refused; c: refused)"
    assert grade(metric("jury[a]", (5, 5), None, None), CASE, ANSWER).value == 5.0
    assert grade(metric("jury[b]", (5, 5), None, None), CASE, ANSWER).outcome == "unscored"


def test_an_answer_of_thoughts_alone_counts_as_unread() -> None:
    thought = Response(instance_id="i", text="<think>It is the flu.</think>")
    found = grade(metric("jury", (5, 5), (5, 5)), CASE, thought)
    assert (found.value, found.outcome) == (1.0, "unparsed")


def test_an_answer_is_below_the_quorum_while_a_judge_is_missing(tmp_path: Path) -> None:
    judges = tuple(ModelSpec(name=n, model=n) for n in "ab")
    terms = JuryTerms(jury=JurySpec(name="j", judges=judges), rubric=RUBRIC, version="1")
    own = GraderTerms(grader="jury", version="1", jury=terms.jury)
    judging = Judging(jury_grader(terms), own, (tmp_path / "a", tmp_path / "b"))
    panel = StoredVerdicts(judging, COMPLETION)
    panel.verdicts(CASE, Episode(instance=CASE, response=ANSWER))
    assert (panel.not_judged, panel.below_quorum) == (2, 1)
    key = next(iter(panel._asked))
    for said in panel._said:
        said[key] = (b"", "refused")  # both gave a final answer: nobody is still to be asked
    again = Response(instance_id="i", text="Flu.")
    panel.verdicts(CASE, Episode(instance=CASE, response=again))
    assert (panel.not_judged, panel.below_quorum) == (2, 1)
