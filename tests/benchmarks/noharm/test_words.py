"""What words alone tell: the model by hand, the bundled cases by others, and by their categories."""

from __future__ import annotations

import math
from itertools import product

import pytest

from medhelm.similarity.word_model import Labelled, WordModel
from medhelm_benchmarks.noharm.rules.cases import Case, read_cases
from medhelm_benchmarks.noharm.rules.quality import MOST_AUC, check_words, labelled_actions
from tests.benchmarks.noharm.making import SAMPLES, case, tell_tale

BUNDLED = read_cases(SAMPLES)


def learned(*groups: list[Labelled]) -> WordModel:
    model = WordModel()
    for group in groups:
        model.learn(group)
    return model


def test_the_log_odds_by_hand() -> None:
    one: list[Labelled] = [("Measure sodium", True), ("Give aspirin", False)]
    other: list[Labelled] = [("Measure the ECG", True)]
    model = learned(one, other)
    # 6 different words; right: 5 words, of which measure is 2; wrong: 2 words
    measure = math.log(3 / 11) - math.log(1 / 8)
    give = math.log(1 / 11) - math.log(2 / 8)
    assert model.log_odds(["measure", "GIVE it", ""]) == pytest.approx([measure, give, 0])
    # without the first group: measure, the, ecg; nothing is known of give
    alone = math.log(2 / 6) - math.log(1 / 3)
    assert model.log_odds(["Measure", "Give"], one) == pytest.approx([alone, 0])


def test_leaving_out_is_never_having_learned() -> None:
    groups = [labelled_actions(made) for made in BUNDLED]
    model = learned(*groups)
    for own in groups[:3]:
        texts = [text for text, _ in own]
        fresh = learned(*(group for group in groups if group is not own))
        assert model.log_odds(texts, own) == pytest.approx(fresh.log_odds(texts))


@pytest.mark.parametrize(
    ("cases", "reason"),
    [
        ([tell_tale(number) for number in range(4)], "too few cases: 4, at least 5"),
        ([case({"a1": 8, "a2": 5})] * 5, "no appropriate or no inappropriate action"),
    ],
)
def test_what_cannot_be_judged_neither_passes_nor_fails(cases: list[Case], reason: str) -> None:
    found = check_words(cases, 0.95)
    assert (found.auc, found.passed, found.reason) == (None, None, reason)


def test_the_curve_counts_pairs_over_all_cases() -> None:
    model = learned(*map(labelled_actions, BUNDLED))
    scores: dict[bool, list[float]] = {True: [], False: []}
    for made in BUNDLED:
        own = labelled_actions(made)
        odds = model.log_odds([text for text, _ in own], own)
        for (_, is_right), x in zip(own, odds, strict=True):
            scores[is_right].append(x)
    up, down = scores[True], scores[False]
    pairs = sum((a > b) + (a == b) / 2 for a, b in product(up, down))
    found = check_words(BUNDLED, 0.95)
    assert found.auc == pytest.approx(pairs / len(up) / len(down))
    assert found.auc < 0.6 and found.high is not None and found.high < MOST_AUC
    assert found == check_words(BUNDLED, 0.95)
