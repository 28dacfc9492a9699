"""Check whether words alone separate appropriate actions from inappropriate ones.

A model of words (`word_model`) learns the actions of all other cases and orders those of each case.
Where it does well, tests and drugs, or right and wrong, are worded in ways of their own, and a
model under test scores without reading a vignette. Uncertain actions are left out: no label of
theirs is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from medhelm.plugin import WordModel, intervals
from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.derive import action_class, consensus

MOST_AUC = 0.65
LEAST_CASES = 5
"""Fewer teach a model of words too little for its failure to say anything."""
DRAWS = 1000


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """Measures how well words alone order the actions of all cases."""

    auc: float | None
    """Chance that an appropriate action has a higher score than an inappropriate one, whatever their
    cases; 0.5 is chance. None: see `reason`."""
    low: float | None = None
    high: float | None = None
    method: str = ""
    """Of the interval: a bootstrap over cases, with the scores as they are."""
    reason: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether the cases pass; None where they cannot be judged."""
        return None if self.auc is None else self.auc <= MOST_AUC


def labelled_actions(case: Case) -> list[tuple[str, bool]]:
    """Return the texts of a case that are right or wrong, and which they are."""
    classes = ((action.text, action_class(consensus(action))) for action in case.actions)
    return [(text, name == "appropriate") for text, name in classes if name != "uncertain"]


def check_words(cases: Sequence[Case], confidence: float) -> Words:
    """Return how well a model of words, trained on the other cases, orders the actions of each."""
    if len(cases) < LEAST_CASES:
        return Words(auc=None, reason=f"too few cases: {len(cases)}, at least {LEAST_CASES}")
    texts = [labelled_actions(case) for case in cases]
    model = WordModel()
    for labelled in texts:
        model.learn(labelled)
    right, wrong = [], []
    for labelled in texts:
        odds = np.array(model.log_odds([text for text, _ in labelled], labelled))
        is_right = np.array([value for _, value in labelled], dtype=bool)
        right.append(odds[is_right])
        wrong.append(odds[~is_right])
    ups, downs = (np.array([float(len(part)) for part in parts]) for parts in (right, wrong))
    if not ups.sum() or not downs.sum():
        return Words(auc=None, reason="no appropriate or no inappropriate action")
    wins = _wins(right, wrong)
    drawn = intervals.bootstrap(np.eye(len(cases)), DRAWS, intervals.seed_of(0, "words"))
    with np.errstate(invalid="ignore"):  # a draw may hold one class only
        aucs = ((drawn @ wins) * drawn).sum(axis=1) / ((drawn @ ups) * (drawn @ downs))
    ends = intervals.percentile(aucs, confidence, len(cases))
    auc = float(wins.sum() / (ups.sum() * downs.sum()))
    return Words(auc=auc, low=ends.low, high=ends.high, method=ends.method)


def _wins(
    right: Sequence[NDArray[np.float64]], wrong: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return how often right actions of one case (row) beat wrong ones of another; ties are half."""
    every = np.concatenate(right)
    row = np.repeat(np.arange(len(right)), [len(part) for part in right])
    wins = np.zeros((len(right), len(wrong)))
    for column, scores in enumerate(map(np.sort, wrong)):
        beaten = np.searchsorted(scores, every, "left") + np.searchsorted(scores, every, "right")
        wins[:, column] = np.bincount(row, weights=beaten / 2, minlength=len(right))
    return wins
