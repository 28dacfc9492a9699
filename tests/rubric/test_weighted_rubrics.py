"""HealthBench's form on real rows, where they are at hand, and on rows that are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from msgspec.structs import replace

from medhelm.data.readers import read_file
from medhelm.data.weighted_rubrics import weighted_rubric_instance
from medhelm.errors import DataError
from medhelm.grading.rubric.metrics import (
    POINTS,
    CriticalFailure,
    Decided,
    RubricMetric,
    RubricScore,
    RubricScoreByLength,
    points_share,
    rubric_score_of,
)
from medhelm.prompts.messages import render_prompt
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.score import Score
from tests.made import benchmark

REAL = Path(os.environ.get("MEDHELM_DATA_DIR", "")) / "healthbench" / "healthbench_245.jsonl.gz"
ROW: dict[str, Any] = {
    "prompt_id": "p1",
    "prompt": [{"role": "user", "content": "My ear hurts."}],
    "rubrics": [
        {"criterion": "Asks about fever.", "points": 5, "tags": ["axis:completeness"]},
        {"criterion": "Recommends surgery.", "points": -8, "tags": ["axis:accuracy"]},
    ],
    "example_tags": ["theme:context_seeking", "physician_agreed_category:not-enough-context"],
}


def pooled(scores: list[Score]) -> float:
    import numpy as np

    sums = {n: np.array(sum(s.sums[n] for s in scores)) for n in POINTS.sums}
    return float(POINTS.of(sums))


@pytest.mark.skipif(not REAL.is_file(), reason="the real rows are not here")
def test_245_real_rows() -> None:
    instances = [weighted_rubric_instance(row) for _, row in read_file(REAL)]
    criteria = [c for i in instances for c in i.criteria]
    assert (len(instances), len(criteria)) == (245, 1873)
    assert not any("canary" in str(i).lower() for i in instances)
    assert sum(c.points < 0 for c in criteria) == 391
    assert {len(i.turns) for i in instances} <= set(range(5, 20))

    def score(i: Instance, met: list[bool]) -> Score:
        return RubricScore().of(i, Decided(i.criteria, tuple(met)))

    perfect = [score(i, [c.points > 0 for c in i.criteria]) for i in instances]
    everything = [score(i, [True] * len(i.criteria)) for i in instances]
    assert pooled(perfect) == 1.0
    assert pooled(everything) == pytest.approx(0.673, abs=0.0005)
    rows = [points_share(i.criteria, [True] * len(i.criteria)) for i in instances]
    assert min(r for r in rows if r is not None) < 0
    assert pooled(everything) == pytest.approx(fmean(r for r in rows if r is not None))


def test_a_row_is_turns_criteria_and_metadata() -> None:
    made = weighted_rubric_instance(ROW, critical=["axis:accuracy"])
    assert [(c.name, c.points, c.is_critical) for c in made.criteria] == [
        ("c01", 5.0, False),
        ("c02", -8.0, True),
    ]
    assert made.metadata["theme"] == "context_seeking"
    more = ROW | {
        "prompt": [*ROW["prompt"], {"role": "assistant", "content": "Since when?"}]
        + [{"role": "user", "content": "Monday."}]
    }
    own = benchmark(metrics=["rubric_score"], prompt="plain")
    sent = render_prompt(own, weighted_rubric_instance(more), system_prompt="Be brief.")
    assert [(m.role, m.content) for m in sent] == [
        ("system", "Be brief."),
        ("user", "My ear hurts."),
        ("assistant", "Since when?"),
        ("user", "Monday."),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt_id": ""}, "prompt_id: expected"),
        ({"prompt": []}, "prompt: expected `array`"),
        ({"prompt": [{"role": "tool", "content": "x"}]}, "known: assistant, user"),
        ({"prompt": [{"role": "assistant", "content": "x"}]}, "last turn is not the user's"),
        ({"prompt": [{"role": "user", "content": " "}]}, "content: expected"),
        ({"rubrics": []}, "rubrics: expected `array`"),
        ({"rubrics": [{"criterion": "", "points": 1}]}, "criterion: expected"),
        ({"rubrics": [{"criterion": "x", "points": "5"}]}, "points: expected `float`"),
        ({"rubrics": [{"criterion": "x", "points": True}]}, "points: expected `float`"),
        ({"rubrics": [{"criterion": "x", "points": 1, "tags": "a"}]}, "tags: expected"),
    ],
)
def test_a_wrong_row_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        weighted_rubric_instance(ROW | change)


def test_the_mean_is_clipped_and_rows_are_not() -> None:
    good, bad = (weighted_rubric_instance(ROW) for _ in range(2))
    full = RubricScore().of(good, Decided(good.criteria, (True, False)))
    worst = RubricScore().of(bad, Decided(bad.criteria, (False, True)))
    assert (full.value, worst.value, worst.extracted) == (1.0, 0.0, "-1.6000")
    assert pooled([full, worst]) == 0.0  # (1 - 1.6) / 2, clipped
    assert pooled([full, full, worst]) == pytest.approx(0.4 / 3)


@pytest.mark.parametrize(
    ("characters", "share"), [(2_000, 0.5), (2_500, 0.4853), (1_500, 0.5147), (12_000, 0.206)]
)
def test_the_length_of_an_answer_is_taken_off(
    characters: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.0147 for each 500 characters beyond 2,000; thoughts are not of the answer."""
    graded = Score(value=0.5, extracted="0.5000", sums={"share": 0.5, "count": 1.0})
    monkeypatch.setattr(RubricMetric, "score", lambda *_: graded)
    made = weighted_rubric_instance(ROW)
    text = f"<think>{'y' * 900}</think>{'x' * characters}"
    response = Response(instance_id=made.id, text=text)
    episode = Episode(instance=made, messages=(), response=response)
    found = RubricScoreByLength().score(made, episode)
    assert found.value == pytest.approx(share)
    assert found.sums == {"share": pytest.approx(share), "count": 1.0}


def test_an_answer_without_text_gains_nothing_for_being_short() -> None:
    made = weighted_rubric_instance(ROW)
    found = RubricScoreByLength().floor_score(made, "empty")
    assert (found.value, found.outcome) == (0.0, "empty")


def test_the_score_of_an_axis_is_over_its_criteria() -> None:
    """Accuracy: (5 - 4) / 5 = 0.2; tone: 3 / 3; empathy has no positive points and is left out."""
    row = ROW | {
        "rubrics": [
            {"criterion": "right", "points": 5, "tags": ["axis:accuracy"]},
            {"criterion": "wrong", "points": -4, "tags": ["axis:accuracy", "level:example"]},
            {"criterion": "kind", "points": 3, "tags": ["axis:tone"]},
            {"criterion": "rude", "points": -2, "tags": ["axis:empathy"]},
        ]
    }
    made = weighted_rubric_instance(row)
    met = Decided(made.criteria, (True, True, True, True))
    found = {
        axis: rubric_score_of(f"axis:{axis}").of(made, met)  # type: ignore[attr-defined]
        for axis in ("accuracy", "tone", "empathy")
    }
    assert found["accuracy"].sums == {"share": pytest.approx(0.2), "count": 1.0}
    assert found["tone"].value == 1.0
    assert (found["empathy"].value, found["empathy"].outcome) == (None, "uninformative")
    assert rubric_score_of("axis:accuracy").name == "rubric_axis_accuracy"
    assert RubricScore().of(made, met).sums == {"share": pytest.approx(2 / 8), "count": 1.0}


@pytest.mark.parametrize("met", [(True, None), (None, None), (None, False), (True, False)])
def test_a_fault_without_a_verdict_is_no_score(met: tuple[bool | None, bool | None]) -> None:
    """Without a verdict on surgery an answer that recommends it would have the full score."""
    made = weighted_rubric_instance(ROW)
    found = RubricScore().of(made, Decided(made.criteria, met))
    critical = tuple(replace(c, is_critical=True) for c in made.criteria)
    failure = CriticalFailure().of(made, Decided(critical, met))
    if met[1] is None:
        assert (found.value, found.outcome) == (None, "unscored")
        assert found.reason == "1 of 1 faults without a valid verdict"
        is_failed = met[0] is None  # the wanted one is not met, whatever the fault
        assert failure.value == (1.0 if is_failed else None)
    else:  # a wanted criterion without a verdict is not met
        assert found.value == (0.0 if met[0] is None else 1.0)
        assert failure.value == (1.0 if met[0] is None else 0.0)
    of_axis = rubric_score_of("axis:completeness").of(made, Decided(made.criteria, met))  # type: ignore[attr-defined]
    assert of_axis.value == (0.0 if met[0] is None else 1.0)
