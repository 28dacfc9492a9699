"""The offline graders and the jury's arithmetic, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.data.rubrics import known_rubrics, load_rubric, read_rubric
from medhelm.errors import PluginError, UnknownName
from medhelm.grading.graders.grader import GraderVerdict
from medhelm.grading.jury.grader import jury_grader
from medhelm.grading.jury.metric import (
    jury_metrics,
    longest_order,
    offline_jury,
    overlap,
    readability,
)
from medhelm.grading.panels import Judging, StoredVerdicts
from medhelm.proof.checks import jury_fault
from medhelm.protocols.completion import COMPLETION
from medhelm.schema.data import Criterion, Instance, Rubric
from medhelm.schema.episode import Episode, Response
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JurySpec, JuryTerms
from tests.graded import grade, said
from tests.made import benchmark

RUBRIC = Rubric(
    name="r",
    version="3",
    task="Rate it.",
    criteria=(Criterion(name="accuracy", text="?"), Criterion(name="clarity", text="?")),
)
GOLD = Instance(id="i", references=("give oral fluids and rest",))


def episode(instance: Instance, text: str) -> Episode:
    return Episode(instance=instance, response=said(text))


class Told:
    def __init__(self, **scores: tuple[int, ...] | None) -> None:
        self.judges = tuple(scores)
        self.scores = scores

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        return tuple(
            GraderVerdict(
                judge=j, state={"scores": [*s]} if s else None, reason="" if s else "unreadable"
            )
            for j, s in self.scores.items()
        )


def test_the_score_is_the_mean_over_judges_of_their_means_and_views_show_the_parts() -> None:
    """a: (5 + 2)/2 = 3.5, b: (1 + 2)/2 = 1.5: 2.5; accuracy (5 + 1)/2 = 3, clarity 2."""
    panel = Told(a=(5, 2), b=(1, 2), c=None)
    found = {m.name: grade(m, GOLD, said("x")) for m in jury_metrics(RUBRIC, panel, 2)}
    assert {n: s.value for n, s in found.items()} == {
        "jury": 2.5,
        "jury[a]": 3.5,
        "jury[b]": 1.5,
        "jury[c]": None,
        "jury.accuracy": 3.0,
        "jury.clarity": 2.0,
    }
    assert (found["jury[c]"].outcome, found["jury"].outcome) == ("unscored", "scored")


def test_below_the_quorum_there_is_no_score_and_it_says_who_abstained() -> None:
    panel = Told(a=(5, 5), b=None, c=None)
    found = {m.name: grade(m, GOLD, said("x")) for m in jury_metrics(RUBRIC, panel, 2)}
    assert (found["jury[a]"].value, found["jury[b]"].outcome) == (5.0, "unscored")
    score = found["jury"]
    assert (score.value, score.outcome) == (None, "unscored")
    assert score.reason == "1 of 2 needed verdicts (b: unreadable; c: unreadable)"


def test_an_answer_that_never_came_counts_the_floor_and_no_judge_is_heard() -> None:
    main = jury_metrics(RUBRIC, Told(a=(5, 5), b=(5, 5)), 2)[0]
    assert grade(main, GOLD, said("  ")).value == 1.0
    refused = Response(instance_id="i", finish="refusal")
    assert (grade(main, GOLD, refused).value, grade(main, GOLD, refused).outcome) == (
        1.0,
        "refused",
    )
    assert grade(main, GOLD, Response(instance_id="i", finish="error")).value is None


def test_an_answer_is_below_the_quorum_while_a_judge_is_missing(tmp_path: Path) -> None:
    judges = tuple(ModelSpec(name=n, model=n) for n in "ab")
    terms = JuryTerms(jury=JurySpec(name="j", judges=judges), rubric=RUBRIC, version="1")
    own = GraderTerms(grader="jury", version="1", jury=terms.jury)
    judging = Judging(jury_grader(terms), own, (tmp_path / "a", tmp_path / "b"))
    panel = StoredVerdicts(judging, COMPLETION)
    panel.verdicts(GOLD, episode(GOLD, "Flu."))
    assert (panel.not_judged, panel.below_quorum) == (2, 1)
    key = next(iter(panel._asked))
    for told in panel._gradings:
        told[key] = (b"", "refused", False)  # both gave a final answer: nobody is still to be asked
    panel.verdicts(GOLD, episode(GOLD, "Flu."))
    assert (panel.not_judged, panel.below_quorum) == (2, 1)


def test_what_was_thought_is_not_rated() -> None:
    main = offline_jury(RUBRIC)[0]
    plain = grade(main, GOLD, said("Give fluids, rest, aspirin."))
    thought = grade(
        main, GOLD, said("<think>Or give oral fluids and rest?</think>Give fluids, rest, aspirin.")
    )
    assert thought == plain
    nothing = "<think>give oral fluids and rest"
    for finish, outcome in (("stop", "unparsed"), ("length", "truncated")):
        score = grade(main, GOLD, Response(instance_id="i", text=nothing, finish=finish))  # type: ignore[arg-type]
        assert (score.value, score.outcome) == (1.0, outcome)


def test_what_is_not_rated_on_an_instance_has_no_floor_there() -> None:
    own = Instance(id="i", criteria=(Criterion(name="tone", text="?"),))
    views = {m.name: m for m in jury_metrics(RUBRIC, Told(a=(5,), b=(5,)), 2)}
    refused = Response(instance_id="i", finish="refusal")
    for answer in (refused, said("x")):
        score = grade(views["jury.accuracy"], own, answer)
        assert (score.value, score.outcome) == (None, "uninformative")
    assert grade(views["jury"], own, refused).value == 1.0


def test_the_graders_by_hand() -> None:
    """Five words; the answer shares three of its four: F = 2*3/(5+4). In order: 'give fluids rest',
    so ROUGE-L has recall 3/5, precision 3/4, F = 2/3. Four words of five: sqrt(4/5)."""
    answer = "Give fluids, rest, aspirin."
    assert overlap(GOLD, answer) == pytest.approx(6 / 9)
    assert longest_order(GOLD, answer) == pytest.approx(2 / 3)
    assert readability(GOLD, answer) == pytest.approx(0.8**0.5)
    assert overlap(GOLD, "") == longest_order(GOLD, "") == readability(GOLD, "") == 0.0


def test_a_sentence_without_end_is_not_readable() -> None:
    long = Instance(id="i", references=(" ".join(["word"] * 60),))
    assert readability(long, " ".join(["word"] * 60)) == 0.0
    assert readability(long, " ".join(["word word."] * 30)) == 1.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_offline_scores_are_integers_of_the_scale_and_the_gold_is_best(
    gold: str, answer: str
) -> None:
    instance = Instance(id="i", references=(gold,) if gold.strip() else ())
    judges = offline_jury(RUBRIC)[0].panel.verdicts(instance, episode(instance, answer))
    assert [v.judge for v in judges] == [
        "offline/overlap",
        "offline/rouge_l",
        "offline/readability",
    ]
    for verdict in judges:
        assert verdict.state is not None and {*verdict.state["scores"]} <= {1, 2, 3, 4, 5}
    if gold.isascii() and gold.isalpha():
        own = offline_jury(RUBRIC)[0].panel.verdicts(instance, episode(instance, gold))
        assert all(v.state == {"scores": [5, 5]} for v in own)


HEAD = 'name: r\nversion: "1"\ntask: t\ncriteria: '
WRONG = {
    "name: r": "version is missing",
    "a: [": "not readable as YAML in line 2",
    HEAD + "[]": "at least one criterion",
    HEAD + "[{name: A b, text: t}]": "'A b': a name is snake_case",
    HEAD + "[{name: a, text: t}, {name: a, text: t}]": "'a' is there twice",
    HEAD + "[{name: a, text: t}]\nminimum: 5": "the scale 5 to 5 is empty",
    HEAD + "[{name: a, txt: t}]": "did you mean 'criteria[0].text'?",
}


def test_what_is_wrong_with_a_rubric_is_named() -> None:
    for text, why in WRONG.items():
        with pytest.raises(PluginError) as caught:
            read_rubric(text, "house.yaml")
        assert why in str(caught.value) and str(caught.value).startswith("house.yaml: ")


def test_our_rubrics_pass_their_own_check_and_a_misspelt_one_is_named() -> None:
    rubrics = known_rubrics(())
    assert len(rubrics) == 14
    for name, rubric in rubrics.items():
        assert rubric.name == name and jury_fault(rubric) == ""
    with pytest.raises(UnknownName, match="did you mean 'visit_note'"):
        load_rubric(benchmark(rubric="visit_notes"))
