"""Ranks of simulated fields: equal models are not parted, and the true rank is held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from medhelm.tables.format.table import Settings
from medhelm.tables.study.ranking import Ranking
from perf import ranks as simulation

FIELDS = 80
"""How many simulated fields; `perf/ranks.py` takes more."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rankings", "kind", "benchmarks", "n"),
    [
        (["half"], "equal", 1, 100),
        (["half", "literal", "macro"], "equal", 6, 50),
        (["half"], "near", 6, 100),
        (["half"], "one better", 6, 100),
    ],
)
def test_equal_models_are_rarely_parted_and_the_true_rank_is_held(
    rankings: Any, kind: str, benchmarks: int, n: int
) -> None:
    found = simulation.measure(kind, benchmarks, n, FIELDS, rankings)
    for by, ((parted, held, _, _), _) in found.items():
        assert parted <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / FIELDS), by
        assert held >= 0.97, by


@pytest.mark.parametrize("by", ["half", "macro"])
def test_models_far_apart_are_parted(by: Any) -> None:
    rng = np.random.default_rng(0)
    skill = np.linspace(0, 3, simulation.MODELS)[:, None] + np.zeros((1, 12))
    found = simulation.ranking(skill - 1.5, 200, rng, by)
    rank, low, high = found.ranks()
    assert rank.tolist() == low.tolist() == high.tolist() == list(range(9, 0, -1))
    assert found.groups().tolist() == rank.tolist()


def test_a_win_rate_alone_does_not_part_models() -> None:
    """a wins by a little on each of six benchmarks, and less than the instances can show: a win
    rate of 1 against 0, and nothing that parts the two."""
    scores = np.array([[0.51] * 6, [0.50] * 6])
    draws = scores + np.random.default_rng(1).normal(0, 0.05, size=(500, 2, 6))
    found = Ranking(("a", "b"), tuple("uvwxyz"), scores, draws, np.full(6, 100.0), Settings())
    rank, low, high = found.ranks()
    assert found.merit.tolist() == [1.0, 0.0] and rank.tolist() == [1, 2]
    assert low.tolist() == [1, 1] and high.tolist() == [2, 2] and found.groups().tolist() == [1, 1]
