"""Gaffke's interval: Clopper-Pearson's of single instances, and an error more is never better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from medhelm.stats.aggregation import Floats
from medhelm.stats.intervals import Interval, bounded
from medhelm.tables.loading import load_results
from tests.build_runs import EXACT, Item, items, write_run
from tests.poolings import pooled, pooling

WHOLE = [1.0, 1.0, 1.0, 1.0, 20.0, 20.0]
"""Sums of one perfect case: Safety, complete, endorsed actions that fit."""
ONE_WRONG = [0.96, 1.0, 1.0, 1.0, 19.0, 20.0]


def found(sums: list[Any] | Floats, aggregation: str = "mean", **more: Any) -> Interval:
    settings = {"confidence": 0.95, "seed": 1, **more}
    own = np.array(sums, dtype=float)
    return bounded(own, pooling(aggregation, own.shape[1]), (0.0, 1.0), **settings)


@pytest.mark.parametrize(("events", "n"), [(1, 12), (11, 12), (34, 40), (3, 60)])
def test_of_a_rate_it_is_clopper_and_pearsons(events: int, n: int) -> None:
    own = found([[float(i < events), 1.0] for i in range(n)])
    exact = scipy.stats.binomtest(events, n).proportion_ci(0.95, method="exact")
    assert (own.low, own.high) == pytest.approx((exact.low, exact.high), abs=0.006)
    assert own.method == "gaffke"


@pytest.mark.parametrize("n", [2, 12, 100])
@pytest.mark.parametrize(
    ("aggregation", "cut"), [("noharm_overall", slice(0, 6)), ("ratio", slice(4, 6))]
)
def test_without_an_error_the_bound_is_the_exact_one_sided_of_the_cases(
    aggregation: str, cut: slice, n: int
) -> None:
    own = found([WHOLE[cut]] * n, aggregation)
    assert own.low == pytest.approx(0.05 ** (1 / n), abs=0.006) and own.high == 1.0


@pytest.mark.parametrize("n", [12, 100])
@pytest.mark.parametrize(
    ("aggregation", "cut"),
    [("noharm_overall", slice(0, 6)), ("ratio", slice(4, 6)), ("mean", slice(0, 2))],
)
def test_an_error_more_never_gives_a_better_interval(aggregation: str, cut: slice, n: int) -> None:
    ends = [found([ONE_WRONG[cut]] * k + [WHOLE[cut]] * (n - k), aggregation) for k in (0, 1, 2, n)]
    lows, highs = [e.low for e in ends], [e.high for e in ends]
    assert lows == sorted(lows, reverse=True) and highs == sorted(highs, reverse=True)  # type: ignore[type-var]


def test_where_every_draw_is_0_the_upper_end_is_bounded_through_the_parts() -> None:
    never = [1.0, 1.0, 0.0, 1.0, 20.0, 20.0]  # all but complete, in each of 100 cases
    own = found([never] * 100, "noharm_overall")
    rate = 1 - 0.05 ** (1 / 100)
    assert own.low == 0.0 and own.high == pytest.approx(3 / (1 + 1 + 1 / rate), abs=0.006)


@pytest.mark.parametrize(
    ("aggregation", "row"),
    [("micro_f1", [0, 2, 3]), ("macro_f1", [0, 2, 3] * 2), ("mean_of_parts", [0, 1, 0, 2])],
)
def test_other_scores_of_0_have_an_upper_end(aggregation: str, row: list[int]) -> None:
    own = found([row] * 50, aggregation)
    assert own.low == 0.0 and 0.02 < float(own.high or 0) < 0.15


def test_what_has_no_bound_has_no_interval() -> None:
    assert found([[0.0, 1.0, *[0.0] * 70]] * 20, "noharm_harm").low is None
    assert found([[0.0, 0.0]] * 20, "ratio").low is None  # nothing was endorsed: undefined


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 40])
def test_pooled_restraint_is_covered(n: int) -> None:
    """Rare cases with many wrong endorsements, of which small samples often hold none."""
    rng = np.random.default_rng(5)
    true = 1 - 0.05 * 12 / (0.05 * 20 + 0.95 * 16)  # 5 % of cases: 12 of 20 wrong; else 0 of 16
    hits = 0
    for _ in range(120):
        bad = rng.random(n) < 0.05
        sums = np.where(bad[:, None], [8.0, 20.0], [16.0, 16.0])
        own = found(sums, "ratio", seed=int(rng.integers(1 << 30)))
        assert own.low is not None and own.high is not None
        hits += own.low <= true <= own.high
    assert hits / 120 > 0.93
    assert float(pooled("ratio", np.array([8.0, 20.0]))) == 0.4


@pytest.mark.parametrize("end", [1.0, 5.0])
def test_graded_values_at_an_end_of_their_scale_are_bounded_in_tables(
    tmp_path: Path, end: float
) -> None:
    import msgspec

    graded = msgspec.structs.replace(EXACT, minimum=1.0, maximum=5.0)
    write_run(tmp_path, "x", "a", items([end] * 12), metrics=[graded])
    (row,) = load_results(tmp_path).typed("benchmarks").rows
    rate = 1 - 0.05 ** (1 / 12)  # of answers that may be otherwise, at most by 4
    low, high = (5 - 4 * rate, 5.0) if end == 5.0 else (1.0, 1 + 4 * rate)
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.02)


def test_a_score_that_is_the_same_in_the_middle_has_no_interval(tmp_path: Path) -> None:
    rows = [Item(id=f"i{i}", value=0.5) for i in range(12)]
    write_run(tmp_path, "x", "a", rows)
    (row,) = load_results(tmp_path).typed("benchmarks").rows
    assert row["low"] is None and row["interval_method"] == "none (all draws equal)"
