"""Measures of counts over whole clusters: one rule with those of two raters' tables, laws, simulation."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from medhelm.stats import measured, two_class
from medhelm.stats.agreement import krippendorff_alpha
from medhelm.stats.intervals import share_interval
from medhelm.tables.clinicians.ratings import agreement_of
from medhelm.tables.format.table import Settings

HOW: Any = {"draws": 400, "seed": 3, "confidence": 0.9}


def decisions(seed: int, cases: int = 25, each: int = 4) -> tuple[Any, Any, Any]:
    """Return what two raters say of items, those of one case alike, and the cases."""
    rng = np.random.default_rng(seed)
    truth = rng.random((cases, each)) < rng.random((cases, 1))
    a, b = (np.where(rng.random(truth.shape) < 0.8, truth, ~truth).ravel() for _ in "ab")
    return a, b, np.repeat(np.arange(cases), each)


def test_counts_and_tables_are_measured_alike() -> None:
    a, b, cases = decisions(0)
    counted = measured.counted(
        two_class.confusion(a, b),
        cases,
        {"kappa": two_class.kappa, "same": two_class.same},
        with_interval=("kappa", "same"),
        **HOW,
    )
    pair = measured.Pair(a.astype(np.int64), b.astype(np.int64), np.arange(len(a)))
    of_tables = measured.measure(
        [pair],
        cases,
        2,
        {"kappa": measured.kappa(1 - np.eye(2)), "same": measured.share(np.eye(2))},
        with_interval=("kappa", "same"),
        **HOW,
    )
    assert counted.row == pytest.approx(of_tables.row)
    assert (counted.n, counted.clusters) == (of_tables.n, of_tables.clusters) == (100, 25)
    assert counted.values["same"] == np.mean(a == b)


def test_a_rate_has_the_interval_of_one_and_a_single_case_none() -> None:
    a, _, cases = decisions(1)
    of = partial(
        measured.counted,
        measures={"same": two_class.same},
        with_interval=("same",),
        rates=("same",),
        **HOW,
    )
    found = of(two_class.confusion(a, a), cases)  # all draws are equal: the bootstrap says nothing
    assert found.intervals["same"] == share_interval(np.ones(len(a)), cases, 0.9)
    assert found.intervals["same"].low is not None and found.intervals["same"].low > 0.8
    assert of(two_class.confusion(a, a), 0 * cases).intervals["same"].method == "none (one case)"
    nothing = of(np.empty((0, 4)), np.empty(0, dtype=np.int64))
    assert nothing.n == 0 and math.isnan(nothing.values["same"])


def test_agreement_of_ratings_without_clusters_has_no_interval() -> None:
    given = np.asarray([[1, 1, 2], [3, 4, np.nan], [5, np.nan, np.nan], [2, 2, 4]])
    plain = agreement_of(given)
    # gaps of pairs: 0 1 1 | 1 | 0 2 2
    expected = {"exact": 2 / 7, "within_one": 5 / 7, "difference": 1.0}
    alpha = krippendorff_alpha(given, "ordinal")
    assert plain == pytest.approx({"units": 4, "pairs": 7, "alpha": alpha, **expected})
    assert set(agreement_of(given, "nominal")) == {"units", "pairs", "alpha", "exact"}
    assert agreement_of(given[:, :1]) == {"units": 4, "pairs": 0}


@pytest.mark.slow
def test_intervals_of_raters_hold_the_truth() -> None:
    """Three raters of two dialogues of each of forty cases, whose difficulty is shared."""
    rng = np.random.default_rng(2)

    def rated(cases: int) -> Any:
        quality = rng.normal(size=(cases, 1, 1)) + 0.5 * rng.normal(size=(cases, 2, 1))
        spread = rng.choice((0.3, 1.5), size=(cases, 1, 1))
        found = quality + spread * rng.normal(size=(cases, 2, 3))
        return np.clip(np.rint(3 + found), 1, 5).reshape(-1, 3)

    names = ("exact", "within_one", "difference", "alpha")
    truth = agreement_of(rated(10_000))
    clusters, hits, trials = np.repeat(np.arange(40), 2), dict.fromkeys(names, 0), 250
    for seed in range(trials):
        settings = Settings(draws=300, bootstrap_seed=seed)
        row: Any = agreement_of(rated(40), clusters=clusters, settings=settings)
        for name in names:
            hits[name] += row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"]
    # 250 trials: three standard errors of 95 % are 4.1 points
    assert all(0.905 <= own / trials <= 0.99 for own in hits.values()), hits
